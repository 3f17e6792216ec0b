"""Credentials for a directory: read-only, of one prefix, ending; refused where a store cannot lend any."""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest

from distributary.storage.location import parse_root
from distributary.storage.temporary_credentials import (
    NoTemporaryCredentialsError,
    access_boundary,
    directory_credentials,
    directory_sas,
    session_policy,
)

KEY = base64.b64encode(b"k" * 32).decode()


def test_s3_lends_a_session_of_the_role_that_ends(moto_server):
    """AM-002: directory access by STS AssumeRole."""
    options = {
        "access_key_id": "testing",
        "secret_access_key": "testing",
        "sts_endpoint": moto_server.endpoint,
        "sharing_role_arn": "arn:aws:iam::123456789012:role/reader",
    }
    found = directory_credentials("s3://lake/sales/orders/", options, timedelta(minutes=30))
    assert found.location == "s3://lake/sales/orders"
    assert found.aws is not None
    assert found.aws.session_token
    assert found.azure_sas_token is None
    left = found.expiration / 1000 - time.time()
    assert 0 < left <= 30 * 60 + 5
    assert found.aws.secret_access_key not in repr(found)


def test_the_policy_of_a_session_reads_and_lists_below_the_prefix_only():
    policy = session_policy(parse_root("s3://lake/sales/orders"))
    read, listing = policy["Statement"]
    assert read == {
        "Effect": "Allow",
        "Action": ["s3:GetObject"],
        "Resource": ["arn:aws:s3:::lake/sales/orders/*"],
    }
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["sales/orders/*", "sales/orders/"]}}
    assert "sales/orders-evil" not in json.dumps(policy)


def test_signs_that_are_patterns_in_a_policy_are_escaped():
    policy = session_policy(parse_root("s3://lake/a*b/c"))
    assert policy["Statement"][0]["Resource"] == ["arn:aws:s3:::lake/a${*}b/c/*"]


def test_azure_lends_a_signature_for_the_directory_over_tls():
    options = {"account_name": "acc", "account_key": KEY}
    found = directory_credentials("az://box/sales/orders", options, timedelta(hours=1), lambda: 1_700_000_000)
    assert found.location == "abfss://box@acc.dfs.core.windows.net/sales/orders"
    assert found.expiration == (1_700_000_000 + 3600) * 1000
    fields = {name: values[0] for name, values in parse_qs(found.azure_sas_token).items()}
    assert (fields["sr"], fields["sdd"], fields["sp"], fields["spr"]) == ("d", "2", "rl", "https")
    text = "rl\n\n2023-11-14T23:13:20Z\n/blob/acc/box/sales/orders\n\n\nhttps\n2021-06-08\nd\n\n\n\n\n\n\n"
    expected = hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")
    assert base64.b64decode(fields["sig"]) == expected


def test_an_azure_signature_equals_the_one_of_its_own_library():
    end = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    found = parse_qs(directory_sas("acc", "box", "sales/orders", end, account_key=KEY))
    assert found["sig"] == ["9jE9NUHzFZnz6zdfUBv9MHlKnrFs8VNzvbHQUbtqd2o="]


def test_gcs_lends_a_token_for_the_prefix_of_one_bucket():
    (rule,) = access_boundary(parse_root("gs://lake/it's/orders"))
    assert rule["available_resource"].endswith("/buckets/lake")
    assert rule["available_permissions"] == ["inRole:roles/storage.objectViewer"]
    assert "projects/_/buckets/lake/objects/it\\'s/orders/'" in rule["expression"]


@pytest.mark.parametrize("location", ["/tmp/table", "file:///tmp/table", "memory://x/t", "s3://bucket"])
def test_places_without_such_credentials_are_refused(location):
    """AM-002: refused with a reason where the store cannot lend credentials."""
    with pytest.raises(NoTemporaryCredentialsError):
        directory_credentials(location, {})


def test_s3_without_a_role_is_refused():
    with pytest.raises(NoTemporaryCredentialsError, match="sharing_role_arn"):
        directory_credentials("s3://lake/t", {"access_key_id": "a", "secret_access_key": "b"})
