"""format("distributary"): Delta tables through Spark's Python data source API, for code that needs a format.

``spark.read.format("distributary").load(path)``, ``df.write.format("distributary").mode("append").save(p)``.
Rows pass through Python workers as Arrow batches and are read and written by the engine, not by Spark's own
Parquet code: `read_table` and `write_table` are several times as fast, prune by filters and by columns, and
know every rule that Spark can evaluate. The docs (spark/sql.md) say what it costs.

A write happens once or not at all: tasks write files under names of their own, the driver commits those of
the attempts that succeeded, in one commit. A task that failed or was tried twice leaves a file that no
version names; vacuum finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark.format_writer import FormatWriter
from distributary.spark.share_offsets import BatchLimit
from distributary.spark.share_options import size_in_bytes
from distributary.spark.shipped_state import ShippedFiles, ship_files
from distributary.spark.store_assignment import spark_schema
from distributary.spark.stream_rules import StreamRules
from distributary.spark.table_stream import TableOptions, TableStream

NAME = "distributary"
_STORAGE = "storage."
_CHANGE_COLUMNS = {"_change_type": "string", "_commit_version": "long", "_commit_timestamp": "timestamp"}
_BYTES_PER_TASK = 128 << 20
# How long a stream believes the latest version before it looks at the log again.
_VERSION_SECONDS = 1.0


def register_format(spark: SparkSession) -> None:
    """Let a session know format("distributary")."""
    spark.dataSource.register(DeltaSource)


class DeltaSource(DataSource):
    """A Delta table as a Python data source."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # What was known when a frame was loaded; a stream that is started later shows these columns.
        self._loaded: ShippedFiles | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> SparkStruct:
        """The columns of the version that is read."""
        options = FormatOptions(self.options)
        schema = spark_schema(self._load(options).schema)
        if not options.flag("readChangeFeed"):
            return schema
        for name, kind in _CHANGE_COLUMNS.items():
            schema = schema.add(name, kind)
        return schema

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        """A reader of rows, or of changes."""
        options = FormatOptions(self.options)
        return ChangeReader(options) if options.flag("readChangeFeed") else TableReader(options)

    def streamReader(self, schema: SparkStruct) -> TableStream:  # noqa: N802  # Spark's name
        """A reader of what is added, or of changes, from version to version."""
        options = FormatOptions(self.options)
        rules = StreamRules(
            changes=options.flag("readChangeFeed"),
            skip_change_commits=options.flag("skipChangeCommits"),
            ignore_deletes=options.flag("ignoreDeletes"),
            ignore_changes=options.flag("ignoreChanges"),
            version_seconds=_VERSION_SECONDS,
        )
        limit = BatchLimit(options.version("maxFilesPerTrigger") or None, options.size("maxBytesPerTrigger"))
        where = TableOptions(options.path, options.storage_options, options.allowed_roots)
        start = (options.get("startingVersion"), options.get("startingTimestamp"))
        return TableStream(where, self._load(options), rules, limit, start)

    def _load(self, options: FormatOptions) -> Snapshot:
        if self._loaded is None:
            self._loaded = ship_files(options.snapshot(), ())
        return self._loaded.snapshot()

    def writer(self, schema: SparkStruct, overwrite: bool) -> FormatWriter:
        """A writer that appends or replaces."""
        options = FormatOptions(self.options)
        return FormatWriter(options.path, schema, overwrite, options.plain(), options.storage_options)


class FormatOptions:
    """The options of one read or write; their names ignore case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {key.lower(): value for key, value in options.items()}
        self.storage_options = {
            key[len(_STORAGE) :]: value for key, value in options.items() if key.lower().startswith(_STORAGE)
        }

    @property
    def path(self) -> str:
        """Where the table is."""
        found = self._options.get("path")
        if not found:
            raise InvalidInputError("format('distributary') needs a path: .load(path) or .save(path)")
        return found

    def plain(self) -> dict[str, str]:
        """All options, by names in lower case."""
        return dict(self._options)

    def get(self, name: str) -> str | None:
        """One option."""
        return self._options.get(name.lower())

    def flag(self, name: str) -> bool:
        """Whether an option is switched on."""
        return (self.get(name) or "false").lower() == "true"

    def version(self, name: str) -> int | None:
        """A whole number, such as that of a version."""
        text = self.get(name)
        if text is None:
            return None
        if not text.strip().isdigit():
            raise InvalidInputError(f"option {name} must be a whole number, not {text!r}")
        return int(text)

    def size(self, name: str) -> int | None:
        """A number of bytes, such as 1048576, 64m or 2g."""
        return size_in_bytes(name, self.get(name))

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        """Places outside of the table in which its files may lie, by commas (shallow clones)."""
        return tuple(root.strip() for root in (self.get("allowedRoots") or "").split(",") if root.strip())

    def table(self) -> DeltaTable:
        """The engine's view of the table."""
        return DeltaTable(self.path, self.storage_options or None, allowed_roots=self.allowed_roots)

    def snapshot(self) -> Snapshot:
        """The state of the version that is read; a time without a zone is UTC."""
        return self.table().snapshot(self.version("versionAsOf"), self.get("timestampAsOf")).state


class FilesPartition(InputPartition):
    """Some files of a table, for one task."""

    def __init__(self, files: ShippedFiles) -> None:
        super().__init__(None)
        self.files = files


class TableReader(DataSourceReader):
    """Reads the rows of one version."""

    def __init__(self, options: FormatOptions) -> None:
        self._snapshot_version = options.snapshot().version
        self._where = TableOptions(options.path, options.storage_options, options.allowed_roots)

    def partitions(self) -> list[InputPartition]:
        """The files of the version, about 128 MB a task."""
        table = self._where.table()
        state = table.snapshot(self._snapshot_version).state
        groups: list[list[Any]] = [[]]
        size = 0
        for add in state.files.adds():
            if groups[-1] and size + add.size > _BYTES_PER_TASK:
                groups.append([])
                size = 0
            groups[-1].append(add)
            size += add.size
        return [FilesPartition(ship_files(state, group)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files; runs on executors."""
        assert isinstance(partition, FilesPartition)
        snapshot = partition.files.snapshot()
        yield from TableScan(snapshot, self._where.table().store).batches()


class ChangeReader(DataSourceReader):
    """Reads the change data feed, in one task."""

    def __init__(self, options: FormatOptions) -> None:
        self._path, self._storage_options = options.path, options.storage_options
        self._bounds: dict[str, Any] = {
            "starting_version": options.version("startingVersion"),
            "ending_version": options.version("endingVersion"),
            "starting_timestamp": options.get("startingTimestamp"),
            "ending_timestamp": options.get("endingTimestamp"),
        }

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes; runs on an executor."""
        table = DeltaTable(self._path, self._storage_options or None)
        yield from table.changes(**self._bounds).to_record_batch_reader()
