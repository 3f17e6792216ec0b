"""Builders of tables, with delta-spark's names: create, createIfNotExists, replace, createOrReplace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.schema.data_types import DataType, StructField, parse_schema, parse_type
from distributary.delta.schema.schema_evolution import without_reserved_metadata
from distributary.errors import InvalidInputError
from distributary.spark.table_definition import Mode, TableDefinition, declared_column, define
from distributary.spark.table_registry import default_location, path_in, register_table

if TYPE_CHECKING:
    from distributary.spark.delta_table import DeltaTable

Opener = Callable[[str], "DeltaTable"]


class DeltaTableBuilder:
    """What a table is to be, told step by step; `execute` makes it."""

    def __init__(self, spark: SparkSession, mode: Mode, opener: Opener) -> None:
        self._spark = spark
        self._mode: Mode = mode
        self._opener = opener
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[StructField] = []
        self._partitioning: tuple[str, ...] = ()
        self._clustering: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> Self:  # noqa: N802
        """The table's name, registered in this session, or ``delta.`path` ``."""
        path = path_in(identifier)
        self._name, self._location = (identifier, self._location) if path is None else (self._name, path)
        return self

    def location(self, location: str) -> Self:
        """Where the table is."""
        self._location = location
        return self

    def comment(self, comment: str) -> Self:
        """The table's description."""
        self._comment = comment
        return self

    def addColumn(  # noqa: N802
        self,
        colName: str,  # noqa: N803
        dataType: str | SparkType,  # noqa: N803
        nullable: bool = True,
        generatedAlwaysAs: Any = None,  # noqa: N803
        generatedByDefaultAs: Any = None,  # noqa: N803
        comment: str | None = None,
    ) -> Self:
        """One more column; a generated one is computed from others."""
        if generatedByDefaultAs is not None or not isinstance(generatedAlwaysAs, str | None):
            raise InvalidInputError(
                f"Column {colName} cannot be an identity column: its values would have to be unique over all "
                "writers, which is not coordinated here."
            )
        kind = dataType if isinstance(dataType, str) else _delta_type(dataType)
        self._columns.append(
            declared_column(colName, kind, nullable=nullable, comment=comment, generated=generatedAlwaysAs)
        )
        return self

    def addColumns(self, cols: SparkStruct | Iterable[SparkField]) -> Self:  # noqa: N802
        """The columns of a schema, with their comments."""
        schema = cols if isinstance(cols, SparkStruct) else SparkStruct(list(cols))
        self._columns.extend(without_reserved_metadata(parse_schema(schema.json())).fields)
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:  # noqa: N802
        """The columns that the table is partitioned by."""
        self._partitioning = _names(cols)
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:  # noqa: N802
        """The columns that the table is clustered by."""
        self._clustering = _names(cols)
        return self

    def property(self, key: str, value: str) -> Self:
        """One more table property."""
        self._properties[key] = value
        return self

    def execute(self) -> DeltaTable:
        """Make the table."""
        location = self._location
        if location is None and self._name is not None:
            location = default_location(self._spark, self._name)
        if location is None:
            raise InvalidInputError("A table needs a place: give location(path) or tableName(name).")
        define(self._spark, location, self._definition(), self._mode)
        if self._name is not None:
            register_table(self._spark, self._name, location)
        return self._opener(location)

    def _definition(self) -> TableDefinition:
        return TableDefinition(
            tuple(self._columns),
            self._partitioning,
            self._clustering,
            dict(self._properties),
            self._comment,
            self._name,
        )


def _delta_type(spark_type: SparkType) -> DataType:
    return parse_type(json.loads(spark_type.json()))


def _names(columns: Iterable[str | list[str] | tuple[str, ...]]) -> tuple[str, ...]:
    flat: list[str] = []
    for column in columns:
        flat.extend([column] if isinstance(column, str) else column)
    return tuple(flat)
