"""Bounds of the row groups of one Parquet file, for pruning inside it.

The same three-valued pruning that works over a table's files works over the row groups of a
file: Parquet's own column statistics are the bounds. Only physical types whose order is
Parquet's own are used; anything else is unknown, and unknown never prunes. The footer is our
own parser's: pyarrow's statistics end the process where a footer is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from distributary.delta.parquet_footer import ColumnStatistics, ParquetFooter
from distributary.delta.scan.physical_columns import find_field
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import DataType, StructType
from distributary.expressions.pruning import ColumnBounds


class RowGroupBounds:
    """`FileBounds` over the row groups of one file; partition values are the file's own."""

    def __init__(
        self,
        footer: ParquetFooter,
        file_schema: pa.Schema,
        schema: StructType,
        mode: ColumnMappingMode,
        partition: Mapping[str, pa.Scalar],
    ) -> None:
        self._groups = footer.groups
        self._leaves = footer.positions
        self._file_schema = file_schema
        self._schema = schema
        self._mode = mode
        self._partition = partition
        self.num_files = len(self._groups)
        self.num_records = pa.array([group.num_rows for group in self._groups], pa.int64())

    def partition_values(self, column: str) -> pa.Array | None:
        """A partition column has one value in the whole file."""
        value = self._partition.get(column)
        return None if value is None else pa.repeat(value, self.num_files)

    def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """The bounds of a leaf column in each row group."""
        leaf = self._leaf(path)
        if leaf is None:
            return None
        name, file_type, data_type = leaf
        at = self._leaves.get(name)
        target = arrow_type(data_type)
        if at is None or not _ordered(file_type) or not _comparable(file_type, target):
            return None
        statistics = [group.chunks[at].statistics for group in self._groups]
        return ColumnBounds(
            minimum=_bound(statistics, "min_raw", file_type, target),
            maximum=_bound(statistics, "max_raw", file_type, target),
            null_count=pa.array([group.chunks[at].null_count for group in self._groups], pa.int64()),
            exact=False,
        )

    def _leaf(self, path: tuple[str, ...]) -> tuple[tuple[str, ...], pa.DataType, DataType] | None:
        """The file's column path, its type there, and its type in the table."""
        struct: DataType = self._schema
        candidates = list(self._file_schema)
        names: list[str] = []
        file_type: Any = None
        for name in path:
            field = struct.find(name) if isinstance(struct, StructType) else None
            at = None if field is None else find_field(field, candidates, self._mode)
            if field is None or at is None:
                return None
            names.append(candidates[at].name)
            file_type = candidates[at].type
            candidates = list(file_type.fields) if pa.types.is_struct(file_type) else []
            struct = field.data_type
        return None if file_type is None else (tuple(names), file_type, struct)


def _ordered(kind: pa.DataType) -> bool:
    return (
        pa.types.is_signed_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or (pa.types.is_timestamp(kind) and kind.unit in ("us", "ms"))
    )


def _comparable(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether bounds keep their meaning in the table's type: the same, or a wider number."""
    if kind == target or (pa.types.is_timestamp(kind) and pa.types.is_timestamp(target)):
        return True
    return (pa.types.is_signed_integer(kind) and pa.types.is_signed_integer(target)) or (
        pa.types.is_float32(kind) and pa.types.is_float64(target)
    )


def _bound(
    statistics: list[ColumnStatistics | None], name: str, kind: pa.DataType, target: pa.DataType
) -> pa.Array:
    raw: list[Any] = [
        getattr(found, name) if found is not None and found.has_min_max else None for found in statistics
    ]
    if pa.types.is_string(kind):
        return pa.array([_text(value) for value in raw], target)
    if pa.types.is_date32(kind):
        return pa.array(raw, pa.int32()).view(target)
    if pa.types.is_timestamp(kind):
        scale = 1000 if kind.unit == "ms" else 1
        return pa.array([None if v is None else v * scale for v in raw], pa.int64()).view(target)
    return pa.array(raw, kind).cast(target)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
