"""Who may do what: every route with every kind of token, revocation, and forged tokens."""

from __future__ import annotations

import asyncio
import json
import random
import time

import pytest
from sharing_world.asgi import InProcess
from sharing_world.contents import DAY
from sharing_world.running import RunningServer, table_path

from distributary.catalog.database import now_ms
from distributary.server.protocol_routes import PROTOCOL_ROUTES

ROUTES = [(route.method, route.template) for route in PROTOCOL_ROUTES]
RIGHT = {"share": "Sales", "schema": "eu", "table": "Orders", "queryId": "none"}
STATUSES = {
    "no token": 401,
    "malformed": 401,
    "basic": 401,
    "unknown": 401,
    "expired": 401,
    "revoked": 401,
    "disabled": 403,
    "elsewhere": 403,
    "rival": 404,
}


def filled(template: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        template = template.replace("{" + name + "}", value)
    return template


def headers_of(server: RunningServer, identity: str) -> dict[str, str]:
    given = {
        "no token": {},
        "malformed": {"Authorization": "Bearer"},
        "basic": {"Authorization": "Basic YTpi"},
        "unknown": {"Authorization": "Bearer dst_0123456789abcdef_" + "0" * 64},
    }
    token = server.contents.tokens.get(identity)
    return given.get(identity) or ({"Authorization": f"Bearer {token}"} if token else {})


@pytest.mark.parametrize(("method", "template"), ROUTES)
@pytest.mark.parametrize("identity", list(STATUSES))
def test_route_refuses_whoever_may_not_use_it(server, method, template, identity):
    """REST-001, REST-008, REST-009, REST-015, REST-016, REST-104, DM-007, DM-008, RELIABILITY E1, D4"""
    answer = server.request(method, filled(template, RIGHT), token=None, headers=headers_of(server, identity))
    expected = STATUSES[identity]
    if template == "/shares" and expected == 404:
        assert [item["name"] for item in answer.json()["items"]] == ["other"]
        return
    assert answer.status_code == expected
    if method != "HEAD":
        assert set(answer.json()) == {"errorCode", "message"}
    if expected == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
        given = identity in ("unknown", "expired", "revoked")
        assert ('error="invalid_token"' in answer.headers["www-authenticate"]) is given


@pytest.mark.parametrize(("method", "template"), ROUTES)
def test_route_answers_the_right_recipient(server, method, template):
    """RELIABILITY E1: the sixth column of the matrix"""
    answer = server.request(method, filled(template, RIGHT))
    expected = {"queries/": 404, "changes": 400, "temporary": 403}
    status = next((status for part, status in expected.items() if part in template), 200)
    assert answer.status_code == status


def test_token_counts_in_the_header_only(server):
    """RELIABILITY D4: not in the query, a cookie or the body"""
    token = server.contents.tokens["acme"]
    assert server.get(f"/shares?access_token={token}", token=None).status_code == 401
    assert server.get("/shares", token=None, headers={"Cookie": f"access_token={token}"}).status_code == 401
    body = f"access_token={token}".encode()
    path = f"{table_path('Sales.eu.Orders')}/query"
    assert server.request("POST", path, token=None, body=body).status_code == 401


def test_scheme_matches_in_any_casing(server):
    """RFC 7235: the scheme is case-insensitive"""
    token = server.contents.tokens["acme"]
    assert server.get("/shares", token=None, headers={"Authorization": f"bearer {token}"}).status_code == 200


def test_revoked_token_grant_and_ticket_end_within_a_second(server):
    """RELIABILITY P6, D1"""
    admin = server.contents.admin
    admin.create_recipient("brief")
    issued = admin.issue_token("brief", expires_at=now_ms() + DAY)
    admin.grant("other", "brief")
    answer = server.query("other.eu.Orders", token=issued.text)
    url = json.loads(answer.text.splitlines()[-1])["file"]["url"]
    assert server.get(url, token=None).status_code == 200
    assert len(server.get("/shares", token=issued.text).json()["items"]) == 1
    admin.revoke("other", "brief")
    time.sleep(1)
    assert server.get("/shares", token=issued.text).json()["items"] == []
    assert server.query("other.eu.Orders", token=issued.text).status_code == 404
    assert server.get(url, token=None).status_code == 403
    admin.grant("other", "brief")
    time.sleep(1)
    assert server.get(url, token=None).status_code == 200
    assert len(server.get("/shares", token=issued.text).json()["items"]) == 1
    admin.revoke_token(issued.token.id)
    time.sleep(1)
    assert server.get("/shares", token=issued.text).status_code == 401
    assert server.query("other.eu.Orders", token=issued.text).status_code == 401
    admin.drop_recipient("brief")
    time.sleep(1)
    assert server.get(url, token=None).status_code == 403


def test_share_made_anew_has_no_old_grants(server):
    """RELIABILITY E5, DM-013"""
    admin = server.contents.admin
    admin.create_share("phoenix")
    admin.grant("phoenix", "acme")
    before = server.get("/shares/phoenix").json()["share"]["id"]
    admin.drop_share("phoenix")
    admin.create_share("phoenix")
    time.sleep(1)
    assert server.get("/shares/phoenix").status_code == 404
    admin.grant("phoenix", "acme")
    assert server.get("/shares/phoenix").json()["share"]["id"] != before
    admin.drop_share("phoenix")
    time.sleep(1)


def test_reads_are_in_the_audit_log(server):
    """DESIGN, Audit: reads are appended in batches"""
    from distributary.catalog import audit_log

    server.query("Sales.eu.Orders", headers={"X-Request-Id": "audited-query"})
    server.query("Sales.eu.latest", {"version": 0}, headers={"X-Request-Id": "audited-refusal"})
    time.sleep(1)
    with server.contents.database.read() as connection:
        events = audit_log.list_events(connection, newest=200, action="table.")
    found = {event.details.get("request_id"): event for event in events}
    assert found["audited-query"].actor == "recipient:acme"
    assert found["audited-query"].target == "Sales.eu.Orders"
    assert found["audited-query"].outcome == "allowed"
    assert found["audited-refusal"].outcome == "denied"
    with server.contents.database.read() as connection:
        audit_log.verify(connection, server.contents.keys)


def test_ten_thousand_forged_tokens_open_nothing(application: InProcess):
    """RELIABILITY D3, P5: bit flips, swapped parts, random tokens; none accepted"""
    right = application.contents.tokens["acme"]
    chooser = random.Random(5)
    forged = list(_forged(right, application.contents.tokens["rival"], chooser, 10_000))
    assert right not in forged

    async def statuses() -> set[int]:
        found = set()
        for number, token in enumerate(forged):
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            found.add((await application.send("GET", "/shares", token=token, address=address)).status)
        found.add((await application.send("GET", "/shares")).status + 1000)
        return found

    assert asyncio.run(statuses()) == {401, 1200}


def _forged(right: str, other: str, chooser: random.Random, count: int):
    prefix, number, secret = right.split("_")
    yield f"{prefix}_{number}_{other.split('_')[2]}"
    yield f"{prefix}_{other.split('_')[1]}_{secret}"
    yield right.upper()
    yield right[:-1]
    yield right + "0"
    yield f"{prefix}_{number}_"
    for _ in range(count - 6):
        text = bytearray(right.encode())
        for _ in range(chooser.randint(1, 3)):
            text[chooser.randrange(len(text))] ^= 1 << chooser.randrange(7)
        token = text.decode()
        yield token if token != right else right[::-1]


def test_wrong_tokens_of_one_address_are_slowed_down_and_right_ones_are_not(application):
    """RELIABILITY D5: no lock-out of the true recipient"""

    async def run() -> tuple[list[int], int]:
        wrong = [(await application.send("GET", "/shares", token="x" * 20)).status for _ in range(700)]
        return wrong, (await application.send("GET", "/shares")).status

    wrong, right = asyncio.run(run())
    assert set(wrong) == {401, 429}
    assert right == 200


def test_address_list_believes_only_trusted_proxies(contents):
    """RELIABILITY D9"""
    trusting = InProcess(contents, trusted_proxies=("127.0.0.0/8", "10.0.0.0/8"))
    plain = InProcess(contents)
    try:
        forwarded = {"x-forwarded-for": "203.0.113.9, 192.0.2.7, 10.1.1.1"}
        assert trusting.call("GET", "/shares", token="elsewhere", headers=forwarded).status == 200
        assert plain.call("GET", "/shares", token="elsewhere", headers=forwarded).status == 403
        spoofed = {"x-forwarded-for": "192.0.2.7, 203.0.113.9"}
        assert trusting.call("GET", "/shares", token="elsewhere", headers=spoofed).status == 403
        assert plain.call("GET", "/shares", token="elsewhere", address="192.0.2.200").status == 200
        assert plain.call("GET", "/shares", token="elsewhere", address="::ffff:192.0.2.1").status == 200
    finally:
        trusting.close()
        plain.close()
