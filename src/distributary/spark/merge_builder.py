"""DeltaMergeBuilder: a merge, told clause by clause with delta-spark's names.

Clauses are kept in the order given; of those of one kind the first whose condition holds acts. A row of the
table that two source rows match and that would change fails the merge, and nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession

from distributary.errors import InvalidInputError
from distributary.spark.merge import execute_merge
from distributary.spark.merge_clauses import MergeClause
from distributary.spark.table_description import counts_frame

Condition = Column | str
Values = Mapping[str, Condition]


class DeltaMergeBuilder:
    """A merge under construction; each method gives a new builder, `execute` does it."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        alias: str | None,
        source: DataFrame,
        condition: Condition,
        clauses: tuple[MergeClause, ...] = (),
        *,
        schema_evolution: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._spark, self._path, self._alias = spark, path, alias
        self._source, self._condition, self._clauses = source, condition, clauses
        self._evolution = schema_evolution
        self._storage_options = storage_options

    def whenMatchedUpdate(self, condition: Condition | None = None, set: Values | None = None) -> Self:  # noqa: N802
        """Change matched rows of the table."""
        return self._with(MergeClause("matched", "update", condition, _values(set, "set")))

    def whenMatchedUpdateAll(self, condition: Condition | None = None) -> Self:  # noqa: N802
        """Give matched rows all values of the source's columns of the same name."""
        return self._with(MergeClause("matched", "update_all", condition))

    def whenMatchedDelete(self, condition: Condition | None = None) -> Self:  # noqa: N802
        """Delete matched rows of the table."""
        return self._with(MergeClause("matched", "delete", condition))

    def whenNotMatchedInsert(self, condition: Condition | None = None, values: Values | None = None) -> Self:  # noqa: N802
        """Insert source rows that match nothing."""
        return self._with(MergeClause("not_matched", "insert", condition, _values(values, "values")))

    def whenNotMatchedInsertAll(self, condition: Condition | None = None) -> Self:  # noqa: N802
        """Insert source rows that match nothing, with all their columns."""
        return self._with(MergeClause("not_matched", "insert_all", condition))

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self,
        condition: Condition | None = None,
        set: Values | None = None,
    ) -> Self:
        """Change rows of the table that no source row matches."""
        return self._with(MergeClause("not_matched_by_source", "update", condition, _values(set, "set")))

    def whenNotMatchedBySourceDelete(self, condition: Condition | None = None) -> Self:  # noqa: N802
        """Delete rows of the table that no source row matches."""
        return self._with(MergeClause("not_matched_by_source", "delete", condition))

    def withSchemaEvolution(self) -> Self:  # noqa: N802
        """Let the table get the source's new columns."""
        return self._copy(self._clauses, schema_evolution=True)

    def execute(self) -> DataFrame:
        """Merge in one commit; gives how many rows were updated, deleted and inserted."""
        metrics = execute_merge(
            self._spark,
            self._path,
            self._source,
            self._condition,
            self._clauses,
            target_alias=self._alias,
            schema_evolution=self._evolution,
            storage_options=self._storage_options,
        )
        return counts_frame(
            self._spark,
            {
                "num_affected_rows": metrics.rows_updated + metrics.rows_deleted + metrics.rows_inserted,
                "num_updated_rows": metrics.rows_updated,
                "num_deleted_rows": metrics.rows_deleted,
                "num_inserted_rows": metrics.rows_inserted,
            },
        )

    def _with(self, clause: MergeClause) -> Self:
        return self._copy((*self._clauses, clause), schema_evolution=self._evolution)

    def _copy(self, clauses: tuple[MergeClause, ...], *, schema_evolution: bool) -> Self:
        return type(self)(
            self._spark,
            self._path,
            self._alias,
            self._source,
            self._condition,
            clauses,
            schema_evolution=schema_evolution,
            storage_options=self._storage_options,
        )


def _values(values: Values | None, argument: str) -> Values:
    if not values:
        raise InvalidInputError(f"{argument!r} must name at least one column and its value")
    return values
