"""The change data feed: which rows each version inserted, updated and deleted.

Implements the reader's half of "Change Data Feed" (newer editions, CDF-002, CDF-005): a
version that has change files is told by them alone; otherwise its adds are inserts and its
removes deletes, and where a file only got another deletion vector, the difference of the two
vectors. Every row carries `_change_type`, `_commit_version` and `_commit_timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, ReadRange, read_deletion_vector
from distributary.delta.errors import ChangeFeedError
from distributary.delta.log.actions import Add, AddCdcFile, CommitActions, Remove
from distributary.delta.log.active_files import key_of
from distributary.delta.log.history import Timeline, read_commit, timeline
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.scan.arrow_reader import DataFile, FileReader
from distributary.delta.scan.parallel_batches import parallel_batches
from distributary.delta.scan.table_scan import ScanSettings, bound_predicate, file_access
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type
from distributary.delta.schema.column_mapping import PHYSICAL_NAME_KEY, ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import LONG, STRING, TIMESTAMP, DataType, StructField, StructType
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
        self.mode = end.mapping_mode
        self.schema = StructType((*end.schema.fields, *CHANGE_COLUMNS))
        wanted = self.schema.names if columns is None else (*columns, *_missing_changes(columns))
        self.columns = tuple(self.schema.field(name).name for name in wanted)
        self.predicate = bound_predicate(predicate, self.schema)
        self.arrow_schema: pa.Schema = arrow_schema(self.schema.select(self.columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changed rows, version by version."""
        reader = FileReader(
            file_access(self._store),
            self.schema,
            self.mode,
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

    def changed_files(self) -> Iterator[DataFile]:
        """The files that hold the changes, version by version.

        The columns of the change feed are among their partition values, `_change_type` only where every row
        of a file changed alike; change files have it as a column.
        """
        for commit in self._commits():
            yield from self._changed_files(commit)

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

    @cached_property
    def _changed(self) -> ChangedFiles:
        return ChangedFiles(
            self._end.schema, self._end.metadata.partitioning, self.mode, file_access(self._store).read_range
        )

    def _changed_files(self, commit: CommitActions) -> list[DataFile]:
        removes = [self._whole(commit, remove) for remove in commit.removes if remove.data_change]
        adds = [add for add in commit.adds if add.data_change]
        moment = self._timeline.time_of(commit.version)
        return self._changed.files(commit.version, moment, adds, removes, commit.change_files)

    def _whole(self, commit: CommitActions, remove: Remove) -> Remove:
        """A removed file with its partition values, also where its tombstone leaves them out."""
        if remove.partition_values is not None or not self._end.metadata.partitioning or commit.change_files:
            return remove
        return msgspec.structs.replace(remove, partition_values=self._recorded_partition(commit, remove))

    def _recorded_partition(self, commit: CommitActions, remove: Remove) -> dict[str, str | None]:
        """The partition values of a removed file whose tombstone leaves them out."""
        key = key_of(self._store.root, remove.path, remove.deletion_vector)
        for add in load_snapshot(self._store, commit.version - 1).files.adds():
            if key_of(self._store.root, add.path, add.deletion_vector) == key:
                return add.partition_values or {}
        raise ChangeFeedError(
            f"version {commit.version} removes {remove.path}, which the version before it does not have"
        )


class ChangedFiles:
    """The files that tell the changes of a version, with their rows and constants; `moment` is in ms.

    The type of `_commit_timestamp` is the caller's: a timestamp in tables, milliseconds on the wire.
    """

    def __init__(
        self,
        schema: StructType,
        partitioning: Sequence[str],
        mode: ColumnMappingMode,
        read_range: ReadRange,
        *,
        moment_type: DataType = TIMESTAMP,
    ) -> None:
        self._schema = schema
        self._partitioning = partitioning
        self._mode: ColumnMappingMode = mode
        self._read_range = read_range
        self._moment_type = moment_type

    def files(
        self,
        version: int,
        moment: int,
        adds: Sequence[Add],
        removes: Sequence[Remove],
        change_files: Sequence[AddCdcFile],
    ) -> list[DataFile]:
        """The files to read for one version: change files alone where it has some."""
        constants = self._constants(version, moment)
        if change_files:
            return [self._file(constants, file, None, None) for file in change_files]
        added = {add.path: add for add in adds}
        removed = {remove.path: remove for remove in removes}
        files: list[DataFile] = []
        for path, add in added.items():
            if path in removed:
                files.extend(self._vector_changes(constants, removed[path], add))
            else:
                files.append(self._file(constants, add, INSERT, add.deletion_vector))
        gone = [remove for path, remove in removed.items() if path not in added]
        files.extend(self._file(constants, remove, DELETE, remove.deletion_vector) for remove in gone)
        return files

    def _constants(self, version: int, moment: int) -> dict[str, pa.Scalar]:
        time = pa.scalar(moment, pa.int64())
        if self._moment_type == TIMESTAMP:
            time = pa.scalar(moment * 1000, pa.int64()).cast(arrow_type(TIMESTAMP))
        return {COMMIT_VERSION: pa.scalar(version, arrow_type(LONG)), COMMIT_TIMESTAMP: time}

    def _vector_changes(
        self, constants: Mapping[str, pa.Scalar], before: Remove, after: Add
    ) -> Iterator[DataFile]:
        """The rows that an exchange of deletion vectors deleted, and those it brought back."""
        old, new = self._rows(before.deletion_vector), self._rows(after.deletion_vector)
        for change, rows in ((DELETE, new - old), (INSERT, old - new)):
            if len(rows):
                yield self._file(constants, after, change, None, rows)

    def _rows(self, vector: DeletionVectorDescriptor | None) -> BitMap64:
        return BitMap64() if vector is None else read_deletion_vector(vector, self._read_range)

    def _file(
        self,
        constants: Mapping[str, pa.Scalar],
        action: Add | Remove | AddCdcFile,
        change: str | None,
        vector: DeletionVectorDescriptor | None,
        rows: BitMap64 | None = None,
    ) -> DataFile:
        told = {} if change is None else {CHANGE_TYPE: pa.scalar(change, arrow_type(STRING))}
        values = action.partition_values or {}
        partition = {name: self._partition_scalar(name, values) for name in self._partitioning}
        return DataFile(
            path=action.path,
            size=action.size or 0,
            partition={**partition, **constants, **told},
            deletion_vector=vector,
            rows=rows,
        )

    def _partition_scalar(self, name: str, values: dict[str, str | None]) -> pa.Scalar:
        field = self._schema.field(name)
        text = values.get(physical_name(field, self._mode))
        return parse_partition_column(pa.array([text], pa.string()), field.data_type, column=name)[0]


def _missing_changes(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column.name for column in CHANGE_COLUMNS if column.name not in columns)
