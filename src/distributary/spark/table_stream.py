"""readStream.format("distributary"): the rows that a Delta table gets, each once, from version to version.

A stream begins with the whole table (or where `startingVersion` or `startingTimestamp` says) and goes on
with the files that each version adds; with `readChangeFeed`, with the changes, the rows of the first snapshot
being inserts. Offsets are positions in an order of files that never changes (`share_offsets`), so that a
batch that is repeated after a failure reads the same rows: with a sink that can be repeated, every row
arrives exactly once. Deletion vectors, column mapping and partition values are the work of the engine's
reader, which runs on executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from distributary.delta.log.actions import Add
from distributary.delta.log.history import timeline
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.change_data_feed import CHANGE_COLUMNS, INSERT, ChangeScan
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.table import DeltaTable
from distributary.spark.positioned_stream import PositionedStream
from distributary.spark.share_offsets import BatchLimit, StreamPosition, VersionFiles, between
from distributary.spark.shipped_state import ShippedFiles, ship_files
from distributary.spark.stream_rules import StreamRules
from distributary.spark.table_log import TableLog
from distributary.spark.table_store import trusted_roots

FORMAT = "distributary"
_BYTES_PER_TASK = 128 << 20


def read_stream(
    spark: SparkSession,
    path: str,
    *,
    starting_version: int | str | None = None,
    starting_timestamp: str | None = None,
    max_files_per_trigger: int | None = None,
    max_bytes_per_trigger: int | str | None = None,
    skip_change_commits: bool = False,
    ignore_deletes: bool = False,
    ignore_changes: bool = False,
    read_changes: bool = False,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> DataFrame:
    """A streaming DataFrame of what a Delta table gets: the whole table first, then what versions add.

    - `starting_version` (a number, or "latest" for what comes from now on) and `starting_timestamp`: begin
      there instead, without the rows from before.
    - `max_files_per_trigger`, `max_bytes_per_trigger` ("64m"): bound a batch; at least one file is read.
    - A version that changed or removed rows stops the stream, unless `skip_change_commits` passes over such
      versions, `ignore_deletes` over those that only removed rows, or `ignore_changes` lets the rows of
      rewritten files come again.
    - `read_changes`: the change data feed, with `_change_type`, `_commit_version` and `_commit_timestamp`.
    """
    from distributary.spark.format_source import register_format  # noqa: PLC0415  # it needs this module

    register_format(spark)
    given: dict[str, object | None] = {
        "startingVersion": starting_version,
        "startingTimestamp": starting_timestamp,
        "maxFilesPerTrigger": max_files_per_trigger,
        "maxBytesPerTrigger": max_bytes_per_trigger,
        "skipChangeCommits": skip_change_commits or None,
        "ignoreDeletes": ignore_deletes or None,
        "ignoreChanges": ignore_changes or None,
        "readChangeFeed": read_changes or None,
        "allowedRoots": ",".join(trusted_roots(spark, allowed_roots)) or None,
        **{f"storage.{name}": value for name, value in (storage_options or {}).items()},
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    return spark.readStream.format(FORMAT).options(**options).load(path)


class TableOptions:
    """What a stream needs of the options of a read: all of it can travel to tasks."""

    def __init__(self, path: str, storage_options: Mapping[str, str], allowed_roots: Sequence[str]) -> None:
        self.path = path
        self.storage_options = dict(storage_options)
        self.allowed_roots = tuple(allowed_roots)

    def table(self) -> DeltaTable:
        """The engine's view of the table."""
        return DeltaTable(self.path, self.storage_options or None, allowed_roots=self.allowed_roots)


class StreamPartition(InputPartition):
    """Some files of a snapshot or of a version; or the changes of a version, which has no files here."""

    def __init__(self, files: ShippedFiles, inserted: tuple[int, int] | None = None) -> None:
        super().__init__(None)
        self.files = files
        self.inserted = inserted
        """Version and time of rows that are shown as inserts."""


class TableStream(PositionedStream[TableLog]):
    """Reads what a table gets, in batches."""

    def __init__(
        self,
        where: TableOptions,
        loaded: Snapshot,
        rules: StreamRules,
        limit: BatchLimit,
        start: tuple[str | None, str | None],
    ) -> None:
        self._where = where
        self._state = ship_files(loaded, ())
        super().__init__((loaded.metadata.id, where.path), rules, limit, start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files of one batch, in tasks of similar size; changes by version."""
        first, last, upto = self._batch(start, end)
        parts: list[InputPartition] = []
        for found in self._versions().versions(first, upto):
            files = [file.action for file in between(first, last, [found])]
            if self._rules.changes and not found.snapshot:
                parts += [StreamPartition(self._shipped((), found.version))] if files else []
                continue
            inserted = self._inserted(found.version) if self._rules.changes and files else None
            adds = [file for file in files if isinstance(file, Add)]
            parts += [StreamPartition(self._shipped(group), inserted) for group in _groups(adds)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files, or the changes of a version; runs on executors."""
        assert isinstance(partition, StreamPartition)
        store = self._where.table().store
        state = partition.files.snapshot()
        if self._rules.changes and partition.inserted is None:
            yield from ChangeScan(store, state.version, state).batches()
            return
        for batch in TableScan(state, store).batches():
            yield batch if partition.inserted is None else _as_inserts(batch, *partition.inserted)

    def _shipped(self, files: Sequence[Add], version: int | None = None) -> ShippedFiles:
        state = self._state
        number = state.version if version is None else version
        return ShippedFiles(state.root, number, state.metadata, state.protocol, tuple(files), state.domains)

    def _inserted(self, version: int) -> tuple[int, int]:
        table = self._where.table()
        return version, timeline(table.store, table.snapshot().state).time_of(version)

    def _open_log(self) -> TableLog:
        return TableLog(self._where.table(), self._state.snapshot(), self._rules)

    def _following(self, position: StreamPosition, last: int) -> Iterator[VersionFiles]:
        return self._versions().versions(position, last)


def _groups(adds: Sequence[Add]) -> Iterator[list[Add]]:
    """Files in tasks of about the same size."""
    group: list[Add] = []
    size = 0
    for add in adds:
        if group and size + add.size > _BYTES_PER_TASK:
            yield group
            group, size = [], 0
        group.append(add)
        size += add.size
    if group:
        yield group


def _as_inserts(batch: pa.RecordBatch, version: int, moment: int) -> pa.RecordBatch:
    """Rows of a snapshot as the change feed shows rows that were inserted."""
    values = (INSERT, version, pa.scalar(moment * 1000, pa.timestamp("us", tz="UTC")))
    for column, value in zip(CHANGE_COLUMNS, values, strict=True):
        constant = pa.repeat(pa.scalar(value) if not isinstance(value, pa.Scalar) else value, batch.num_rows)
        batch = batch.append_column(column.name, constant.cast(arrow_type(column.data_type)))
    return batch
