"""Schema evolution: how a schema may change and keep older data files readable.

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

:func:`merge_schemas` grows a schema by what new data brings: unknown columns are added at the end of their
struct, nested ones too, always nullable and without reserved metadata; known ones keep name, place, metadata
and nullability. :func:`check_appendable` is the rule for data that may not change the schema. Both let a
column take values of another type only where each value can be stored as it is, checked as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from distributary.delta.errors import InvalidSchemaError, SchemaMismatchError
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
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_type_name,
)
from distributary.delta.schema.schema_edits import ColumnPath, rewrite_fields, walk_fields

TYPE_CHANGES_KEY: Final = "delta.typeChanges"

_WIDER: Final[Mapping[PrimitiveType, frozenset[PrimitiveType]]] = {
    BYTE: frozenset({SHORT, INTEGER, LONG, DOUBLE}),
    SHORT: frozenset({INTEGER, LONG, DOUBLE}),
    INTEGER: frozenset({LONG, DOUBLE}),
    FLOAT: frozenset({DOUBLE}),
    DATE: frozenset({TIMESTAMP_NTZ}),
}


_RESERVED_KEYS: Final = ("CURRENT_DEFAULT", "EXISTS_DEFAULT", "__CHAR_VARCHAR_TYPE_STRING")
_RESERVED_PREFIX: Final = "delta."
_MOST_PROBLEMS: Final = 5


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
    for path, field in walk_fields(schema):
        for change in type_changes(field):
            where = ".".join((*path, *change.field_path))
            if not is_widening(change.from_type, change.to_type):
                raise InvalidSchemaError(
                    f"Column {where} was changed from {change.from_type} to {change.to_type}, which is no "
                    "widening that we know, so older files cannot be read safely. Rewrite the table with the "
                    "engine that changed it."
                )
            _check_place(field, change, where)


def can_store(from_type: DataType, to_type: DataType) -> bool:
    """Whether values of one type may be written to a column of another, each kept exactly or refused."""
    if from_type in (to_type, VOID) or is_widening(from_type, to_type):
        return True
    if from_type in INTEGER_BITS and to_type in (FLOAT, DOUBLE):
        return True
    return _is_exact_number(from_type) and _is_exact_number(to_type)


def check_appendable(table_schema: StructType, data_schema: StructType) -> None:
    """Refuses data whose columns the table does not have, or cannot store without loss."""
    problems = list(_append_problems(table_schema, data_schema, ()))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        also = f" And {more} more." if more > 0 else ""
        raise SchemaMismatchError(" ".join(problems[:_MOST_PROBLEMS]) + also)


def merge_schemas(current: StructType, incoming: StructType, *, allow_widening: bool) -> StructType:
    """The current schema grown by what incoming data brings; `allow_widening` as the table allows it.

    A wider incoming type widens a column only along edges that no engine would find surprising: not from
    whole numbers to double or decimal, which is for :func:`widen_field`.
    """
    merger = _Merger(_widen_for_data if allow_widening else _keep_for_data)
    return merger.struct(current, incoming, ())


def widen_field(field: StructField, to_type: DataType, path: ColumnPath) -> StructField:
    """The field with a wider type, at any level of arrays and maps, the change recorded in its metadata."""
    return _Merger(_widen_as_asked).field(field, StructField(field.name, to_type), path)


def without_reserved_metadata(schema: StructType) -> StructType:
    """The schema without the metadata that belongs to another table: column ids, rules, defaults."""

    def strip(field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if not _is_reserved(key)}
        return StructField(field.name, field.data_type, field.nullable, kept)

    return rewrite_fields(schema, strip)


class _Merger(msgspec.Struct, frozen=True):
    """One walk through two schemas; `leaf` decides about two types that differ."""

    leaf: Callable[[DataType, DataType, str], DataType]

    def struct(self, current: StructType, incoming: StructType, path: ColumnPath) -> StructType:
        _refuse_twins(incoming, path)
        known = {field.name.lower() for field in current.fields}
        new = StructType(tuple(field for field in incoming.fields if field.name.lower() not in known))
        added = without_reserved_metadata(new)
        kept = tuple(self.field(field, incoming.find(field.name), path) for field in current.fields)
        optional = (StructField(f.name, f.data_type, True, f.metadata) for f in added.fields)
        return StructType((*kept, *optional))

    def field(self, current: StructField, incoming: StructField | None, path: ColumnPath) -> StructField:
        if incoming is None or incoming.data_type == current.data_type:
            return current
        changes: list[TypeChange] = []
        merged = self.type(current.data_type, incoming.data_type, (*path, current.name), (), changes)
        metadata = dict(current.metadata)
        if changes:
            recorded = cast("list[Any]", metadata.get(TYPE_CHANGES_KEY, []))
            metadata[TYPE_CHANGES_KEY] = [*recorded, *(_change_to_json(change) for change in changes)]
        return StructField(current.name, merged, current.nullable, metadata)

    def type(
        self,
        current: DataType,
        incoming: DataType,
        path: ColumnPath,
        part: ColumnPath,
        changes: list[TypeChange],
    ) -> DataType:
        match current, incoming:
            case StructType(), StructType():
                return self.struct(current, incoming, (*path, *part))
            case ArrayType(element, contains_null), ArrayType(other, _):
                return ArrayType(self.type(element, other, path, (*part, "element"), changes), contains_null)
            case MapType(key, value, contains_null), MapType(other_key, other_value, _):
                merged_key = self.type(key, other_key, path, (*part, "key"), changes)
                merged = self.type(value, other_value, path, (*part, "value"), changes)
                return MapType(merged_key, merged, contains_null)
            case _:
                chosen = self.leaf(current, incoming, ".".join((*path, *part)))
        if chosen != current and current != VOID:
            changes.append(TypeChange(current, chosen, part))
        return chosen


def _keep_for_data(current: DataType, incoming: DataType, where: str) -> DataType:
    if current == VOID:
        return incoming
    if can_store(incoming, current):
        return current
    raise SchemaMismatchError(_mismatch(current, incoming, where))


def _widen_for_data(current: DataType, incoming: DataType, where: str) -> DataType:
    surprising = current in INTEGER_BITS and incoming not in INTEGER_BITS
    if is_widening(current, incoming) and not surprising:
        return incoming
    return _keep_for_data(current, incoming, where)


def _widen_as_asked(current: DataType, wanted: DataType, where: str) -> DataType:
    if current == wanted or is_widening(current, wanted):
        return wanted
    raise SchemaMismatchError(
        f"Column {where} cannot become {wanted}: it is {current}, and only a wider type can hold what is "
        "there. Add a new column and rewrite the data, or overwrite the table."
    )


def _append_problems(table: StructType, data: StructType, path: ColumnPath) -> list[str]:
    _refuse_twins(data, path)
    problems: list[str] = []
    for field in data.fields:
        here = (*path, field.name)
        known = table.find(field.name)
        if known is None:
            problems.append(
                f"The table has no column {'.'.join(here)}: leave it out, or let the schema grow "
                "(merge_schema=True)."
            )
        else:
            problems.extend(_type_problems(known.data_type, field.data_type, here))
    return problems


def _type_problems(table: DataType, data: DataType, path: ColumnPath) -> list[str]:
    match table, data:
        case StructType(), StructType():
            return _append_problems(table, data, path)
        case ArrayType(element, _), ArrayType(other, _):
            return _type_problems(element, other, (*path, "element"))
        case MapType(key, value, _), MapType(other_key, other_value, _):
            keys = _type_problems(key, other_key, (*path, "key"))
            return keys + _type_problems(value, other_value, (*path, "value"))
        case _:
            return [] if can_store(data, table) else [_mismatch(table, data, ".".join(path))]


def _mismatch(table: DataType, data: DataType, where: str) -> str:
    return f"Column {where} is {table}, but the data has {data}: cast the data to {table}."


def _refuse_twins(struct: StructType, path: ColumnPath) -> None:
    lower = [name.lower() for name in struct.names]
    twins = [name for name in struct.names if lower.count(name.lower()) > 1]
    if twins:
        where = f" of {'.'.join(path)}" if path else ""
        raise SchemaMismatchError(
            f"The columns {', '.join(twins)}{where} differ only in case. Rename one of them."
        )


def _is_exact_number(data_type: DataType) -> bool:
    return data_type in INTEGER_BITS or isinstance(data_type, DecimalType)


def _is_reserved(key: str) -> bool:
    return key.lower().startswith(_RESERVED_PREFIX) or key in _RESERVED_KEYS


def _change_to_json(change: TypeChange) -> dict[str, str]:
    record = {"toType": str(change.to_type), "fromType": str(change.from_type)}
    return {**record, "fieldPath": ".".join(change.field_path)} if change.field_path else record


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
