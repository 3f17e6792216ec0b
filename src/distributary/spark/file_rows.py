"""Rows as data files keep them: physical columns, and partition values as text.

The columns of a file are those of `commit.file_layout`: physical names, Parquet field ids where columns are
mapped (nested ones too), without partition and void columns. Spark writes the values of partition columns
into directory names only; they are made texts here that mean the same in every session zone and locale, and
are read back from the names into the texts of the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from distributary.delta.commit.partition_split import HIVE_NULL
from distributary.delta.errors import InvalidSchemaError, UnsupportedFeatureError
from distributary.delta.log.actions import PartitionValues
from distributary.delta.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from distributary.delta.schema.data_types import (
    BINARY,
    STRING,
    TIMESTAMP,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from distributary.delta.schema.partition_values import format_partition_value, parse_partition_value
from distributary.spark.rule_violation import column_named
from distributary.spark.store_assignment import bare, spark_type

_FIELD_ID: Final = "parquet.field.id"
_ESCAPED: Final = re.compile("%([0-9A-Fa-f]{2})")
_EPOCH: Final = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


class FileRows(msgspec.Struct, frozen=True):
    """How the columns of one table become columns and directories of Spark's Parquet writer."""

    schema: StructType
    partitioning: tuple[str, ...]
    mode: ColumnMappingMode
    ascii_names: bool = False

    @property
    def partition_names(self) -> list[str]:
        """The physical names of the partition columns."""
        return [physical_name(field, self.mode) for field in self._partition_fields]

    def frame(self, rows: DataFrame, extra: Sequence[Column] = ()) -> DataFrame:
        """Rows of the table's logical columns (and some more) as the writer takes them."""
        stored = [field for field in self.schema.fields if self._is_stored(field)]
        if not stored:
            raise InvalidSchemaError(
                "A data file needs at least one column that is neither a partition column nor void. "
                "Add a column, or partition by fewer."
            )
        if not extra and self._is_stored_as_it_is(rows):
            return rows
        columns = [self._column(field) for field in stored]
        texts = [
            self._text(field).alias(name)
            for field, name in zip(self._partition_fields, self.partition_names, strict=True)
        ]
        return rows.select(*columns, *extra, *texts)

    def _is_stored_as_it_is(self, rows: DataFrame) -> bool:
        """Whether rows have the columns of a file already, and nothing said about them beside."""
        return (
            self.mode is ColumnMappingMode.NONE
            and not self.partitioning
            and rows.columns == list(self.schema.names)
            and not any(field.metadata for field in rows.schema.fields)
            and all(
                self._stored_type(field.data_type, field.name) == bare(field.data_type)
                for field in self.schema.fields
            )
            and all(self._is_stored(field) for field in self.schema.fields)
        )

    def partition_values(self, segments: Sequence[str]) -> PartitionValues:
        """The values for the log from the names of the directories that a file is in."""
        return {
            name: self._value(segment.partition("=")[2], field)
            for name, field, segment in zip(
                self.partition_names, self._partition_fields, segments, strict=True
            )
        }

    @property
    def _partition_fields(self) -> list[StructField]:
        return [self.schema.field(name) for name in self.partitioning]

    def _is_stored(self, field: StructField) -> bool:
        return field.name not in self.partitioning and field.data_type != VOID

    def _column(self, field: StructField) -> Column:
        wanted = self._stored_type(field.data_type, field.name)
        value = column_named(field.name)
        if self.mode is not ColumnMappingMode.NONE and isinstance(wanted, StructType | ArrayType | MapType):
            value = value.cast(spark_type(wanted))
        elif wanted != bare(field.data_type):
            value = _without_void(value, field.data_type, wanted)
        return value.alias(physical_name(field, self.mode), metadata=self._metadata(field))

    def _metadata(self, field: StructField) -> dict[str, Any]:
        if self.mode is ColumnMappingMode.NONE:
            return {}
        number = field_id(field)
        if number is None:
            raise InvalidSchemaError(f"Column {field.name} has no column id, but the table maps its columns.")
        return {_FIELD_ID: number}

    def _stored_type(self, data_type: DataType, where: str) -> DataType:
        """The type in a file: physical names and ids inside structs."""
        match data_type:
            case StructType(fields):
                return StructType(
                    tuple(
                        StructField(
                            physical_name(field, self.mode),
                            self._stored_type(field.data_type, where),
                            True,
                            self._metadata(field),
                        )
                        for field in fields
                        if field.data_type != VOID
                    )
                )
            case ArrayType(element, _):
                return ArrayType(self._stored_type(element, where))
            case MapType(key, value, _):
                return MapType(self._stored_type(key, where), self._stored_type(value, where))
            case _ if data_type == VARIANT:
                raise UnsupportedFeatureError(
                    f"Column {where} is a variant, which this writer does not implement.",
                    features=("variantType",),
                )
            case _:
                return data_type

    def _text(self, field: StructField) -> Column:
        """A partition value as a text that a directory can be named by."""
        value = column_named(field.name)
        if field.data_type == BINARY:
            return F.hex(value)
        if field.data_type == TIMESTAMP:
            return _utc_text(value)
        if field.data_type != STRING or not self.ascii_names:
            return value.cast("string")
        return F.when(value == HIVE_NULL, F.lit(f"%5F{HIVE_NULL[1:]}")).otherwise(F.url_encode(value))

    def _value(self, name: str, field: StructField) -> str | None:
        if name == HIVE_NULL:
            return None
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
        if field.data_type == STRING:
            return unquote_plus(text) if self.ascii_names else text
        if field.data_type == BINARY:
            return format_partition_value(bytes.fromhex(text), BINARY, column=field.name)
        value = parse_partition_value(text, field.data_type, column=field.name)
        return format_partition_value(value, field.data_type, column=field.name)


def _utc_text(instant: Column) -> Column:
    """The wall time of an instant in UTC, by a way that the session's zone has no part in."""
    micros = F.unix_micros(instant).cast("decimal(20,0)")
    seconds = (micros * F.expr("0.000001BD")).cast("decimal(18,6)")
    zero = F.lit(0)
    return (F.expr(_EPOCH) + F.make_dt_interval(zero, zero, zero, seconds)).cast("string")


def _without_void(value: Column, data_type: DataType, wanted: DataType) -> Column:
    """A struct without its void fields, which no file can hold."""
    if not isinstance(data_type, StructType) or not isinstance(wanted, StructType):
        raise InvalidSchemaError("A void inside of an array or map cannot be written to a file.")
    if not wanted.fields:
        raise InvalidSchemaError("A struct needs a field that has values.")
    kept = [
        _without_void(value.getField(field.name), data_type.field(field.name).data_type, field.data_type)
        if bare(data_type.field(field.name).data_type) != bare(field.data_type)
        else value.getField(field.name)
        for field in wanted.fields
    ]
    made = F.struct(*[part.alias(field.name) for part, field in zip(kept, wanted.fields, strict=True)]).cast(
        spark_type(wanted)
    )
    return F.when(value.isNotNull(), made)
