"""Servers that cut, lie, redirect, drip and refuse: never a short frame, never a token for somebody else."""

from __future__ import annotations

import json
import re
import warnings

import pytest
from scripted_server import SIGNATURE, TOKEN, Reply, ScriptedServer, lines

import distributary as ds
from distributary.client.errors import (
    ClientError,
    FileDownloadError,
    IncompleteResponseError,
    QueryFailedError,
    ServerUnreachableError,
    UntrustedAddressError,
)
from distributary.sharing.error_response import (
    PermissionDeniedError,
    ResourceNotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
)

NO_RETRY = {"retry_seconds": 0.0}


def rows(client, **settings) -> int:
    return client.table("s.c.sales").snapshot(**settings).to_arrow().num_rows


def query_reply(server: ScriptedServer) -> Reply:
    return server.query(ds.DeltaTable(server.folder / "sales"), {})


@pytest.mark.parametrize("framing", ["length", "chunked", "closing"])
def test_an_answer_cut_anywhere_is_an_error(server, connect, framing):
    """Cut at every kilobyte, and within the last line (H2, CL-014)."""
    whole = query_reply(server)
    client = connect(server, **NO_RETRY)
    size = len(whole.body)
    for cut in [*range(0, size, 1024), size - 30, size - 2]:
        reply = Reply(200, whole.body, whole.headers, cut, framing)
        server.script = lambda asked, reply=reply: reply if asked.path.endswith("/query") else None
        with pytest.raises(ClientError):
            rows(client)


def test_an_answer_cut_at_a_line_end_is_an_error_without_a_promised_end(server, connect):
    """The connection's own framing tells, also where the server promised no end line."""
    server.end_line = False
    whole = query_reply(server)
    assert rows(connect(server)) == 60
    client = connect(server, **NO_RETRY)
    ends = [match.end() for match in re.finditer(rb"\n", whole.body)]
    for framing in ("length", "chunked", "closing"):
        for cut in ends[:-1]:
            reply = Reply(200, whole.body, whole.headers, cut, framing)
            server.script = lambda asked, reply=reply: reply if asked.path.endswith("/query") else None
            with pytest.raises(IncompleteResponseError):
                rows(client)


def test_a_missing_end_that_was_promised_is_an_error(server, connect):
    """CL-014, CAP-012."""
    whole = query_reply(server)
    body = b"".join(line for line in whole.body.splitlines(True) if b"endStreamAction" not in line)
    server.script = lambda asked: Reply(200, body, whole.headers) if asked.path.endswith("/query") else None
    with pytest.raises(IncompleteResponseError, match="marks its end"):
        rows(connect(server, **NO_RETRY))


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_error_message_after_a_success_status_fails_the_read(server, connect, wrapped):
    """CL-013; wrapped or bare (C-03, CL-020)."""
    whole = query_reply(server)
    told = {"errorMessage": f"the store broke {TOKEN}"[:15]}
    end = {"endStreamAction": told} if wrapped else told
    body = b"\n".join(whole.body.splitlines()[:-1]) + b"\n\n" + lines(end)
    server.script = lambda asked: Reply(200, body, whole.headers) if asked.path.endswith("/query") else None
    with pytest.raises(QueryFailedError, match="the store broke"):
        rows(connect(server))


def test_a_bare_end_and_blank_lines_are_read(server, connect):
    """C-03, CL-020, and unknown kinds of lines and fields (CL-007)."""
    whole = query_reply(server)
    first, *others = whole.body.splitlines()
    strange = lines({"tomorrow": {"x": 1}}) + b"\r\n" + first.replace(b"{", b'{"unknown":[1],', 1) + b"\n"
    body = strange + b"\n\n".join(others[:-1]) + b"\n" + lines({"refreshToken": "abc"})
    server.script = lambda asked: Reply(200, body, whole.headers) if asked.path.endswith("/query") else None
    assert rows(connect(server)) == 60


def test_errors_after_the_start_are_tried_again_where_they_may_pass(server, connect):
    whole = query_reply(server)
    told = {"errorMessage": "busy", "httpStatusErrorCode": 503}
    broken = b"\n".join(whole.body.splitlines()[:-1]) + b"\n" + lines({"endStreamAction": told})
    replies = iter([Reply(200, broken, whole.headers), Reply(200, whole.body, whole.headers, 700, "chunked")])
    server.script = lambda asked: next(replies, None) if asked.path.endswith("/query") else None
    assert rows(connect(server)) == 60


@pytest.mark.parametrize("lie", [-1, 1, 100_000])
def test_a_file_of_another_size_is_an_error(server, connect, lie):
    """Lying sizes, in whole downloads and by ranges (H2)."""
    plain = server.file_line

    def lying(*arguments, **named):
        line = plain(*arguments, **named)
        target = line["file"].get("deltaSingleAction", {}).get("add") or line["file"]
        target["size"] += lie
        return line

    server.file_line = lying
    with pytest.raises(FileDownloadError):
        rows(connect(server))
    with pytest.raises(FileDownloadError):
        connect(server).table("s.c.wide").snapshot().select("c01").to_arrow()


def test_a_file_cut_anywhere_is_resumed(server, connect):
    """Resume by range where the connection broke: every download is cut once."""
    cut: set[str] = set()

    def script(asked):
        if not asked.path.startswith("/files/") or asked.path in cut:
            return None
        cut.add(asked.path)
        reply = server.file(asked)
        reply.cut = len(reply.body) // 2
        return reply

    server.script = script
    assert rows(connect(server)) == 60
    resumed = [asked for asked in server.downloads if asked.headers.get("range")]
    assert len(resumed) == 6


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_is_always_cut_is_an_error(server, connect, share):
    def script(asked):
        if not asked.path.startswith("/files/"):
            return None
        reply = server.file(asked)
        reply.cut = int(len(reply.body) * share)
        return reply

    server.script = script
    with pytest.raises(FileDownloadError):
        rows(connect(server, retry_seconds=0.0))


def test_a_file_replaced_while_it_is_read_is_an_error(plain_server, connect):
    def script(asked):
        if not asked.path.startswith("/files/"):
            return None
        reply = plain_server.file(asked)
        resumed = "range" in asked.headers
        reply.headers["ETag"] = '"new"' if resumed else '"old"'
        reply.cut = None if resumed else 100
        return reply

    plain_server.script = script
    with pytest.raises(FileDownloadError, match="replaced"):
        rows(connect(plain_server))


def test_a_server_without_ranges_is_read_whole(server, connect):
    """A range that is answered with the whole file is cut to size here."""

    def script(asked):
        asked.headers.pop("range", None)

    server.script = script
    found = connect(server).table("s.c.wide").snapshot().select("c03").limit(5).to_arrow()
    assert found.num_rows == 5


def test_a_file_given_twice_is_an_error(server, connect):
    whole = query_reply(server)
    head, *others = whole.body.splitlines(True)
    body = head + others[0] + others[1] + b"".join(others[1:])
    server.script = lambda asked: Reply(200, body, whole.headers) if asked.path.endswith("/query") else None
    with pytest.raises(IncompleteResponseError, match="twice"):
        rows(connect(server, **NO_RETRY))


def test_the_token_does_not_follow_a_redirect_to_another_origin(plain_server, lake, connect):
    """H1: neither by a redirect of the protocol nor to the places of files."""
    trap = ScriptedServer(lake)
    try:
        plain_server.script = lambda asked: (
            None
            if "/files/" in asked.path
            else Reply(307, headers={"Location": f"{trap.origin}{asked.path}"})
        )
        with pytest.raises(UntrustedAddressError, match="token was not sent"):
            rows(connect(plain_server))
        assert not trap.asked
        plain_server.script = lambda asked: (
            Reply(302, headers={"Location": f"{trap.origin}{asked.path}?sig={SIGNATURE}&exp=9999999999999"})
            if "/files/" in asked.path
            else None
        )
        assert rows(connect(plain_server)) == 60
        assert all("authorization" not in asked.headers for asked in trap.asked)
        assert all("authorization" not in asked.headers for asked in plain_server.downloads)
    finally:
        trap.close()


def test_a_redirect_within_the_origin_is_followed(plain_server, connect):
    plain_server.script = lambda asked: (
        Reply(308, headers={"Location": asked.path.replace("/api/shares", "/api//shares")})
        if asked.path == "/api/shares"
        else (Reply(body=lines({"items": []})) if asked.path == "/api//shares" else None)
    )
    assert connect(plain_server).list_shares() == []
    assert plain_server.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"


def test_redirects_without_end_are_given_up(plain_server, connect):
    plain_server.script = lambda asked: Reply(302, headers={"Location": asked.path})
    with pytest.raises(UntrustedAddressError, match="without end"):
        connect(plain_server).list_shares()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest",
        "http://192.0.2.7/file.parquet",
        "ftp://example.org/x",
    ],
)
def test_file_urls_of_other_kinds_are_not_followed(plain_server, connect, url):
    """H1."""
    plain = plain_server.file_line

    def lying(*arguments, **named):
        line = plain(*arguments, **named)
        line["file"]["url"] = url
        return line

    plain_server.file_line = lying
    with pytest.raises(UntrustedAddressError):
        rows(connect(plain_server))


def test_a_storm_of_refusals_passes(server, connect):
    """H3, CL-019: 429 and 503 with and without Retry-After, for questions and files."""
    refused: dict[str, int] = {}

    def script(asked):
        refused[asked.path] = refused.get(asked.path, 0) + 1
        if refused[asked.path] > 2:
            return None
        return Reply(429 if refused[asked.path] == 1 else 503, headers={"Retry-After": "0"})

    server.script = script
    assert rows(connect(server, retry_seconds=20.0)) == 60


def test_a_storm_without_end_ends_with_its_own_error(plain_server, connect):
    plain_server.script = lambda asked: Reply(
        429, lines({"errorCode": "RESOURCE_EXHAUSTED", "message": "slow down"}), {"Retry-After": "3600"}
    )
    with pytest.raises(TooManyRequestsError, match="slow down"):
        rows(connect(plain_server))
    assert len(plain_server.asked) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ds.DistributaryError),
        (401, UnauthenticatedError),
        (403, PermissionDeniedError),
        (404, ResourceNotFoundError),
    ],
)
def test_other_refusals_are_raised_at_once(plain_server, connect, status, error):
    """CL-019: never tried again."""
    plain_server.script = lambda asked: Reply(status, lines({"errorCode": "X", "message": f"no {TOKEN}"}))
    with pytest.raises(error) as raised:
        rows(connect(plain_server))
    assert TOKEN not in str(raised.value)
    assert len(plain_server.asked) == 1


def test_a_server_that_only_drips_is_given_up(plain_server, connect):
    whole = query_reply(plain_server)
    slow = Reply(200, whole.body, whole.headers, None, "chunked", 0.7)
    plain_server.script = lambda asked: slow if asked.path.endswith("/query") else None
    # On a machine that is busy enough, the next drop comes too late as well.
    with pytest.raises(ServerUnreachableError, match=r"bytes in|timed out"):
        rows(connect(plain_server, timeout=1.0, retry_seconds=0.0))


def test_a_dead_server_is_told_as_such(plain_server, connect):
    client = connect(plain_server, retry_seconds=0.3)
    plain_server.close()
    with pytest.raises(ServerUnreachableError, match="cannot be reached"):
        client.list_shares()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"null", b'{"protocol": 7}', b"\xff\xfe", b"[" * 100_000, b'{"file":{"id":1}}']
)
def test_nonsense_is_an_error(plain_server, connect, body):
    plain_server.script = lambda asked: Reply(200, body, {"Delta-Table-Version": "1"})
    client = connect(plain_server, **NO_RETRY)
    with pytest.raises(ds.DistributaryError):
        rows(client)
    with pytest.raises(ds.DistributaryError):
        client.table("s.c.sales").changes(0).to_arrow()
    if body != b"{}":
        with pytest.raises(ds.DistributaryError):
            client.table("s.c.sales").metadata  # noqa: B018


def test_no_secret_is_in_errors_warnings_or_texts(server, connect, caplog):
    """Canaries: neither the token nor a signature appears anywhere (PF-009)."""
    client = connect(server, **NO_RETRY)
    caplog.set_level("DEBUG", "distributary")
    seen = [repr(client), repr(client.profile), repr(client.table("s.c.sales").snapshot())]
    for status in (403, 404, 500):
        server.script = lambda asked, status=status: (
            Reply(status, asked.path.encode()) if "/files/" in asked.path else None
        )
        with warnings.catch_warnings(record=True) as caught, pytest.raises(ds.DistributaryError) as raised:
            rows(client)
        seen += [str(raised.value), repr(raised.value), *(str(each.message) for each in caught)]
        cause = raised.value.__cause__
        seen += [str(cause)]
    seen += [json.dumps(record.getMessage()) for record in caplog.records]
    assert not [text for text in seen if TOKEN in text or SIGNATURE in text]
