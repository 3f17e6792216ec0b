"""A schema from rows, where the table does not say it: for new tables and new columns.

JSON: whole numbers are longs, other numbers doubles, objects structs, lists arrays; text is a date or a
timestamp where every text of the column is one. What is null everywhere is text. CSV: as Arrow infers it,
with timestamps in UTC and times of day as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

import pyarrow as pa

from distributary.delta.errors import SchemaMismatchError
from distributary.delta.schema.arrow_schema import delta_type
from distributary.delta.schema.data_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_LARGEST_LONG = 2**63 - 1
_BIG_NUMBER = DecimalType(38, 0)
_WIDER: dict[frozenset[DataType], DataType] = {
    frozenset({LONG, DOUBLE}): DOUBLE,
    frozenset({LONG, _BIG_NUMBER}): _BIG_NUMBER,
    frozenset({_BIG_NUMBER, DOUBLE}): DOUBLE,
    frozenset({DATE, TIMESTAMP}): TIMESTAMP,
    frozenset({DATE, STRING}): STRING,
    frozenset({TIMESTAMP, STRING}): STRING,
}


def schema_of_json(rows: Iterable[Any]) -> StructType:
    """The columns of decoded JSON objects."""
    found: DataType = VOID
    for row in rows:
        found = _common(found, _type_of(row), "")
    return _known(found) if isinstance(found, StructType) else StructType()


def schema_of_csv(columns: pa.Schema) -> StructType:
    """The columns of a CSV file as Arrow inferred them."""
    return StructType(tuple(StructField(field.name, _csv_type(field.type)) for field in columns))


def grown_schema(table: StructType, data: StructType) -> StructType:
    """The table's columns, which keep their types, and after them those that only the data has."""
    fields: list[StructField] = []
    for field in table.fields:
        found = data.find(field.name)
        nested = found is not None and isinstance(found.data_type, StructType)
        if found is not None and nested and isinstance(field.data_type, StructType):
            field = field.with_type(grown_schema(field.data_type, cast("StructType", found.data_type)))
        fields.append(field)
    return StructType((*fields, *(field for field in data.fields if table.find(field.name) is None)))


def _csv_type(data_type: pa.DataType) -> DataType:
    if pa.types.is_null(data_type) or pa.types.is_time(data_type):
        return STRING
    return TIMESTAMP if pa.types.is_timestamp(data_type) else delta_type(data_type)


def _type_of(value: Any) -> DataType:
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            return LONG if -_LARGEST_LONG <= value <= _LARGEST_LONG else _BIG_NUMBER
        case float():
            return DOUBLE
        case str():
            return DATE if _DATE.fullmatch(value) else TIMESTAMP if _TIME.fullmatch(value) else STRING
        case list():
            element: DataType = VOID
            for item in cast("list[Any]", value):
                element = _common(element, _type_of(item), "element")
            return ArrayType(element)
        case _:
            members = cast("dict[str, Any]", value).items()
            return StructType(tuple(StructField(name, _type_of(item)) for name, item in members))


def _common(one: DataType, other: DataType, where: str) -> DataType:
    """The type that holds values of both."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _common_struct(one, other)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_common(one.element_type, other.element_type, where))
    wider = _WIDER.get(frozenset({one, other}))
    if wider is None:
        raise SchemaMismatchError(
            f"Column {where or '(row)'} is {one} in one row and {other} in another. Make the table with a "
            "schema of your choice (table create --schema)."
        )
    return wider


def _common_struct(one: StructType, other: StructType) -> StructType:
    types = {field.name: field.data_type for field in one.fields}
    for field in other.fields:
        types[field.name] = _common(types.get(field.name, VOID), field.data_type, field.name)
    return StructType(tuple(StructField(name, data_type) for name, data_type in types.items()))


def _known(struct: StructType) -> StructType:
    return StructType(tuple(field.with_type(_known_type(field.data_type)) for field in struct.fields))


def _known_type(data_type: DataType) -> DataType:
    """The type, with text in place of what was null in every row."""
    if isinstance(data_type, StructType):
        return _known(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_known_type(data_type.element_type))
    return STRING if data_type == VOID else data_type
