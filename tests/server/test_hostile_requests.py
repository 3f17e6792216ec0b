"""Bombs, budgets, poisoned headers, secrets: nothing gets in or out (RELIABILITY G1, G2, G5, P7)."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from sharing_world.asgi import InProcess
from sharing_world.running import RunningServer, lines, table_path

from distributary.server.settings import Limits

QUERY = f"{table_path('Sales.eu.Orders')}/query"


@pytest.mark.parametrize(
    "body",
    [b"[" * 200_000, b'{"a":' * 100_000, json.dumps({"a": [[[[]]]] * 2}).encode() * 2, b'{"a":"\\ud800"}'],
)
def test_json_bombs_are_400(server: RunningServer, body):
    """RELIABILITY G1"""
    assert server.request("POST", QUERY, body=body).status_code in (200, 400)
    assert server.get("/shares").status_code == 200


def test_body_over_a_megabyte_is_413(server):
    """RELIABILITY G1"""
    assert server.request("POST", QUERY, body=b'{"a":"' + b"x" * 1_100_000 + b'"}').status_code == 413


def test_compressed_body_is_400(server):
    answer = server.request("POST", QUERY, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400


def test_headers_and_targets_over_the_budget_are_refused(server):
    """RELIABILITY G1: 431, or closed by the listener"""
    answer = server.get("/shares", headers={f"x-{n}": "y" * 900 for n in range(40)})
    assert answer.status_code == 431
    assert server.get("/shares?pageToken=" + "x" * 9000).status_code == 431


def test_ten_thousand_headers_do_not_hurt(server):
    host, port = server.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            connection.sendall(b"GET /delta-sharing/shares HTTP/1.1\r\nHost: x\r\n" + b"x-a: b\r\n" * 10_000)
            connection.sendall(b"\r\n")
            answer = connection.recv(200)
        except ConnectionError:
            answer = b""
    assert b" 200 " not in answer
    assert server.get("/shares").status_code == 200


@pytest.mark.parametrize(
    "hints",
    [
        {"jsonPredicateHints": "{" * 1000},
        {"jsonPredicateHints": json.dumps({"op": "and", "children": []})},
        {"jsonPredicateHints": '{"op":"not","children":[' * 3000 + "]}" * 3000},
        {"jsonPredicateHints": "x" * 900_000},
        {"predicateHints": ["((((((((((" * 50, "country = 'FR' AND", "a" * 10_000]},
        {"predicateHints": ["country NOT LIKE '%a%a%a%a%a%a%a%b'"] * 50},
        {"predicateHints": ["sleep(10) = 1", "1=1; DROP TABLE x", "country = "]},
    ],
)
def test_bad_hints_are_ignored_and_never_lose_rows(server, hints):
    """RELIABILITY G2, FLT-002, FLT-003, FLT-004"""
    whole = lines(server.query("Sales.eu.Orders"))
    assert len(lines(server.query("Sales.eu.Orders", hints))) == len(whole)


def test_slow_body_is_given_up(contents):
    """RELIABILITY C3: the body has a deadline"""
    application = InProcess(contents, limits=Limits(body_seconds=0.05))
    try:

        async def run() -> int:
            sent = []

            async def receive():
                await asyncio.sleep(10)

            async def send(message):
                sent.append(message)

            scope = application._scope("POST", QUERY, "acme", {}, "127.0.0.1")
            await application.app(scope, receive, send)
            return sent[0]["status"]

        assert asyncio.run(run()) == 408
    finally:
        application.close()


def test_excess_calls_get_429_with_retry_after(contents):
    """RELIABILITY C5: per recipient; others are not touched"""
    application = InProcess(contents, limits=Limits(calls_per_second=1, burst=3))
    try:
        replies = [application.call("GET", "/shares") for _ in range(6)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429, 429]
        assert replies[-1].json["errorCode"] == "RESOURCE_EXHAUSTED"
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert application.call("GET", "/shares", token="rival").status == 200
    finally:
        application.close()


def test_answer_that_takes_too_long_to_begin_is_503_and_gives_its_place_back(contents, monkeypatch):
    """RELIABILITY P8: request_seconds"""
    application = InProcess(contents, limits=Limits(request_seconds=0.05, concurrent_queries=1))
    try:
        real = application.service.tables.version

        def slow(*arguments):
            time.sleep(0.3)
            return real(*arguments)

        monkeypatch.setattr(application.service.tables, "version", slow)

        async def run() -> tuple[int, int]:
            late = (await application.send("GET", f"{table_path('Sales.eu.Orders')}/version")).status
            await asyncio.sleep(0.6)
            return late, application.service.queries.running()

        assert asyncio.run(run()) == (503, 0)
    finally:
        application.close()


def test_pages_are_no_longer_than_the_settings_allow(contents):
    application = InProcess(contents, limits=Limits(files_per_page=2))
    try:
        body = b'{"maxFiles": 5}'
        found = application.call("POST", QUERY, body=body).lines
        assert len([line for line in found if "file" in line]) == 2
    finally:
        application.close()


def test_nothing_is_answered_without_the_database(contents, tmp_path):
    """RELIABILITY P9, C6: 503 and not ready while it is gone; alive all the time; ready again afterwards"""
    application = InProcess(contents)
    database = contents.database.file
    assert database is not None
    try:
        assert application.call("GET", "/shares").status == 200
        hidden = database.rename(tmp_path / "hidden.db")
        time.sleep(1)
        try:
            for method, path in (("GET", "/shares"), ("POST", QUERY)):
                reply = application.call(method, path)
                assert reply.status == 503
                assert "retry-after" in reply.headers
                assert str(database) not in reply.body.decode()
            assert application.call("GET", "/healthz", token=None).status == 200
            assert application.call("GET", "/readyz", token=None).status == 503
        finally:
            hidden.rename(database)
        assert application.call("GET", "/readyz", token=None).status == 200
        assert application.call("GET", "/shares").status == 200
    finally:
        application.close()


def test_error_inside_is_500_without_details(contents, monkeypatch):
    """REST-011, REST-018"""
    application = InProcess(contents)
    try:
        monkeypatch.setattr(application.service, "share", _broken)
        reply = application.call("GET", "/shares/Sales")
        assert reply.status == 500
        assert reply.json["errorCode"] == "INTERNAL_ERROR"
        assert "secret" not in reply.body.decode()
        application.service.log.flush()
        assert b"secret detail" in application.written.getvalue()
    finally:
        application.close()


async def _broken(*_arguments):
    raise RuntimeError("secret detail")


def test_log_is_one_json_object_a_line_and_has_no_secret(server):
    """RELIABILITY G5, P7: line breaks, escapes, tokens, tickets and page tokens stay out"""
    url = lines(server.query("Sales.eu.Orders"))[-1]["file"]["url"]
    page = server.get("/shares?maxResults=1").json()["nextPageToken"]
    server.get(f"/shares?maxResults=1&pageToken={page}")
    server.get(url, token=None)
    server.get("/shares/x%0d%0a%1b[31minjected", headers={"User-Agent": "evil\x1b[31m\tagent"})
    server.get("/shares", token="Bearer-nonsense-canary")
    written = server.logged()
    for line in written.splitlines():
        if line.startswith("{"):
            assert json.loads(line)["event"]
    assert "\x1b" not in written
    ticket = url.split("/files/")[1].split("?")[0]
    secrets = [*server.contents.tokens.values(), page, ticket, ticket.split("/")[1], "nonsense-canary"]
    assert [secret for secret in secrets if secret in written] == []


def test_metrics_count_and_hold_no_names_of_clients(server):
    text = server.request("GET", f"{server.admin}/metrics", token=None).text
    assert "http_server_request_duration_seconds_bucket" in text
    assert 'sharing_queries_total{kind="query",outcome="allowed"}' in text
    assert "acme" not in text


def test_metrics_are_not_on_the_public_listener(server):
    assert server.request("GET", f"{server.base}/metrics", token=None).status_code == 404
    assert server.request("GET", f"{server.base}/healthz", token=None).status_code == 200
    assert server.request("GET", f"{server.admin}/healthz", token=None).status_code == 200
