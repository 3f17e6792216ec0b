"""Where the table of a statement is, and the empty answer of statements that have none to give."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from distributary.delta.table import DeltaTable
from distributary.spark.statements.syntax import TableName
from distributary.spark.table_registry import find_registered, registered_path


def place_of(spark: SparkSession, table: TableName) -> str:
    """The path of a table."""
    return table.path or registered_path(spark, ".".join(table.parts))


def engine_table(spark: SparkSession, table: TableName) -> DeltaTable:
    """The engine's view of a table."""
    return DeltaTable(place_of(spark, table))


def is_ours(spark: SparkSession, table: TableName) -> bool:
    """Whether a table is a Delta table that is named here; other names are Spark's own tables."""
    if table.path is not None or find_registered(spark, ".".join(table.parts)) is not None:
        return True
    return not spark.catalog.tableExists(str(table))


def nothing(spark: SparkSession) -> DataFrame:
    """A DataFrame without columns and rows, as Spark gives for commands."""
    return spark.createDataFrame([], StructType([]))
