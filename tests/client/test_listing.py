"""Shares, schemas and tables: pages, old servers, and names that need quoting."""

from __future__ import annotations

import pytest
from scripted_server import Reply, lines

from distributary.client import Schema, Share, Table
from distributary.client.errors import IncompleteResponseError


def paged(server, pages: dict[str | None, dict]):
    server.script = lambda asked: Reply(body=lines(pages[asked.parameters.get("pageToken")]))


def test_only_a_missing_token_ends_a_list(plain_server, connect):
    """CL-002, CL-003, CL-004: pages without items, with null items, and empty ones with a token."""
    pages = {
        None: {"items": [{"name": "a"}], "nextPageToken": "1"},
        "1": {"nextPageToken": "2"},
        "2": {"items": None, "nextPageToken": "3"},
        "3": {"items": [], "nextPageToken": "4"},
        "4": {"items": [{"name": "b", "unknown": {}}], "nextPageToken": ""},
    }
    paged(plain_server, pages)
    assert [share.name for share in connect(plain_server).list_shares()] == ["a", "b"]
    assert len(plain_server.asked) == 5


def test_iterators_ask_page_by_page(plain_server, connect):
    paged(plain_server, {None: {"items": [{"name": "a"}], "nextPageToken": "1"}, "1": {"items": []}})
    shares = connect(plain_server).iter_shares()
    assert next(shares) == Share("a")
    assert len(plain_server.asked) == 1


def test_the_same_page_again_and_again_is_an_error(plain_server, connect):
    plain_server.script = lambda asked: Reply(body=lines({"items": [], "nextPageToken": "x"}))
    with pytest.raises(IncompleteResponseError, match="again and again"):
        connect(plain_server).list_shares()


def test_names_are_quoted_in_paths(plain_server, connect):
    """C-01: a share may have periods; everything else is percent-encoded."""
    plain_server.script = lambda asked: Reply(body=lines({"items": []}))
    client = connect(plain_server)
    client.list_tables("my.share.größe")
    assert plain_server.asked[-1].path == "/api/shares/my.share/schemas/gr%C3%B6%C3%9Fe/tables"
    client.list_tables(Schema("c%d", "s?"))
    assert plain_server.asked[-1].path == "/api/shares/s%3F/schemas/c%25d/tables"
    assert client.table("my.share.c.t").name.share == "my.share"


def test_all_tables_of_servers_that_do_not_list_them(plain_server, connect):
    table = {"name": "t", "schema": "c", "share": "s"}

    def script(asked):
        match asked.path.removeprefix("/api/shares/"):
            case "s/all-tables":
                return Reply(404)
            case "s/schemas":
                return Reply(body=lines({"items": [{"name": "c", "share": "s"}]}))
            case "s/schemas/c/tables":
                return Reply(body=lines({"items": [table]}))
        return None

    plain_server.script = script
    assert connect(plain_server).list_all_tables() == [Table("t", "s", "c")]


def test_the_version_of_servers_that_know_head_only(plain_server, connect):
    """C-32."""

    def script(asked):
        if asked.path.endswith("/version"):
            return Reply(404)
        if asked.method == "HEAD":
            return Reply(headers={"delta-table-version": "42"})
        return None

    plain_server.script = script
    assert connect(plain_server).table("s.c.t").version("2024-01-01T00:00:00Z") == 42
    assert plain_server.asked[-1].parameters == {"startingTimestamp": "2024-01-01T00:00:00Z"}


def test_staleness_is_told_by_the_version(server, connect):
    """CL-010: the version costs one small request."""
    table = connect(server).table("s.c.sales")
    assert table.version() == 1
    assert table.metadata.partitioning == ("day",)
    assert table.schema.names == ("id", "amount", "name", "day")
    assert table.protocol.min_reader_version == 1
    assert table.arrow_schema.names == ["id", "amount", "name", "day"]
