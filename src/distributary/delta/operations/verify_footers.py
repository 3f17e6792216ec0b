"""Verifying data files from the inside: rows, deletion vectors, statistics.

Each file's footer is opened. Its row count must be the log's; every deletion vector must decode and delete
rows that exist; the log's bounds must hold for the footer's. Footers may be coarser than the values (cut
texts, rows that a vector deletes), so a suspicion is settled by reading the column.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, read_deletion_vector
from distributary.delta.errors import CorruptDeletionVectorError, DeltaError
from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.verification_report import Findings
from distributary.delta.parquet_footer import sound_footer
from distributary.delta.scan.arrow_reader import DataFile, FileReader
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.scan.row_group_bounds import RowGroupBounds
from distributary.delta.scan.table_scan import file_access
from distributary.delta.schema.data_types import ArrayType, MapType, StructType, UnknownType
from distributary.errors import ObjectNotFoundError, StorageError
from distributary.expressions.pruning import ColumnBounds
from distributary.storage.object_store import ObjectStore

_FILES_AT_ONCE = 1000
_WORKERS = 8

LeafPath = tuple[str, ...]
Trouble = tuple[str, str, str]


class _Claims(NamedTuple):
    """What the log says of one file."""

    path: str
    size: int
    vector: DeletionVectorDescriptor | None
    num_records: int | None
    bounds: dict[LeafPath, ColumnBounds]
    at: int


def check_footers(store: ObjectStore, snapshot: Snapshot, files: FileSelection, findings: Findings) -> None:
    """Open every file and compare it with what the log says of it."""
    inspector = _Inspector(store, snapshot)
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="distributary-verify") as pool:
        for part in files.parts(_FILES_AT_ONCE):
            for troubles in pool.map(inspector.inspect, inspector.claims(part)):
                findings.checked("footers")
                for code, where, message in troubles:
                    findings.add(code, where, message)


class _Inspector:
    """Looks into the files of one snapshot."""

    def __init__(self, store: ObjectStore, snapshot: Snapshot) -> None:
        self._access = file_access(store)
        self._schema = snapshot.schema
        self._mode = snapshot.mapping_mode
        self._pruner = FilePruner(snapshot.schema, snapshot.metadata.partitioning, self._mode)
        stored = [name for name in self._schema.names if name not in snapshot.metadata.partitioning]
        self._leaves = list(_leaves(self._schema.select(tuple(stored))))

    def claims(self, files: FileSelection) -> list[_Claims]:
        """What the log says of some files."""
        statistics = self._pruner.prune(files, None).statistics
        statistics.prepare(self._leaves)
        found = {leaf: statistics.bounds(leaf) for leaf in self._leaves}
        bounds = {leaf: bound for leaf, bound in found.items() if bound is not None}
        columns = zip(
            files.column("path").to_pylist(),
            files.column("size").to_pylist(),
            files.deletion_vectors(),
            statistics.num_records.to_pylist(),
            strict=True,
        )
        return [_Claims(*values, bounds, at) for at, values in enumerate(columns)]

    def inspect(self, claims: _Claims) -> list[Trouble]:
        """Everything that is wrong with a file."""
        try:
            file = self._access.open_file(claims.path, claims.size)
            footer = sound_footer(file)
            bounds = RowGroupBounds(footer, pq.ParquetFile(file).schema_arrow, self._schema, self._mode, {})
            return [
                *_row_count(claims, footer.num_rows),
                *self._vector(claims, footer.num_rows),
                *self._statistics(claims, bounds),
            ]
        except (DeltaError, StorageError, pa.ArrowException, OSError, ValueError) as error:
            return [("DATA_FILE_UNREADABLE", claims.path, str(error))]

    def _vector(self, claims: _Claims, rows: int) -> Iterator[Trouble]:
        if claims.vector is None:
            return
        try:
            deleted = read_deletion_vector(claims.vector, self._access.read_range)
        except ObjectNotFoundError:
            return
        except CorruptDeletionVectorError as error:
            yield "CORRUPT_DELETION_VECTOR", claims.path, str(error)
            return
        if len(deleted) and deleted.max() >= rows:
            message = f"its deletion vector deletes row {deleted.max():,}, but it has {rows:,} rows"
            yield "CORRUPT_DELETION_VECTOR", claims.path, message

    def _statistics(self, claims: _Claims, footer: RowGroupBounds) -> Iterator[Trouble]:
        for leaf, told in claims.bounds.items():
            stored = footer.bounds(leaf)
            if stored is None or not _suspicious(claims, told, stored, leaf):
                continue
            for message in self._settled(claims, told, leaf):
                yield "WRONG_STATISTICS", claims.path, f"column {'.'.join(leaf)}: {message}"

    def _settled(self, claims: _Claims, told: ColumnBounds, leaf: LeafPath) -> Iterator[str]:
        """Judge a suspicion by the values that count."""
        values = self._values(claims, leaf)
        if values is None:
            return
        extremes = pc.min_max(values)
        lowest, highest = _entry(told.minimum, claims.at), _entry(told.maximum, claims.at)
        if _less(extremes["min"], lowest):
            yield f"its smallest value is {extremes['min']}, the log says {lowest}"
        if _less(highest, extremes["max"]):
            yield f"its greatest value is {extremes['max']}, the log says {highest}"
        nulls = _entry(told.null_count, claims.at)
        if len(leaf) == 1 and nulls is not None and nulls.is_valid and values.null_count != nulls.as_py():
            yield f"it has {values.null_count:,} nulls, the log says {nulls.as_py():,}"

    def _values(self, claims: _Claims, leaf: LeafPath) -> pa.ChunkedArray | None:
        reader = FileReader(self._access, self._schema, self._mode, [leaf[0]])
        try:
            batches = list(reader.read(DataFile(claims.path, claims.size, {}, claims.vector)))
        except (CorruptDeletionVectorError, ObjectNotFoundError):
            return None
        column = pa.Table.from_batches(batches, reader.schema).column(0)
        return pc.struct_field(column, list(leaf[1:])) if len(leaf) > 1 else column


def _leaves(struct: StructType, above: LeafPath = ()) -> Iterator[LeafPath]:
    """The columns that statistics can have: leaves outside of lists and maps."""
    for field in struct.fields:
        path = (*above, field.name)
        if isinstance(field.data_type, StructType):
            yield from _leaves(field.data_type, path)
        elif not isinstance(field.data_type, ArrayType | MapType | UnknownType):
            yield path


def _row_count(claims: _Claims, rows: int) -> Iterator[Trouble]:
    if claims.num_records is not None and claims.num_records != rows:
        message = f"the data file has {rows:,} rows, the log says {claims.num_records:,}"
        yield "WRONG_ROW_COUNT", claims.path, message


def _suspicious(claims: _Claims, told: ColumnBounds, stored: ColumnBounds, leaf: LeafPath) -> bool:
    at = claims.at
    if stored.minimum is not None and _less(pc.min(stored.minimum), _entry(told.minimum, at)):
        return True
    if stored.maximum is not None and _less(_entry(told.maximum, at), pc.max(stored.maximum)):
        return True
    nulls = _entry(told.null_count, at)
    if len(leaf) > 1 or nulls is None or not nulls.is_valid or stored.null_count is None:
        return False
    return stored.null_count.null_count == 0 and (pc.sum(stored.null_count).as_py() or 0) != nulls.as_py()


def _entry(column: pa.Array | None, at: int) -> pa.Scalar | None:
    return None if column is None else column[at]


def _less(left: pa.Scalar | None, right: pa.Scalar | None) -> bool:
    """Whether both are known and the left one is smaller."""
    if left is None or right is None or not left.is_valid or not right.is_valid:
        return False
    return bool(pc.less(left, right.cast(left.type)).as_py())
