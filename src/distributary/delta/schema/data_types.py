"""Delta's data types and their JSON text, the `schemaString` of a table's metadata.

Implements "Schema Serialization Format" of the transaction log protocol (S4, appendix) with the later
types: `decimal(p,s)`, `timestamp_ntz`, `void`, `variant`. Types are immutable values. Parsing and writing
round-trip: names, nullability, field order and every metadata entry are kept as they are, in Spark's key
order.

Strict where a wrong guess could change rows: a field without name or type, a flag that is no boolean, a
decimal that cannot exist or two columns of one name raise :class:`InvalidSchemaError` with the path of the
field. Lenient where the protocol's editions differ: an absent `nullable`, `containsNull` or
`valueContainsNull` means true, absent metadata means none. A type name that we do not know (`geometry(…)`,
`interval …`, a user-defined type) becomes an :class:`UnknownType`: it can be listed and written back, and
is an error only when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from distributary.delta.errors import InvalidSchemaError
from distributary.errors import UnknownColumnError

MAX_DEPTH: Final = 100
"""Deepest nesting of a schema that is read; deeper ones are refused before they can exhaust the stack."""

MAX_DECIMAL_PRECISION: Final = 38

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(-?\d{1,4})\s*\)")


class PrimitiveType(msgspec.Struct, frozen=True):
    """A type that is only a name."""

    name: str

    def __str__(self) -> str:
        return self.name


class DecimalType(msgspec.Struct, frozen=True):
    """Numbers of a fixed count of digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


class ArrayType(msgspec.Struct, frozen=True):
    """Lists of elements of one type."""

    element_type: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element_type}>"


class MapType(msgspec.Struct, frozen=True):
    """Pairs of key and value; keys are never null."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"


class StructField(msgspec.Struct, frozen=True):
    """A column, top-level or nested."""

    name: str
    data_type: DataType
    nullable: bool = True
    metadata: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.name, self.data_type, self.nullable))

    def __str__(self) -> str:
        return f"{self.name}:{self.data_type}{'' if self.nullable else ' not null'}"

    @property
    def comment(self) -> str | None:
        """The column's comment, when it has one."""
        comment = self.metadata.get("comment")
        return comment if isinstance(comment, str) else None

    def with_type(self, data_type: DataType) -> StructField:
        """The same field with another type."""
        return StructField(self.name, data_type, self.nullable, self.metadata)


class StructType(msgspec.Struct, frozen=True):
    """Named fields in order; also the schema of a whole table."""

    fields: tuple[StructField, ...] = ()

    def __str__(self) -> str:
        return f"struct<{','.join(str(field) for field in self.fields)}>"

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    def find(self, name: str) -> StructField | None:
        """The field of this name, exact first, then ignoring case; None when there is none."""
        folded: list[StructField] = []
        lower = name.lower()
        for field in self.fields:
            if field.name == name:
                return field
            if field.name.lower() == lower:
                folded.append(field)
        if len(folded) > 1:
            names = ", ".join(field.name for field in folded)
            raise InvalidSchemaError(
                f"Column {name!r} is ambiguous: the schema has {names}. Write its exact name."
            )
        return folded[0] if folded else None

    def field(self, name: str) -> StructField:
        """The field of this name, exact first, then ignoring case."""
        found = self.find(name)
        if found is None:
            known = ", ".join(self.names[:20]) + (", …" if len(self.fields) > 20 else "")
            raise UnknownColumnError(f"No column {name!r}; the columns are: {known or '(none)'}.")
        return found

    def select(self, names: tuple[str, ...]) -> StructType:
        """The struct of only these fields, in this order."""
        return StructType(tuple(self.field(name) for name in names))


class UnknownType(msgspec.Struct, frozen=True):
    """A type that we do not know: kept as its text, an error when its values are asked for."""

    text: str

    def __str__(self) -> str:
        return self.text


DataType: TypeAlias = PrimitiveType | DecimalType | ArrayType | MapType | StructType | UnknownType

STRING: Final = PrimitiveType("string")
LONG: Final = PrimitiveType("long")
INTEGER: Final = PrimitiveType("integer")
SHORT: Final = PrimitiveType("short")
BYTE: Final = PrimitiveType("byte")
FLOAT: Final = PrimitiveType("float")
DOUBLE: Final = PrimitiveType("double")
BOOLEAN: Final = PrimitiveType("boolean")
BINARY: Final = PrimitiveType("binary")
DATE: Final = PrimitiveType("date")
TIMESTAMP: Final = PrimitiveType("timestamp")
TIMESTAMP_NTZ: Final = PrimitiveType("timestamp_ntz")
VARIANT: Final = PrimitiveType("variant")
VOID: Final = PrimitiveType("void")

INTEGER_BITS: Final[Mapping[PrimitiveType, int]] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
"""Width of each integer type."""

PRIMITIVES: Final[Mapping[str, PrimitiveType]] = {
    primitive.name: primitive
    for primitive in (
        *(STRING, LONG, INTEGER, SHORT, BYTE, FLOAT, DOUBLE, BOOLEAN),
        *(BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID),
    )
}

_TYPE_NAMES: Final[Mapping[str, DataType]] = {
    **PRIMITIVES,
    # Names that Spark's own parser reads for backward compatibility.
    "null": VOID,
    "timestamp_ltz": TIMESTAMP,
    "decimal": DecimalType(10, 0),
}


def parse_schema(text: str) -> StructType:
    """The schema of a table from its `schemaString`."""
    parsed = parse_type(_decode(text))
    if not isinstance(parsed, StructType):
        raise InvalidSchemaError(f"A table's schema must be a struct, not {_shorten(str(parsed))}.")
    return parsed


def parse_type(value: object, path: tuple[str, ...] = ()) -> DataType:
    """A data type from its decoded JSON: a type name, or the object of a nested type."""
    if isinstance(value, str):
        return parse_type_name(value, path)
    if not isinstance(value, dict):
        raise _invalid(path, f"a type must be a name or an object, not {_shorten(repr(value))}")
    if len(path) > MAX_DEPTH:
        raise _invalid(path[:5], f"the schema is nested deeper than {MAX_DEPTH} levels")
    node = cast("dict[str, Any]", value)
    kind = node.get("type")
    if not isinstance(kind, str):
        raise _invalid(path, "a nested type needs a 'type': struct, array or map")
    parser = _NESTED_PARSERS.get(kind)
    return parser(node, path) if parser else UnknownType(msgspec.json.encode(node).decode())


def parse_type_name(text: str, path: tuple[str, ...] = ()) -> DataType:
    """A data type from a type name such as `long` or `decimal(10,2)`."""
    known = _TYPE_NAMES.get(text)
    if known is not None:
        return known
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        return UnknownType(text)
    precision, scale = int(decimal[1]), int(decimal[2])
    if not (1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        raise _invalid(
            path, f"{text} cannot exist: precision is 1 to {MAX_DECIMAL_PRECISION}, scale 0 to precision"
        )
    return DecimalType(precision, scale)


def schema_to_json(schema: StructType) -> str:
    """The `schemaString` of a schema, compact, in Spark's key order."""
    return msgspec.json.encode(type_to_json(schema)).decode()


def type_to_json(data_type: DataType) -> str | dict[str, Any]:
    """The decoded JSON of a data type, the inverse of :func:`parse_type`."""
    match data_type:
        case PrimitiveType() | DecimalType():
            return str(data_type)
        case UnknownType(text):
            return msgspec.json.decode(text) if text.startswith("{") else text
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": type_to_json(element), "containsNull": contains_null}
        case MapType(key, value, value_contains_null):
            sides = {"keyType": type_to_json(key), "valueType": type_to_json(value)}
            return {"type": "map", **sides, "valueContainsNull": value_contains_null}
        case StructType(fields):
            return {"type": "struct", "fields": [_field_to_json(field) for field in fields]}


def _field_to_json(field: StructField) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": type_to_json(field.data_type),
        "nullable": field.nullable,
        "metadata": field.metadata,
    }


def _parse_struct(node: dict[str, Any], path: tuple[str, ...]) -> StructType:
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise _invalid(path, "a struct needs 'fields', an array")
    parsed = tuple(_parse_field(field, path) for field in cast("list[object]", fields))
    if len({field.name for field in parsed}) != len(parsed):
        names = [field.name for field in parsed]
        twice = next(name for name in names if names.count(name) > 1)
        raise _invalid(path, f"two fields are called {twice!r}")
    return StructType(parsed)


def _parse_field(value: object, path: tuple[str, ...]) -> StructField:
    if not isinstance(value, dict):
        raise _invalid(path, f"a field must be an object, not {_shorten(repr(value))}")
    node = cast("dict[str, Any]", value)
    name = node.get("name")
    if not isinstance(name, str):
        raise _invalid(path, "a field needs a 'name', a string")
    here = (*path, name)
    if "type" not in node:
        raise _invalid(here, "the field has no 'type'")
    metadata = node.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _invalid(here, "'metadata' must be an object")
    kept = cast("dict[str, Any]", metadata or {})
    return StructField(name, parse_type(node["type"], here), _flag(node, "nullable", here), kept)


def _parse_array(node: dict[str, Any], path: tuple[str, ...]) -> ArrayType:
    return ArrayType(_inner(node, "elementType", (*path, "element")), _flag(node, "containsNull", path))


def _parse_map(node: dict[str, Any], path: tuple[str, ...]) -> MapType:
    key = _inner(node, "keyType", (*path, "key"))
    value = _inner(node, "valueType", (*path, "value"))
    return MapType(key, value, _flag(node, "valueContainsNull", path))


_NESTED_PARSERS: Final[Mapping[str, Callable[[dict[str, Any], tuple[str, ...]], DataType]]] = {
    "struct": _parse_struct,
    "array": _parse_array,
    "map": _parse_map,
}


def _inner(node: dict[str, Any], key: str, path: tuple[str, ...]) -> DataType:
    if key not in node:
        raise _invalid(path, f"'{key}' is missing")
    return parse_type(node[key], path)


def _flag(node: dict[str, Any], key: str, path: tuple[str, ...]) -> bool:
    flag = node.get(key, True)
    if not isinstance(flag, bool):
        raise _invalid(path, f"'{key}' must be true or false, not {_shorten(repr(flag))}")
    return flag


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidSchemaError(f"The schema is not JSON ({error}): {_shorten(text)}") from error


def _invalid(path: tuple[str, ...], message: str) -> InvalidSchemaError:
    where = f"field {'.'.join(path)}" if path else "top level"
    return InvalidSchemaError(f"Invalid schema, {where}: {message}.")


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
