"""Reading data files as Arrow record batches of the table's columns.

One `FileReader` serves a scan: it knows which columns are wanted, how they are found in a
file, and the predicate. Projection and predicate go into Parquet: row groups that cannot
match are not read, the predicate's columns are read first, and of the others only what
belongs to matching rows is given the table's shape. Rows of deletion vectors are dropped by
their physical index. Partition columns come from the log, never from the file or its path
(LR-004). Where bytes come from is the caller's business: it gives `open_file(path, size)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from distributary.delta.deletion_vectors import (
    DeletionVectorDescriptor,
    ReadRange,
    keep_mask,
    read_deletion_vector,
)
from distributary.delta.errors import DataFileError
from distributary.delta.scan.physical_columns import check_field_ids, conform, file_columns
from distributary.delta.scan.row_group_bounds import RowGroupBounds
from distributary.delta.schema.arrow_schema import arrow_field
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import StructField, StructType
from distributary.errors import ObjectNotFoundError
from distributary.expressions.arrow_evaluation import filter_mask
from distributary.expressions.pruning import prune
from distributary.expressions.tree import Expression, columns_of

OpenFile = Callable[[str, int], pa.NativeFile]

DEFAULT_BATCH_ROWS = 128 * 1024

# A column chunk with fewer bytes a value than this holds indices into a dictionary, hardly any plain strings.
_INDEX_BYTES = 3


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read: what the log says of it."""

    path: str
    size: int
    partition: Mapping[str, pa.Scalar]
    deletion_vector: DeletionVectorDescriptor | None = None
    all_match: bool = False
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict[str, pa.Scalar])
    rows: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class FileAccess:
    """How bytes are reached: a file to read from, a range of a deletion vector file."""

    open_file: OpenFile
    read_range: ReadRange
    remote: bool = True


class FileReader:
    """Reads data files of one table as batches of the wanted columns."""

    def __init__(
        self,
        access: FileAccess,
        schema: StructType,
        mode: ColumnMappingMode,
        columns: Sequence[str],
        predicate: Expression | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        use_threads: bool = False,
    ) -> None:
        self._access = access
        self._schema = schema
        self._mode = mode
        self._batch_rows = batch_rows
        self._use_threads = use_threads
        self._predicate = predicate
        self._output = [_field(schema, name) for name in columns]
        used = {path[0] for path in columns_of(predicate)} if predicate is not None else set[str]()
        self._tested = [found for name in sorted(used) if (found := schema.find(name)) is not None]
        self._others = [column for column in self._output if column not in self._tested]
        self.schema = pa.schema([arrow_field(column) for column in self._output])

    def read(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """The wanted rows of one file."""
        with self._reading(file):
            vector = self._deleted_rows(file)
            parquet = self._open(file)
            check_field_ids(parquet.schema_arrow, self._mode, file.path)
            groups = self._row_groups(parquet, file)
            if self._tests(file):
                parquet = self._with_dictionaries(parquet, file, [group for group, _ in groups])
            for group, start in groups:
                yield from self._read_group(parquet, file, group, start, vector)

    def count(self, file: DataFile) -> int:
        """How many rows of a file count, without reading any column."""
        with self._reading(file):
            rows = self._open(file).metadata.num_rows
        return rows - (file.deletion_vector.cardinality if file.deletion_vector else 0)

    def _tests(self, file: DataFile) -> bool:
        """Whether the rows of a file must be tested one by one."""
        return self._predicate is not None and not file.all_match

    def _open(
        self, file: DataFile, metadata: pq.FileMetaData | None = None, dictionaries: Sequence[str] = ()
    ) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._access.open_file(file.path, file.size),
            metadata=metadata,
            read_dictionary=dictionaries,
            pre_buffer=self._access.remote,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )

    def _with_dictionaries(
        self, parquet: pq.ParquetFile, file: DataFile, groups: Sequence[int]
    ) -> pq.ParquetFile:
        """The file, with strings of few distinct values left as indices until rows are chosen."""
        names = _repeated_strings(parquet, groups)
        return self._open(file, parquet.metadata, names) if names else parquet

    def _deleted_rows(self, file: DataFile) -> BitMap64 | None:
        if file.deletion_vector is None:
            return None
        return read_deletion_vector(file.deletion_vector, self._access.read_range)

    def _row_groups(self, parquet: pq.ParquetFile, file: DataFile) -> list[tuple[int, int]]:
        """The row groups that may match, each with the index of its first row."""
        footer = parquet.metadata
        starts: list[tuple[int, int]] = []
        start = 0
        for group in range(footer.num_row_groups):
            starts.append((group, start))
            start += footer.row_group(group).num_rows
        if self._predicate is None or not self._tests(file):
            return starts
        bounds = RowGroupBounds(footer, parquet.schema_arrow, self._schema, self._mode, file.partition)
        may_match = prune(self._predicate, bounds).may_match
        return [found for found, keep in zip(starts, may_match, strict=True) if keep]

    def _read_group(
        self, parquet: pq.ParquetFile, file: DataFile, group: int, start: int, vector: BitMap64 | None
    ) -> Iterator[pa.RecordBatch]:
        rows = parquet.metadata.row_group(group).num_rows
        kept = self._kept_rows(file, start, rows, vector)
        if kept is not None and not pc.any(kept).as_py():
            return
        if self._tests(file) and self._tested:
            yield from self._matching_rows(parquet, file, group, kept)
            return
        for batch, _ in self._batches(parquet, file, group, self._output, kept):
            wanted = batch.filter(self._mask(batch)) if self._tests(file) else batch
            if wanted.num_rows:
                yield wanted

    def _matching_rows(
        self, parquet: pq.ParquetFile, file: DataFile, group: int, kept: pa.BooleanArray | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a group that satisfy the predicate; columns that it does not use are read last."""
        masks: list[pa.BooleanArray] = []
        found: list[pa.RecordBatch] = []
        for batch, position in self._batches(parquet, file, group, self._tested):
            mask = self._mask(batch)
            if kept is not None:
                mask = pc.and_(mask, kept.slice(position, batch.num_rows))
            masks.append(mask)
            found.append(batch.filter(mask))
        tested = pa.Table.from_batches(found).combine_chunks()
        if tested.num_rows == 0:
            return
        if not self._others:
            yield from tested.select(self.schema.names).to_batches()
            return
        taken = 0
        for batch, _ in self._batches(parquet, file, group, self._others, pa.concat_arrays(masks)):
            yield self._joined(batch, tested.slice(taken, batch.num_rows))
            taken += batch.num_rows

    def _joined(self, others: pa.RecordBatch, tested: pa.Table) -> pa.RecordBatch:
        """The columns of both in the order asked for."""
        names = frozenset(others.schema.names)
        columns = [
            others.column(name) if name in names else tested.column(name).combine_chunks()
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        assert self._predicate is not None
        return filter_mask(self._predicate, batch)

    def _kept_rows(
        self, file: DataFile, start: int, rows: int, vector: BitMap64 | None
    ) -> pa.BooleanArray | None:
        """Which rows of a group count: not deleted, and among the rows asked for."""
        kept = None if vector is None else keep_mask(vector, start, rows)
        if file.rows is not None:
            chosen = pc.invert(keep_mask(file.rows, start, rows))
            kept = chosen if kept is None else pc.and_(kept, chosen)
        return kept

    def _batches(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        group: int,
        wanted: Sequence[StructField],
        kept: pa.BooleanArray | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches of a row group in the table's shape, each with its position in the group.

        Rows that are not kept are left out before anything is done to them.
        """
        stored = [column for column in wanted if column.name not in file.partition]
        names = file_columns(stored, parquet.schema_arrow, self._mode)
        schema = pa.schema([arrow_field(column) for column in wanted])
        position = 0
        for rows, batch in self._raw_batches(parquet, group, list(names.values())):
            mask = None if kept is None else kept.slice(position, rows)
            count = rows if mask is None else mask.true_count
            if count:
                if count < rows and batch is not None:
                    batch = batch.filter(mask)
                columns = [self._column(column, batch, count, names, file) for column in wanted]
                yield pa.RecordBatch.from_arrays(columns, schema=schema), position
            position += rows

    def _raw_batches(
        self, parquet: pq.ParquetFile, group: int, names: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        if not names:
            rows = parquet.metadata.row_group(group).num_rows
            for start in range(0, rows, self._batch_rows):
                yield min(self._batch_rows, rows - start), None
            return
        for batch in parquet.iter_batches(
            self._batch_rows, row_groups=[group], columns=names, use_threads=self._use_threads
        ):
            yield batch.num_rows, batch

    def _column(
        self,
        column: StructField,
        batch: pa.RecordBatch | None,
        rows: int,
        names: Mapping[str, str],
        file: DataFile,
    ) -> pa.Array:
        constant = file.partition.get(column.name)
        if constant is not None:
            return pa.repeat(constant, rows)
        if batch is None or column.name not in names:
            return pa.nulls(rows, arrow_field(column).type)
        try:
            return conform(batch.column(names[column.name]), column.data_type, self._mode)
        except pa.ArrowException as error:
            raise DataFileError(
                f"data file {file.path}: column {column.name} cannot be read as "
                f"{arrow_field(column).type}: {error}"
            ) from error

    @contextmanager
    def _reading(self, file: DataFile) -> Iterator[None]:
        try:
            yield
        except ObjectNotFoundError as error:
            raise DataFileError(
                f"data file {file.path} is missing: it was removed by vacuum or by hand; "
                f"read a newer version, or restore the file ({error})"
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"data file {file.path} cannot be read: {error}") from error


def _field(schema: StructType, name: str) -> StructField:
    return schema.field(name)


def _repeated_strings(parquet: pq.ParquetFile, groups: Sequence[int]) -> list[str]:
    """The string columns that are stored as short indices into dictionaries, as far as the footer tells."""
    footer = parquet.metadata
    texts = {name for name, kind in zip(parquet.schema_arrow.names, parquet.schema_arrow.types, strict=True)
             if pa.types.is_string(kind)}  # fmt: skip
    flat = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    return [name for name in texts & flat.keys() if _has_short_indices(footer, flat[name], groups)]


def _has_short_indices(footer: pq.FileMetaData, column: int, groups: Sequence[int]) -> bool:
    chunks = [footer.row_group(group).column(column) for group in groups]
    return all(
        chunk.has_dictionary_page and chunk.total_uncompressed_size < _INDEX_BYTES * chunk.num_values
        for chunk in chunks
    )
