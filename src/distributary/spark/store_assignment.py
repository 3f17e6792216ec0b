"""Store assignment: values of a DataFrame as the types of a table's columns.

As delta-spark does for INSERT, under ANSI SQL's rules whatever the session says: a number may go into a
narrower column where each value fits, a number or a date into a string, a timestamp into a date; a string
never becomes a number by itself. A value that does not fit fails the write and is shown.

Structs are matched by name at every level, ignoring case; fields that the data lacks are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.errors import SchemaMismatchError
from distributary.delta.schema.data_types import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    type_to_json,
)
from distributary.delta.schema.schema_evolution import is_widening
from distributary.spark.rule_violation import BrokenRule, shown_value
from distributary.spark.write_session import can_assign, never_fails

ColumnPath = tuple[str, ...]


class StoreAssignment(msgspec.Struct, frozen=True):
    """Casts to a table's types, by the rules of one session's Spark."""

    spark: SparkSession

    def column(self, value: Column, have: DataType, want: DataType, path: ColumnPath) -> Column:
        """A value of one type as the other; refused where the types do not allow it."""
        if bare(have) == bare(want):
            return value
        match have, want:
            case StructType(), StructType():
                return self._struct(value, have, want, path)
            case ArrayType(element, _), ArrayType(other, _):
                return F.transform(value, lambda item: self.column(item, element, other, (*path, "element")))
            case MapType(), MapType():
                return self._map(value, have, want, path)
            case _:
                return self._leaf(value, have, want, path)

    def problems(self, table: StructType, data: StructType, path: ColumnPath = ()) -> Iterator[str]:
        """What keeps data from being written to a table: columns that it lacks, types that do not fit."""
        for field in data.fields:
            known = table.find(field.name)
            if known is None:
                yield (
                    f"The table has no column {'.'.join((*path, field.name))}: leave it out, or let the "
                    "schema grow (merge_schema=True)."
                )
            else:
                yield from self._type_problems(known.data_type, field.data_type, (*path, known.name))

    def settled(self, table: DataType, data: DataType, *, widen: bool) -> DataType:
        """The type of incoming data after casts: the table's own where it can be stored there.

        With `widen`, a wider type is kept, so that merging the schemas widens the column.
        """
        match table, data:
            case StructType(), StructType(fields):
                return StructType(tuple(self._settled_field(table, field, widen) for field in fields))
            case ArrayType(element, _), ArrayType(other, contains_null):
                return ArrayType(self.settled(element, other, widen=widen), contains_null)
            case MapType(key, value, _), MapType(other_key, other_value, contains_null):
                return MapType(
                    self.settled(key, other_key, widen=widen),
                    self.settled(value, other_value, widen=widen),
                    contains_null,
                )
            case _:
                kept = table in (data, VOID) or (widen and is_widening(table, data))
                return data if kept or not self._fits(data, table) else table

    def _settled_field(self, table: StructType, field: StructField, widen: bool) -> StructField:
        known = table.find(field.name)
        if known is None:
            return field
        return field.with_type(self.settled(known.data_type, field.data_type, widen=widen))

    def _type_problems(self, table: DataType, data: DataType, path: ColumnPath) -> Iterator[str]:
        match table, data:
            case StructType(), StructType():
                yield from self.problems(table, data, path)
            case ArrayType(element, _), ArrayType(other, _):
                yield from self._type_problems(element, other, (*path, "element"))
            case MapType(key, value, _), MapType(other_key, other_value, _):
                yield from self._type_problems(key, other_key, (*path, "key"))
                yield from self._type_problems(value, other_value, (*path, "value"))
            case _:
                if not self._fits(data, table):
                    yield _mismatch(path, data, table)

    def _struct(self, value: Column, have: StructType, want: StructType, path: ColumnPath) -> Column:
        made = F.struct(*[self._member(value, have, field, path).alias(field.name) for field in want.fields])
        return F.when(value.isNotNull(), made)

    def _member(self, value: Column, have: StructType, field: StructField, path: ColumnPath) -> Column:
        found = have.find(field.name)
        if found is None:
            return F.lit(None).cast(spark_type(field.data_type))
        return self.column(value.getField(found.name), found.data_type, field.data_type, (*path, field.name))

    def _map(self, value: Column, have: MapType, want: MapType, path: ColumnPath) -> Column:
        if bare(have.key_type) != bare(want.key_type):
            key_path = (*path, "key")
            value = F.transform_keys(
                value, lambda key, _: self.column(key, have.key_type, want.key_type, key_path)
            )
        value_path = (*path, "value")
        return F.transform_values(
            value, lambda _, item: self.column(item, have.value_type, want.value_type, value_path)
        )

    def _leaf(self, value: Column, have: DataType, want: DataType, path: ColumnPath) -> Column:
        if not self._fits(have, want):
            raise SchemaMismatchError(_mismatch(path, have, want))
        target = spark_type(want)
        if have == VOID or never_fails(self.spark, have, want):
            return value.cast(target)
        fitting = value.try_cast(target)
        failure = BrokenRule("assignment", ".".join(path), str(want)).raised(shown_value(value))
        return F.when(value.isNotNull() & fitting.isNull(), failure.cast(target)).otherwise(fitting)

    def _fits(self, have: DataType, want: DataType) -> bool:
        return have in (want, VOID) or can_assign(self.spark, have, want)


def spark_type(data_type: DataType) -> SparkType:
    """Spark's type of a Delta type; the metadata of nested fields comes along."""
    return spark_schema(StructType((StructField("value", data_type),))).fields[0].dataType


def spark_schema(schema: StructType) -> SparkStruct:
    """Spark's schema of a table's."""
    return SparkStruct.fromJson(cast("dict[str, Any]", type_to_json(schema)))


def bare(data_type: DataType) -> DataType:
    """A type without nullability and metadata, which casts do not change."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(field.name, bare(field.data_type)) for field in fields))
        case ArrayType(element, _):
            return ArrayType(bare(element))
        case MapType(key, value, _):
            return MapType(bare(key), bare(value))
        case _:
            return data_type


def _mismatch(path: ColumnPath, have: DataType, want: DataType) -> str:
    return f"Column {'.'.join(path)} is {want}, but the data has {have}: cast the data to {want}."
