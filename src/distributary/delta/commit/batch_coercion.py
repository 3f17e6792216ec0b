"""Rows brought to the types of a table, each value kept exactly or refused.

Columns and nested fields are matched by name, exact first, then ignoring case; encodings fall away
(dictionaries, views, large offsets); missing nested fields become null; numbers may change their type where
each value fits (SC-010: out of range is an error). What would lose something (fractions of a microsecond,
digits of a double, a text read as a number) is refused with the column named.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.errors import InvalidSchemaError, SchemaMismatchError
from distributary.delta.schema.arrow_schema import arrow_type, delta_type
from distributary.delta.schema.data_types import (
    INTEGER_BITS,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)
from distributary.delta.schema.schema_edits import ColumnPath
from distributary.delta.schema.schema_evolution import can_store


def coerce_array(values: Any, data_type: DataType, path: ColumnPath) -> pa.Array:
    """The values as the Arrow type of a Delta type."""
    values = _plain(values)
    wanted = arrow_type(data_type)
    if values.type == wanted:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), wanted)
    match data_type:
        case StructType() if pa.types.is_struct(values.type):
            return _coerce_struct(values, data_type, path)
        case ArrayType(element, _) if _is_list(values.type):
            return _coerce_list(values, element, path, wanted)
        case MapType() if pa.types.is_map(values.type):
            return _coerce_map(values, data_type, path, wanted)
        case _:
            return _coerce_value(values, data_type, path, wanted)


def list_parts(values: Any) -> tuple[pa.Array, Any]:
    """Offsets that begin at 0, and the start and length of the children they point into."""
    offsets = values.offsets
    first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    return pc.subtract(offsets, pa.scalar(first, offsets.type)), (first, last - first)


def _plain(values: Any) -> Any:
    """The values without the encodings that Delta does not know."""
    while True:
        if isinstance(values.type, pa.BaseExtensionType):
            values = values.storage
        elif pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        elif pa.types.is_run_end_encoded(values.type):
            values = pc.run_end_decode(values)
        else:
            return values


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_list(data_type) or types.is_large_list(data_type)
    views = types.is_list_view(data_type) or types.is_large_list_view(data_type)
    return plain or views or types.is_fixed_size_list(data_type)


def _coerce_struct(values: Any, struct: StructType, path: ColumnPath) -> pa.Array:
    names = [values.type.field(at).name for at in range(values.type.num_fields)]
    by_lower = {name.lower(): name for name in names}
    known = {name.lower() for name in struct.names}
    extra = [name for name in names if name.lower() not in known]
    if extra:
        raise SchemaMismatchError(
            f"The table has no column {'.'.join((*path, extra[0]))}: leave it out, or let the schema grow "
            "(merge_schema=True)."
        )
    # Flattening makes what a null struct hides null, so that no cast can stumble over it.
    given = values.flatten()
    children: list[pa.Array] = []
    for field in struct.fields:
        name = field.name if field.name in names else by_lower.get(field.name.lower())
        here = (*path, field.name)
        child = pa.nulls(len(values)) if name is None else given[names.index(name)]
        children.append(coerce_array(child, field.data_type, here))
    wanted = arrow_type(struct)
    fields = [wanted.field(at) for at in range(wanted.num_fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _coerce_list(values: Any, element: DataType, path: ColumnPath, wanted: Any) -> pa.Array:
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        values = _list_of_views(values)
    elif not pa.types.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    offsets, (first, length) = list_parts(values)
    children = coerce_array(values.values.slice(first, length), element, (*path, "element"))
    return pa.ListArray.from_arrays(offsets, children, type=wanted, mask=values.is_null())


def _list_of_views(values: Any) -> Any:
    """Views as lists; Arrow's own cast gives broken offsets (seen in pyarrow 26)."""
    lengths = pc.list_value_length(values).fill_null(0).cast(pa.int32())
    start = pa.array([0], pa.int32())
    offsets = pa.concat_arrays([start, pc.cumulative_sum_checked(lengths)])
    kind = pa.list_(values.type.value_field)
    return pa.ListArray.from_arrays(offsets, values.flatten(), type=kind, mask=values.is_null())


def _coerce_map(values: Any, data_type: MapType, path: ColumnPath, wanted: Any) -> pa.Array:
    offsets, (first, length) = list_parts(values)
    keys = coerce_array(values.keys.slice(first, length), data_type.key_type, (*path, "key"))
    items = coerce_array(values.items.slice(first, length), data_type.value_type, (*path, "value"))
    if not values.null_count:
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted)
    return _nullable_map(values, offsets, keys, items, wanted)


def _nullable_map(values: Any, offsets: pa.Array, keys: pa.Array, items: pa.Array, wanted: Any) -> pa.Array:
    entries = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    validity = pc.if_else(values.is_valid(), True, False).buffers()[1]
    return pa.Array.from_buffers(wanted, len(values), [validity, offsets.buffers()[1]], children=[entries])


def _coerce_value(values: Any, data_type: DataType, path: ColumnPath, wanted: pa.DataType) -> pa.Array:
    where = ".".join(path)
    try:
        given = delta_type(values.type)
    except InvalidSchemaError as error:
        raise SchemaMismatchError(f"Column {where}: {error}") from error
    if data_type == VOID and values.null_count == len(values):
        return pa.nulls(len(values))
    if not can_store(given, data_type):
        raise SchemaMismatchError(
            f"Column {where} is {data_type}, but the data has {given}: cast the data to {data_type}."
        )
    try:
        if given in INTEGER_BITS and isinstance(data_type, DecimalType):
            values = values.cast(pa.decimal256(76, data_type.scale))
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"Column {where} is {data_type}, and a value of the data ({values.type}) does not fit: {error}. "
            "Cast or round the data first."
        ) from error
