"""What the server reads of a request, and where it stops reading (RELIABILITY G1)."""

from __future__ import annotations

import asyncio

import pytest

from distributary.server.error_responses import (
    HeadersTooLargeError,
    MethodNotAllowedError,
    PayloadTooLargeError,
    RequestTimeoutError,
)
from distributary.server.request import (
    ClientDisconnectedError,
    Request,
    check_json_depth,
    headers_of,
    parameters,
    path_segments,
)
from distributary.server.routes import Route, Router
from distributary.sharing.error_response import MalformedRequestError, ResourceNotFoundError


def request(*messages: dict, headers: dict[str, str] | None = None, forever: bool = False) -> Request:
    waiting = list(messages)

    async def receive():
        if not waiting and forever:
            await asyncio.sleep(3600)
        return waiting.pop(0)

    return Request("id", "POST", "/", b"", headers or {}, "127.0.0.1", receive)


def part(body: bytes, more: bool = False) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


def test_body_in_parts_is_joined():
    assert asyncio.run(request(part(b"{", more=True), part(b"}")).body()) == b"{}"


def test_body_over_the_budget_is_refused_before_it_is_read():
    """RELIABILITY G1: 413 for a body that says, or turns out, to be too large."""
    with pytest.raises(PayloadTooLargeError) as refusal:
        asyncio.run(request(headers={"content-length": "99999999999999999999"}).body())
    assert refusal.value.status == 413
    with pytest.raises(PayloadTooLargeError):
        asyncio.run(request(part(b"x" * 60, more=True), part(b"x" * 60)).body(limit=100))


def test_body_that_does_not_arrive_is_given_up():
    with pytest.raises(RequestTimeoutError):
        asyncio.run(request(part(b"{", more=True), forever=True).body(seconds=0.05))


def test_compressed_body_is_refused():
    """RELIABILITY G1: a gzip bomb is never unpacked."""
    with pytest.raises(MalformedRequestError):
        asyncio.run(request(part(b"x"), headers={"content-encoding": "gzip"}).body())


def test_client_that_leaves_ends_the_reading():
    with pytest.raises(ClientDisconnectedError):
        asyncio.run(request(part(b"x", more=True), {"type": "http.disconnect"}).body())


def test_headers_over_the_budget_are_refused():
    with pytest.raises(HeadersTooLargeError) as refusal:
        headers_of({"headers": [(b"x-%d" % n, b"y" * 1000) for n in range(40)]})
    assert refusal.value.status == 431


def test_repeated_header_is_joined():
    """Two Authorization headers become one that no token matches."""
    assert headers_of({"headers": [(b"A", b"1"), (b"a", b"2")]}) == {"a": "1, 2"}


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 5000, b'{"a":[' * 17 + b"]}" * 17])
def test_deep_json_is_refused(body):
    """RELIABILITY G1: depth at most 32, found before anything parses it."""
    with pytest.raises(MalformedRequestError, match="levels deep"):
        check_json_depth(body)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"a":"' + b"[{" * 1000 + b'"}', b"[" + b"[]," * 500 + b"[]]", b'{"a":"\\"[[[["}', b'"' * 101],
)
def test_wide_json_and_brackets_in_texts_are_no_depth(body):
    check_json_depth(body)


def test_segments_are_decoded_once_each_for_itself():
    """REST-004: an escaped slash belongs to the name, a doubly escaped one stays escaped."""
    assert path_segments("/shares/a%2Fb/x%252Fy/%C3%A9") == ("shares", "a/b", "x%2Fy", "é")


def test_segment_that_is_no_text_does_not_exist():
    with pytest.raises(ResourceNotFoundError):
        path_segments("/shares/%ff%fe")


@pytest.mark.parametrize(
    "query", [b"a=1&a=2", b"a=%ff", "a=é".encode(), b"&".join(b"p%d=1" % n for n in range(60))]
)
def test_query_that_cannot_be_used_is_refused(query):
    with pytest.raises(MalformedRequestError):
        parameters(query)


def test_query_keeps_blank_values():
    assert parameters(b"pageToken=&maxResults=5") == {"pageToken": "", "maxResults": "5"}


ROUTER = Router(
    [
        Route("list", "GET", "/shares", 1),
        Route("one", "GET", "/shares/{share}", 2),
        Route("ask", "POST", "/shares/{share}/query", 3),
        Route("version", "HEAD", "/shares/{share}/tables/{table}", 4),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [("GET", "/shares", "list"), ("HEAD", "/shares", "list"), ("HEAD", "/shares/a/tables/b", "version")],
)
def test_route_is_found(method, path, name):
    assert ROUTER.match(method, path).route.name == name


@pytest.mark.parametrize(
    "path", ["/", "", "/shares/", "//shares", "/SHARES", "/shares/a/b", "/shares//query"]
)
def test_other_paths_do_not_exist(path):
    """REST-010"""
    with pytest.raises(ResourceNotFoundError):
        ROUTER.match("GET", path)


def test_other_method_is_told_which_are_allowed():
    with pytest.raises(MethodNotAllowedError) as refusal:
        ROUTER.match("DELETE", "/shares/x")
    assert refusal.value.allowed == ("GET", "HEAD")
    assert refusal.value.status == 405
