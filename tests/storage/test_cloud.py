"""Failures of cloud stores: typed, retried where that is safe, and without secrets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from distributary.errors import (
    AccessDeniedError,
    InvalidInputError,
    MissingExtraError,
    ObjectNotFoundError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)
from distributary.storage import open_store

SECRET = "verysecretkeyvalue"


class Answering(ThreadingHTTPServer):
    """An S3 endpoint that answers with the statuses it is told, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = [200]
        self.requests: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        server = self.server
        server.requests.append(self.command)
        status = server.statuses.pop(0) if len(server.statuses) > 1 else server.statuses[0]
        body = b"content" if status == 200 else b"<Error><Code>SomeCode</Code></Error>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Wed, 12 Oct 2022 17:50:00 GMT")
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_PUT = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _store(endpoint: str):
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
    return open_store("s3://bucket/table", {"endpoint": endpoint, **keys})


@pytest.mark.parametrize(
    ("status", "error", "tries"),
    [
        (401, AccessDeniedError, 1),
        (403, AccessDeniedError, 1),
        (404, ObjectNotFoundError, 1),
        (400, StorageError, 1),
        (429, ThrottledError, 4),
        (503, ThrottledError, 4),
        (500, StorageUnreachableError, 4),
    ],
)
def test_status_becomes_a_typed_error(server, status, error, tries):
    server.statuses = [status]
    with pytest.raises(error) as caught:
        _store(f"http://127.0.0.1:{server.server_port}").get("a/b")
    assert type(caught.value) is error
    assert "a/b in s3://bucket/table" in str(caught.value)
    assert len(server.requests) == tries


@pytest.mark.parametrize("status", [429, 503, 500])
def test_read_is_repeated_until_it_is_answered(server, status):
    server.statuses = [status, status, 200]
    assert _store(f"http://127.0.0.1:{server.server_port}").get("a") == b"content"


def test_ambiguous_create_once_is_not_sent_again(server):
    server.statuses = [500]
    with pytest.raises(StorageUnreachableError):
        _store(f"http://127.0.0.1:{server.server_port}").put_if_absent("a", b"x")
    assert server.requests == ["PUT"]


def test_create_once_conflict_under_way_is_tried_again(server):
    """409 without an object means another writer at work (RELIABILITY 1.3): the same key again."""
    server.statuses = [409, 404, 200]
    _store(f"http://127.0.0.1:{server.server_port}").put_if_absent("a", b"x")
    assert server.requests == ["PUT", "HEAD", "PUT"]


def test_unreachable_endpoint_fails_with_advice(server):
    endpoint = f"http://127.0.0.1:{server.server_port}"
    server.server_close()
    for action in (lambda store: store.get("a"), lambda store: list(store.list_all())):
        with pytest.raises(StorageUnreachableError, match="Check the endpoint"):
            action(_store(endpoint))


def test_missing_bucket_is_said_so(s3_server):
    store = open_store("s3://no-such-bucket/t", s3_server.storage_options)
    for action in (lambda: store.get("a"), lambda: list(store.list_all())):
        with pytest.raises(ObjectNotFoundError, match="bucket"):
            action()


def test_wrong_key_is_denied_without_showing_it(versitygw_server):
    options = {**versitygw_server.storage_options, "aws_secret_access_key": SECRET}
    store = open_store(versitygw_server.uri("t"), options)
    for action in (lambda: store.get("a"), lambda: list(store.list_all()), lambda: store.put("a", b"")):
        with pytest.raises(AccessDeniedError) as caught:
            action()
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
    assert SECRET not in repr(store) + repr(vars(store)) + store.root


def test_profile_gives_keys_region_and_endpoint(s3_server, tmp_path, monkeypatch):
    pytest.importorskip("botocore")
    config = tmp_path / "config"
    config.write_text(
        "[profile lake]\n"
        f"aws_access_key_id = {s3_server.access_key}\naws_secret_access_key = {s3_server.secret_key}\n"
        f"region = {s3_server.region}\nendpoint_url = {s3_server.endpoint}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    store = open_store(s3_server.uri("profiled"), {"profile": "lake"})
    store.put("x", b"1")
    assert store.get("x") == b"1"
    with pytest.raises(InvalidInputError, match="profile"):
        open_store(s3_server.uri("profiled"), {"profile": "lakes"})


def test_environment_gives_keys_and_endpoint(s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    store = open_store(s3_server.uri("from-environment").replace("s3:", "s3a:"))
    store.put("x", b"1")
    assert store.get("x") == b"1"


def test_keys_of_the_caller_are_not_mixed_with_the_environment(s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    store = open_store(s3_server.uri("own-keys"), s3_server.storage_options)
    store.put("x", b"1")
    assert store.get("x") == b"1"


@pytest.mark.parametrize(
    ("uri", "options", "extra", "library"),
    [
        ("abfss://c@account.dfs.core.windows.net/t", {}, "azure", "azure"),
        ("gs://bucket/t", {}, "gcs", "google"),
        ("s3://bucket/t", {"profile": "p"}, "aws", "botocore"),
    ],
)
def test_missing_identity_library_names_its_extra(uri, options, extra, library, monkeypatch, tmp_path):
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingExtraError, match=rf"distributary\[{extra}\]"):
        open_store(uri, options)


def test_plain_http_to_another_machine_needs_consent():
    options = {"endpoint": "http://storage.example", "access_key_id": "a", "secret_access_key": "b"}
    with pytest.raises(InvalidInputError, match="allow_http"):
        open_store("s3://b/t", options)
    assert open_store("s3://b/t", {**options, "AWS_ALLOW_HTTP": "true"}).root == "s3://b/t"


def test_azure_root_is_the_same_in_both_spellings():
    key = {"account_key": "a2V5"}
    short = open_store("az://c/t", {"account_name": "acc", **key})
    assert short.root == open_store("abfs://c@acc.dfs.core.windows.net/t/", key).root
    with pytest.raises(InvalidInputError, match="account"):
        open_store("az://c/t", key)
