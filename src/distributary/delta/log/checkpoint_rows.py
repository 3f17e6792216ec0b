"""Rows of file actions as flat Arrow columns, read from Parquet only when asked for.

A checkpoint (S4 "Checkpoint Format") holds one action a row, each kind in a struct column
(CK-008). Reading a few flat leaf columns of a million rows is fast; whole structs are not.
Readers tolerate missing and extra columns in any order (CK-016).

What does not hold together is a `CorruptCheckpointError`, so that the caller can go on
without this file: the footer (see `checkpoint_footer`), page checksums where the writer
put them (Spark and Databricks do), the number of rows and of nulls that a column gives, and
a file that was replaced while it was read. Damage to data pages without checksums can only be
found where it breaks the encoding, the compression or these counts; a changed character in
an uncompressed page without a checksum cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.delta.errors import CorruptCheckpointError
from distributary.delta.log.checkpoint_footer import FILE_LEAVES, CheckpointFooter, Leaf
from distributary.delta.parquet_footer import MAGIC, parse_footer, read_footer
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore

Mask = np.ndarray[Any, np.dtype[np.bool_]]

# A column of more rows than this is read by two threads.
_MANY_ROWS = 200_000
# Columns that are not kept are read in parts of so many rows.
_PART_ROWS = 50_000


class ParquetRows:
    """The rows of one checkpoint or sidecar file."""

    def __init__(self, store: ObjectStore, path: str, size: int | None, etag: str | None = None) -> None:
        self._store = store
        self.path = path
        self._size = size
        self._etag = etag
        self._columns: dict[tuple[str, Leaf], pa.ChunkedArray] = {}
        self.kept: dict[str, Any] = {}
        """What readers worked out of these rows and keep with them."""
        with self._reading():
            with self._file() as file:
                footer = read_footer(file)
            sound = parse_footer(footer)
            bare = pq.ParquetFile(pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))
            self._metadata: pq.FileMetaData = bare.metadata
            self._footer = CheckpointFooter(sound, bare.schema_arrow)
        problem = self._footer.problem()
        if problem is not None:
            raise self._corrupt(problem)
        self.num_rows = self._footer.num_rows

    @property
    def identity(self) -> str:
        """A text that differs where the file is another one."""
        return f"{self.path} {self._size} {self._etag} {self.num_rows}"

    @property
    def nbytes(self) -> int:
        """The bytes of the columns that are kept in memory."""
        return sum(column.nbytes for column in [*self._columns.values()])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file, one for each kind of action."""
        return self._footer.schema

    def has(self, action: str, leaf: Leaf) -> bool:
        """Whether the file has this leaf (or struct) of an action."""
        return self.leaf_type(action, leaf) is not None

    def leaf_type(self, action: str, leaf: Leaf) -> pa.DataType | None:
        """The Arrow type of a leaf as the file has it."""
        return self._footer.leaf_type(action, leaf)

    def column(
        self, action: str, leaf: Leaf, selection: Mask | None = None, keep: bool = True
    ) -> pa.ChunkedArray:
        """A leaf of all rows, or of the selected ones; row groups without any are not read."""
        known = self._columns.get((action, leaf))
        groups = self._groups_with(selection)
        if known is None and len(groups) == len(self._footer.groups):
            known = self._read(action, leaf, groups)
            if keep:
                self._columns[action, leaf] = known
        if known is not None:
            return _selected(known, selection)
        assert selection is not None
        parts = [selection[self._span(group)] for group in groups]
        return _selected(self._read(action, leaf, groups), _joined(parts))

    @property
    def row_groups(self) -> Sequence[int]:
        """Where row groups start, and the end: reading a part of one costs as much as all of it."""
        return self._footer.starts

    def stream(self, action: str, leaf: Leaf, selection: Mask | None = None) -> Iterator[pa.ChunkedArray]:
        """The same part by part, for columns too large to hold; the next part is read meanwhile."""
        groups = self._groups_with(selection)
        if (action, leaf) in self._columns or not self.has(action, leaf):
            yield self.column(action, leaf, selection, keep=False)
            return
        mask = None if selection is None else _joined([selection[self._span(group)] for group in groups])
        start = 0
        for values in _ahead(self._parts(action, leaf, groups)):
            yield _selected(values, None if mask is None else mask[start : start + len(values)])
            start += len(values)

    def _parts(self, action: str, leaf: Leaf, groups: list[int]) -> Iterator[pa.ChunkedArray]:
        """A leaf of some row groups in parts, with the same checks as for the whole."""
        name = ".".join((action, *leaf))
        rows, nulls = 0, 0
        with self._reading():
            for batch in self._open().iter_batches(
                _PART_ROWS, row_groups=groups, columns=[name], use_threads=False
            ):
                values = self._leaf_values(pa.chunked_array([batch.column(0)]), leaf)
                rows, nulls = rows + len(values), nulls + values.null_count
                yield values
        self._check_counts(action, leaf, groups, rows, nulls)

    def present(self, action: str) -> Mask | None:
        """Which rows hold the action; `None` for all of them."""
        required: Leaf = ("size",) if action == "add" else ("path",)
        if not self.has(action, required):
            if self.has(action, ("path",)):
                raise self._corrupt(f"its column {action} has no {required[0]}")
            return np.zeros(self.num_rows, dtype=np.bool_)
        values = self.column(action, required, keep=action == "add")
        self._check_paths(action, values.null_count)
        return None if values.null_count == 0 else values.is_valid().to_numpy()

    def structs(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The few rows of actions other than files, as (name, fields)."""
        wanted = [name for name in names if name in self.schema.names]
        for group in range(len(self._footer.groups)):
            for name in wanted:
                expected = self._footer.num_structs(group, name)
                if expected == 0:
                    continue
                with self._reading():
                    column = self._open().read_row_group(group, columns=[name]).column(0)
                    found = column.drop_null().to_pylist(maps_as_pydicts="strict")
                if len(column) != self._footer.groups[group].num_rows or expected not in (None, len(found)):
                    raise self._corrupt(f"column {name!r} has other rows than its statistics say")
                yield from ((name, row) for row in found)

    def batches(self, action: str, fields: Sequence[str], batch_rows: int) -> Iterator[pa.StructArray]:
        """Some fields of an action for all rows, batch by batch, for copying a file in bounded memory."""
        columns = [f"{action}.{field}" for field in fields]
        rows = 0
        with self._reading():
            for batch in self._open().iter_batches(batch_rows, columns=columns):
                rows += batch.num_rows
                yield batch.column(0)
        if rows != self.num_rows:
            raise self._corrupt(f"column {action!r} has {rows} of {self.num_rows} rows")

    def _check_paths(self, action: str, num_absent: int) -> None:
        """Refuse rows that have a path but are taken for absent, or the other way round."""
        groups = range(len(self._footer.groups))
        nulls = self._footer.null_count((action, "path"), groups)
        if nulls is None:
            nulls = self.column(action, ("path",)).null_count
        if nulls != num_absent:
            raise self._corrupt(f"some rows of {action} have no path")

    def _read(self, action: str, leaf: Leaf, groups: list[int]) -> pa.ChunkedArray:
        expected = FILE_LEAVES.get(leaf)
        rows = sum(self._footer.groups[group].num_rows for group in groups)
        if not self.has(action, leaf):
            return pa.chunked_array([pa.nulls(rows, expected or pa.null())])
        name = ".".join((action, *leaf))
        with self._reading():
            values = self._leaf_values(self._read_groups(name, groups, rows).column(action), leaf)
        self._check_counts(action, leaf, groups, len(values), values.null_count)
        return values

    def _leaf_values(self, structs: pa.ChunkedArray, leaf: Leaf) -> pa.ChunkedArray:
        values = pc.struct_field(structs, list(leaf))
        # Texts that are no UTF-8 would fail later, far from here; statistics are parsed as bytes anyway.
        if leaf != ("stats",):
            values.validate(full=True)
        expected = FILE_LEAVES.get(leaf)
        return values if expected is None or values.type == expected else values.cast(expected)

    def _check_counts(self, action: str, leaf: Leaf, groups: list[int], rows: int, nulls: int) -> None:
        """Refuse a column that does not have the rows and nulls that the footer says."""
        name = ".".join((action, *leaf))
        expected = sum(self._footer.groups[group].num_rows for group in groups)
        if rows != expected:
            raise self._corrupt(f"column {name!r} has {rows} values for {expected} rows")
        if self._footer.null_count((action, *leaf), groups) not in (None, nulls):
            raise self._corrupt(f"column {name!r} has {nulls} nulls, its statistics say otherwise")

    def _read_groups(self, name: str, groups: list[int], rows: int) -> pa.Table:
        def read(some: list[int]) -> pa.Table:
            return self._open().read_row_groups(some, columns=[name])

        if rows <= _MANY_ROWS or len(groups) < 2:
            return read(groups)
        middle = len(groups) // 2
        with ThreadPoolExecutor(2) as pool:
            return pa.concat_tables(pool.map(read, (groups[:middle], groups[middle:])))

    def _groups_with(self, selection: Mask | None) -> list[int]:
        groups = range(len(self._footer.groups))
        if selection is None:
            return list(groups)
        return [group for group in groups if selection[self._span(group)].any()]

    def _span(self, group: int) -> slice:
        return slice(self._footer.starts[group], self._footer.starts[group + 1])

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._file(),
            metadata=self._metadata,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
            pre_buffer=self._store.local_path(self.path) is None,
        )

    def _file(self) -> pa.NativeFile:
        file = self._store.open_file(self.path, self._size)
        local = self._store.local_path(self.path) is not None
        if local and self._etag is not None and self._store.head(self.path).etag != self._etag:
            raise self._corrupt("it was replaced while it was read")
        return file

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, ObjectNotFoundError, OSError, UnicodeDecodeError, ValueError) as error:
            raise CorruptCheckpointError(f"checkpoint file {self.path} cannot be read: {error}") from error

    def _corrupt(self, reason: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(f"checkpoint file {self.path} is damaged: {reason}")


def _selected(values: pa.ChunkedArray, selection: Mask | None) -> pa.ChunkedArray:
    return values if selection is None or selection.all() else values.filter(pa.array(selection))


def _joined(masks: Sequence[Mask]) -> Mask:
    return np.concatenate(masks) if masks else np.zeros(0, np.bool_)


def _ahead(parts: Iterator[pa.ChunkedArray]) -> Iterator[pa.ChunkedArray]:
    """The parts, the next one read by another thread while one is used."""
    with ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(next, parts, None)
        while (part := upcoming.result()) is not None:
            upcoming = pool.submit(next, parts, None)
            yield part


class TableRows:
    """The adds of commits as the same flat columns, held in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.num_rows: int = table.num_rows
        self.kept: dict[str, Any] = {}
        """What readers worked out of these rows and keep with them."""

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return self._table.nbytes

    def has(self, action: str, leaf: Leaf) -> bool:
        """Whether the rows have this leaf: every leaf of an add but parsed statistics."""
        return action == "add" and ".".join(leaf) in self._table.column_names

    def leaf_type(self, action: str, leaf: Leaf) -> pa.DataType | None:
        """The Arrow type of a leaf."""
        return self._table.schema.field(".".join(leaf)).type if self.has(action, leaf) else None

    def column(
        self, action: str, leaf: Leaf, selection: Mask | None = None, keep: bool = True
    ) -> pa.ChunkedArray:
        """A leaf of all rows, or of the selected ones."""
        if not self.has(action, leaf):
            values = pa.chunked_array([pa.nulls(self.num_rows, FILE_LEAVES.get(leaf, pa.null()))])
        else:
            values = self._table.column(".".join(leaf))
        return _selected(values, selection)

    @property
    def row_groups(self) -> Sequence[int]:
        """All rows are one group."""
        return (0, self.num_rows)

    def stream(self, action: str, leaf: Leaf, selection: Mask | None = None) -> Iterator[pa.ChunkedArray]:
        """The same, in one part."""
        yield self.column(action, leaf, selection)

    def present(self, action: str) -> Mask | None:
        """Every row is an add."""
        return None if action == "add" else np.zeros(self.num_rows, dtype=np.bool_)


FileRows = ParquetRows | TableRows
