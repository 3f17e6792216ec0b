"""Delta schemas as Arrow schemas, and back.

Delta → Arrow: `timestamp` is a UTC instant in microseconds, `timestamp_ntz` the same without a zone,
`variant` its JSON text, `void` Arrow's null type. A field's metadata travels with the Arrow field: its
comment as text under `comment`, everything as JSON under `delta.metadata`, and what Arrow cannot tell apart
(a variant) under `delta.type`; so Delta → Arrow → Delta gives the same schema.

Arrow → Delta is loss-free or refused. Encodings fall away (dictionary, run-end, views, large and fixed
sizes, extension types by their storage). Types that Delta lacks are widened: uint8 → short, uint16 →
integer, uint32 → long, uint64 → decimal(20,0), float16 → float, a negative decimal scale → scale 0.
Timestamps of every unit become microseconds (finer digits are the writer's to judge) and those of every
zone UTC instants. Times of day, durations, intervals and unions have no counterpart and raise
:class:`InvalidSchemaError` with a remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_DECIMAL_PRECISION,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
)

COMMENT_KEY: Final = b"comment"
METADATA_KEY: Final = b"delta.metadata"
TYPE_KEY: Final = b"delta.type"

_TO_ARROW: Final[Mapping[PrimitiveType, pa.DataType]] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VARIANT: pa.string(),
    VOID: pa.null(),
}

_FROM_ARROW: Final[Mapping[pa.DataType, DataType]] = {
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.int8(): BYTE,
    pa.int16(): SHORT,
    pa.int32(): INTEGER,
    pa.int64(): LONG,
    pa.uint8(): SHORT,
    pa.uint16(): INTEGER,
    pa.uint32(): LONG,
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.bool_(): BOOLEAN,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.null(): VOID,
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type in which values of a Delta type are given out."""
    match data_type:
        case PrimitiveType():
            return _TO_ARROW[data_type]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            return pa.list_(_inner_field("element", element, nullable=contains_null))
        case MapType(key, value, value_contains_null):
            if key == VOID:
                raise InvalidSchemaError("The keys of a map cannot be void: a key is never null.")
            key_field: Any = _inner_field("key", key, nullable=False)
            value_field: Any = _inner_field("value", value, nullable=value_contains_null)
            return pa.map_(key_field, value_field)
        case StructType(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case UnknownType(text):
            raise InvalidSchemaError(
                f"Values of type {text} cannot be read. Leave the column out (columns=…)."
            )


def arrow_field(field: StructField) -> pa.Field:
    """The Arrow field of a column, with its metadata."""
    try:
        converted = arrow_type(field.data_type)
    except InvalidSchemaError as error:
        raise _at(field.name, error) from error
    nullable = field.nullable or field.data_type == VOID
    return pa.field(field.name, converted, nullable, metadata=_arrow_metadata(field))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a table or struct."""
    return pa.schema([arrow_field(field) for field in schema.fields])


def delta_type(data_type: pa.DataType) -> DataType:
    """The Delta type that holds every value of an Arrow type."""
    known = _FROM_ARROW.get(data_type)
    if known is not None:
        return known
    unwrapped = _unwrap(data_type)
    if unwrapped is not None:
        return delta_type(unwrapped)
    if pa.types.is_timestamp(data_type):
        return TIMESTAMP_NTZ if data_type.tz is None else TIMESTAMP
    if pa.types.is_fixed_size_binary(data_type):
        return BINARY
    if pa.types.is_decimal(data_type):
        return _delta_decimal(data_type)
    return _delta_nested_type(data_type)


def delta_field(field: pa.Field) -> StructField:
    """The Delta column of an Arrow field, with the metadata it carries."""
    try:
        data_type = _typed(field)
    except InvalidSchemaError as error:
        raise _at(field.name, error) from error
    return StructField(field.name, data_type, field.nullable, _delta_metadata(field))


def delta_schema(schema: pa.Schema) -> StructType:
    """The Delta schema of an Arrow schema."""
    return _delta_struct(list(schema))


def _inner_field(name: str, data_type: DataType, *, nullable: bool) -> pa.Field:
    return arrow_field(StructField(name, data_type, nullable))


def _arrow_metadata(field: StructField) -> dict[bytes, bytes] | None:
    metadata: dict[bytes, bytes] = {}
    comment = field.comment
    if comment is not None:
        metadata[COMMENT_KEY] = comment.encode()
    if len(field.metadata) > len(metadata):
        metadata[METADATA_KEY] = msgspec.json.encode(field.metadata)
    if field.data_type == VARIANT:
        metadata[TYPE_KEY] = VARIANT.name.encode()
    return metadata or None


def _delta_metadata(field: pa.Field) -> dict[str, Any]:
    carried: Mapping[bytes, bytes] = field.metadata or {}
    metadata: dict[str, Any] = {}
    if METADATA_KEY in carried:
        try:
            metadata = msgspec.json.decode(carried[METADATA_KEY], type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidSchemaError(
                f"Field {field.name}: {METADATA_KEY.decode()} is no JSON object."
            ) from error
    if COMMENT_KEY in carried:
        metadata["comment"] = carried[COMMENT_KEY].decode(errors="replace")
    return metadata


def _typed(field: pa.Field) -> DataType:
    carried: Mapping[bytes, bytes] = field.metadata or {}
    converted = delta_type(field.type)
    is_variant = converted == STRING and carried.get(TYPE_KEY) == VARIANT.name.encode()
    return VARIANT if is_variant else converted


def _unwrap(data_type: pa.DataType) -> pa.DataType | None:
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return data_type.value_type
    if isinstance(data_type, pa.BaseExtensionType):
        return data_type.storage_type
    return None


def _delta_decimal(data_type: Any) -> DecimalType:
    precision, scale = data_type.precision, data_type.scale
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > MAX_DECIMAL_PRECISION:
        raise InvalidSchemaError(
            f"{data_type} has more than {MAX_DECIMAL_PRECISION} digits. Cast it to string."
        )
    return DecimalType(precision, scale)


def _delta_nested_type(data_type: Any) -> DataType:
    if pa.types.is_struct(data_type):
        return _delta_struct([data_type.field(index) for index in range(data_type.num_fields)])
    if pa.types.is_map(data_type):
        key, value = delta_field(data_type.key_field), delta_field(data_type.item_field)
        return MapType(key.data_type, value.data_type, value.nullable)
    if _is_list(data_type):
        element = delta_field(data_type.value_field)
        return ArrayType(element.data_type, element.nullable)
    raise InvalidSchemaError(f"Delta has no type for Arrow's {data_type}. {_remedy(data_type)}")


def _delta_struct(fields: list[pa.Field]) -> StructType:
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidSchemaError(f"Two fields are called {twice!r}. Rename one of them.")
    return StructType(tuple(delta_field(field) for field in fields))


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    variable = (
        types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)
    )
    return variable or types.is_list_view(data_type) or types.is_large_list_view(data_type)


def _remedy(data_type: pa.DataType) -> str:
    if pa.types.is_time(data_type):
        return "Cast it to string, or to a long of microseconds since midnight."
    if pa.types.is_duration(data_type) or pa.types.is_interval(data_type):
        return "Cast it to a long of microseconds."
    return "Cast it to a type of the Delta protocol."


def _at(name: str, error: InvalidSchemaError) -> InvalidSchemaError:
    text = str(error)
    inner = text.removeprefix("Column ") if text.startswith("Column ") else None
    return InvalidSchemaError(f"Column {name}.{inner}" if inner else f"Column {name}: {text}")
