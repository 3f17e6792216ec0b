"""Who reads what how: the table of access modes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from scripted_server import Reply, ScriptedServer, lines

import distributary as ds
from distributary.client.errors import AccessModeError, UntrustedAddressError
from distributary.sharing.error_response import UnsupportedOperationError

OFFERS = {"absent": None, "url": ["url"], "dir": ["dir"], "both": ["url", "dir"]}


@pytest.fixture
def cloud(tmp_path, moto_server):
    """A table in a bucket, and a server that lends keys to it."""
    options = dict(moto_server.storage_options)
    uri = moto_server.uri(f"access-{tmp_path.name}/t")
    ds.DeltaTable.create(uri, schema=pa.schema([("id", pa.int64())]), storage_options=options).append(
        pa.table({"id": [1, 2, 3]})
    )
    ds.DeltaTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())])).append(
        pa.table({"id": [1, 2, 3]})
    )
    server = ScriptedServer(tmp_path)
    keys = {
        "accessKeyId": options.pop("aws_access_key_id"),
        "secretAccessKey": options.pop("aws_secret_access_key"),
        "sessionToken": "",
    }
    yield server, uri, keys, options
    server.close()


def offering(server: ScriptedServer, modes: list[str] | None, uri: str, keys: dict) -> None:
    plain = server.head_lines

    def head_lines(table, version):
        made = plain(table, version)
        if modes is not None:
            made[1]["metaData"]["accessModes"] = modes
            made[1]["metaData"]["location"] = uri
        return made

    def script(asked):
        if asked.path.endswith("/query") and modes == ["dir"]:
            told = {"errorCode": "UNSUPPORTED_OPERATION", "message": "dir only"}
            return Reply(400, lines(told))
        if asked.path.endswith("/temporary-table-credentials"):
            lent = {"location": uri, "awsTempCredentials": keys, "expirationTime": 9_999_999_999_999}
            return Reply(200, lines({"credentials": lent}))
        return None

    server.head_lines, server.script = head_lines, script


@pytest.mark.parametrize(
    ("offer", "access", "outcome"),
    [
        ("absent", "url", "url"),
        ("absent", "dir", "fail"),
        ("absent", "auto", "url"),
        ("url", "url", "url"),
        ("url", "dir", "fail"),
        ("url", "auto", "url"),
        ("dir", "url", "fail"),
        ("dir", "dir", "dir"),
        ("dir", "auto", "dir"),
        ("both", "url", "url"),
        ("both", "dir", "dir"),
        ("both", "auto", "url"),
    ],
)
def test_each_cell_of_the_table(cloud, connect, offer, access, outcome):
    """AM-001, AM-002, AM-003, AM-010, AM-011, AM-012, AM-013, AM-014, AM-015, CL-015."""
    server, uri, keys, options = cloud
    offering(server, OFFERS[offer], uri, keys)
    shared = connect(server, access=access, storage_options=options).table("s.c.t").snapshot().where("id > 1")
    if outcome == "fail":
        with pytest.raises(AccessModeError):
            shared.to_arrow()
        return
    assert sorted(shared.to_arrow().column("id").to_pylist()) == [2, 3]
    assert shared.explain().access == outcome
    assert bool(server.downloads) is (outcome == "url")


def test_a_location_on_the_recipients_disk_is_not_opened(plain_server, connect, lake):
    """H1: a server must not make its recipients read their own files."""
    offering(
        plain_server,
        ["dir"],
        f"file://{lake}/sales",
        {"accessKeyId": "", "secretAccessKey": "", "sessionToken": ""},
    )
    with pytest.raises(UntrustedAddressError, match="only cloud stores"):
        connect(plain_server).table("s.c.sales").snapshot().to_arrow()


def test_other_refusals_stay_what_they_are(plain_server, connect):
    told = {"errorCode": "UNSUPPORTED_OPERATION", "message": "needs deletion vectors"}
    plain_server.script = lambda asked: Reply(400, lines(told)) if asked.path.endswith("/query") else None
    with pytest.raises(UnsupportedOperationError, match="deletion vectors"):
        connect(plain_server).table("s.c.sales").snapshot().to_arrow()
