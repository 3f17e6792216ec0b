"""JSON as rows of a table: types that the decoder checks, then columns.

Each Delta type has a type of msgspec, built once, so that a row is checked while it is decoded and numbers
keep every digit. Next to the plain forms those are read that the command line writes: decimals, NaN and the
infinities as strings, and a map as a list of [key, value]; whole numbers may be strings too.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, chain
from typing import Any

import msgspec
import pyarrow as pa

from distributary.cli.text_values import UnreadableValueError, shown, typed_text
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    STRING,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from distributary.errors import InvalidInputError

_PLAIN = frozenset({*INTEGER_BITS, FLOAT, DOUBLE, BOOLEAN})


def row_type(fields: Sequence[StructField], keys: Sequence[str] | None = None) -> type[msgspec.Struct]:
    """The type of a JSON object with these fields, under other keys where they are given."""
    names = [_attribute(at) for at in range(len(fields))]
    members = [(name, _json_type(field.data_type), None) for name, field in zip(names, fields, strict=True)]
    encoded = [field.name for field in fields] if keys is None else keys
    rename = dict(zip(names, encoded, strict=True))
    try:
        return msgspec.defstruct("Row", members, rename=rename, forbid_unknown_fields=True, gc=False)
    except ValueError as error:
        raise InvalidInputError(
            "Columns with control characters, quotes or backslashes in their names cannot be read from JSON "
            f"({error}). Use CSV, Parquet or Arrow."
        ) from error


def row_columns(rows: Sequence[Any], fields: Sequence[StructField]) -> list[pa.Array]:
    """The columns of decoded rows."""
    columns: list[pa.Array] = []
    for at, field in enumerate(fields):
        name = _attribute(at)
        try:
            columns.append(typed_json([getattr(row, name) for row in rows], field.data_type))
        except UnreadableValueError as error:
            raise UnreadableValueError(error.index, f"column {field.name}: {error.reason}") from None
    return columns


def value_decoder(data_type: DataType) -> msgspec.json.Decoder[Any]:
    """The decoder of one value of a type."""
    return msgspec.json.Decoder(_json_type(data_type))


def typed_json(values: list[Any], data_type: DataType) -> pa.Array:
    """Decoded JSON values as an Arrow array."""
    match data_type:
        case StructType():
            return _structs(values, data_type)
        case ArrayType():
            return _lists(values, data_type)
        case MapType():
            return _maps(values, data_type)
        case _:
            return _scalars(values, data_type)


def _attribute(at: int) -> str:
    return f"field_{at}"


def _json_type(data_type: DataType) -> Any:
    """What the decoder lets through, null always."""
    match data_type:
        case StructType(fields):
            return row_type(fields) | None
        case ArrayType(element, _):
            return list[_json_type(element)] | None
        case MapType(key, value, _):
            pairs = list[tuple[_json_type(key), _json_type(value)]]
            return dict[str, _json_type(value)] | pairs | None
        case DecimalType():
            return Decimal | None
        case _ if data_type in INTEGER_BITS:
            return int | str | None
        case _ if data_type in (FLOAT, DOUBLE):
            return float | str | None
        case _ if data_type == BOOLEAN:
            return bool | str | None
        case _ if data_type == VOID:
            return None
        case _:
            return str | None


def _scalars(values: list[Any], data_type: DataType) -> pa.Array:
    wanted = arrow_type(data_type)
    if data_type in (STRING, VARIANT, VOID):
        return pa.array(values, wanted)
    if data_type in _PLAIN or isinstance(data_type, DecimalType):
        try:
            return pa.array(values, wanted)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass  # a string among the numbers, or a number that does not fit: the slower way tells which
    return typed_text(pa.array([_text(value) for value in values], pa.string()), data_type)


def _text(value: Any) -> str | None:
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    return value if value is None or isinstance(value, str) else str(value).lower()


def _structs(values: list[Any], struct: StructType) -> pa.Array:
    absent = [value is None for value in values]
    children: list[pa.Array] = []
    for at, field in enumerate(struct.fields):
        name = _attribute(at)
        members = [None if value is None else getattr(value, name) for value in values]
        children.append(_inside(members, field.data_type, field.name))
    wanted = arrow_type(struct)
    fields = [wanted.field(at) for at in range(wanted.num_fields)]
    if not children:
        return pa.array([None if missing else {} for missing in absent], wanted)
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(absent, pa.bool_()))


def _lists(values: list[Any], data_type: ArrayType) -> pa.Array:
    elements = list(chain.from_iterable(value or () for value in values))
    children = _of_rows(values, elements, data_type.element_type, "element")
    return pa.ListArray.from_arrays(_offsets(values), children, type=arrow_type(data_type))


def _maps(values: list[Any], data_type: MapType) -> pa.Array:
    pairs = [list(value.items()) if isinstance(value, dict) else value for value in values]
    entries = list(chain.from_iterable(value or () for value in pairs))
    keys = _map_keys(pairs, [key for key, _ in entries], data_type.key_type)
    items = _of_rows(pairs, [item for _, item in entries], data_type.value_type, "value")
    return pa.MapArray.from_arrays(_offsets(pairs), keys, items, type=arrow_type(data_type))


def _map_keys(pairs: list[Any], keys: list[Any], key_type: DataType) -> pa.Array:
    if None in keys:
        raise UnreadableValueError(_row_of(pairs, keys.index(None)), "the key of a map cannot be null")
    return _of_rows(pairs, keys, key_type, "key")


def _offsets(values: list[Any]) -> pa.Array:
    """Where each list begins and ends; a null entry marks a list that is null."""
    ends = accumulate((len(value or ()) for value in values), initial=0)
    missing = [*(value is None for value in values), False]
    return pa.array([None if gone else end for end, gone in zip(ends, missing, strict=True)], pa.int32())


def _of_rows(values: list[Any], elements: list[Any], data_type: DataType, name: str) -> pa.Array:
    try:
        return _inside(elements, data_type, name)
    except UnreadableValueError as error:
        raise UnreadableValueError(_row_of(values, error.index), error.reason) from None


def _row_of(values: list[Any], element: int) -> int:
    ends = list(accumulate(len(value or ()) for value in values))
    return bisect.bisect_right(ends, element)


def _inside(values: list[Any], data_type: DataType, name: str) -> pa.Array:
    try:
        return typed_json(values, data_type)
    except UnreadableValueError as error:
        raise UnreadableValueError(error.index, f"{name}: {error.reason}") from None


def decoded(text: str, decoder: msgspec.json.Decoder[Any]) -> Any:
    """One value from its JSON text; ValueError where it is none of its type."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{shown(text)}: {error}") from error
