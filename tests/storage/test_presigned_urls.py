"""URLs of S3 are byte for byte those of botocore, live no longer than their credential, and stay inside."""

from __future__ import annotations

import datetime
import urllib.error
import urllib.request
from datetime import UTC, timedelta
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import AccessDeniedError, InvalidInputError, PathOutsideTableError
from distributary.storage.cloud import CloudStore
from distributary.storage.cloud_identity import AwsKeys
from distributary.storage.object_store import open_store
from distributary.storage.presigned_urls import (
    S3Address,
    SigV4Signer,
    quoted_keys,
    sign_one,
    url_signer,
)

pytest.importorskip("botocore")

MOMENT = 1_794_730_527.9
KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SESSION = AwsKeys("ASIA", "secret", "to/ken+with=signs")
OPTIONS = {
    "access_key_id": "AKIDEXAMPLE",
    "secret_access_key": "secret",
    "region": "eu-west-1",
}


def botocore_url(monkeypatch, url, keys, seconds, region="us-east-1"):
    from botocore import auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    moment = datetime.datetime.fromtimestamp(int(MOMENT), UTC)
    for name in ("get_current_datetime",):
        monkeypatch.setattr(auth, name, lambda remove_tzinfo=True: moment.replace(tzinfo=None))
    request = AWSRequest("GET", url)
    signer = auth.S3SigV4QueryAuth(
        Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token),
        "s3",
        region,
        expires=seconds,
    )
    signer.add_auth(request)
    return request.url


@pytest.mark.parametrize("keys", [KEYS, SESSION], ids=["keys", "session"])
@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:7070", "https://store.example:9000/base"])
@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize(
    "key", ["part-0.parquet", "date=2020-01-01/a b%20c+ü~(1).parquet", "x/y=ä/😀:@,.bin"]
)
def test_s3_urls_equal_those_of_botocore(monkeypatch, keys, endpoint, virtual, key):
    address = S3Address.of("lake", "us-east-1", endpoint, virtual)
    signer = SigV4Signer(address, "sales/orders 1", "us-east-1", keys, timedelta(hours=1), MOMENT)
    (url,), end = _signed(signer, [key])
    plain = url.partition("?")[0]
    assert url == botocore_url(monkeypatch, plain, keys, 3600)
    assert end == (int(MOMENT) + 3600) * 1000


@pytest.mark.parametrize("key", ["date=2020-01-01/part 1.parquet", "a/b~c_d-e.parquet"])
def test_s3_urls_have_the_place_and_the_signature_of_obstore(key):
    import obstore

    store = open_store("s3://lake/sales", OPTIONS)
    assert isinstance(store, CloudStore)
    theirs = obstore.sign(store.client, "GET", store.object_key(key), timedelta(hours=1))
    query = dict(parse_qsl(urlsplit(theirs).query))
    moment = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    urls, _ = url_signer(store, timedelta(hours=1), moment.timestamp).sign(pa.array([key]))
    ours = urls[0].as_py()
    assert ours.partition("?")[0] == theirs.partition("?")[0]
    assert dict(parse_qsl(urlsplit(ours).query)) == query


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), min_size=1), max_size=5))
def test_quoting_equals_that_of_botocore(keys):
    from botocore.utils import percent_encode

    assert quoted_keys(pa.array(keys, pa.string())).to_pylist() == [
        percent_encode(key, safe="/~") for key in keys
    ]


def test_a_url_never_outlives_the_credential_that_signed_it():
    """RF-047: the expiry that is told is the one that the store will enforce."""
    end = datetime.datetime.fromtimestamp(MOMENT, UTC) + timedelta(minutes=10)
    keys = AwsKeys("a", "b", "t", end)
    signer = SigV4Signer(S3Address.of("b", "r", None, False), "", "r", keys, timedelta(hours=1), MOMENT)
    (url,), expiration = _signed(signer, ["x"])
    seconds = int(dict(parse_qsl(urlsplit(url).query))["X-Amz-Expires"])
    assert 580 <= seconds < 600
    assert expiration <= end.timestamp() * 1000


def test_an_expired_credential_signs_nothing():
    keys = AwsKeys("a", "b", "t", datetime.datetime.fromtimestamp(MOMENT, UTC))
    with pytest.raises(AccessDeniedError):
        SigV4Signer(S3Address.of("b", "r", None, False), "", "r", keys, timedelta(hours=1), MOMENT)


@pytest.mark.parametrize(
    "path", ["s3://other/secret", "s3://lake/sales/../x", "file:///etc/passwd", "a\\..\\b"]
)
def test_paths_outside_the_table_are_not_signed(path):
    with pytest.raises(PathOutsideTableError):
        url_signer(open_store("s3://lake/sales", OPTIONS)).sign(pa.array(["ok.parquet", path]))


def test_files_of_an_allowed_root_are_signed_there():
    store = open_store("s3://lake/clone", OPTIONS, ["s3://archive/source"])
    urls, _ = url_signer(store).sign(pa.array(["a.parquet", "s3://archive/source/b=1/c.parquet"]))
    assert [urlsplit(url).path for url in urls.to_pylist()] == [
        "/lake/clone/a.parquet",
        "/archive/source/b%3D1/c.parquet",
    ]


def test_a_local_table_has_no_urls_of_a_cloud(tmp_path):
    with pytest.raises(InvalidInputError):
        url_signer(open_store(str(tmp_path)))


def test_a_signed_url_shows_no_signature_in_its_repr():
    shown = repr(sign_one(open_store("s3://lake/sales", OPTIONS), "a.parquet"))
    assert "Signature" not in shown
    assert "a.parquet" in shown


def test_azure_urls_are_signed_by_the_account_key():
    options = {"account_name": "acc", "account_key": "a2V5a2V5a2V5a2V5"}
    store = open_store("az://box/table", options)
    urls, expiration = url_signer(store, timedelta(hours=1), lambda: MOMENT).sign(
        pa.array(["d=1/x y.parquet"])
    )
    url = urls[0].as_py()
    assert urlsplit(url).path.endswith("/table/d%3D1/x%20y.parquet") or "d=1" in url
    assert "sig=" in url
    assert expiration == int((MOMENT + 3600) * 1000)


def test_a_server_of_s3_takes_the_urls(s3_server):
    """REST-177: a URL alone reads the object, and another object is not readable by it."""
    store = open_store(s3_server.uri("signed"), s3_server.storage_options)
    store.put("date=1/a b.parquet", b"hello")
    store.put("other", b"secret")
    url = sign_one(store, "date=1/a b.parquet").url
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"hello"
    if s3_server.name == "moto":  # it looks at no signature
        return
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace("date%3D1/a%20b.parquet", "other"))
    refused.value.close()


def _signed(signer, keys):
    urls, end = signer.sign(pa.array(keys, pa.string()))
    return urls.to_pylist(), end
