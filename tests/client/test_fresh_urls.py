"""URLs that expire while a table is read, pages, and queries that are answered later."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from scripted_server import Reply, ScriptedServer, lines

import distributary as ds
from distributary.client.errors import FileDownloadError, IncompleteResponseError, QueryFailedError


def sales(client):
    return client.table("s.c.sales").snapshot()


@pytest.mark.parametrize("tokens", [True, False])
def test_a_read_longer_than_its_urls_is_complete(server, connect, tokens):
    """URLs live a moment, each file takes longer: by refresh token, or by asking again (CL-017)."""
    server.life, server.refresh_tokens = 1.3, tokens

    def slowly(asked):
        if asked.path.startswith("/files/"):
            time.sleep(0.15)

    server.script = slowly
    found = connect(server, workers=1).table("s.c.sales").snapshot().to_arrow()
    assert found.num_rows == 60
    questions = [asked.json for asked in server.asked_for("/query")]
    assert len(questions) > 1
    assert any("refreshToken" in body for body in questions) is tokens
    # Without a token the very version that was read is asked for.
    assert tokens or questions[1]["version"] == 1


def test_urls_that_expire_before_their_time_are_renewed(server, connect):
    """A refused URL is renewed, once for all threads, whatever its time says."""
    refused: set[str] = set()

    def script(asked):
        if asked.path.startswith("/files/") and asked.path not in refused:
            refused.add(asked.path)
            return Reply(403, b"expired")
        return None

    server.script = script
    assert sales(connect(server)).to_arrow().num_rows == 60
    assert len(server.asked_for("/query")) <= 7


def test_clocks_that_disagree_do_not_make_a_storm(server, connect):
    """Where every URL seems to have expired, its time is no longer believed."""
    plain = server.url
    server.url = lambda table, path: (plain(table, path)[0], int(time.time() * 1000) - 10_000)
    assert sales(connect(server)).to_arrow().num_rows == 60
    assert len(server.asked_for("/query")) == 2


def test_a_table_without_history_is_read_on_while_its_files_are_there(tmp_path, connect, response_format):
    """A refused version falls back to the latest one, whose files have the same ids."""
    table = ds.DeltaTable.create(tmp_path / "sales", schema=pa.schema([("id", pa.int64())]))
    for number in range(4):
        table.append(pa.table({"id": [number]}))
    server = ScriptedServer(tmp_path, response_format)
    stale: set[str] = set()

    def script(asked):
        if asked.path.endswith("/query") and "version" in asked.json:
            return Reply(400, lines({"errorCode": "INVALID_PARAMETER_VALUE", "message": "no history"}))
        if asked.path.startswith("/files/") and not stale:
            stale.add(asked.path)
            table.append(pa.table({"id": [99]}))
            return Reply(403)
        return None

    server.script = script
    try:
        found = sales(connect(server)).to_arrow()
        assert sorted(found.column("id").to_pylist()) == [0, 1, 2, 3]
    finally:
        server.close()


def test_a_file_that_is_gone_is_an_error(server, connect):
    """Never fewer rows: a file that no answer has any more ends the read."""
    plain, asked_before = server.query, []

    def query(table, body):
        reply = plain(table, body)
        if asked_before:
            reply.body = b"".join(reply.body.splitlines(True)[:2]) + lines({"endStreamAction": {}})
        asked_before.append(body)
        return reply

    server.query = query
    server.script = lambda asked: Reply(404) if asked.path.startswith("/files/") else None
    with pytest.raises(FileDownloadError, match="no longer part"):
        sales(connect(server)).to_arrow()


def test_pages_are_joined(server, connect):
    """A6: until there is no token, with the same question."""
    server.page_files = 2
    assert sales(connect(server, page_files=2)).where("id >= 0").to_arrow().num_rows == 60
    bodies = [asked.json for asked in server.asked_for("/query")]
    assert [body.get("pageToken") for body in bodies] == [None, "2", "4"]
    assert {tuple(body["predicateHints"]) for body in bodies} == {("id >= 0",)}
    assert {body["maxFiles"] for body in bodies} == {2}


def test_pages_of_different_versions_are_an_error(plain_server, connect):
    plain_server.page_files = 2
    plain = plain_server.query

    def query(table, body):
        reply = plain(table, body)
        if "pageToken" in body:
            reply.headers["Delta-Table-Version"] = "7"
        return reply

    plain_server.query = query
    with pytest.raises(IncompleteResponseError, match="different versions"):
        sales(connect(plain_server)).to_arrow()


def test_pages_without_end_are_an_error(plain_server, connect):
    plain_server.query = lambda table, body: plain_server.table_reply(
        1, plain_server.head_lines(table, None), {"nextPageToken": "again"}
    )
    with pytest.raises(IncompleteResponseError, match="again and again"):
        sales(connect(plain_server)).to_arrow()


def pending(status: str | None, **more: str) -> Reply:
    told = {"queryId": "q 1", **({} if status is None else {"status": status}), **more}
    headers = {"Delta-Sharing-Capabilities": "asyncquery=true", "Delta-Table-Version": "0"}
    return Reply(200, lines({"queryStatus": told}), headers)


def test_a_query_that_is_answered_later_is_asked_about(server, connect):
    """A8: pending, with or without a status, then the answer, page by page."""
    server.page_files = 4
    waits = iter([pending("pending"), pending(None)])

    def script(asked):
        if asked.path.endswith("/query"):
            assert asked.json["idempotencyKey"]
            return pending("pending")
        if "/queries/" in asked.path:
            assert asked.path.endswith("/queries/q%201")
            reply = next(waits, None)
            return reply or server.query(ds.DeltaTable(server.folder / "sales"), asked.json)
        return None

    server.script = script
    assert sales(connect(server, asynchronous=True)).to_arrow().num_rows == 60
    assert "asyncquery=true" in server.asked_for("/query")[0].headers["delta-sharing-capabilities"]


def test_a_query_that_fails_later_is_an_error(plain_server, connect):
    plain_server.script = lambda asked: (
        pending("pending")
        if asked.path.endswith("/query")
        else (pending("failed", errorMessage="too large") if "/queries/" in asked.path else None)
    )
    with pytest.raises(QueryFailedError, match="too large"):
        sales(connect(plain_server, asynchronous=True)).to_arrow()


def test_a_server_that_answers_at_once_is_fine_too(server, connect):
    assert sales(connect(server, asynchronous=True)).to_arrow().num_rows == 60
