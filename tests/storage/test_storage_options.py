"""Names of storage options, the environment, and what is refused."""

from __future__ import annotations

import pytest

from distributary.errors import InvalidInputError
from distributary.storage import open_store
from distributary.storage.storage_options import AWS, AZURE, GOOGLE, read_options


@pytest.mark.parametrize("name", ["region", "aws_region", "AWS_REGION", "AWS_DEFAULT_REGION", "Region_Name"])
def test_every_spelling_means_the_same(name):
    assert read_options(AWS, {name: "eu"}, {}).get("region") == "eu"


def test_caller_wins_over_environment():
    options = read_options(
        AWS, {"region": "eu"}, {"AWS_REGION": "us", "AWS_ENDPOINT_URL": "http://h", "REGION": "x"}
    )
    assert options.get("region") == "eu"
    assert options.get("endpoint") == "http://h"


def test_identity_of_the_caller_hides_that_of_the_environment():
    environment = {"AWS_SESSION_TOKEN": "old", "AWS_PROFILE": "p", "AWS_REGION": "us"}
    options = read_options(AWS, {"access_key_id": "a", "secret_access_key": "b"}, environment)
    assert options.get("session_token") is None
    assert options.get("profile") is None
    assert options.get("region") == "us"


def test_options_of_another_cloud_are_ignored():
    given = {"AZURE_STORAGE_ACCOUNT_NAME": "x", "google_service_account": "y", "AWS_REGION": "eu"}
    assert read_options(AWS, given, {}).values == {"region": "eu"}
    assert read_options(AZURE, given, {}).values == {"account_name": "x"}
    assert read_options(GOOGLE, given, {}).values == {"service_account": "y"}
    open_store("/tmp/t", given)


@pytest.mark.parametrize(
    ("uri", "name", "hint"),
    [
        ("s3://b/t", "acess_key_id", "did you mean 'access_key_id'"),
        ("s3://b/t", "AWS_SECRET_ACESS_KEY", "did you mean 'AWS_SECRET_ACCESS_KEY'"),
        ("/tmp/t", "regoin", "did you mean 'region'"),
        ("memory://m", "qqqqqqqq", "qqqqqqqq"),
        ("s3://b/t", "account_name", "account_name"),
    ],
)
def test_unknown_option_is_refused_with_a_suggestion(uri, name, hint):
    with pytest.raises(InvalidInputError, match=hint) as caught:
        open_store(uri, {name: "hidden-value"})
    assert "hidden-value" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"allow_http": "perhaps"},
        {"max_concurrency": "0"},
        {"max_concurrency": "many"},
        {"access_key_id": "only-half"},
        {"skip_signature": "maybe"},
    ],
)
def test_value_that_cannot_be_meant_is_refused(options):
    with pytest.raises(InvalidInputError):
        open_store("s3://b/t", {"region": "eu", "endpoint": "https://h", **options})


def test_options_are_in_no_text():
    options = read_options(AWS, {"secret_access_key": "hidden"}, {})
    assert "hidden" not in repr(options)


def test_unknown_scheme_names_the_known_ones():
    with pytest.raises(InvalidInputError, match="s3"):
        open_store("ftp://h/t")
    with pytest.raises(InvalidInputError, match="bucket"):
        open_store("s3://")
