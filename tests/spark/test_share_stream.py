"""Streams from a share of `distributary serve`: exactly once over restarts, and stops that say why."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.client import SharingClient
from distributary.spark.share_log import ShareLog, StreamRules
from distributary.spark.share_offsets import StreamPosition

sys.path.insert(0, str(Path(__file__).parent))

from shared_lake import CHANGES, SharedLake, shared_lake
from slow_workers import despite_slow_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{each}" for each in ids]}, SCHEMA)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory):
    base = tmp_path_factory.mktemp("stream")
    for name in ("grows", "changes", "rules", "widens"):
        table = ds.DeltaTable.create(base / "lake" / name, schema=SCHEMA, properties=CHANGES)
        for ids in ((1, 2), (3,), (4, 5)):
            table.append(rows(*ids))
    with shared_lake(base) as served:
        yield served


class Query:
    """A stream with a checkpoint that is started again and again; remembers what each batch gave."""

    def __init__(self, spark: SparkSession, lake: SharedLake, table: str, folder: Path, **options: Any):
        self._spark, self._url, self._folder, self._options = spark, lake.url(table), folder, options
        self.batches: list[tuple[int, list[int]]] = []
        self.rows: list[Any] = []
        self.fails_at: int | None = None

    @property
    def ids(self) -> list[int]:
        return sorted(each for _, ids in self.batches for each in ids)

    def run(self) -> list[dict[str, Any]]:
        """Read what is there now; gives the progress of each batch."""
        return despite_slow_workers(self._run)

    def _run(self) -> list[dict[str, Any]]:
        frame = self._spark.readStream.format("deltaSharing").options(**self._options).load(self._url)
        writer = frame.writeStream.option("checkpointLocation", str(self._folder)).foreachBatch(self._take)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def _take(self, batch: DataFrame, number: int) -> None:
        found = batch.collect()
        self.batches.append((number, sorted(row["id"] for row in found)))
        self.rows.extend(found)
        if number == self.fails_at:
            raise RuntimeError("the sink failed")


def test_every_row_comes_once_over_limits_failures_and_restarts(spark, lake, tmp_path):
    table = ds.DeltaTable(lake.folder / "grows")
    query = Query(spark, lake, "grows", tmp_path, maxFilesPerTrigger=1)
    query.fails_at = 1
    with pytest.raises(Exception, match="the sink failed"):
        query.run()
    # The batch that failed is repeated with the very same rows.
    failed, query.fails_at = query.batches.pop(), None
    query.run()
    assert query.batches[1] == failed
    assert query.ids == [1, 2, 3, 4, 5]
    assert len(query.batches) == 3
    table.append(rows(6))
    table.append(rows(7, 8))
    query.run()
    assert query.ids == [1, 2, 3, 4, 5, 6, 7, 8]
    before = len(query.batches)
    query.run()
    assert len(query.batches) == before
    offsets = sorted((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert '"version": 6, "index": 0' in offsets[-1].read_text()


def test_changed_rows_stop_a_stream_unless_it_is_told_what_to_do(spark, lake, tmp_path):
    from distributary.spark import DeltaTable

    path = str(lake.folder / "changes")
    plain = Query(spark, lake, "changes", tmp_path / "plain", startingVersion=1)
    plain.run()
    DeltaTable.forPath(spark, path).delete("id = 2")
    ds.DeltaTable(path).append(rows(9))
    with pytest.raises(Exception, match=r"StreamSourceChangedError.*version 4 changed rows"):
        plain.run()
    skipping = Query(spark, lake, "changes", tmp_path / "plain", startingVersion=1, skipChangeCommits="true")
    skipping.run()
    assert skipping.ids == [9]
    feed = Query(spark, lake, "changes", tmp_path / "feed", startingVersion=2, readChangeFeed="true")
    feed.run()
    found = [(row["id"], row["_change_type"], row["_commit_version"]) for row in feed.rows]
    assert sorted(found) == [
        (2, "delete", 4),
        (3, "insert", 2),
        (4, "insert", 3),
        (5, "insert", 3),
        (9, "insert", 5),
    ]
    whole = Query(spark, lake, "changes", tmp_path / "whole", readChangeFeed="true")
    whole.run()
    assert [(row["id"], row["_change_type"]) for row in sorted(whole.rows)] == [
        (each, "insert") for each in (1, 3, 4, 5, 9)
    ]


def test_rules_say_what_becomes_of_versions_that_remove_or_change(spark, lake):
    from distributary.spark import DeltaTable

    for condition in ("id = 3", "id = 2"):
        DeltaTable.forPath(spark, str(lake.folder / "rules")).delete(condition)
    expected = {
        (): {4: "removed", 5: "changed"},
        ("ignore_deletes",): {4: 0, 5: "changed"},
        ("ignore_changes",): {4: 0, 5: 1},
        ("skip_change_commits",): {4: 0, 5: 0},
    }
    with SharingClient(lake.profile) as client:
        table = client.table("lake.default.rules")
        start = StreamPosition(table_id=table.metadata.id, version=4)
        for names, outcome in expected.items():
            log = ShareLog(table, table.schema, StreamRules(**dict.fromkeys(names, True)))
            (window,) = log.windows(start, log.latest())
            for found in window.versions:
                want = outcome[found.version]
                if isinstance(want, str):
                    assert f"version {found.version} {want} rows" in str(found.problem)
                else:
                    assert (len(found.files), found.problem) == (want, None)


def test_new_columns_stop_a_stream_after_all_rows_before_them_and_a_reload_goes_on(spark, lake, tmp_path):
    table = ds.DeltaTable(lake.folder / "widens")
    query = Query(spark, lake, "widens", tmp_path, startingVersion="1", maxVersionsPerRpc=2)
    frame = spark.readStream.format("deltaSharing").option("startingVersion", 1).load(lake.url("widens"))
    table.append(pa.table({"id": [6], "name": ["n6"], "more": [1.5]}), merge_schema=True)
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(query._take)
    with pytest.raises(Exception, match=r"ShareSchemaChangedError.*version 4 has a column more"):
        despite_slow_workers(lambda: writer.trigger(availableNow=True).start().awaitTermination())
    assert query.ids == [1, 2, 3, 4, 5]
    query.run()
    assert query.ids == [1, 2, 3, 4, 5, 6]
    assert query.rows[-1].asDict() == {"id": 6, "name": "n6", "more": 1.5}


def test_versions_and_times_of_a_served_table_are_read(spark, lake):
    reader = spark.read.format("deltaSharing")
    url = lake.url("changes")
    assert reader.option("versionAsOf", 2).load(url).count() == 3
    committed = ds.DeltaTable(lake.folder / "changes").history()
    moment = next(entry.timestamp for entry in committed if entry.version == 1)
    text = datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC).isoformat()
    assert spark.read.format("deltaSharing").option("timestampAsOf", text).load(url).count() == 2


def test_checkpoint_of_another_table_is_refused(spark, lake, tmp_path):
    Query(spark, lake, "grows", tmp_path, startingVersion="latest").run()
    other = Query(spark, lake, "widens", tmp_path)
    ds.DeltaTable(lake.folder / "widens").append(rows(77))
    with pytest.raises(Exception, match="another table than the one that the checkpoint is of"):
        other.run()
