"""Schema evolution: which changes of a column's type keep older data files readable.

Implements "Type Widening" of the protocol (beyond.md B10). A column may grow along these edges, each of
which holds every old value exactly:

- byte → short → integer → long, by one step or several
- float → double; byte, short or integer → double
- byte, short or integer → decimal(p,s) with p − s ≥ 10; long → decimal(p,s) with p − s ≥ 20
- decimal(p,s) → decimal(p′,s′) with s′ ≥ s and p′ − p ≥ s′ − s
- date → timestamp_ntz

Each change is recorded in the field's metadata, `delta.typeChanges`, with a `fieldPath` (`element`, `key`,
`value`, joined by points) when it happened inside an array or map. A change that is not in this table cannot
be made good by casting old files up, so a schema that records one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGER_BITS,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_type_name,
)

TYPE_CHANGES_KEY: Final = "delta.typeChanges"

_WIDER: Final[Mapping[PrimitiveType, frozenset[PrimitiveType]]] = {
    BYTE: frozenset({SHORT, INTEGER, LONG, DOUBLE}),
    SHORT: frozenset({INTEGER, LONG, DOUBLE}),
    INTEGER: frozenset({LONG, DOUBLE}),
    FLOAT: frozenset({DOUBLE}),
    DATE: frozenset({TIMESTAMP_NTZ}),
}


class TypeChange(msgspec.Struct, frozen=True):
    """One recorded widening of a column, or of a part of it."""

    from_type: DataType
    to_type: DataType
    field_path: tuple[str, ...] = ()


def is_widening(from_type: DataType, to_type: DataType) -> bool:
    """Whether the protocol lets a column of one type become the other; false for equal types."""
    if isinstance(to_type, DecimalType):
        return from_type != to_type and _widens_to_decimal(from_type, to_type)
    return isinstance(from_type, PrimitiveType) and to_type in _WIDER.get(from_type, frozenset())


def type_changes(field: StructField) -> tuple[TypeChange, ...]:
    """The changes recorded in a field's metadata, oldest first."""
    recorded = field.metadata.get(TYPE_CHANGES_KEY)
    if recorded is None:
        return ()
    if not isinstance(recorded, list):
        raise InvalidSchemaError(f"Column {field.name}: {TYPE_CHANGES_KEY} must be an array.")
    return tuple(_parse_change(change, field) for change in cast("list[object]", recorded))


def check_type_changes(schema: StructType) -> None:
    """Refuses a schema that records a type change which old files cannot be cast through."""
    for path, field in _fields(schema, ()):
        for change in type_changes(field):
            where = ".".join((*path, *change.field_path))
            if not is_widening(change.from_type, change.to_type):
                raise InvalidSchemaError(
                    f"Column {where} was changed from {change.from_type} to {change.to_type}, which is no "
                    "widening that we know, so older files cannot be read safely. Rewrite the table with the "
                    "engine that changed it."
                )
            _check_place(field, change, where)


def _widens_to_decimal(from_type: DataType, to_type: DecimalType) -> bool:
    if isinstance(from_type, DecimalType):
        more_scale = to_type.scale - from_type.scale
        return more_scale >= 0 and to_type.precision - from_type.precision >= more_scale
    if not isinstance(from_type, PrimitiveType) or from_type not in INTEGER_BITS:
        return False
    return to_type.precision - to_type.scale >= (20 if from_type == LONG else 10)


def _parse_change(value: object, field: StructField) -> TypeChange:
    change = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    before, after, path = change.get("fromType"), change.get("toType"), change.get("fieldPath", "")
    if not (isinstance(before, str) and isinstance(after, str) and isinstance(path, str)):
        raise InvalidSchemaError(
            f"Column {field.name}: {TYPE_CHANGES_KEY} needs fromType and toType, got {value!r}."
        )
    here = (field.name,)
    parts = tuple(path.split(".")) if path else ()
    return TypeChange(parse_type_name(before, here), parse_type_name(after, here), parts)


def _check_place(field: StructField, change: TypeChange, where: str) -> None:
    """A `fieldPath` must lead through arrays and maps of its field only: structs have fields of their own."""
    here = field.data_type
    for part in change.field_path:
        match here, part:
            case ArrayType(element, _), "element":
                here = element
            case MapType(key, _, _), "key":
                here = key
            case MapType(_, value, _), "value":
                here = value
            case _:
                raise InvalidSchemaError(
                    f"Column {where}: {TYPE_CHANGES_KEY} names a part that {here} does not have."
                )


def _fields(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield (*path, field.name), field
                yield from _fields(field.data_type, (*path, field.name))
        case ArrayType(element, _):
            yield from _fields(element, (*path, "element"))
        case MapType(key, value, _):
            yield from _fields(key, (*path, "key"))
            yield from _fields(value, (*path, "value"))
        case _:
            return
