"""readStream.format("deltaSharing"): the rows that a shared table gets, each once, from version to version.

A stream begins with the whole table (or where `startingVersion` or `startingTimestamp` says) and goes on
with the files that each version adds; with `readChangeFeed`, with the changes. Offsets are positions in an
order of files that does not change (`share_offsets`), so a batch that is repeated after a failure reads the
same rows: with a sink that can be repeated, every row arrives exactly once. Versions whose columns the
stream does not have stop it with an error, after all rows before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType as SparkStruct

from distributary.client.read_task import TASK_BYTES
from distributary.client.table_answer import TableAnswer
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.expressions.sql_parser import parse_predicate
from distributary.sharing.profile import Profile
from distributary.spark.positioned_stream import FILES_PER_TRIGGER, PositionedStream
from distributary.spark.share_log import ShareLog
from distributary.spark.share_offsets import BatchLimit, StreamPosition, VersionFiles, between
from distributary.spark.share_options import ShareOptions
from distributary.spark.share_partition import TaskPartition
from distributary.spark.share_schema import check_columns, readable
from distributary.spark.stream_rules import StreamRules


class ShareStream(PositionedStream[ShareLog]):
    """Reads what a shared table gets, in batches."""

    def __init__(
        self, options: ShareOptions, profile: Profile, loaded: TableAnswer, schema: SparkStruct
    ) -> None:
        self._options = options
        self._profile = profile
        self._loaded = loaded
        self._columns = tuple(schema.names)
        table = (loaded.metadata.id, str(options.table_name))
        files = options.number("maxFilesPerTrigger") or FILES_PER_TRIGGER
        limit = BatchLimit(files, options.size("maxBytesPerTrigger"))
        start = (options.get("startingVersion"), options.get("startingTimestamp"))
        super().__init__(table, stream_rules(options), limit, start)
        check_columns(schema, self._schema, changes=self._rules.changes, where=self._table_name)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files of one batch, in tasks of similar size."""
        first, last, upto = self._batch(start, end)
        size = self._options.size("bytesPerTask") or TASK_BYTES
        text = self._options.get("where")
        parts: list[InputPartition] = []
        for window in self._versions().windows(first, upto):
            chosen = between(first, last, window.versions)
            if chosen:
                task = window.task.narrowed(chosen).with_schema(readable(self._schema), self._loaded)
                predicate = parse_predicate(text) if text else None
                task = replace(task, columns=self._columns, predicate=predicate)
                parts.extend(TaskPartition(part) for part in task.split(size))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files; runs on executors."""
        assert isinstance(partition, TaskPartition)
        yield from partition.task.batches()

    @property
    def _schema(self) -> StructType:
        return parse_schema(self._loaded.metadata.schema_string or "{}")

    def _open_log(self) -> ShareLog:
        return ShareLog(self._options.table(self._profile), self._schema, self._rules)

    def _following(self, position: StreamPosition, last: int) -> Iterator[VersionFiles]:
        return (found for window in self._versions().windows(position, last) for found in window.versions)


def stream_rules(options: ShareOptions) -> StreamRules:
    """What the options say about versions that do more than add."""
    at_once = options.number("maxVersionsPerRpc")
    seconds = options.number("queryTableVersionIntervalSeconds")
    return StreamRules(
        changes=options.reads_changes,
        skip_change_commits=options.flag("skipChangeCommits"),
        ignore_deletes=options.flag("ignoreDeletes"),
        ignore_changes=options.flag("ignoreChanges"),
        versions_at_once=max(1, StreamRules().versions_at_once if at_once is None else at_once),
        version_seconds=StreamRules().version_seconds if seconds is None else seconds,
    )
