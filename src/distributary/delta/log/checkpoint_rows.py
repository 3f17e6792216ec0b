"""Rows of file actions as flat Arrow columns, read from Parquet only when asked for.

A checkpoint (S4 "Checkpoint Format") holds one action a row, each kind in a struct column
(CK-008). Reading a few flat leaf columns of a million rows is fast; whole structs are not.
Readers tolerate missing and extra columns in any order (CK-016). What does not hold
together (footer, types, page checksums, row counts) is a `CorruptCheckpointError`, so that
the caller can go on without this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.delta.errors import CorruptCheckpointError
from distributary.storage.object_store import ObjectStore

Leaf = tuple[str, ...]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

STRING_MAP = pa.map_(pa.string(), pa.string())

FILE_LEAVES: dict[Leaf, pa.DataType] = {
    ("path",): pa.string(),
    ("partitionValues",): STRING_MAP,
    ("size",): pa.int64(),
    ("modificationTime",): pa.int64(),
    ("dataChange",): pa.bool_(),
    ("stats",): pa.string(),
    ("tags",): STRING_MAP,
    ("deletionVector", "storageType"): pa.string(),
    ("deletionVector", "pathOrInlineDv"): pa.string(),
    ("deletionVector", "offset"): pa.int32(),
    ("deletionVector", "sizeInBytes"): pa.int32(),
    ("deletionVector", "cardinality"): pa.int64(),
    ("baseRowId",): pa.int64(),
    ("defaultRowCommitVersion",): pa.int64(),
    ("clusteringProvider",): pa.string(),
    ("deletionTimestamp",): pa.int64(),
    ("extendedFileMetadata",): pa.bool_(),
}

KNOWN_COLUMNS = frozenset(
    ("add", "remove", "metaData", "protocol", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
)
_KNOWN_FILE_FIELDS = frozenset(leaf[0] for leaf in FILE_LEAVES) | {"stats_parsed", "partitionValues_parsed"}


class ParquetRows:
    """The rows of one checkpoint or sidecar file."""

    def __init__(self, store: ObjectStore, path: str, size: int | None) -> None:
        self._store = store
        self.path = path
        self._size = size
        self._columns: dict[tuple[str, Leaf], pa.ChunkedArray] = {}
        with self._reading():
            file = self._open()
            self._footer: pq.FileMetaData = file.metadata
            self.schema: pa.Schema = file.schema_arrow
        self._check_footer()
        self.num_rows: int = self._footer.num_rows

    def has(self, action: str, leaf: Leaf) -> bool:
        """Whether the file has this leaf (or struct) of an action."""
        return self.leaf_type(action, leaf) is not None

    def leaf_type(self, action: str, leaf: Leaf) -> pa.DataType | None:
        """The Arrow type of a leaf as the file has it."""
        index = self.schema.get_field_index(action)
        found: pa.DataType | None = self.schema.field(index).type if index >= 0 else None
        for name in leaf:
            if found is None or not pa.types.is_struct(found) or found.get_field_index(name) < 0:
                return None
            found = found.field(name).type
        return found

    def column(
        self, action: str, leaf: Leaf, selection: Mask | None = None, keep: bool = True
    ) -> pa.ChunkedArray:
        """A leaf of all rows, or of the selected ones; row groups without any are not read."""
        known = self._columns.get((action, leaf))
        groups = self._groups_with(selection)
        if known is None and len(groups) == self._footer.num_row_groups:
            known = self._read(action, leaf, groups)
            if keep:
                self._columns[action, leaf] = known
        if known is not None:
            return known if selection is None else known.filter(pa.array(selection))
        assert selection is not None
        parts = [selection[start:stop] for start, stop in (self._group_span(group) for group in groups)]
        inner = pa.array(np.concatenate(parts)) if parts else pa.array([], pa.bool_())
        return self._read(action, leaf, groups).filter(inner)

    def present(self, action: str) -> Mask | None:
        """Which rows hold the action; `None` for all of them."""
        required: Leaf = ("size",) if action == "add" else ("path",)
        if not self.has(action, required):
            return np.zeros(self.num_rows, dtype=np.bool_)
        values = self.column(action, required, keep=action == "add")
        if values.null_count == 0:
            return None
        return values.is_valid().to_numpy()

    def structs(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The few rows of actions other than files, as (name, fields)."""
        wanted = [name for name in names if name in self.schema.names]
        for group in range(self._footer.num_row_groups):
            for name in wanted:
                if self._all_null(group, name):
                    continue
                with self._reading():
                    column = self._open().read_row_group(group, columns=[name], use_threads=True).column(0)
                    found = column.drop_null().to_pylist(maps_as_pydicts="strict")
                yield from ((name, row) for row in found)

    def _all_null(self, group: int, name: str) -> bool:
        columns = self._footer.row_group(group)
        chunks = [columns.column(at) for at in range(columns.num_columns)]
        statistics = [
            chunk.statistics
            for chunk in chunks
            if chunk.path_in_schema.partition(".")[0] == name and ".list" not in chunk.path_in_schema
            and ".key_value" not in chunk.path_in_schema
        ]  # fmt: skip
        return bool(statistics) and all(
            found is not None and found.has_null_count and found.null_count == columns.num_rows
            for found in statistics
        )

    def _read(self, action: str, leaf: Leaf, groups: list[int]) -> pa.ChunkedArray:
        expected = FILE_LEAVES.get(leaf)
        actual = self.leaf_type(action, leaf)
        if actual is None:
            rows = sum(self._footer.row_group(group).num_rows for group in groups)
            return pa.chunked_array([pa.nulls(rows, expected or pa.null())])
        with self._reading():
            name = ".".join((action, *leaf))
            table = self._open().read_row_groups(groups, columns=[name], use_threads=True)
            values = pc.struct_field(table.column(action), list(leaf))
            return values if expected is None or values.type == expected else values.cast(expected)

    def _groups_with(self, selection: Mask | None) -> list[int]:
        groups = range(self._footer.num_row_groups)
        if selection is None:
            return list(groups)
        spans = [self._group_span(group) for group in groups]
        return [group for group, (start, stop) in enumerate(spans) if selection[start:stop].any()]

    def _group_span(self, group: int) -> tuple[int, int]:
        start = sum(self._footer.row_group(at).num_rows for at in range(group))
        return start, start + self._footer.row_group(group).num_rows

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._store.open_file(self.path, self._size),
            metadata=getattr(self, "_footer", None),
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
            pre_buffer=self._store.local_path(self.path) is None,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
            raise CorruptCheckpointError(f"checkpoint file {self.path} cannot be read: {error}") from error

    def _check_footer(self) -> None:
        groups = [self._footer.row_group(at) for at in range(self._footer.num_row_groups)]
        if sum(group.num_rows for group in groups) != self._footer.num_rows:
            raise self._corrupt("its row counts do not add up")
        flat = [
            at for at in range(self._footer.num_columns) if not self._footer.schema.column(at).max_repetition_level
        ]  # fmt: skip
        if any(group.column(at).num_values != group.num_rows for group in groups for at in flat):
            raise self._corrupt("a column chunk has another number of values than its row group")
        self._check_names(self.schema.names, KNOWN_COLUMNS)
        for action in ("add", "remove"):
            self._check_action(action)

    def _check_action(self, action: str) -> None:
        index = self.schema.get_field_index(action)
        if index < 0:
            return
        kind = self.schema.field(index).type
        if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
            raise self._corrupt(f"its column {action} has no path")
        self._check_names([field.name for field in kind.fields], _KNOWN_FILE_FIELDS)
        for leaf, expected in FILE_LEAVES.items():
            actual = self.leaf_type(action, leaf)
            if actual is not None and not _castable(actual, expected):
                raise self._corrupt(f"{action}.{'.'.join(leaf)} has the type {actual}, not {expected}")

    def _check_names(self, names: Sequence[str], known: frozenset[str]) -> None:
        """Refuse a name that is one flipped bit away from a known one: it would be ignored as foreign."""
        for name in names:
            if name not in known and any(_one_bit_apart(name, other) for other in known):
                raise self._corrupt(f"its column {name!r} looks like a damaged name")

    def _corrupt(self, reason: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(f"checkpoint file {self.path} is damaged: {reason}")


def _one_bit_apart(name: str, known: str) -> bool:
    left, right = name.encode(), known.encode()
    if len(left) != len(right):
        return False
    return sum((a ^ b).bit_count() for a, b in zip(left, right, strict=True)) == 1


def _castable(actual: pa.DataType, expected: pa.DataType) -> bool:
    if actual == expected or pa.types.is_null(actual):
        return True
    if pa.types.is_string(expected):
        return (
            pa.types.is_large_string(actual)
            or pa.types.is_string_view(actual)
            or (pa.types.is_dictionary(actual) and _castable(actual.value_type, expected))
        )
    if pa.types.is_map(expected):
        return pa.types.is_map(actual) and _castable(actual.key_type, pa.string())
    return pa.types.is_integer(expected) and pa.types.is_integer(actual)


class TableRows:
    """The adds of commits as the same flat columns, held in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.num_rows: int = table.num_rows

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
        return values if selection is None else values.filter(pa.array(selection))

    def present(self, action: str) -> Mask | None:
        """Every row is an add."""
        return None if action == "add" else np.zeros(self.num_rows, dtype=np.bool_)


FileRows = ParquetRows | TableRows
