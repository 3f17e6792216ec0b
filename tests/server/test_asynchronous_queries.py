"""Asynchronous queries over HTTP: submitted once, run in the background, polled at any worker (A8)."""

from __future__ import annotations

import time
import uuid

import pytest
from sharing_world.running import RunningServer, lines, table_path

ORDERS = "Sales.eu.Orders"
ASYNC = {"delta-sharing-capabilities": "responseformat=parquet;asyncquery=true"}


def submit(server: RunningServer, body: dict, **more):
    return server.query(ORDERS, body, headers=ASYNC, **more)


def poll(server: RunningServer, query_id: str, body: dict | None = None, **more):
    return server.request("POST", f"{table_path(ORDERS)}/queries/{query_id}", body=body or {}, **more)


def finished(server: RunningServer, query_id: str, body: dict | None = None):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = poll(server, query_id, body)
        if answer.status_code != 200 or "queryStatus" not in answer.text:
            return answer
        assert answer.headers["delta-table-version"]
        time.sleep(0.1)
    raise AssertionError("the query never came to an end")


def query_id(answer) -> str:
    (line,) = lines(answer)
    assert line["queryStatus"]["status"] == "pending"
    assert "asyncquery=true" in answer.headers["delta-sharing-capabilities"]
    return line["queryStatus"]["queryId"]


def test_result_is_what_a_query_at_once_gives(server):
    found = finished(server, query_id(submit(server, {"idempotencyKey": uuid.uuid4().hex})))
    at_once = server.query(ORDERS)
    assert [line.get("file", {}).get("id") for line in lines(found) if "endStreamAction" not in line] == [
        line.get("file", {}).get("id") for line in lines(at_once)
    ]
    assert found.headers["delta-table-version"] == at_once.headers["delta-table-version"]


def test_same_key_gives_the_same_query_and_another_request_a_conflict(server):
    key = uuid.uuid4().hex
    first = query_id(submit(server, {"idempotencyKey": key, "limitHint": 3}))
    assert query_id(submit(server, {"idempotency_key": key, "limitHint": 3})) == first
    conflict = submit(server, {"idempotencyKey": key, "limitHint": 4})
    assert conflict.status_code == 409
    assert conflict.json()["errorCode"] == "RESOURCE_CONFLICT"


def test_result_comes_in_pages(server):
    submitted = query_id(submit(server, {"idempotencyKey": uuid.uuid4().hex}))
    found, body = [], {"maxFiles": 2}
    while True:
        *page, end = lines(finished(server, submitted, body))
        found += [line["file"]["id"] for line in page if "file" in line]
        token = end["endStreamAction"].get("nextPageToken")
        if not token:
            break
        body = {"maxFiles": 2, "pageToken": token}
    assert sorted(found) == sorted(line["file"]["id"] for line in lines(server.query(ORDERS))[2:])


@pytest.mark.parametrize("body", [{}, {"idempotencyKey": ""}, {"idempotencyKey": "x" * 300}])
def test_query_without_a_key_is_400(server, body):
    assert submit(server, body).status_code == 400


def test_query_that_fails_tells_so_by_its_status(server):
    submitted = query_id(submit(server, {"idempotencyKey": uuid.uuid4().hex, "version": 99}))
    failed = finished(server, submitted)
    assert failed.status_code == 400
    assert failed.json()["errorCode"] == "INVALID_PARAMETER_VALUE"


def test_query_of_someone_else_is_not_there(server):
    submitted = query_id(submit(server, {"idempotencyKey": uuid.uuid4().hex}))
    assert poll(server, uuid.uuid4().hex).status_code == 404
    assert poll(server, submitted, token="colleague").status_code == 404
    other = f"{table_path('Sales.eu.late')}/queries/{submitted}"
    assert server.request("POST", other, body={}).status_code == 404
