"""OPTIMIZE, REORG, VACUUM and RESTORE, carried out."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from distributary.errors import InvalidInputError
from distributary.spark.delta_table import DeltaTable
from distributary.spark.hadoop_paths import hadoop_uri
from distributary.spark.moments import evaluated_moment
from distributary.spark.optimize import optimize, purge
from distributary.spark.statements.places import place_of
from distributary.spark.statements.syntax import Optimize, Restore, Vacuum
from distributary.spark.vacuum import vacuum


def run_optimize(spark: SparkSession, statement: Optimize) -> DataFrame:
    """OPTIMIZE and REORG TABLE … APPLY (PURGE)."""
    path = place_of(spark, statement.table)
    if statement.purge:
        return purge(spark, path, statement.where)
    return optimize(spark, path, statement.where, statement.z_order_by, full=statement.full)


def run_vacuum(spark: SparkSession, statement: Vacuum) -> DataFrame:
    """VACUUM; a dry run gives the files that would go."""
    if statement.lite:
        raise InvalidInputError("VACUUM … LITE is not known here: VACUUM without it looks at every file.")
    path = place_of(spark, statement.table)
    plan = vacuum(spark, path, statement.retention_hours, statement.dry_run)
    root = hadoop_uri(plan.root)
    files = [f"{root}/{key}" for key in plan.files] if statement.dry_run else [root]
    return spark.createDataFrame([(file,) for file in files], "path string")


def run_restore(spark: SparkSession, statement: Restore) -> DataFrame:
    """RESTORE TABLE."""
    table = DeltaTable.forPath(spark, place_of(spark, statement.table))
    older = statement.as_of
    if older.version is not None:
        return table.restoreToVersion(older.version)
    assert older.timestamp is not None
    return table.restoreToTimestamp(evaluated_moment(spark, older.timestamp).isoformat())
