"""Answers of a server read as a Delta table: the same scan, the same reader, the same rules.

An answer is the state of a table at one version (or its changes over some): protocol, metadata and files
with ids for paths. The engine's scan prunes and reads it as it reads a log of its own (CL-011, CL-012,
CL-016): deletion vectors, column mapping, partition values and widened types included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from distributary.client.errors import IncompleteResponseError
from distributary.client.table_answer import SharedFile, TableAnswer
from distributary.delta.log.actions import Add, AddCdcFile, Metadata, Remove
from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.delta.log.checkpoint_rows import TableRows
from distributary.delta.log.file_columns import adds_to_table
from distributary.delta.log.protocol_support import check_can_read, mapping_mode_of
from distributary.delta.scan.arrow_reader import DEFAULT_BATCH_ROWS, DataFile, FileAccess, FileReader
from distributary.delta.scan.change_data_feed import CHANGE_COLUMNS, COMMIT_TIMESTAMP, ChangedFiles
from distributary.delta.scan.parallel_batches import parallel_batches
from distributary.delta.scan.table_scan import ScanSettings, bound_predicate
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import LONG, StructType, parse_schema
from distributary.expressions.tree import Expression

# On the wire a commit's time is milliseconds (CL-018), in a table a timestamp.
WIRE_CHANGE_COLUMNS = tuple(
    msgspec.structs.replace(column, data_type=LONG) if column.name == COMMIT_TIMESTAMP else column
    for column in CHANGE_COLUMNS
)

FIRST_ROWS = 4096

_MOST_WORKERS = 16
_BYTES_AT_ONCE = 64 << 20
# Reading larger files takes more than waiting for them, and every thread holds memory of its own.
_SMALL_BYTES = 64 << 10
# How many times larger the rows of a file are than the file, as a rule: it is held together with them.
_GROWTH = 6
_BATCH_VALUES = 1 << 20


class ReadBudget(msgspec.Struct, frozen=True):
    """How much a read may use at once."""

    workers: int | None = None
    """Files that are read side by side; by default as many as their sizes allow."""
    buffered_bytes: int = 64 << 20
    """Rows that lie ready for whoever takes them."""


def scan_settings(
    budget: ReadBudget, sizes: Sequence[int], limit: int | None = None, columns: int = 1
) -> ScanSettings:
    """Many small files at once, since each waits for the network; few large ones, since each needs memory.

    Rows of many columns come in smaller batches.
    """
    if takes_first_rows(limit):
        return ScanSettings(workers=1, batch_rows=FIRST_ROWS)
    largest = max(sizes, default=0)
    fitting = _BYTES_AT_ONCE // max(largest * _GROWTH, 1)
    most = _MOST_WORKERS if largest <= _SMALL_BYTES else _MOST_WORKERS // 2
    workers = budget.workers or max(min(fitting, most), 1)
    rows = max(min(_BATCH_VALUES // max(columns, 1), DEFAULT_BATCH_ROWS), FIRST_ROWS)
    return ScanSettings(workers=workers, max_buffered_bytes=budget.buffered_bytes, batch_rows=rows)


def takes_first_rows(limit: int | None) -> bool:
    """Whether so few rows are wanted that a file is better read from its start than whole."""
    return limit is not None and limit <= FIRST_ROWS


class SharedState:
    """A shared table at one version, as far as a server told of it."""

    def __init__(self, answer: TableAnswer, where: str) -> None:
        check_can_read(answer.protocol, where)
        if answer.metadata.schema_string is None:
            raise IncompleteResponseError(f"{where}: the metadata has no schema")
        self.metadata: Metadata = answer.metadata
        self.schema: StructType = parse_schema(answer.metadata.schema_string)
        self.mapping_mode: ColumnMappingMode = mapping_mode_of(answer.metadata.properties, answer.protocol)
        self._answer = answer
        self._files: FileSelection | None = None

    @property
    def files(self) -> FileSelection:
        """The files of the answer."""
        if self._files is None:
            adds = [file.action for file in self._answer.files if isinstance(file.action, Add)]
            if len(adds) != len(self._answer.files):
                raise IncompleteResponseError("a snapshot was asked for, and removed files were given")
            self._files = FileSelection([FileBlock(TableRows(adds_to_table(adds)), None)] if adds else [])
        return self._files


class SharedChangeScan:
    """The rows of an answer about changes."""

    def __init__(
        self,
        state: SharedState,
        files: Sequence[SharedFile],
        access: FileAccess,
        *,
        columns: Sequence[str] | None,
        predicate: str | Expression | None,
        settings: ScanSettings,
    ) -> None:
        self._state = state
        self._files = files
        self._access = access
        self._settings = settings
        self._schema = changes_schema(state.schema)
        wanted = self._schema.names if columns is None else (*columns, *_missing(columns))
        self.columns = tuple(self._schema.field(name).name for name in wanted)
        self.predicate = bound_predicate(predicate, self._schema)
        self.arrow_schema: pa.Schema = arrow_schema(self._schema.select(self.columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changed rows, in no particular order."""
        reader = FileReader(
            self._access, self._schema, self._state.mapping_mode, self.columns, self.predicate
        )
        return parallel_batches(
            self.data_files(),
            reader.read,
            workers=self._settings.workers,
            max_bytes=self._settings.max_buffered_bytes,
        )

    def data_files(self) -> Iterator[DataFile]:
        """The files to read, with the version and time of each as constants."""
        changed = ChangedFiles(
            self._state.schema,
            self._state.metadata.partitioning,
            self._state.mapping_mode,
            self._access.read_range,
            moment_type=LONG,
        )
        for version, (moment, files) in sorted(_by_version(self._files).items()):
            adds = [file for file in files if isinstance(file, Add)]
            removes = [file for file in files if isinstance(file, Remove)]
            changes = [file for file in files if isinstance(file, AddCdcFile)]
            yield from changed.files(version, moment, adds, removes, changes)


def changes_schema(schema: StructType) -> StructType:
    """A table's columns and those of its changes."""
    return StructType((*schema.fields, *WIRE_CHANGE_COLUMNS))


def _by_version(
    files: Sequence[SharedFile],
) -> dict[int, tuple[int, list[Add | Remove | AddCdcFile]]]:
    moments: dict[int, int] = {}
    actions: defaultdict[int, list[Add | Remove | AddCdcFile]] = defaultdict(list)
    for file in files:
        if file.version is None or file.timestamp is None:
            raise IncompleteResponseError("a changed file of the answer has no version or no time")
        moments[file.version] = file.timestamp
        actions[file.version].append(file.action)
    return {version: (moments[version], found) for version, found in actions.items()}


def _missing(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column.name for column in WIRE_CHANGE_COLUMNS if column.name not in columns)
