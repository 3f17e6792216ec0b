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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType as SparkStruct

from distributary.client.read_task import TASK_BYTES
from distributary.client.table_answer import TableAnswer
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.errors import InvalidInputError
from distributary.expressions.sql_parser import parse_predicate
from distributary.sharing.profile import Profile
from distributary.spark.errors import StreamSourceChangedError
from distributary.spark.share_log import ShareLog
from distributary.spark.share_offsets import BatchLimit, StreamPosition, advanced, between, read_offset
from distributary.spark.share_options import ShareOptions
from distributary.spark.share_partition import TaskPartition
from distributary.spark.share_schema import check_columns, readable
from distributary.spark.stream_rules import StreamRules

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1 has no limits for Python sources

        class SupportsTriggerAvailableNow:
            """Marks nothing there."""


_FILES_PER_TRIGGER = 1000


class ShareStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a shared table gets, in batches."""

    def __init__(
        self, options: ShareOptions, profile: Profile, loaded: TableAnswer, schema: SparkStruct
    ) -> None:
        self._options = options
        self._profile = profile
        self._loaded = loaded
        self._columns = tuple(schema.names)
        self._rules = stream_rules(options)
        self._limit = BatchLimit(
            options.number("maxFilesPerTrigger") or _FILES_PER_TRIGGER, options.size("maxBytesPerTrigger")
        )
        self._log: ShareLog | None = None
        self._until: int | None = None
        self._reached: StreamPosition | None = None
        where = str(options.table_name)
        check_columns(schema, self._schema, changes=self._rules.changes, where=where)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's names
        """Where a new stream begins."""
        self._reached = self._first_position()
        return self._reached.to_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tells Spark that batches have a limit; `latestOffset` applies all of the options."""
        from pyspark.sql.streaming.datasource import ReadMaxFiles  # noqa: PLC0415  # not in PySpark 4.1

        return ReadMaxFiles(self._limit.files or _FILES_PER_TRIGGER)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the version that is the latest now, and then end."""
        self._until = self._versions().latest()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends. PySpark 4.1 gives no start: then it is where the last batch ended."""
        position = self._reached if start is None else self._position(start)
        log = self._versions()
        if position is None:
            latest = log.latest(at_least=0)
            return StreamPosition(table_id=self._loaded.metadata.id, version=latest + 1).to_offset()
        last = self._until if self._until is not None else log.latest(at_least=position.version)
        found = (version for window in log.windows(position, last) for version in window.versions)
        bounds = BatchLimit() if type(limit).__name__ == "ReadAllAvailable" else self._limit
        end = advanced(position, found, bounds, whole=self._rules.changes)
        return end.to_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files of one batch, in tasks of similar size."""
        first, last = self._position(start), self._position(end)
        self._reached = last
        size = self._options.size("bytesPerTask") or TASK_BYTES
        text = self._options.get("where")
        parts: list[InputPartition] = []
        for window in self._versions().windows(first, last.version if last.index else last.version - 1):
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

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is over."""
        self._versions().forget()

    @property
    def _schema(self) -> StructType:
        return parse_schema(self._loaded.metadata.schema_string or "{}")

    def _versions(self) -> ShareLog:
        if self._log is None:
            self._log = ShareLog(self._options.table(self._profile), self._schema, self._rules)
        return self._log

    def _first_position(self) -> StreamPosition:
        version, moment = self._options.get("startingVersion"), self._options.get("startingTimestamp")
        if version is not None and moment is not None:
            raise InvalidInputError("give startingVersion or startingTimestamp, not both")
        log, table_id = self._versions(), self._loaded.metadata.id
        if moment is not None:
            return StreamPosition(table_id=table_id, version=log.first_version_since(moment))
        if version is None:
            return StreamPosition(table_id=table_id, version=log.latest(), snapshot=True)
        if version.strip().lower() == "latest":
            return StreamPosition(table_id=table_id, version=log.latest() + 1)
        return StreamPosition(table_id=table_id, version=self._options.number("startingVersion") or 0)

    def _position(self, offset: dict[str, Any]) -> StreamPosition:
        found = read_offset(offset)
        if found.table_id != self._loaded.metadata.id:
            raise StreamSourceChangedError(
                f"{self._options.table_name} is another table than the one that the checkpoint is of: it was "
                "replaced. Start anew with another checkpoint location"
            )
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without connections: tasks need none of the driver's."""
        return {**self.__dict__, "_log": None}


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
