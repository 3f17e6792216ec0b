"""The versions that a stream asks a server for: the same order every time, and no more often than told."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
from distributary.client import SharingClient
from distributary.spark.share_log import ShareLog, StreamRules
from distributary.spark.share_offsets import StreamPosition

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def server(tmp_path: Path):
    rows = pa.table({"id": [1, 2, 3]})
    table = ds.DeltaTable.create(tmp_path / "t", schema=rows.schema)
    for _ in range(3):
        table.append(rows)
    with scripted_server(tmp_path, "delta") as served:
        yield served


def log(server: ScriptedServer, **rules) -> ShareLog:
    table = SharingClient(server.profile, retry_seconds=2.0).table("s.c.t")
    return ShareLog(table, table.schema, StreamRules(**rules))


def test_latest_version_is_believed_for_a_while(server):
    asked = log(server)
    assert [asked.latest(at_least=4) for _ in range(5)] == [3] * 5
    assert len(server.asked_for("/version")) == 1
    eager = log(server, version_seconds=0)
    assert [eager.latest(at_least=4) for _ in range(3)] == [3] * 3
    assert len(server.asked_for("/version")) == 4
    # Who is behind it needs no newer one, however old it is.
    assert eager.latest(at_least=2) == 3
    assert len(server.asked_for("/version")) == 4


def test_snapshot_has_one_order_and_is_asked_for_once_a_batch(server):
    start = StreamPosition(table_id="any", version=3, snapshot=True)
    first, second = log(server), log(server)
    orders = [
        [file.action.path for window in each.windows(start, 3) for file in window.versions[0].files]
        for each in (first, first, second)
    ]
    assert orders[0] == sorted(orders[0])
    assert len(orders[0]) == 3
    assert orders[0] == orders[1] == orders[2]
    assert [asked.json["version"] for asked in server.asked_for("/query")] == [3, 3]
    first.forget()
    list(first.windows(start, 3))
    assert len(server.asked_for("/query")) == 3
