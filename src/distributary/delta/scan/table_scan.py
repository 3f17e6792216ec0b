"""A scan: the files of one snapshot that a query needs, and their rows.

Planning prunes files by partition values and statistics; reading goes file by file, several
at once, in bounded memory. Row order is not promised. The rows given are exactly those that
satisfy the predicate.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.log.actions import Metadata
from distributary.delta.log.active_files import FileSelection
from distributary.delta.scan.arrow_reader import DEFAULT_BATCH_ROWS, DataFile, FileAccess, FileReader
from distributary.delta.scan.file_pruning import FilePruner, PrunedFiles
from distributary.delta.scan.parallel_batches import parallel_batches
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.delta.schema.schema_evolution import check_type_changes
from distributary.errors import InvalidInputError
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, columns_of
from distributary.storage.log_paths import resolve_path
from distributary.storage.object_store import ObjectStore

_FILES_AT_ONCE = 10_000


class ScannedTable(Protocol):
    """What a scan needs to know of a table at one version: a snapshot has it, a shared table too."""

    @property
    def schema(self) -> StructType:
        """The columns."""
        ...

    @property
    def mapping_mode(self) -> ColumnMappingMode:
        """How columns are found in files."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The partition columns, among others."""
        ...

    @property
    def files(self) -> FileSelection:
        """The files."""
        ...


class ScanSettings(msgspec.Struct, frozen=True):
    """How much a scan may use at once."""

    workers: int = max(os.cpu_count() or 1, 2)
    batch_rows: int = DEFAULT_BATCH_ROWS
    max_buffered_bytes: int = 256 * 1024 * 1024


def bound_predicate(predicate: str | Expression | None, schema: StructType) -> Expression | None:
    """A predicate, from text where it is text, with its names and types settled by the schema."""
    if predicate is None:
        return None
    tree = parse_predicate(predicate) if isinstance(predicate, str) else predicate
    return bind(tree, arrow_schema(schema))


def file_access(store: ObjectStore) -> FileAccess:
    """How a store's data files and deletion vectors are reached by the paths of a log."""

    def open_file(path: str, size: int) -> pa.NativeFile:
        where, key = resolve_path(store, path)
        return where.open_file(key, size)

    def read_range(path: str, offset: int, length: int) -> bytes:
        where, key = resolve_path(store, path)
        return where.get_range(key, offset, length)

    return FileAccess(open_file, read_range, remote=store.is_remote)


class TableScan:
    """The rows of a snapshot that satisfy a predicate, with the columns asked for."""

    def __init__(
        self,
        snapshot: ScannedTable,
        store: ObjectStore | FileAccess,
        *,
        columns: Sequence[str] | None = None,
        predicate: str | Expression | None = None,
        settings: ScanSettings | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._store = store
        self._settings = settings or ScanSettings()
        self.mode = snapshot.mapping_mode
        self._schema = snapshot.schema
        check_type_changes(self._schema)
        self.columns = _column_names(self._schema, columns)
        self.predicate = bound_predicate(predicate, self._schema)
        self.arrow_schema: pa.Schema = arrow_schema(self._schema.select(self.columns))

    @cached_property
    def pruned(self) -> PrunedFiles:
        """The files that may hold wanted rows."""
        pruner = FilePruner(self._schema, self._snapshot.metadata.partitioning, self.mode)
        return pruner.prune(self._snapshot.files, self.predicate)

    def data_files(self) -> Iterator[DataFile]:
        """The files to read, with their partition values as the columns' types.

        The columns of the log are read at once; the files are made of them as they are taken, so that
        a reader who stops early has not paid for all.
        """
        selection = self.pruned.files
        partition = self._partition_columns(selection)
        paths, sizes = selection.column("path"), selection.column("size")
        vectors, matches = selection.deletion_vectors(), self.pruned.all_match

        def taken(start: int) -> Iterator[DataFile]:
            columns = [part.slice(start, _FILES_AT_ONCE).to_pylist() for part in (paths, sizes, matches)]
            for at, (path, size, all_match) in enumerate(zip(*columns, strict=True), start):
                values = {name: column[at] for name, column in partition.items()}
                yield DataFile(path, size, values, vectors[at], all_match)

        return chain.from_iterable(map(taken, range(0, selection.num_files, _FILES_AT_ONCE)))

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows as batches, at most `limit` of them."""
        if limit is not None and limit < 0:
            raise InvalidInputError(f"limit must not be negative, not {limit}")
        files = self.data_files()
        return _limited(self._read(files, limit), limit)

    def count(self) -> int:
        """How many rows there are: from the log where it says, otherwise from the files."""
        if self.predicate is None or pc.all(self.pruned.all_match).as_py():
            return self._count_whole_files()
        tested = sorted({path[0] for path in columns_of(self.predicate)})
        narrow = TableScan(
            self._snapshot, self._store, columns=tested, predicate=self.predicate, settings=self._settings
        )
        return sum(batch.num_rows for batch in narrow.batches())

    def _count_whole_files(self) -> int:
        records = self.pruned.live_records()
        if records.null_count == 0:
            return pc.sum(records).as_py() or 0
        reader = self._reader(use_threads=False)
        return sum(reader.count(file) for file in self.data_files())

    def _read(self, files: Iterator[DataFile], limit: int | None) -> Iterator[pa.RecordBatch]:
        workers = 1 if limit is not None and limit <= self._settings.batch_rows else self._settings.workers
        alone = workers == 1 and limit is None
        reader = self._reader(use_threads=alone or self.pruned.files.num_files < self._settings.workers)
        return parallel_batches(
            files, reader.read, workers=workers, max_bytes=self._settings.max_buffered_bytes
        )

    def _reader(self, *, use_threads: bool) -> FileReader:
        return FileReader(
            self._store if isinstance(self._store, FileAccess) else file_access(self._store),
            self._schema,
            self.mode,
            self.columns,
            self.predicate,
            batch_rows=self._settings.batch_rows,
            use_threads=use_threads,
        )

    def _partition_columns(self, selection: FileSelection) -> dict[str, pa.Array]:
        return {
            name: partition_column(selection, self._schema, name, self.mode)
            for name in self._snapshot.metadata.partitioning
        }


def partition_column(
    selection: FileSelection, schema: StructType, name: str, mode: ColumnMappingMode
) -> pa.Array:
    """The values of a partition column for each file, in the column's type."""
    field = schema.field(name)
    texts = selection.partition_values(physical_name(field, mode))
    return parse_partition_column(texts, field.data_type, column=name)


def _column_names(schema: StructType, columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return schema.names
    return tuple(schema.field(name).name for name in columns)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
