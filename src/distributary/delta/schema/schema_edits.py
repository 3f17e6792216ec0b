"""Paths into a schema, and the schema with one field changed.

A path names struct fields from the top, exact first, then ignoring case, and goes through the parts of
arrays and maps as `element`, `key` and `value`: `orders.element.price`. Every edit gives a new schema;
fields that the edit does not touch stay the very same values, with their metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from distributary.delta.errors import SchemaMismatchError
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructField, StructType
from distributary.errors import UnknownColumnError
from distributary.expressions.tree import col

ColumnPath: TypeAlias = tuple[str, ...]


class Position(msgspec.Struct, frozen=True):
    """Where a field stands among its siblings: at the end, first, or right after another."""

    first: bool = False
    after: str | None = None

    def __str__(self) -> str:
        return "FIRST" if self.first else f"AFTER {self.after}" if self.after else ""


LAST = Position()


def column_path(column: str | ColumnPath) -> ColumnPath:
    """The path of a column from its text (`address.city`, odd names in backticks) or its names."""
    return col(column).path if isinstance(column, str) else tuple(column)


def walk_fields(data_type: DataType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, StructField]]:
    """Every field of a schema with its path, parents before children."""
    match data_type:
        case StructType(fields):
            for field in fields:
                yield (*path, field.name), field
                yield from walk_fields(field.data_type, (*path, field.name))
        case ArrayType(element, _):
            yield from walk_fields(element, (*path, "element"))
        case MapType(key, value, _):
            yield from walk_fields(key, (*path, "key"))
            yield from walk_fields(value, (*path, "value"))
        case _:
            return


def rewrite_fields(schema: StructType, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with each of its fields changed, parents before children."""
    fields = tuple(change(field) for field in schema.fields)
    return StructType(tuple(field.with_type(_rewritten(field.data_type, change)) for field in fields))


def find_field(schema: StructType, path: ColumnPath) -> StructField | None:
    """The field at a path; None when there is none."""
    try:
        parent = _part(schema, path[:-1], path)
    except UnknownColumnError:
        return None
    return parent.find(path[-1]) if isinstance(parent, StructType) else None


def field_at(schema: StructType, path: ColumnPath) -> StructField:
    """The field at a path."""
    parent = _part(schema, path[:-1], path)
    if not isinstance(parent, StructType):
        raise _no_field(path, parent)
    return parent.field(path[-1])


def exact_path(schema: StructType, path: ColumnPath) -> ColumnPath:
    """The path as the schema spells it."""
    here: DataType = schema
    spelt: list[str] = []
    for name in path:
        if isinstance(here, StructType):
            field = here.field(name)
            spelt.append(field.name)
            here = field.data_type
        else:
            here = _part(here, (name,), path)
            spelt.append(name.lower())
    return tuple(spelt)


def replace_field(
    schema: StructType, path: ColumnPath, change: Callable[[StructField], StructField]
) -> StructType:
    """The schema with one field changed."""
    target = field_at(schema, path)

    def edit(parent: StructType) -> StructType:
        return StructType(tuple(change(field) if field is target else field for field in parent.fields))

    return _edited(schema, path[:-1], edit, path)


def remove_field(schema: StructType, path: ColumnPath) -> StructType:
    """The schema without one field; a struct keeps at least one."""
    target = field_at(schema, path)

    def edit(parent: StructType) -> StructType:
        if len(parent.fields) == 1:
            raise SchemaMismatchError(
                f"{'.'.join(path)} is the only column of its {'struct' if path[1:] else 'table'}: "
                "it cannot be dropped."
            )
        return StructType(tuple(field for field in parent.fields if field is not target))

    return _edited(schema, path[:-1], edit, path)


def insert_field(
    schema: StructType, parent: ColumnPath, field: StructField, position: Position = LAST
) -> StructType:
    """The schema with one more field in the struct at `parent` (the table itself when empty)."""
    path = (*parent, field.name)

    def edit(struct: StructType) -> StructType:
        taken = next((name for name in struct.names if name.lower() == field.name.lower()), None)
        if taken is not None:
            where = ".".join((*parent, taken))
            raise SchemaMismatchError(f"There is a column {where} already (names ignore case).")
        return _placed(struct, field, position)

    return _edited(schema, parent, edit, path)


def move_field(schema: StructType, path: ColumnPath, position: Position) -> StructType:
    """The schema with one field at another place among its siblings."""
    target = field_at(schema, path)

    def edit(parent: StructType) -> StructType:
        rest = StructType(tuple(field for field in parent.fields if field is not target))
        return _placed(rest, target, position)

    return _edited(schema, path[:-1], edit, path)


def _placed(struct: StructType, field: StructField, position: Position) -> StructType:
    if position.first:
        at = 0
    elif position.after is not None:
        at = struct.fields.index(struct.field(position.after)) + 1
    else:
        at = len(struct.fields)
    return StructType((*struct.fields[:at], field, *struct.fields[at:]))


def _rewritten(data_type: DataType, change: Callable[[StructField], StructField]) -> DataType:
    match data_type:
        case StructType():
            return rewrite_fields(data_type, change)
        case ArrayType(element, contains_null):
            return ArrayType(_rewritten(element, change), contains_null)
        case MapType(key, value, value_contains_null):
            return MapType(_rewritten(key, change), _rewritten(value, change), value_contains_null)
        case _:
            return data_type


def _part(data_type: DataType, path: ColumnPath, whole: ColumnPath) -> DataType:
    """The type at the end of a path."""
    for name in path:
        match data_type, name.lower():
            case StructType(), _:
                data_type = data_type.field(name).data_type
            case ArrayType(element, _), "element":
                data_type = element
            case MapType(key, _, _), "key":
                data_type = key
            case MapType(_, value, _), "value":
                data_type = value
            case _:
                raise _no_field(whole, data_type)
    return data_type


def _edited(
    data_type: DataType, path: ColumnPath, edit: Callable[[StructType], StructType], whole: ColumnPath
) -> StructType:
    edited = _edited_type(data_type, path, edit, whole)
    assert isinstance(edited, StructType)
    return edited


def _edited_type(
    data_type: DataType, path: ColumnPath, edit: Callable[[StructType], StructType], whole: ColumnPath
) -> DataType:
    if not path:
        if not isinstance(data_type, StructType):
            raise _no_field(whole, data_type)
        return edit(data_type)
    name, rest = path[0], path[1:]
    match data_type, name.lower():
        case StructType(fields), _:
            target = data_type.field(name)
            inner = _edited_type(target.data_type, rest, edit, whole)
            return StructType(tuple(field.with_type(inner) if field is target else field for field in fields))
        case ArrayType(element, contains_null), "element":
            return ArrayType(_edited_type(element, rest, edit, whole), contains_null)
        case MapType(key, value, contains_null), "key":
            return MapType(_edited_type(key, rest, edit, whole), value, contains_null)
        case MapType(key, value, contains_null), "value":
            return MapType(key, _edited_type(value, rest, edit, whole), contains_null)
        case _:
            raise _no_field(whole, data_type)


def _no_field(path: ColumnPath, here: DataType) -> UnknownColumnError:
    return UnknownColumnError(
        f"No column {'.'.join(path)}: a {here} has no such field. The parts of arrays and maps are called "
        "element, key and value."
    )
