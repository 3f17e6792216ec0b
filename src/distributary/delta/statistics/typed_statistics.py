"""Statistics as typed columns: the struct ``stats_parsed`` of a checkpoint.

Implements ``stats_parsed`` of S4 "Checkpoint Format" (CK-012 to CK-014): the same tree as the JSON text,
with minima and maxima in the column's own type. A column without an order (boolean, binary, array, map)
has a null count but no minimum and maximum. Physical names are used throughout. The columns are the ones
that the table's properties index; partition columns have no statistics.

Guarantees: values are taken over exactly, decimals digit by digit and timestamps to the microsecond;
nothing is widened here (value_bounds does that for readers). What does not fit its type is null, and a
text that cannot be read gives no statistics for that file alone (ST-009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import UnionType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import (
    BOOLEAN,
    VOID,
    DataType,
    DecimalType,
    StructField,
    StructType,
    UnknownType,
)
from distributary.delta.statistics.collection import IndexedColumn, indexed_columns
from distributary.delta.statistics.json_statistics import LeafPath, read_json_statistics
from distributary.delta.statistics.value_bounds import BooleanRule, BoundsRule, IntegerRule, bounds_rule
from distributary.delta.table_properties import TableProperties

_UNREADABLE = (pa.ArrowException, OverflowError, TypeError, ValueError)


class StatisticsLayout:
    """Which statistics the files of a table have, and the Arrow type that holds them."""

    def __init__(self, columns: Sequence[IndexedColumn]) -> None:
        self._leaves: dict[LeafPath, _Leaf] = {("numRecords",): _COUNT, ("tightBounds",): _FLAG}
        fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
        for name, leaf_of in (("minValues", _ordered), ("maxValues", _ordered), ("nullCount", _counted)):
            leaves = {
                column.path: leaf for column in columns if (leaf := leaf_of(column.data_type)) is not None
            }
            if leaves:
                fields.append(
                    pa.field(name, _struct_type({path: leaf.type for path, leaf in leaves.items()}))
                )
                self._leaves |= {(name, *path): leaf for path, leaf in leaves.items()}
        self.type: pa.StructType = pa.struct(fields)

    def covers(self, found: pa.DataType) -> bool:
        """Whether a struct that was found has every leaf of this layout."""
        needed = (path for path in self._leaves if path != ("tightBounds",))
        return all(_type_at(found, path) is not None for path in needed)

    def parse(self, texts: pa.ChunkedArray) -> pa.StructArray:
        """The statistics of JSON texts; null for a file whose text is absent or cannot be read."""
        wanted = {**self._leaves, **self._aliases(texts)}
        columns = read_json_statistics(texts, wanted)
        arrays = {path: columns[path].combine_chunks() for path in wanted}
        for path, array in arrays.items():
            if path[0] == "nullCounts":
                own = ("nullCount", *path[1:])
                arrays[own] = pc.coalesce(arrays[own], array)
        return self._assemble(arrays, _any_valid(arrays))

    def adapt(self, found: pa.StructArray) -> pa.StructArray:
        """Statistics that were typed before, in this layout; leaves that it does not have are null."""
        arrays = {path: _adapted(found, path, leaf) for path, leaf in self._leaves.items()}
        return self._assemble(arrays, pc.is_valid(found))

    def _aliases(self, texts: pa.ChunkedArray) -> dict[LeafPath, _Leaf]:
        """Some writers call null counts `nullCounts` (C-15)."""
        if not pc.any(pc.match_substring(texts, '"nullCounts"')).as_py():
            return {}
        return {
            ("nullCounts", *path[1:]): leaf for path, leaf in self._leaves.items() if path[0] == "nullCount"
        }

    def _assemble(self, arrays: Mapping[LeafPath, pa.Array], valid: pa.BooleanArray) -> pa.StructArray:
        return _nested(self.type, (), arrays, pc.invert(valid))


class _Leaf:
    """One leaf: how it is read from JSON and from typed columns, and its type."""

    def __init__(self, rule: BoundsRule, data_type: pa.DataType) -> None:
        self._rule = rule
        self.type = data_type

    @property
    def json_type(self) -> UnionType:
        """What JSON may hold."""
        return self._rule.json_type

    def read(self, values: list[Any]) -> pa.Array:
        """An array of decoded JSON values."""
        return self._typed(self._rule.read(values))

    def convert(self, values: pa.Array) -> pa.Array:
        """An array of a column that is typed already, perhaps by an older type."""
        return self._typed(self._rule.convert(pa.chunked_array([values])).combine_chunks())

    def _typed(self, recorded: pa.Array) -> pa.Array:
        if recorded.type == self.type:
            return recorded
        try:
            return recorded.cast(self.type, safe=not pa.types.is_floating(self.type))
        except _UNREADABLE:
            return self._rule.minimum(recorded)


class _DecimalLeaf(_Leaf):
    """Decimals, kept digit by digit."""

    def __init__(self, data_type: DecimalType) -> None:
        self.type = arrow_type(data_type)

    @property
    def json_type(self) -> UnionType:
        return Decimal | None

    def read(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, self.type)
        except _UNREADABLE:
            return pa.array([self._fitting(value) for value in values], self.type)

    def convert(self, values: pa.Array) -> pa.Array:
        try:
            if pa.types.is_integer(values.type):
                values = values.cast(pa.decimal128(19, 0))
            return values.cast(self.type) if pa.types.is_decimal(values.type) else self._absent(len(values))
        except _UNREADABLE:
            return self._absent(len(values))

    def _absent(self, count: int) -> pa.Array:
        return pa.nulls(count, self.type)

    def _fitting(self, value: Decimal | None) -> Decimal | None:
        try:
            return None if value is None else pa.scalar(value, self.type).as_py()
        except _UNREADABLE:
            return None


_COUNT = _Leaf(IntegerRule(pa.int64()), pa.int64())
_FLAG = _Leaf(BooleanRule(pa.bool_()), pa.bool_())


def statistics_layout(
    schema: StructType,
    partitioning: tuple[str, ...],
    mode: ColumnMappingMode,
    properties: TableProperties,
) -> StatisticsLayout:
    """The layout for a table: the columns that its properties index, by physical names."""
    return StatisticsLayout(indexed_columns(schema, partitioning, mode, properties))


def _ordered(data_type: DataType) -> _Leaf | None:
    """Minimum and maximum of a column, where it has an order (CK-014)."""
    if isinstance(data_type, DecimalType):
        return _DecimalLeaf(data_type)
    rule = None if data_type == BOOLEAN else bounds_rule(StructField("", data_type))
    return None if rule is None else _Leaf(rule, arrow_type(data_type))


def _counted(data_type: DataType) -> _Leaf | None:
    return None if data_type == VOID or isinstance(data_type, UnknownType) else _COUNT


def _struct_type(leaves: Mapping[LeafPath, pa.DataType]) -> pa.StructType:
    """The nested type that has these leaves, in their order."""
    inner: dict[str, dict[LeafPath, pa.DataType]] = {}
    for path, kind in leaves.items():
        inner.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct(
        [(name, below[()] if () in below else _struct_type(below)) for name, below in inner.items()]
    )


def _type_at(found: pa.DataType, path: LeafPath) -> pa.DataType | None:
    for name in path:
        if not pa.types.is_struct(found) or found.get_field_index(name) < 0:
            return None
        found = found.field(name).type
    return found


def _adapted(found: pa.StructArray, path: LeafPath, leaf: _Leaf) -> pa.Array:
    kind = _type_at(found.type, path)
    if kind is None and path[0] == "nullCount":
        path = ("nullCounts", *path[1:])
        kind = _type_at(found.type, path)
    if kind is None or pa.types.is_struct(kind):
        return pa.nulls(len(found), leaf.type)
    return leaf.convert(pc.struct_field(found, list(path)))


def _any_valid(arrays: Mapping[LeafPath, pa.Array]) -> pa.BooleanArray:
    """Whether a file has any statistic; a row count is one that nearly all have."""
    found = pc.is_valid(arrays["numRecords",])
    if found.false_count:
        for array in arrays.values():
            found = pc.or_(found, pc.is_valid(array))
    return found


def _nested(
    kind: pa.StructType, path: LeafPath, arrays: Mapping[LeafPath, pa.Array], absent: pa.BooleanArray | None
) -> pa.StructArray:
    """A struct of leaf arrays, null where `absent` is true."""
    children: list[pa.Array] = []
    for field in kind.fields:
        here = (*path, field.name)
        inner = pa.types.is_struct(field.type)
        children.append(_nested(field.type, here, arrays, None) if inner else arrays[here])
    return pa.StructArray.from_arrays(children, fields=kind.fields, mask=absent)
