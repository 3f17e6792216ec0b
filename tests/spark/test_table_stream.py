"""Streams from a Delta table: every row once over limits, failures and restarts, and stops that say why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.errors import DistributaryError
from distributary.spark.share_offsets import BatchLimit, StreamPosition, advanced, between
from distributary.spark.stream_rules import StreamRules
from distributary.spark.table_log import TableLog

sys.path.insert(0, str(Path(__file__).parent))

from slow_workers import despite_slow_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32())])
FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [each % 2 for each in ids]}, SCHEMA)


def made(path: Path, properties: dict[str, str] | None = None) -> ds.DeltaTable:
    """Versions 1 to 3 with the rows 1 to 5; partitions, so that most versions have two files."""
    table = ds.DeltaTable.create(path, SCHEMA, partition_by=["p"], properties=properties)
    for ids in ((1, 2), (3,), (4, 5)):
        table.append(rows(*ids))
    return table


class Query:
    """A stream with a checkpoint that is started again and again; remembers what each batch gave."""

    def __init__(self, spark: SparkSession, path: Path, folder: Path, **options: Any) -> None:
        self._spark, self._path, self._folder, self._options = spark, str(path), folder, options
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        self.fails_at: int | None = None

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for batch in self.batches.values() for row in batch)

    def load(self) -> DataFrame:
        """The stream with the columns that the table has now."""
        from distributary.spark import read_stream

        return read_stream(self._spark, self._path, **self._options)

    def run(self, loaded: DataFrame | None = None) -> None:
        """Read what is there now."""
        despite_slow_workers(lambda: self._run(self.load() if loaded is None else loaded))

    def _run(self, frame: DataFrame) -> None:
        writer = frame.writeStream.option("checkpointLocation", str(self._folder)).foreachBatch(self._take)
        writer.trigger(availableNow=True).start().awaitTermination()

    def _take(self, batch: DataFrame, number: int) -> None:
        # A batch that is run again replaces what it gave before, as a sink that can be repeated does.
        self.batches[number] = [tuple(row) for row in batch.drop("_commit_timestamp").collect()]
        if number == self.fails_at:
            self.fails_at = None
            raise RuntimeError("the sink failed")


def test_every_row_comes_once_over_limits_failures_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    query = Query(spark, tmp_path / "t", tmp_path / "checkpoint", max_files_per_trigger=2)
    query.fails_at = 1
    with pytest.raises(Exception, match="the sink failed"):
        query.run()
    table.append(rows(6, 7))
    query.run()
    assert query.rows == [(each, each % 2) for each in range(1, 8)]
    assert all(len(batch) <= 2 for batch in query.batches.values())
    query.batches.clear()
    loaded = query.load()
    table.append(rows(8))
    table.append(rows(9).append_column("more", pa.array(["x"])), merge_schema=True)
    with pytest.raises(Exception, match="has a column more, which the stream does not have"):
        query.run(loaded)
    query.run()
    assert query.rows == [(8, 0), (9, 1, "x")]


def test_changes_follow_the_rows_of_the_first_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    from distributary.spark.delete_update import delete, update

    path = tmp_path / "t"
    table = made(path, {**FEED, "delta.enableDeletionVectors": "true"})
    query = Query(spark, path, tmp_path / "checkpoint", read_changes=True)
    query.run()
    assert query.rows == [(each, each % 2, "insert", 3) for each in range(1, 6)]
    query.batches.clear()
    update(spark, str(path), {"id": "id + 10"}, "id = 2")
    delete(spark, str(path), "id = 3")
    table.append(rows(6))
    query.run()
    assert query.rows == [
        (2, 0, "update_preimage", 4),
        (3, 1, "delete", 5),
        (6, 0, "insert", 6),
        (12, 0, "update_postimage", 4),
    ]
    plain = Query(spark, path, tmp_path / "plain", starting_version=3)
    with pytest.raises(Exception, match="version 4 changed rows"):
        plain.run()
    assert plain.rows == [(4, 0), (5, 1)]


def batches_of(log: TableLog, start: StreamPosition, last: int, limit: BatchLimit) -> list[list[str]]:
    """The paths that each batch of a stream reads, until it stands still."""
    found: list[list[str]] = []
    while (end := advanced(start, log.versions(start, last), limit, whole=False)) != start:
        upto = end.version if end.index else end.version - 1
        found.append([file.action.path for file in between(start, end, log.versions(start, upto))])
        start = end
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_positions_cover_the_files_of_the_log_once_in_order(tmp_path: Path, limit: int) -> None:
    table = made(tmp_path / "t")
    loaded = table.snapshot().state
    log = TableLog(table, loaded, StreamRules())
    identity = loaded.metadata.id
    for version, snapshot in ((3, True), (0, False), (1, True), (2, False)):
        start = StreamPosition(table_id=identity, version=version, snapshot=snapshot)
        batches = batches_of(log, start, 3, BatchLimit(limit))
        at = table.snapshot(version if snapshot else version - 1).state.files if version else None
        before = set() if at is None or not at.num_files else set(at.column("path").to_pylist())
        now = set(loaded.files.column("path").to_pylist())
        wanted = now if snapshot else now - before
        assert sorted(path for batch in batches for path in batch) == sorted(wanted)
        assert all(len(batch) <= limit for batch in batches)


@pytest.mark.parametrize(
    ("rules", "stops"),
    [
        (StreamRules(), True),
        (StreamRules(skip_change_commits=True), False),
        (StreamRules(ignore_deletes=True), True),
        (StreamRules(ignore_changes=True), False),
    ],
)
def test_versions_that_change_rows_follow_the_rules(tmp_path: Path, rules: StreamRules, stops: bool) -> None:
    table = made(tmp_path / "t")
    table.overwrite(rows_of_partition(), replace_where="p = 0")
    loaded = table.snapshot().state
    log = TableLog(table, loaded, rules)
    start = StreamPosition(table_id=loaded.metadata.id, version=4)
    if stops:
        with pytest.raises(DistributaryError, match="version 4 changed rows"):
            batches_of(log, start, 4, BatchLimit())
    else:
        batches = batches_of(log, start, 4, BatchLimit())
        assert sum(map(len, batches)) == (0 if rules.skip_change_commits else 1)


def rows_of_partition() -> pa.Table:
    return rows(20, 22)
