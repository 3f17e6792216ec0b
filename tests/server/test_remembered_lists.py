"""Lists that are given again: the same bytes, to the same caller only, counted, limited and logged."""

from __future__ import annotations

import json
import time

import pytest
from sharing_world.asgi import InProcess

from distributary.server.observability import metrics_text
from distributary.server.remembered_lists import RememberedList, list_request
from distributary.server.settings import Limits

HEADERS = [(b"host", b"here"), (b"authorization", b"Bearer dst_1_2"), (b"user-agent", b"curl")]


def scope(**changes):
    return {"method": "GET", "raw_path": b"/delta-sharing/shares", "query_string": b"",
            "headers": HEADERS, "client": ("10.0.0.1", 1), **changes}  # fmt: skip


def counted():
    lines = metrics_text().decode().splitlines()
    lead = 'http_server_request_duration_seconds_count{method="GET",route="list_shares",status="200"}'
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(lead))


def test_list_given_again_is_the_same_and_has_its_own_id_log_line_and_count(application):
    before = counted()
    first, *again = [application.call("GET", "/shares") for _ in range(3)]
    assert {reply.body for reply in again} == {first.body}
    assert len({reply.headers["x-request-id"] for reply in (first, *again)}) == 3
    assert all(
        {**reply.headers, "x-request-id": ""} == {**first.headers, "x-request-id": ""} for reply in again
    )
    assert counted() == before + 3
    application.service.log.flush()
    logged = [json.loads(line) for line in application.written.getvalue().splitlines()]
    assert [line["recipient"] for line in logged if line.get("route") == "list_shares"] == ["acme"] * 3
    assert all(line["ms"] >= 0 and line["time"].endswith("+00:00") for line in logged)


def test_other_tokens_addresses_and_queries_are_not_given_it(application):
    """RELIABILITY E1"""
    mine = application.call("GET", "/shares").body
    assert application.call("GET", "/shares", token="nobody").status == 401
    assert application.call("GET", "/shares", token=None).status == 401
    assert application.call("GET", "/shares?maxResults=0").body != mine
    assert application.call("HEAD", "/shares").body == b""
    assert application.call("GET", "/shares").body == mine


def test_calls_answered_so_count_against_the_limit(contents):
    """RELIABILITY G2"""
    application = InProcess(contents, limits=Limits(calls_per_second=0.001, burst=3))
    try:
        statuses = [application.call("GET", "/shares").status for _ in range(6)]
        assert statuses[:3] == [200] * 3
        assert statuses[4:] == [429] * 2
    finally:
        application.close()


@pytest.mark.parametrize("changes", [
    {"method": "HEAD"},
    {"method": "POST"},
    {"headers": [*HEADERS, (b"authorization", b"Bearer other")]},
    {"headers": [*HEADERS, (b"x-forwarded-for", b"10.0.0.2")]},
    {"headers": HEADERS[:1]},
    {"headers": [*HEADERS, (b"x", b"y" * 40_000)]},
    {"query_string": b"a" * 9_000},
])  # fmt: skip
def test_unusual_requests_take_the_long_way(changes):
    assert list_request(scope(**changes)) is None


def test_key_tells_callers_and_lists_apart_and_holds_no_token():
    others = [
        scope(client=("10.0.0.2", 1)),
        scope(query_string=b"maxResults=1"),
        scope(raw_path=b"/delta-sharing/shares/a/all-tables"),
        scope(headers=[(b"authorization", b"Bearer dst_1_3")]),
    ]
    keys = {list_request(one).key for one in [scope(), *others]}
    assert len(keys) == 5
    assert not any(b"dst_" in part for key in keys for part in key if isinstance(part, bytes))


def test_end_of_a_token_is_exact_whatever_is_remembered():
    now, later = time.time() * 1000, time.monotonic() + 60
    kept = RememberedList(later, None, "id", "acme", "list_shares", (), b"{}")
    assert kept.is_usable()
    assert not RememberedList(later, int(now) - 1, "id", "acme", "list_shares", (), b"{}").is_usable()
    assert not RememberedList(time.monotonic() - 1, None, "id", "acme", "list_shares", (), b"{}").is_usable()
