"""format("deltaSharing"): shared tables through Spark's Python data source API; no jar.

``spark.read.format("deltaSharing").load("<profile>#<share>.<schema>.<table>")``. The driver asks the server
for the files; tasks download them and read them with the client's reader, so deletion vectors, column
mapping and both response formats work alike. Filters go to the server as hints, prune files and row groups
and are evaluated on the way; Spark evaluates them again (CL-005). URLs that expire are asked for anew by
the task that needs them.

A task carries the profile, because an executor may have no file of that name. It travels in the pickled
task and stands in no plan, log or `repr`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType as SparkStruct

from distributary.client.delta_replay import changes_schema
from distributary.client.read_task import TASK_BYTES
from distributary.client.shared_changes import SharedChanges
from distributary.client.shared_snapshot import SharedSnapshot
from distributary.client.spark_frame import SPARK_FORMAT
from distributary.client.table_answer import TableAnswer
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.errors import InvalidInputError
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, all_of
from distributary.sharing.profile import Profile
from distributary.spark.share_filters import predicate_of
from distributary.spark.share_options import ShareOptions
from distributary.spark.share_partition import TaskPartition
from distributary.spark.share_schema import check_columns, readable, shown
from distributary.spark.share_stream import ShareStream

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register_shares(spark: SparkSession) -> None:
    """Let a session know format("deltaSharing"), and let Spark push filters into Python sources."""
    if spark.conf.get(_PUSH_DOWN, "false") != "true":
        # Spark refuses sources that take filters where this is off, which it is by default.
        spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(ShareSource)


@dataclass(frozen=True, slots=True)
class LoadedShare:
    """What was known when a frame was loaded; travels with the frame's source."""

    profile: Profile
    answer: TableAnswer = field(repr=False)

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return parse_schema(self.answer.metadata.schema_string or "{}")


class ShareSource(DataSource):
    """A shared table as a Python data source."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._loaded: LoadedShare | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return SPARK_FORMAT

    def schema(self) -> SparkStruct:
        """The columns of the version that is read, or of its changes."""
        options = ShareOptions(self.options)
        found = shown(self._load(options).schema, changes=options.reads_changes)
        if options.columns is None:
            return found
        names = {each.lower(): each for each in found.names}
        unknown = [name for name in options.columns if name.lower() not in names]
        if unknown:
            raise InvalidInputError(
                f"option columns names {unknown[0]!r}; there are {', '.join(found.names)}"
            )
        return SparkStruct([found[names[name.lower()]] for name in options.columns])

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        """A reader of rows, or of changes."""
        options = ShareOptions(self.options)
        return ShareReader(options, self._load(options), schema)

    def streamReader(self, schema: SparkStruct) -> ShareStream:  # noqa: N802  # Spark's name
        """A reader of what is added, or of changes, from version to version."""
        options = ShareOptions(self.options)
        loaded = self._load(options)
        return ShareStream(options, loaded.profile, loaded.answer, schema)

    def _load(self, options: ShareOptions) -> LoadedShare:
        if self._loaded is None:
            profile = options.profile()
            table = options.table(profile)
            found = table.known_at(options.version_as_of, options.timestamp_as_of)
            self._loaded = LoadedShare(profile, found)
        return self._loaded

    def __repr__(self) -> str:
        return f"ShareSource({ShareOptions(self.options)!r})"


class ShareReader(DataSourceReader):
    """Reads the rows of one version, or the changes of some."""

    def __init__(self, options: ShareOptions, loaded: LoadedShare, schema: SparkStruct) -> None:
        self._options = options
        self._loaded = loaded
        self._schema = schema
        self._pushed: Expression | None = None

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  # Spark's name
        """Take what can be used of the filters; Spark evaluates all of them itself as well."""
        schema = self._loaded.schema
        whole = changes_schema(schema) if self._options.reads_changes else schema
        self._pushed = predicate_of(filters, whole)
        return filters

    def partitions(self) -> list[InputPartition]:
        """The files that may hold wanted rows, in tasks of similar size; asks the server."""
        task = self._rows().task()
        found = parse_schema(task.answer.metadata.schema_string or "{}")
        changes, where = self._options.reads_changes, str(self._options.table_name)
        check_columns(self._schema, found, changes=changes, where=where)
        parts = task.with_schema(readable(found)).split(self._options.size("bytesPerTask") or TASK_BYTES)
        return [TaskPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files; runs on executors."""
        if isinstance(partition, TaskPartition):
            yield from partition.task.batches()

    def _rows(self) -> SharedSnapshot | SharedChanges:
        options = self._options
        table = options.table(self._loaded.profile)
        rows: SharedSnapshot | SharedChanges
        if options.reads_changes:
            rows = table.changes(
                options.number("startingVersion"),
                options.number("endingVersion"),
                starting_timestamp=options.get("startingTimestamp"),
                ending_timestamp=options.get("endingTimestamp"),
            )
        else:
            rows = table.snapshot(options.version_as_of, options.timestamp_as_of)
        predicates = [parse_predicate(text)] if (text := options.get("where")) else []
        if self._pushed is not None:
            predicates.append(self._pushed)
        if predicates:
            rows = rows.where(all_of(predicates))
        limit = options.number("limitHint")
        if limit is not None:
            rows = rows.limit(limit)
        return rows.select(*self._schema.names)
