"""Listing shares, schemas and tables over HTTP."""

from __future__ import annotations

import pytest
from sharing_world.asgi import InProcess
from sharing_world.running import RunningServer


def test_list_shares_gives_granted_shares_with_their_facts(server: RunningServer):
    """REST-101, REST-102, REST-103, REST-012, DM-012, DM-014, DM-015, DM-016, DM-031, DM-035"""
    answer = server.get("/shares")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    empty, sales = answer.json()["items"]
    assert empty["name"] == "empty"
    assert (sales["name"], sales["comment"], sales["displayName"]) == ("Sales", "Orders", "Sales, all")
    assert sales["properties"] == {"owner": "shop"}
    assert len(sales["id"]) == 36
    assert "nextPageToken" not in answer.json()


def test_get_share_by_any_casing(server):
    """REST-110, REST-111, REST-003, DM-011, DM-013"""
    found = server.get("/shares/sALES").json()["share"]
    assert found == next(item for item in server.get("/shares").json()["items"] if item["name"] == "Sales")


def test_list_schemas(server):
    """REST-120, REST-121, DM-017, DM-018, DM-019"""
    items = server.get("/shares/sales/schemas").json()["items"]
    assert {"name": "eu", "share": "Sales"} in items
    assert {"name": "us", "share": "Sales"} in items


def test_schemas_of_an_empty_share(server):
    """REST-037, DM-001"""
    assert server.get("/shares/empty/schemas").json() == {"items": []}


def test_list_tables_of_a_schema(server):
    """REST-130, REST-131, DM-020, DM-021, DM-022, DM-023, DM-024, DM-027, C-11"""
    items = server.get("/shares/Sales/schemas/EU/tables").json()["items"]
    assert [item["name"] for item in items] == ["french", "late", "latest", "Orders"]
    share = server.get("/shares/sales").json()["share"]
    for item in items:
        assert item["schema"] == "eu"
        assert item["share"] == "Sales"
        assert item["shareId"] == share["id"]
        assert len(item["id"]) == 36
        assert not {"location", "accessModes", "auxiliaryLocations"} & set(item)


def test_table_with_directory_access_shows_its_location(server):
    """DM-025, AM-015"""
    items = server.get("/shares/Sales/schemas/us/tables").json()["items"]
    directory = next(item for item in items if item["name"] == "directory")
    assert directory["accessModes"] == ["dir"]
    assert directory["location"].endswith("/lake/orders")


def test_all_tables_of_a_share(server):
    """REST-140, REST-141, DM-003"""
    items = server.get("/shares/Sales/all-tables").json()["items"]
    names = [(item["schema"], item["name"]) for item in items]
    assert ("eu", "Orders") in names
    assert ("us", "wide") in names
    assert names == sorted(names, key=lambda pair: (pair[0].casefold(), pair[1].casefold()))


@pytest.mark.parametrize("path", ["/shares", "/shares/Sales/all-tables", "/shares/Sales/schemas"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pages_together_are_the_whole_list(server, path, size):
    """REST-030, REST-033, REST-034, REST-035, REST-036, REST-039"""
    whole = server.get(path).json()["items"]
    found, token, pages = [], "", 0
    while token is not None:
        page = server.get(f"{path}?maxResults={size}" + (f"&pageToken={token}" if token else "")).json()
        assert len(page["items"]) <= size
        found += page["items"]
        token = page.get("nextPageToken") or None
        pages += 1
    assert found == whole
    assert pages == -(-len(whole) // size)


def test_no_results_wanted_gives_none(server):
    """REST-032"""
    assert server.get("/shares?maxResults=0").json()["items"] == []


@pytest.mark.parametrize("value", ["-1", "abc", "1.5", "", "99999999999", "1e3", "%20"])
def test_bad_page_size_is_refused(server, value):
    """REST-031, REST-007"""
    answer = server.get(f"/shares?maxResults={value}")
    assert answer.status_code == 400
    assert answer.json()["errorCode"] == "INVALID_PARAMETER_VALUE"


def test_large_page_size_is_clamped(server):
    """REST-039, C-40"""
    assert server.get("/shares?maxResults=2147483647").status_code == 200


def test_page_token_of_another_list_recipient_or_making_is_refused(server):
    """REST-038"""
    token = server.get("/shares/Sales/all-tables?maxResults=1").json()["nextPageToken"]
    assert server.get(f"/shares/Sales/all-tables?maxResults=1&pageToken={token}").status_code == 200
    for path in ("/shares", "/shares/Sales/schemas", "/shares/Sales/schemas/eu/tables"):
        assert server.get(f"{path}?pageToken={token}").status_code == 400
    assert server.get(f"/shares/Sales/all-tables?pageToken={token}x").status_code == 400
    assert server.get("/shares/Sales/all-tables?pageToken=eyJhIjoxfQ").status_code == 400
    assert server.get(f"/shares/Sales/all-tables?pageToken={token}", token="colleague").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/shares/nothing",
        "/shares/other",
        "/shares/nothing/schemas",
        "/shares/Sales/schemas/nothing/tables",
        "/shares/other/all-tables",
        "/shares/a%2Fb",
        "/shares/..%2f..%2fetc/schemas",
        "/shares/%ff",
        "/shares/" + "a" * 300,
        "/nothing",
        "/",
        "",
        "/shares/",
    ],
)
def test_what_is_not_there_or_not_granted_is_404(server, path):
    """REST-010, REST-112, REST-122, REST-132, REST-015, REST-005, REST-006, C-01"""
    answer = server.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"errorCode", "message"}
    assert answer.json()["errorCode"] == "RESOURCE_DOES_NOT_EXIST"


def test_not_granted_and_not_there_are_the_same_answer(server):
    """REST-015, RELIABILITY E1"""
    assert server.get("/shares/other").content == server.get("/shares/absent").content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_405(server, method):
    answer = server.request(method, "/shares")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert set(answer.json()) == {"errorCode", "message"}


def test_head_of_a_list_has_headers_and_no_body(server):
    """REST-019, C-23"""
    assert server.request("HEAD", "/shares").status_code == 200
    missing = server.request("HEAD", "/shares/absent")
    assert (missing.status_code, missing.content) == (404, b"")


@pytest.mark.parametrize("prefix", ["/api/v1/delta-sharing", "/x"])
def test_prefix_is_configurable(contents, prefix):
    """REST-002: everything is below it, nothing of the protocol beside it; C-43: shareId is the share's"""
    application = InProcess(contents, prefix=prefix)
    try:
        shares = application.call("GET", f"{prefix}/shares").json["items"]
        tables = application.call("GET", f"{prefix}/shares/Sales/all-tables").json["items"]
        assert {table["shareId"] for table in tables} == {
            share["id"] for share in shares if share["name"] == "Sales"
        }
        assert application.call("GET", f"{prefix}x/shares").status == 404
        assert application.call("GET", "/delta-sharing/shares").status == 404
    finally:
        application.close()


def test_every_answer_has_a_request_id(server):
    assert (
        server.get("/shares", headers={"X-Request-Id": "client-1234"}).headers["x-request-id"]
        == "client-1234"
    )
    poisoned = server.get("/shares", headers={"X-Request-Id": "a b;c"}).headers["x-request-id"]
    assert poisoned != "a b;c"
    assert server.get("/shares/absent").headers["x-request-id"]
