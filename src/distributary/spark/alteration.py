"""ALTER TABLE on Spark: the engine's changes, with the rows that are there looked at by Spark.

A new CHECK constraint, default or NOT NULL is any expression that Spark knows, and the look at the rows
that are there is a Spark job over the files that may hold a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.table_rules import TableRule
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import ConstraintViolationError, NotNullViolationError, UnsupportedRuleError
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.alter_columns import plan_set_default
from distributary.delta.operations.alter_properties import plan_add_constraint, plan_add_features
from distributary.delta.operations.alter_table import Alteration, TableAlteration
from distributary.delta.operations.alteration_plan import AlterationPlan, TableState
from distributary.delta.operations.append import WritePlan
from distributary.delta.schema.data_types import DataType, StructType
from distributary.delta.schema.schema_edits import column_path
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError, InvalidPredicateError
from distributary.expressions.tree import TRUE, Expression
from distributary.spark.clustering import clustering_domain, clustering_of
from distributary.spark.store_assignment import spark_schema, spark_type
from distributary.spark.table_scan import scan_snapshot
from distributary.storage.object_store import ObjectStore

_MOST_COLUMNS = 5


def alter(spark: SparkSession, table: DeltaTable) -> SparkAlteration:
    """The changes of a table."""
    return SparkAlteration(spark, table.store, lambda: table.snapshot().state)


class SparkAlteration(TableAlteration):
    """The engine's changes, with expressions of Spark."""

    def __init__(self, spark: SparkSession, store: ObjectStore, latest: Callable[[], Snapshot]) -> None:
        super().__init__(store, latest)
        self._spark = spark

    def add_constraint(self, name: str, expression: str) -> Alteration:
        """Add a CHECK constraint, after a look at the rows that are there."""
        return self._alter(lambda state: plan_add_constraint(state, name, expression, parse=self._condition))

    def set_default(self, column: str, expression: str | None) -> Alteration:
        """Set what later writes that leave a column out put there; None takes the default away."""
        path = column_path(column)
        return self._alter(lambda state: plan_set_default(state, path, expression, check=self._constant))

    def cluster_by(self, columns: Sequence[str]) -> int:
        """Set the clustering columns, or (none) take them away; `OPTIMIZE` then lays rows out by them."""
        snapshot = self._latest()
        if columns and snapshot.metadata.partitioning:
            raise InvalidInputError(f"{snapshot.root} is partitioned: a table is partitioned or clustered.")
        before = [".".join(path) for path in clustering_of(snapshot)]
        features = plan_add_features(TableState.of(snapshot), ["clustering"])
        protocol = features.protocol or snapshot.protocol
        plan = WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, protocol)
        parameters = {"oldClusteringColumns": ",".join(before), "newClusteringColumns": ",".join(columns)}
        operation = Operation("CLUSTER BY", parameters)
        domain = clustering_domain(plan, columns)
        return commit(self._store, snapshot, StagedCommit(operation, (*plan.changes, domain))).version

    def _condition(self, schema: StructType, expression: str) -> Expression:
        """Refuses what is no condition over the table's columns; rows are tested by its text."""
        empty = self._spark.createDataFrame([], spark_schema(schema))
        try:
            found = empty.select(F.expr(expression)).schema[0].dataType
        except (AnalysisException, ParseException) as error:
            raise InvalidPredicateError(f"{expression} cannot be a constraint: {_said(error)}") from error
        if not isinstance(found, BooleanType):
            raise InvalidPredicateError(
                f"{expression} is no condition: it must be true or false for each row"
            )
        return TRUE

    def _constant(self, rule: TableRule, data_type: DataType) -> None:
        try:
            self._spark.range(1).select(F.expr(rule.text).cast(spark_type(data_type))).collect()
        except (AnalysisException, ParseException) as error:
            raise UnsupportedRuleError(rule.title, rule.text, _said(error)) from error

    def _check_rows(self, snapshot: Snapshot, plan: AlterationPlan) -> None:
        if plan.must_hold is not None:
            self._check_holds(snapshot, plan.must_hold.rule)
        if len(plan.must_have) == 1:
            self._check_not_null(snapshot, plan.must_have[0])
        elif plan.must_have:
            super()._check_rows(snapshot, plan)

    def _check_holds(self, snapshot: Snapshot, rule: TableRule) -> None:
        rows = scan_snapshot(self._spark, self._store, snapshot)
        broken = rows.filter(F.expr(f"NOT coalesce(({rule.text}), false)")).limit(1).collect()
        if broken:
            values = broken[0].asDict().items()
            shown = ", ".join(f"{name} = {value!r}" for name, value in list(values)[:_MOST_COLUMNS])
            raise ConstraintViolationError(rule.title, rule.text, shown)

    def _check_not_null(self, snapshot: Snapshot, column: str) -> None:
        rows = scan_snapshot(self._spark, self._store, snapshot)
        if rows.filter(rows[f"`{column.replace('`', '``')}`"].isNull()).limit(1).collect():
            raise NotNullViolationError(column)


def _said(error: Exception) -> str:
    return str(error).splitlines()[0]
