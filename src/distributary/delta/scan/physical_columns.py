"""The columns of a data file, found and given the shape that the table's schema says.

A table's column is found in a file by name, by physical name or by field id (column
mapping), at every level of nesting. A column that the file lacks reads as null (LR-052); a
column that the schema lacks is not read. Values written under an older type are cast up
(type widening); INT96 and zone-less timestamps of instants count as UTC. A conversion that
would lose anything is a `DataFileError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from distributary.delta.errors import DataFileError
from distributary.delta.scan.variant import variant_to_json
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from distributary.delta.schema.data_types import (
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

_FIELD_ID = b"PARQUET:field_id"


def find_field(field: StructField, candidates: Sequence[pa.Field], mode: ColumnMappingMode) -> int | None:
    """The position of a table's field among the fields of a file (or of one of its structs)."""
    if mode is ColumnMappingMode.ID and (wanted := field_id(field)) is not None:
        return _position([_id_of(candidate) for candidate in candidates], wanted)
    name = physical_name(field, mode)
    names = [candidate.name for candidate in candidates]
    exact = _position(names, name)
    if exact is not None or mode is not ColumnMappingMode.NONE:
        return exact
    alike = [at for at, other in enumerate(names) if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _position(values: Sequence[object], wanted: object) -> int | None:
    return next((at for at, value in enumerate(values) if value == wanted), None)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    return None if text is None else int(text)


def check_field_ids(file_schema: pa.Schema, mode: ColumnMappingMode, path: str) -> None:
    """Refuse a file without field ids in a table that finds its columns by them."""
    if mode is ColumnMappingMode.ID and len(file_schema) and all(_id_of(f) is None for f in file_schema):
        raise DataFileError(
            f"data file {path} has no Parquet field ids, but the table finds its columns by id"
        )


def file_columns(
    fields: Iterable[StructField], file_schema: pa.Schema, mode: ColumnMappingMode
) -> dict[str, str]:
    """The file's column for each field of the table that the file has."""
    candidates = list(file_schema)
    found = {field.name: find_field(field, candidates, mode) for field in fields}
    return {name: candidates[at].name for name, at in found.items() if at is not None}


def has_all_fields(
    fields: Iterable[StructField], candidates: Iterable[pa.Field], mode: ColumnMappingMode
) -> bool:
    """Whether a file (or one of its structs) has every field of the table, at every level."""
    present = list(candidates)
    places = ((field, find_field(field, present, mode)) for field in fields)
    return all(at is not None and _is_whole(field.data_type, present[at].type, mode) for field, at in places)


def _is_whole(data_type: DataType, found: pa.DataType, mode: ColumnMappingMode) -> bool:
    """Whether a type of a file has every field that the table's has; another kind of type fails later."""
    match data_type:
        case StructType():
            return not pa.types.is_struct(found) or has_all_fields(data_type.fields, found.fields, mode)
        case ArrayType():
            return not pa.types.is_list(found) or _is_whole(data_type.element_type, found.value_type, mode)
        case MapType():
            return not pa.types.is_map(found) or (
                _is_whole(data_type.key_type, found.key_type, mode)
                and _is_whole(data_type.value_type, found.item_type, mode)
            )
        case _:
            return True


def conform(values: pa.Array, data_type: DataType, mode: ColumnMappingMode) -> pa.Array:
    """The values of a file's column in the shape and type that the table has."""
    if data_type == VARIANT:
        return variant_to_json(values)
    target = arrow_type(data_type)
    if values.type == target and not _needs_mapping(data_type):
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    match data_type:
        case StructType():
            return _conform_struct(values, data_type, mode)
        case ArrayType():
            return _conform_list(values, data_type, mode)
        case MapType():
            return _conform_map(values, data_type, mode)
        case _:
            return _cast(values, target)


def _needs_mapping(data_type: DataType) -> bool:
    """Whether equal Arrow types may still hide other names or a variant inside."""
    return isinstance(data_type, StructType | ArrayType | MapType)


def _conform_struct(values: pa.Array, data_type: StructType, mode: ColumnMappingMode) -> pa.Array:
    if not pa.types.is_struct(values.type):
        raise pa.ArrowInvalid(f"the file has {values.type}, not a struct")
    candidates = list(values.type.fields)
    children = values.flatten()
    arrays: list[pa.Array] = []
    for field in data_type.fields:
        at = find_field(field, candidates, mode)
        if at is None:
            arrays.append(pa.nulls(len(values), arrow_type(field.data_type)))
        else:
            arrays.append(conform(children[at], field.data_type, mode))
    target: Any = arrow_type(data_type)
    if not arrays:
        return pa.array([None if null else {} for null in values.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=values.is_null())


def _conform_list(values: pa.Array, data_type: ArrayType, mode: ColumnMappingMode) -> pa.Array:
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise pa.ArrowInvalid(f"the file has {values.type}, not a list")
    values = _at_zero(values)
    if pa.types.is_large_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    elements = conform(values.values, data_type.element_type, mode)
    return pa.ListArray.from_arrays(values.offsets, elements, type=arrow_type(data_type), mask=_mask(values))


def _conform_map(values: pa.Array, data_type: MapType, mode: ColumnMappingMode) -> pa.Array:
    if not pa.types.is_map(values.type):
        raise pa.ArrowInvalid(f"the file has {values.type}, not a map")
    values = _at_zero(values)
    keys = conform(values.keys, data_type.key_type, mode)
    items = conform(values.items, data_type.value_type, mode)
    return pa.MapArray.from_arrays(
        values.offsets, keys, items, type=arrow_type(data_type), mask=_mask(values)
    )


def _at_zero(values: pa.Array) -> pa.Array:
    """The array without an offset, as building from parts needs it."""
    return values if values.offset == 0 else values.take(pa.array(range(len(values)), pa.int64()))


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(target):
        micros = values.cast(pa.timestamp("us", values.type.tz), safe=False)
        return micros.view(target)
    return values.cast(target)
