"""Rows of a Spark DataFrame as Arrow, in the shape that the engine gives them: to compare the two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from distributary.delta.schema.data_types import DataType, StructType


def arrow_rows(frame: DataFrame, schema: pa.Schema, variants: list[str]) -> pa.Table:
    """The rows of a frame with the engine's Arrow types; columns that hold a variant as JSON text."""
    from pyspark.sql import functions as sf

    columns = [_texts(sf, name) if name in variants else sf.col(f"`{name}`") for name in frame.columns]
    settings = frame.sparkSession.conf
    zone = settings.get("spark.sql.session.timeZone")
    # Instants inside a variant are shown in the session's zone; the engine shows them in UTC.
    settings.set("spark.sql.session.timeZone", "UTC" if variants else zone)
    try:
        found = frame.select(*columns).toArrow()
    finally:
        settings.set("spark.sql.session.timeZone", zone)
    arrays = [
        column.combine_chunks() if name in variants else _converted(column, schema.field(name).type)
        for name, column in zip(found.column_names, found.columns, strict=True)
    ]
    return pa.table(arrays, names=found.column_names)


def _converted(column: pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return array if array.type == target else array.cast(target)


def _texts(sf: Any, name: str) -> Any:
    return sf.to_json(sf.col(f"`{name}`")).alias(name)


def with_variant(schema: StructType) -> list[str]:
    """The columns that hold a variant somewhere."""
    from distributary.delta.schema.data_types import type_to_json

    return [field.name for field in schema.fields if '"variant"' in json.dumps(type_to_json(field.data_type))]


def plain_variants(values: list[Any], data_type: DataType) -> list[str | None]:
    """The engine's form of a column that holds a variant somewhere, as JSON texts like those of Spark."""
    return [None if value is None else json.dumps(_plain(value, data_type)) for value in values]


def _plain(value: Any, data_type: DataType) -> Any:
    from distributary.delta.schema.data_types import ArrayType, MapType, StructType

    if value is None:
        return None
    match data_type:
        case StructType():
            members = {field.name: _plain(value[field.name], field.data_type) for field in data_type.fields}
            return {name: member for name, member in members.items() if member is not None}
        case ArrayType():
            return [_plain(item, data_type.element_type) for item in value]
        case MapType():
            return {key: _plain(item, data_type.value_type) for key, item in value}
    return json.loads(value) if str(data_type) == "variant" else value
