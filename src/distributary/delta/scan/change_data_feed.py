"""The change data feed: which rows each version inserted, updated and deleted.

Implements the reader's half of "Change Data Feed" (newer editions, CDF-002, CDF-005): a
version that has change files is told by them alone; otherwise its adds are inserts and its
removes deletes, and where a file only got another deletion vector, the difference of the two
vectors. Every row carries `_change_type`, `_commit_version` and `_commit_timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, read_deletion_vector
from distributary.delta.errors import ChangeFeedError
from distributary.delta.log.actions import Add, AddCdcFile, CommitActions, Remove
from distributary.delta.log.active_files import key_of
from distributary.delta.log.history import Timeline, read_commit, timeline
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.scan.arrow_reader import DataFile, FileReader
from distributary.delta.scan.parallel_batches import parallel_batches
from distributary.delta.scan.table_scan import ScanSettings, bound_predicate, file_access
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type
from distributary.delta.schema.column_mapping import PHYSICAL_NAME_KEY, physical_name
from distributary.delta.schema.data_types import LONG, STRING, TIMESTAMP, StructField, StructType
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.delta.table_properties import TableProperties
from distributary.errors import InvalidInputError
from distributary.expressions.tree import Expression
from distributary.storage.object_store import ObjectStore

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

# Change files know these columns by their own names, whatever the table's column mapping.
CHANGE_COLUMNS = tuple(
    StructField(name, kind, metadata={PHYSICAL_NAME_KEY: name})
    for name, kind in ((CHANGE_TYPE, STRING), (COMMIT_VERSION, LONG), (COMMIT_TIMESTAMP, TIMESTAMP))
)

INSERT, DELETE = "insert", "delete"


class ChangeScan:
    """The changes of the versions from `start` to `end`, both included."""

    def __init__(
        self,
        store: ObjectStore,
        start: int,
        end: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        predicate: str | Expression | None = None,
        settings: ScanSettings | None = None,
    ) -> None:
        if not 0 <= start <= end.version:
            raise InvalidInputError(f"changes from version {start} to {end.version} are no range")
        self._store = store
        self._start = start
        self._end = end
        self._settings = settings or ScanSettings()
        self._mode = end.mapping_mode
        self._schema = StructType((*end.schema.fields, *CHANGE_COLUMNS))
        wanted = self._schema.names if columns is None else (*columns, *_missing_changes(columns))
        self.columns = tuple(self._schema.field(name).name for name in wanted)
        self.predicate = bound_predicate(predicate, self._schema)
        self.arrow_schema: pa.Schema = arrow_schema(self._schema.select(self.columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changed rows, version by version."""
        reader = FileReader(
            file_access(self._store),
            self._schema,
            self._mode,
            self.columns,
            self.predicate,
            batch_rows=self._settings.batch_rows,
        )
        for commit in self._commits():
            files = self._changed_files(commit)
            yield from parallel_batches(
                files,
                reader.read,
                workers=self._settings.workers,
                max_bytes=self._settings.max_buffered_bytes,
            )

    def _commits(self) -> Iterator[CommitActions]:
        before = self._start - 1
        enabled = before >= 0 and self._enabled(load_snapshot(self._store, before).metadata.properties)
        for version in range(self._start, self._end.version + 1):
            commit = read_commit(self._store, version)
            if commit.metadata is not None:
                enabled = self._enabled(commit.metadata.properties)
            if not enabled:
                raise ChangeFeedError(
                    f"version {version} of {self._store.root} has no change data feed: set "
                    "delta.enableChangeDataFeed=true on the table, and read from a version after that"
                )
            yield commit

    @staticmethod
    def _enabled(configuration: dict[str, str]) -> bool:
        return TableProperties.from_configuration(configuration).enable_change_data_feed

    @cached_property
    def _timeline(self) -> Timeline:
        return timeline(self._store, self._end)

    def _changed_files(self, commit: CommitActions) -> list[DataFile]:
        if commit.change_files:
            return [self._file(commit, file, None, None) for file in commit.change_files]
        adds = {add.path: add for add in commit.adds if add.data_change}
        removes = {remove.path: remove for remove in commit.removes if remove.data_change}
        files: list[DataFile] = []
        for path, add in adds.items():
            if path in removes:
                files.extend(self._vector_changes(commit, removes[path], add))
            else:
                files.append(self._file(commit, add, INSERT, add.deletion_vector))
        gone = [remove for path, remove in removes.items() if path not in adds]
        files.extend(self._file(commit, remove, DELETE, remove.deletion_vector) for remove in gone)
        return files

    def _vector_changes(self, commit: CommitActions, before: Remove, after: Add) -> Iterator[DataFile]:
        """The rows that an exchange of deletion vectors deleted, and those it brought back."""
        old, new = self._rows(before.deletion_vector), self._rows(after.deletion_vector)
        for change, rows in ((DELETE, new - old), (INSERT, old - new)):
            if len(rows):
                yield self._file(commit, after, change, None, rows)

    def _rows(self, vector: DeletionVectorDescriptor | None) -> BitMap64:
        if vector is None:
            return BitMap64()
        return read_deletion_vector(vector, file_access(self._store).read_range)

    def _file(
        self,
        commit: CommitActions,
        action: Add | Remove | AddCdcFile,
        change: str | None,
        vector: DeletionVectorDescriptor | None,
        rows: BitMap64 | None = None,
    ) -> DataFile:
        moment = self._timeline.time_of(commit.version) * 1000
        constants = {
            COMMIT_VERSION: pa.scalar(commit.version, arrow_type(LONG)),
            COMMIT_TIMESTAMP: pa.scalar(moment, pa.int64()).cast(arrow_type(TIMESTAMP)),
        }
        if change is not None:
            constants[CHANGE_TYPE] = pa.scalar(change, arrow_type(STRING))
        return DataFile(
            path=action.path,
            size=action.size or 0,
            partition={**self._partition(commit, action), **constants},
            deletion_vector=vector,
            rows=rows,
        )

    def _partition(self, commit: CommitActions, action: Add | Remove | AddCdcFile) -> dict[str, pa.Scalar]:
        names = self._end.metadata.partitioning
        values = action.partition_values
        if names and values is None and isinstance(action, Remove):
            values = self._recorded_partition(commit, action)
        return {name: self._partition_scalar(name, values or {}) for name in names}

    def _recorded_partition(self, commit: CommitActions, remove: Remove) -> dict[str, str | None]:
        """The partition values of a removed file whose tombstone leaves them out."""
        key = key_of(self._store.root, remove.path, remove.deletion_vector)
        for add in load_snapshot(self._store, commit.version - 1).files.adds():
            if key_of(self._store.root, add.path, add.deletion_vector) == key:
                return add.partition_values or {}
        raise ChangeFeedError(
            f"version {commit.version} removes {remove.path}, which the version before it does not have"
        )

    def _partition_scalar(self, name: str, values: dict[str, str | None]) -> pa.Scalar:
        field = self._end.schema.field(name)
        text = values.get(physical_name(field, self._mode))
        return parse_partition_column(pa.array([text], pa.string()), field.data_type, column=name)[0]


def _missing_changes(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column.name for column in CHANGE_COLUMNS if column.name not in columns)
