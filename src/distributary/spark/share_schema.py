"""The columns of a shared table as Spark gets them.

Rows of a share come from files that somebody else wrote, so every column may be null, as with Spark's own
file sources; of a column's metadata only the comment is shown. Values of type variant are JSON text.
"""

from __future__ import annotations

from pyspark.sql.types import StructType as SparkStruct

from distributary.client.delta_replay import changes_schema
from distributary.delta.schema.column_mapping import PHYSICAL_NAME_KEY
from distributary.delta.schema.data_types import (
    STRING,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from distributary.spark.errors import ShareSchemaChangedError
from distributary.spark.store_assignment import spark_schema


def readable(schema: StructType) -> StructType:
    """The schema by which files are read: everything may be null."""
    found = _nullable(schema)
    assert isinstance(found, StructType)
    return found


def shown(schema: StructType, *, changes: bool) -> SparkStruct:
    """The columns as Spark sees them, with those of changes where changes are read."""
    whole = changes_schema(schema) if changes else schema
    found = _plain(readable(whole))
    assert isinstance(found, StructType)
    return spark_schema(found)


def check_columns(wanted: SparkStruct, schema: StructType, *, changes: bool, where: str) -> None:
    """Refuse to read columns that a table no longer has, or has with other types."""
    have = {field.name: field.dataType for field in shown(schema, changes=changes).fields}
    for field in wanted.fields:
        if have.get(field.name) != field.dataType:
            now = have[field.name].simpleString() if field.name in have else "not there"
            raise ShareSchemaChangedError(
                f"{where}: column {field.name} is {now}, and the frame was loaded with it as "
                f"{field.dataType.simpleString()}: load the table again"
            )


def check_compatible(stream: StructType, found: StructType, version: int, where: str) -> None:
    """Refuse a version whose rows a stream cannot show: with columns that it lacks or has otherwise."""
    problem = incompatibility(stream, found)
    if problem is not None:
        raise ShareSchemaChangedError(
            f"{where}: version {version} {problem}. All rows before it were given. Load the stream again and "
            "start the query with the same checkpoint to go on with the new columns"
        )


def incompatibility(stream: StructType, found: StructType) -> str | None:
    """What a version's columns have that a stream cannot show, in words."""
    for field in found.fields:
        known = next((each for each in stream.fields if each.name == field.name), None)
        if known is None:
            return f"has a column {field.name}, which the stream does not have"
        if _plain(_nullable(known.data_type)) != _plain(_nullable(field.data_type)):
            return f"has column {field.name} as {field.data_type}; in the stream it is {known.data_type}"
        if known.metadata.get(PHYSICAL_NAME_KEY) != field.metadata.get(PHYSICAL_NAME_KEY):
            return f"has column {field.name} in another place of its files: it was dropped and made anew"
    return None


def _nullable(kind: DataType) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(
                tuple(
                    StructField(each.name, _nullable(each.data_type), True, each.metadata) for each in fields
                )
            )
        case ArrayType(element, _):
            return ArrayType(_nullable(element))
        case MapType(key, value, _):
            return MapType(_nullable(key), _nullable(value))
        case _:
            return kind


def _plain(kind: DataType) -> DataType:
    """A type without metadata besides comments."""
    match kind:
        case StructType(fields):
            return StructType(
                tuple(
                    StructField(each.name, _plain(each.data_type), each.nullable, _comment(each))
                    for each in fields
                )
            )
        case ArrayType(element, nulls):
            return ArrayType(_plain(element), nulls)
        case MapType(key, value, nulls):
            return MapType(_plain(key), _plain(value), nulls)
        case _:
            return STRING if kind == VARIANT else kind


def _comment(field: StructField) -> dict[str, str]:
    found = field.metadata.get("comment")
    return {"comment": found} if isinstance(found, str) else {}
