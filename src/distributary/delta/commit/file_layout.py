"""How the columns of a table lie in its data files.

Implements LW-006 and the writer's part of column mapping, void and partition columns (S4 "Data Files";
beyond.md B5, B10). A file has the table's columns under their physical names, with Parquet field ids where
columns are mapped, without partition columns (their values are in the log) and without void columns (all
null, never in files). Everything is optional in Parquet except the keys of maps, so that dropping NOT NULL
later asks for no new files. Timestamps are INT64 microseconds.

Rows are given new labels without being copied.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from distributary.delta.errors import InvalidSchemaError, UnsupportedFeatureError
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from distributary.delta.schema.data_types import (
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

_FIELD_ID = b"PARQUET:field_id"


class FileLayout:
    """The columns of new data files of one table."""

    def __init__(self, schema: StructType, partitioning: Collection[str], mode: ColumnMappingMode) -> None:
        self._mode = mode
        self._stored = tuple(
            field for field in schema.fields if field.name not in partitioning and field.data_type != VOID
        )
        if not self._stored:
            raise InvalidSchemaError(
                "A data file needs at least one column that is neither a partition column nor void. "
                "Add a column, or partition by fewer."
            )
        self.schema: pa.Schema = pa.schema([self._field(field) for field in self._stored])

    def physical(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the table's logical columns as a file keeps them."""
        arrays = [
            self._relabelled(rows.column(field.name), field.data_type, self.schema.field(at).type)
            for at, field in enumerate(self._stored)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _field(self, field: StructField) -> pa.Field:
        mapped = self._mode is not ColumnMappingMode.NONE
        number = field_id(field) if mapped else None
        if mapped and number is None:
            raise InvalidSchemaError(f"Column {field.name} has no column id, but the table maps its columns.")
        metadata = None if number is None else {_FIELD_ID: str(number).encode()}
        name = physical_name(field, self._mode)
        return pa.field(name, self._type(field.data_type, field.name), nullable=True, metadata=metadata)

    def _type(self, data_type: DataType, where: str) -> pa.DataType:
        match data_type:
            case StructType(fields):
                kept = [self._field(field) for field in fields if field.data_type != VOID]
                if not kept:
                    raise InvalidSchemaError(f"Column {where} is a struct without any field that has values.")
                return pa.struct(kept)
            case ArrayType(element, _):
                return pa.list_(pa.field("element", self._inner(element, where)))
            case MapType(key, value, _):
                return pa.map_(
                    pa.field("key", self._inner(key, where), nullable=False),
                    pa.field("value", self._inner(value, where)),
                )
            case _ if data_type == VARIANT:
                raise UnsupportedFeatureError(
                    f"Column {where} is a variant, which this writer does not implement.",
                    features=("variantType",),
                )
            case _:
                return arrow_type(data_type)

    def _inner(self, data_type: DataType, where: str) -> pa.DataType:
        if data_type == VOID:
            raise InvalidSchemaError(f"Column {where} has void in an array or map, which no file can hold.")
        return self._type(data_type, where)

    def _relabelled(self, values: Any, data_type: DataType, target: Any) -> pa.Array:
        """Values under the names and nullability of their physical type."""
        if values.type.equals(target, check_metadata=True):
            return values
        match data_type:
            case StructType(fields):
                kept = [at for at, field in enumerate(fields) if field.data_type != VOID]
                children = [
                    self._relabelled(values.field(at), fields[at].data_type, target.field(to).type)
                    for to, at in enumerate(kept)
                ]
                mask = values.is_null() if values.null_count else None
                return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
            case ArrayType(element, _):
                child = self._relabelled(values.values, element, target.value_type)
                return _with_child(values, child, target)
            case MapType(key, value, _):
                keys = self._relabelled(values.keys, key, target.key_type)
                items = self._relabelled(values.items, value, target.item_type)
                fields = [target.key_field, target.item_field]
                return _with_child(values, pa.StructArray.from_arrays([keys, items], fields=fields), target)
            case _:
                return values


def _with_child(values: Any, child: pa.Array, target: pa.DataType) -> pa.Array:
    """The same lists or maps over other elements, which must be as many."""
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(target, len(values), buffers, values.null_count, values.offset, [child])
