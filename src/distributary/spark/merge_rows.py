"""The rows of a merge: pairs of a table's row and a source's row that match, and what becomes of them.

One frame holds, for each pair (and for each row that no source row matches, where a clause acts on it): the
position of the table's row, the number of the clause that acts, the new row, where inserts are asked for the
columns that the condition compares, and for the change data feed the row as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.spark.assignments import with_computed
from distributary.spark.change_writer import with_type
from distributary.spark.merge_clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE
from distributary.spark.merge_plan import SOURCE_ROW, ClauseRule, MergePlan
from distributary.spark.resolved_columns import attributes
from distributary.spark.row_identity import IDENTITY, carried, updated_identity
from distributary.spark.rule_violation import column_named
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX
from distributary.spark.touched_rows import TouchedRows, collect_touched
from distributary.spark.write_rules import apply_rules

_ACTION: Final = "__distributary_action"
_KEY: Final = "__distributary_key_"
_NEW: Final = "__distributary_new_"
_OLD: Final = "__distributary_old_"


@dataclass(frozen=True, slots=True)
class MergeRows:
    """The joined rows of a merge, and the rules of the clauses that may act on them, by number."""

    plan: MergePlan
    frame: DataFrame
    rules: tuple[ClauseRule, ...]

    @classmethod
    def of(cls, plan: MergePlan) -> MergeRows:
        """Join both sides; nothing is read yet."""
        by_source = plan.of_kind(NOT_MATCHED_BY_SOURCE)
        rules = (*plan.of_kind(MATCHED), *by_source)
        how = "left_outer" if by_source else "inner"
        joined = plan.target.join(plan.small_source, plan.condition.column, how).withColumn(
            _ACTION, _action(rules)
        )
        columns = [sf.col(FILE_ORDINAL), sf.col(ROW_INDEX), sf.col(SOURCE_ROW), sf.col(_ACTION)]
        columns += [*_new_columns(plan, rules), *map(sf.col, carried(plan.target))]
        if plan.of_kind(NOT_MATCHED):
            known = attributes(plan.target)
            columns += [known[name].column.alias(_KEY + name) for name in plan.key_names]
        if plan.table.keeps_changes:
            columns += [value.alias(_OLD + name) for name, value in plan.before.items()]
        frame = joined.select(*columns)
        if by_source:
            frame = frame.filter(sf.col(SOURCE_ROW).isNotNull() | sf.col(_ACTION).isNotNull())
        return cls(plan, frame, rules)

    @property
    def is_used_again(self) -> bool:
        """Whether the rows are needed beyond their positions."""
        writes = any(rule.clause.verb == "update" for rule in self.rules)
        return writes or bool(self.plan.of_kind(NOT_MATCHED)) or self.plan.table.keeps_changes

    def collect(self) -> TouchedRows:
        """The positions of the rows on which a clause acts, and how often each does; runs the join."""
        return collect_touched(
            self.frame,
            sf.col(_ACTION).isNotNull(),
            matched=sf.col(SOURCE_ROW).isNotNull(),
            counts={f"action_{number}": sf.col(_ACTION) == number for number in range(len(self.rules))},
        )

    def counts(self, touched: TouchedRows) -> dict[str, int]:
        """How many rows were updated and deleted, by the names of Delta's history."""
        found: dict[str, int] = {"numTargetRowsUpdated": 0, "numTargetRowsDeleted": 0}
        for number, rule in enumerate(self.rules):
            count = touched.counts[f"action_{number}"]
            if rule.clause.kind == MATCHED and touched.matches > touched.matched:
                count -= touched.matches - touched.matched
            what = "Updated" if rule.clause.verb == "update" else "Deleted"
            kind = "Matched" if rule.clause.kind == MATCHED else "NotMatchedBySource"
            name = f"numTargetRows{kind}{what}"
            found[name] = found.get(name, 0) + count
            found[f"numTargetRows{what}"] += count
        return found

    def num_updated(self, touched: TouchedRows) -> int:
        """How many rows get new values."""
        return sum(touched.counts[f"action_{number}"] for number in self._numbers("update"))

    def updated(self) -> DataFrame:
        """The updated rows as they will be, checked."""
        schema = self.plan.write.schema
        names = [name for name in schema.names if _NEW + name in self.frame.columns]
        acted = self._acted("update")
        new = [column_named(_NEW + name).alias(name) for name in names]
        rows = acted.select(*new, *updated_identity(acted))
        return apply_rules(with_computed(rows, self.plan.write), self.plan.write)

    def changes(self, touched: TouchedRows, updated: DataFrame | None) -> list[DataFrame]:
        """The rows for the change data feed, apart from inserted ones."""
        changes: list[DataFrame] = []
        if updated is not None:
            changes.append(with_type(self._old(self._acted("update")), "update_preimage"))
            changes.append(with_type(updated.drop(*IDENTITY), "update_postimage"))
        if self._numbers("delete"):
            deleted = self._acted("delete")
            if touched.matches > touched.matched:
                deleted = deleted.dropDuplicates([FILE_ORDINAL, ROW_INDEX])
            changes.append(with_type(self._old(deleted), "delete"))
        return changes

    def unmatched_source(self) -> DataFrame:
        """The rows of the source that match no row of the table."""
        keys = self.frame.filter(sf.col(SOURCE_ROW).isNotNull()).select(
            *[column_named(_KEY + name).alias(name) for name in self.plan.key_names]
        )
        return self.plan.source.join(self.plan.table.aliased(keys), _condition(self.plan), "left_anti")

    def _old(self, rows: DataFrame) -> DataFrame:
        """Rows as they were."""
        return rows.select(*[column_named(_OLD + name).alias(name) for name in self.plan.before])

    def _acted(self, verb: str) -> DataFrame:
        return self.frame.filter(sf.col(_ACTION).isin(self._numbers(verb)))

    def _numbers(self, verb: str) -> list[int]:
        return [number for number, rule in enumerate(self.rules) if rule.clause.verb == verb]


def unmatched_source(plan: MergePlan) -> DataFrame:
    """The rows of the source that match no row of the table, for a merge that only inserts."""
    target = plan.target
    if plan.small_source is not plan.source:
        # A small source tells first which rows of the table matter, so that those alone are moved.
        target = target.join(plan.small_source, plan.condition.column, "left_semi")
    keys = target.select(*[column_named(name) for name in plan.key_names])
    return plan.source.join(keys, _condition(plan), "left_anti")


def inserted_rows(plan: MergePlan, unmatched: DataFrame) -> DataFrame:
    """What the insert clauses make of source rows that match nothing, checked."""
    rules = plan.of_kind(NOT_MATCHED)
    earlier: Column = sf.lit(False)
    parts: list[DataFrame] = []
    for rule in rules:
        rows = unmatched.filter(rule.applies & ~earlier)
        made = rows.select(*[column.alias(name) for name, column in rule.columns.items()])
        parts.append(apply_rules(with_computed(made, plan.write), plan.write))
        earlier = earlier | rule.applies
    return reduce(DataFrame.unionByName, parts)


def _condition(plan: MergePlan) -> Column:
    return sf.expr(plan.given) if isinstance(plan.given, str) else plan.given


def _action(rules: tuple[ClauseRule, ...]) -> Column:
    """The number of the first clause that applies to a row, null where none does."""
    present = sf.col(SOURCE_ROW).isNotNull()
    action: Column | None = None
    for number, rule in enumerate(rules):
        here = present if rule.clause.kind == MATCHED else ~present
        test = here & rule.applies
        action = sf.when(test, number) if action is None else action.when(test, number)
    assert action is not None
    return action.cast("int")


def _new_columns(plan: MergePlan, rules: tuple[ClauseRule, ...]) -> list[Column]:
    """The columns of the rows that are updated, each by its own clause."""
    columns: list[Column] = []
    updates = [(number, rule) for number, rule in enumerate(rules) if rule.clause.verb == "update"]
    for name in plan.write.schema.names:
        value: Column | None = None
        for number, rule in updates:
            if name in rule.columns:
                here = sf.col(_ACTION) == number
                value = (
                    sf.when(here, rule.columns[name])
                    if value is None
                    else value.when(here, rule.columns[name])
                )
        if value is not None:
            columns.append(value.alias(_NEW + name))
    return columns
