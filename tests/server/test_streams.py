"""Streams: readers that are slow, that leave, that are many; memory stays small (RELIABILITY C2, C4, C9)."""

from __future__ import annotations

import json
import threading
import time

import pytest
from sharing_world.processes import active, descriptors, opened, resident, until
from sharing_world.running import RunningServer, lines


@pytest.fixture(scope="module")
def warm(server) -> RunningServer:
    assert len(lines(server.query("Sales.us.wide"))) == 30_002
    return server


def test_long_answer_comes_in_chunks_with_every_line(warm):
    """REST-014, REST-176"""
    answer = warm.query("Sales.us.wide")
    assert "content-length" not in answer.headers
    ids = {json.loads(line)["file"]["id"] for line in answer.text.splitlines()[2:]}
    assert len(ids) == 30_000


def test_readers_that_do_not_read_hold_little_memory(warm):
    """RELIABILITY C4: at most 64 MiB a stream, and others are answered meanwhile"""
    before = resident(warm)
    connections = [opened(warm) for _ in range(6)]
    try:
        for connection in connections:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(1)
        assert resident(warm) - before < 6 * 64 * 2**20
        assert warm.get("/shares").status_code == 200
    finally:
        for connection in connections:
            connection.close()
    assert until(lambda: active(warm) == 0)


def test_clients_that_leave_leave_nothing_behind(warm):
    """RELIABILITY C2: work stops, no descriptor and no place of a limit stays taken"""
    opened(warm).close()
    assert until(lambda: active(warm) == 0)
    before = descriptors(warm)
    for _ in range(40):
        connection = opened(warm)
        connection.recv(100)
        connection.close()
    assert until(lambda: active(warm) == 0)
    assert until(lambda: descriptors(warm) <= before + 8)
    assert len(lines(warm.query("Sales.us.wide", {"limitHint": 1}))) == 3


def test_many_small_reads_of_a_large_table_need_no_memory_each(warm):
    """RELIABILITY C9 in a fast form: fifty at once, one file each"""
    warm.query("Sales.us.wide", {"limitHint": 1})
    before = resident(warm)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(warm.query("Sales.us.wide", {"limitHint": 1}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 50
    assert resident(warm) - before < 256 * 2**20


def test_lists_are_answered_while_long_queries_run(warm):
    """DESIGN, Server: one recipient's large query does not hold up another's list"""
    results: list[int] = []

    def query() -> None:
        results.append(len(warm.query("Sales.us.wide").content))

    threads = [threading.Thread(target=query) for _ in range(4)]
    for thread in threads:
        thread.start()
    answered = 0
    while any(thread.is_alive() for thread in threads):
        assert warm.get("/shares", token="rival").status_code == 200
        answered += 1
    assert answered > 0
    assert len(set(results)) == 1
