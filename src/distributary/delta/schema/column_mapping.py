"""Column mapping: the names and ids by which data files, statistics and partition values know a column.

Implements "Column Mapping" of the protocol (beyond.md B5). A table whose protocol supports it and whose
`delta.columnMapping.mode` is `name` or `id` gives each column, nested ones too, a physical name and an id
in the field's metadata. Logical names are for people; everything in the log and in the files uses physical
names (`name` mode finds Parquet columns by them, `id` mode by Parquet's `field_id`). The mode is ignored
when the protocol does not support it.

The parts of arrays and maps have no names of their own: paths go through them as `element`, `key` and
`value`.

Writers give each new field an id above every id that the table ever used (`delta.columnMapping.maxColumnId`)
and a physical name of its own, `col-<uuid>`; a table that starts to map its columns keeps the names that its
files already have (:func:`assign_column_mapping`). Renaming and dropping a column then change only metadata.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructField, StructType
from distributary.delta.schema.schema_edits import rewrite_fields, walk_fields
from distributary.errors import UnknownColumnError

MODE_PROPERTY: Final = "delta.columnMapping.mode"
ID_KEY: Final = "delta.columnMapping.id"
PHYSICAL_NAME_KEY: Final = "delta.columnMapping.physicalName"
MAX_COLUMN_ID_PROPERTY: Final = "delta.columnMapping.maxColumnId"


class ColumnMappingMode(enum.Enum):
    """How the columns of data files are found."""

    NONE = "none"
    NAME = "name"
    ID = "id"


class MappedSchema(msgspec.Struct, frozen=True):
    """A schema whose every field has an id and a physical name, and the largest id ever given out."""

    schema: StructType
    max_column_id: int


def new_physical_name(_: StructField) -> str:
    """A physical name that no other column has."""
    return f"col-{uuid.uuid4()}"


def column_mapping_mode(configuration: Mapping[str, str], supported: bool) -> ColumnMappingMode:
    """The mode of a table from its configuration; NONE unless the protocol supports column mapping."""
    if not supported:
        return ColumnMappingMode.NONE
    text = configuration.get(MODE_PROPERTY, "none")
    try:
        return ColumnMappingMode(text.lower())
    except ValueError:
        raise InvalidSchemaError(f"{MODE_PROPERTY} is {text!r}; it must be none, name or id.") from None


def physical_name(field: StructField, mode: ColumnMappingMode) -> str:
    """The name that data files, statistics and partition values use for a field."""
    if mode is ColumnMappingMode.NONE:
        return field.name
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    if not isinstance(name, str):
        raise InvalidSchemaError(
            f"Column {field.name} has no {PHYSICAL_NAME_KEY}, but the table maps its columns."
        )
    return name


def field_id(field: StructField) -> int | None:
    """The field's column mapping id, equal to Parquet's `field_id`; None when it has none."""
    value = field.metadata.get(ID_KEY)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise InvalidSchemaError(f"Column {field.name}: {ID_KEY} is {value!r}; it must be a whole number.")
    return value


def physical_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """The schema with physical names in place of logical ones, at every level; metadata is kept."""
    if mode is ColumnMappingMode.NONE:
        return schema
    return _physical_struct(schema, mode)


def physical_path(schema: StructType, path: tuple[str, ...], mode: ColumnMappingMode) -> tuple[str, ...]:
    """The physical path of a logical one; names match exactly first, then ignoring case."""
    return _translate(schema, path, StructType.find, lambda field: physical_name(field, mode))


def logical_path(schema: StructType, path: tuple[str, ...], mode: ColumnMappingMode) -> tuple[str, ...]:
    """The logical path of a physical one, the inverse of :func:`physical_path`; names match exactly."""

    def find(struct: StructType, name: str) -> StructField | None:
        return next((field for field in struct.fields if physical_name(field, mode) == name), None)

    return _translate(schema, path, find, lambda field: field.name)


def assign_column_mapping(
    schema: StructType,
    max_column_id: int = 0,
    *,
    name_for: Callable[[StructField], str] = new_physical_name,
) -> MappedSchema:
    """Give an id and a physical name to each field that lacks them; the others keep theirs.

    `name_for` names a field in the files: the default makes a new name; a table that already has files
    passes :func:`existing_name`.
    """
    ids = [found for _, field in walk_fields(schema) if (found := field_id(field)) is not None]
    last = max([max_column_id, *ids])

    def assign(field: StructField) -> StructField:
        nonlocal last
        metadata = dict(field.metadata)
        if metadata.get(ID_KEY) is None:
            last += 1
            metadata[ID_KEY] = last
        if metadata.get(PHYSICAL_NAME_KEY) is None:
            metadata[PHYSICAL_NAME_KEY] = name_for(field)
        return StructField(field.name, field.data_type, field.nullable, metadata)

    return MappedSchema(rewrite_fields(schema, assign), last)


def existing_name(field: StructField) -> str:
    """The physical name of a column whose files were written before the table mapped its columns."""
    return field.name


def _physical_struct(struct: StructType, mode: ColumnMappingMode) -> StructType:
    fields = tuple(
        StructField(
            physical_name(field, mode), _physical_type(field.data_type, mode), field.nullable, field.metadata
        )
        for field in struct.fields
    )
    if len({field.name for field in fields}) != len(fields):
        raise InvalidSchemaError(f"Two of the columns {', '.join(struct.names)} share a {PHYSICAL_NAME_KEY}.")
    return StructType(fields)


def _physical_type(data_type: DataType, mode: ColumnMappingMode) -> DataType:
    match data_type:
        case StructType():
            return _physical_struct(data_type, mode)
        case ArrayType(element, contains_null):
            return ArrayType(_physical_type(element, mode), contains_null)
        case MapType(key, value, value_contains_null):
            return MapType(_physical_type(key, mode), _physical_type(value, mode), value_contains_null)
        case _:
            return data_type


def _translate(
    schema: StructType,
    path: tuple[str, ...],
    find: Callable[[StructType, str], StructField | None],
    rename: Callable[[StructField], str],
) -> tuple[str, ...]:
    """Walks a path through the schema, renaming each struct field on the way."""
    here: DataType = schema
    translated: list[str] = []
    for name in path:
        if isinstance(here, StructType):
            field = find(here, name)
            if field is None:
                raise UnknownColumnError(
                    f"No column {'.'.join(path)}; the columns here are: {', '.join(here.names)}."
                )
            translated.append(rename(field))
            here = field.data_type
        else:
            here = _part(here, name, path)
            translated.append(name)
    return tuple(translated)


def _part(data_type: DataType, name: str, path: tuple[str, ...]) -> DataType:
    match data_type, name:
        case ArrayType(element, _), "element":
            return element
        case MapType(key, _, _), "key":
            return key
        case MapType(_, value, _), "value":
            return value
        case _:
            raise UnknownColumnError(f"No column {'.'.join(path)}: a {data_type} has no part {name!r}.")
