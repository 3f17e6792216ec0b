"""sql(spark, text): a statement about Delta tables, carried out; any other goes to Spark as it is.

Results are DataFrames with the columns that delta-spark gives. A statement has happened when `sql` returns:
only queries wait until their rows are asked for.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from distributary.spark.statements.definition_execution import (
    run_alter,
    run_clone,
    run_convert,
    run_create,
    run_drop,
    run_generate,
)
from distributary.spark.statements.description_execution import run_describe
from distributary.spark.statements.parameters import Parameters, with_parameters
from distributary.spark.statements.parser import parse_statement
from distributary.spark.statements.queries import run_query
from distributary.spark.statements.row_execution import run_delete, run_insert, run_merge, run_update
from distributary.spark.statements.syntax import (
    AlterTable,
    CloneTable,
    ConvertToDelta,
    CreateTable,
    Delete,
    Describe,
    DropTable,
    Generate,
    Insert,
    Merge,
    Optimize,
    Query,
    Restore,
    Update,
    Vacuum,
)
from distributary.spark.statements.upkeep_execution import run_optimize, run_restore, run_vacuum

_RUNNERS: dict[type[Any], Any] = {
    Merge: run_merge,
    Update: run_update,
    Delete: run_delete,
    Insert: run_insert,
    CreateTable: run_create,
    CloneTable: run_clone,
    ConvertToDelta: run_convert,
    Generate: run_generate,
    DropTable: run_drop,
    AlterTable: run_alter,
    Describe: run_describe,
    Optimize: run_optimize,
    Vacuum: run_vacuum,
    Restore: run_restore,
}


def sql(spark: SparkSession, text: str, args: Parameters | None = None) -> DataFrame:
    """Carry out one statement; `args` fill ``:name`` (a mapping) or ``?`` (a list)."""
    statement = parse_statement(with_parameters(text, args))
    if isinstance(statement, Query):
        return run_query(spark, text, args)
    found = _RUNNERS[type(statement)](spark, statement)
    return run_query(spark, with_parameters(text, args)) if found is None else found
