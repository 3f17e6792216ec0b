"""Reading data files as Arrow record batches of the table's columns.

One `FileReader` serves a scan: it knows which columns are wanted, how they are found in a
file, and the predicate. Projection and predicate go into Parquet: row groups that cannot
match are not read, the predicate's columns are read first, and of the others only what
belongs to matching rows is given the table's shape. Rows of deletion vectors are dropped by
their physical index. Partition columns come from the log, never from the file or its path
(LR-004). Where bytes come from is the caller's business: it gives `open_file(path, size)`.

Damage is a `DataFileError`: page checksums are verified where a file has them, every row
group must give the rows that the footer says, and a footer that seems to lack a column must
hold together otherwise. Of pyarrow's metadata only row counts are asked, since its column
chunks and statistics end the process where a footer is damaged (see `parquet_footer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

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
from distributary.delta.parquet_footer import Chunk, InvalidFooterError, ParquetFooter, sound_footer
from distributary.delta.scan.physical_columns import check_field_ids, conform, file_columns, has_all_fields
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
# A file of one row group with fewer rows is read faster than its footer is parsed for bounds.
_FEW_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read: what the log says of it."""

    path: str
    size: int
    partition: Mapping[str, pa.Scalar]
    deletion_vector: DeletionVectorDescriptor | None = None
    all_match: bool = False
    rows: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class FileAccess:
    """How bytes are reached: a file to read from, a range of a deletion vector file."""

    open_file: OpenFile
    read_range: ReadRange
    remote: bool = True
    # Where only the first rows are wanted: columns are read in pieces of so many bytes, not whole.
    piece_bytes: int = 0


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
        self._output = [schema.field(name) for name in columns]
        used = {path[0] for path in columns_of(predicate)} if predicate is not None else set[str]()
        self._tested = [found for name in sorted(used) if (found := schema.find(name)) is not None]
        self._others = [column for column in self._output if column not in self._tested]
        self.schema = pa.schema([arrow_field(column) for column in self._output])

    def read(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """The wanted rows of one file."""
        with self._reading(file):
            vector = self._deleted_rows(file)
            source = self._access.open_file(file.path, file.size)
            parquet = self._open(source)
            check_field_ids(parquet.columns, self._mode, file.path)
            groups = _row_groups(parquet)
            footer = self._footer(parquet, file, source)
            if footer is not None and self._tests(file):
                groups = self._matching_groups(groups, footer, parquet.columns, file)
                parquet = self._with_dictionaries(parquet, footer, [group for group, _ in groups], source)
            for group, start in groups:
                yield from self._read_group(parquet, file, group, start, vector)

    def count(self, file: DataFile) -> int:
        """How many rows of a file count, without reading any column."""
        with self._reading(file):
            parquet = self._open(self._access.open_file(file.path, file.size))
            _row_groups(parquet)
            rows = parquet.metadata.num_rows
        return rows - (file.deletion_vector.cardinality if file.deletion_vector else 0)

    def _tests(self, file: DataFile) -> bool:
        """Whether the rows of a file must be tested one by one."""
        return self._predicate is not None and not file.all_match

    def _open(
        self,
        source: pa.NativeFile,
        metadata: pq.FileMetaData | None = None,
        dictionaries: Sequence[str] = (),
    ) -> _OpenFile:
        return _OpenFile(
            source,
            metadata=metadata,
            read_dictionary=dictionaries,
            pre_buffer=self._access.remote and not self._access.piece_bytes,
            buffer_size=self._access.piece_bytes,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
            page_checksum_verification=True,
        )

    def _footer(self, parquet: _OpenFile, file: DataFile, source: pa.NativeFile) -> ParquetFooter | None:
        """The footer, where it can save reading or must be checked because a column seems to be missing."""
        stored = [column for column in (*self._tested, *self._others) if column.name not in file.partition]
        whole = has_all_fields(stored, parquet.columns, self._mode)
        few = parquet.metadata.num_row_groups <= 1 and parquet.metadata.num_rows < _FEW_ROWS
        return sound_footer(source) if not whole or (self._tests(file) and not few) else None

    def _with_dictionaries(
        self, parquet: _OpenFile, footer: ParquetFooter, groups: Sequence[int], source: pa.NativeFile
    ) -> _OpenFile:
        """The file, with strings of few distinct values left as indices until rows are chosen."""
        names = _repeated_strings(parquet.columns, footer, groups)
        return self._open(source, parquet.metadata, names) if names else parquet

    def _deleted_rows(self, file: DataFile) -> BitMap64 | None:
        if file.deletion_vector is None:
            return None
        return read_deletion_vector(file.deletion_vector, self._access.read_range)

    def _matching_groups(
        self, groups: list[tuple[int, int]], footer: ParquetFooter, schema: pa.Schema, file: DataFile
    ) -> list[tuple[int, int]]:
        """The row groups that may match."""
        assert self._predicate is not None
        bounds = RowGroupBounds(footer, schema, self._schema, self._mode, file.partition)
        may_match = prune(self._predicate, bounds).may_match
        return [found for found, keep in zip(groups, may_match, strict=True) if keep]

    def _read_group(
        self, parquet: _OpenFile, file: DataFile, group: int, start: int, vector: BitMap64 | None
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
        self, parquet: _OpenFile, file: DataFile, group: int, kept: pa.BooleanArray | None
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
        parquet: _OpenFile,
        file: DataFile,
        group: int,
        wanted: Sequence[StructField],
        kept: pa.BooleanArray | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches of a row group in the table's shape, each with its position in the group.

        Rows that are not kept are left out before anything is done to them.
        """
        stored = [column for column in wanted if column.name not in file.partition]
        names = file_columns(stored, parquet.columns, self._mode)
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
        self, parquet: _OpenFile, group: int, names: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        rows = parquet.metadata.row_group(group).num_rows
        if not names:
            for start in range(0, rows, self._batch_rows):
                yield min(self._batch_rows, rows - start), None
            return
        for batch in parquet.iter_batches(
            self._batch_rows, row_groups=[group], columns=names, use_threads=self._use_threads
        ):
            rows -= batch.num_rows
            if rows >= 0:
                yield batch.num_rows, batch
        if rows:
            raise InvalidFooterError("a row group has another number of rows than the footer says")

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
        except (pa.ArrowException, OSError, InvalidFooterError, UnicodeDecodeError) as error:
            raise DataFileError(f"data file {file.path} cannot be read: {error}") from error


class _OpenFile(pq.ParquetFile):
    """A Parquet file whose columns are worked out once: for small files that is a tenth of the time."""

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns as Arrow reads them."""
        return self.schema_arrow


def _row_groups(parquet: _OpenFile) -> list[tuple[int, int]]:
    """The row groups, each with the index of its first row; all their rows must be those of the file."""
    footer = parquet.metadata
    starts: list[tuple[int, int]] = []
    start = 0
    for group in range(footer.num_row_groups):
        starts.append((group, start))
        start += footer.row_group(group).num_rows
    if start != footer.num_rows:
        raise InvalidFooterError("its row counts do not add up")
    if len(set(parquet.columns.names)) != len(parquet.columns):
        raise InvalidFooterError("it has two columns of one name")
    return starts


def _repeated_strings(schema: pa.Schema, footer: ParquetFooter, groups: Sequence[int]) -> list[str]:
    """The string columns that are stored as short indices into dictionaries, as far as the footer tells."""
    texts = [name for name, kind in zip(schema.names, schema.types, strict=True) if pa.types.is_string(kind)]
    return [
        name
        for name in texts
        if (at := footer.positions.get((name,))) is not None
        and all(_has_short_indices(footer.groups[group].chunks[at]) for group in groups)
    ]


def _has_short_indices(chunk: Chunk) -> bool:
    return chunk.has_dictionary_page and chunk.uncompressed_size < _INDEX_BYTES * chunk.num_values
