"""What a schema must be before a table may have it.

Implements the writer's duties about column names (S4 "Schema Serialization Format", beyond.md B5, B10): no
two names of one struct differ only in case; without column mapping no name has a character that Parquet's
tools refuse; partition columns exist, are of a type that has a text, and leave at least one column for the
files; `void` is never inside an array or map and never all there is; metadata keys that begin with `delta.`
are the protocol's, so a user may set only those that describe a rule (SC-007).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import (
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    UnknownType,
)
from distributary.delta.schema.schema_edits import ColumnPath, walk_fields

ILLEGAL_CHARACTERS: Final = " ,;{}()\n\t="
CHANGE_FEED_COLUMNS: Final = frozenset(("_change_type", "_commit_version", "_commit_timestamp"))
DECLARED_KEYS: Final = frozenset(("delta.invariants", "delta.generationExpression"))


def check_table_schema(
    schema: StructType,
    partition_columns: Sequence[str] = (),
    mode: ColumnMappingMode = ColumnMappingMode.NONE,
    *,
    change_feed: bool = False,
) -> None:
    """Refuses a schema or a partitioning that a table must not have."""
    if not schema.fields:
        raise InvalidSchemaError("A table needs at least one column.")
    _check_structs(schema, ())
    for path, field in walk_fields(schema):
        _check_name(path, mode)
        _check_void(field.data_type, path)
    if change_feed:
        _check_change_feed(schema)
    _check_partitioning(schema, partition_columns)


def check_user_metadata(schema: StructType) -> None:
    """Refuses column metadata in the protocol's namespace that a user cannot set."""
    for path, field in walk_fields(schema):
        reserved = [key for key in field.metadata if key.lower().startswith("delta.")]
        refused = sorted(set(reserved) - DECLARED_KEYS)
        if refused:
            raise InvalidSchemaError(
                f"Column {'.'.join(path)}: the metadata key {refused[0]} is reserved for the Delta protocol. "
                "Leave it out; it is set where the table needs it."
            )


def _check_structs(data_type: DataType, path: ColumnPath) -> None:
    match data_type:
        case StructType(fields):
            _check_names_differ(data_type, path)
            if fields and all(field.data_type == VOID for field in fields):
                what = f"Struct {'.'.join(path)}" if path else "The table"
                raise InvalidSchemaError(f"{what} has only void columns, so files would have none.")
            if not fields:
                raise InvalidSchemaError(f"Struct {'.'.join(path)} has no fields: Parquet cannot store it.")
            for field in fields:
                _check_structs(field.data_type, (*path, field.name))
        case ArrayType(element, _):
            _check_structs(element, (*path, "element"))
        case MapType(key, value, _):
            _check_structs(key, (*path, "key"))
            _check_structs(value, (*path, "value"))
        case UnknownType(text):
            raise InvalidSchemaError(f"Column {'.'.join(path)}: {text} is no type that can be written.")
        case _:
            return


def _check_names_differ(struct: StructType, path: ColumnPath) -> None:
    seen: dict[str, str] = {}
    for name in struct.names:
        twin = seen.setdefault(name.lower(), name)
        if twin is not name:
            where = f"Struct {'.'.join(path)}" if path else "The table"
            raise InvalidSchemaError(
                f"{where} has the columns {twin} and {name}, which differ only in case. Rename one of them."
            )


def _check_name(path: ColumnPath, mode: ColumnMappingMode) -> None:
    name = path[-1]
    if not name:
        raise InvalidSchemaError(f"A column of {'.'.join(path[:-1]) or 'the table'} has an empty name.")
    illegal = sorted(set(name) & set(ILLEGAL_CHARACTERS))
    if illegal and mode is ColumnMappingMode.NONE:
        raise InvalidSchemaError(
            f"Column {'.'.join(path)}: its name has {illegal[0]!r}, which Parquet's tools refuse. Rename it, "
            "or map columns (delta.columnMapping.mode = name)."
        )


def _check_void(data_type: DataType, path: ColumnPath) -> None:
    parts: tuple[DataType, ...] = ()
    match data_type:
        case ArrayType(element, _):
            parts = (element,)
        case MapType(key, value, _):
            parts = (key, value)
        case _:
            return
    if VOID in parts:
        raise InvalidSchemaError(
            f"Column {'.'.join(path)}: {data_type} holds nothing but nulls. Give its parts a type."
        )
    for part in parts:
        _check_void(part, path)


def _check_change_feed(schema: StructType) -> None:
    taken = sorted(CHANGE_FEED_COLUMNS & {name.lower() for name in schema.names})
    if taken:
        raise InvalidSchemaError(
            f"Column {taken[0]} has a name of the change data feed, which the table has on. Rename it."
        )


def _check_partitioning(schema: StructType, partition_columns: Sequence[str]) -> None:
    names: list[str] = []
    for column in partition_columns:
        field = schema.find(column)
        if field is None:
            raise InvalidSchemaError(
                f"Partition column {column!r} is not in the schema: {', '.join(schema.names)}."
            )
        names.append(field.name)
        known = isinstance(field.data_type, PrimitiveType | DecimalType)
        if not known or field.data_type in (VOID, VARIANT):
            raise InvalidSchemaError(f"Partition column {column} cannot be {field.data_type}.")
    if len(set(names)) != len(names):
        raise InvalidSchemaError(f"A partition column is named twice: {', '.join(partition_columns)}.")
    stored = [field for field in schema.fields if field.name not in names and field.data_type != VOID]
    if not stored:
        raise InvalidSchemaError("Every column is a partition column, so files would have none.")
