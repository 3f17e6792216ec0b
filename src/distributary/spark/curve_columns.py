"""The columns that rows are ordered by, found in a table's schema by their paths."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column

from distributary.delta.schema.data_types import DataType, StructType
from distributary.errors import InvalidInputError, UnknownColumnError
from distributary.spark.rule_violation import column_named
from distributary.spark.z_order import CurveColumn


def curve_columns(schema: StructType, paths: Sequence[tuple[str, ...]]) -> list[CurveColumn]:
    """The columns of a curve."""
    if len(set(paths)) != len(paths):
        raise InvalidInputError("a column to order by is named twice")
    return [CurveColumn.of(*_found(schema, path), ".".join(path)) for path in paths]


def _found(schema: StructType, path: tuple[str, ...]) -> tuple[Column, DataType]:
    field = schema.field(path[0])
    column, here = column_named(field.name), field.data_type
    for name in path[1:]:
        inner = here.find(name) if isinstance(here, StructType) else None
        if inner is None:
            raise UnknownColumnError(f"No column {'.'.join(path)} to order by.")
        column, here = column.getField(inner.name), inner.data_type
    return column, here
