"""MERGE on Spark: rows of a source into a table, in one commit.

The table's rows are read once, joined with the source: every pair that matches, and with clauses for rows
that no source row matches those too, becomes a row with its position, the clause that acts on it and what
that makes of it. From these rows come the deletion vectors (or the files to write anew, without the touched
rows), the updated rows, the keys that tell which source rows match nothing and are inserted, and the change
files. A merge that only inserts keeps just the source rows that match nothing, and touches no file.

A row of the table that several source rows match fails the merge, unless matched rows are deleted whatever
else: which of them acts would be a matter of chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession

from distributary.delta.commit.staged_commit import Operation, StagedAction
from distributary.delta.commit.transaction import OnPhase
from distributary.spark.assignments import computed_names
from distributary.spark.change_writer import ChangeClock, ChangeWriter, with_type
from distributary.spark.changed_table import ChangedTable, StorageOptions
from distributary.spark.errors import RepeatedMatchError
from distributary.spark.merge_clauses import (
    NOT_MATCHED,
    MergeClause,
    allows_repeated_matches,
    check_clauses,
    history_of,
)
from distributary.spark.merge_plan import MergePlan, refuse_mixed_computing
from distributary.spark.merge_rows import MergeRows, inserted_rows, unmatched_source
from distributary.spark.merge_source import held_source
from distributary.spark.row_changes import ChangeMetrics, FileChanges, mark_deleted, removed
from distributary.spark.touched_files import TouchedFiles
from distributary.spark.touched_rows import TouchedRows
from distributary.spark.write_rules import apply_rules

Counts = dict[str, int | str]


def execute_merge(
    spark: SparkSession,
    path: str,
    source: DataFrame,
    condition: Column | str,
    clauses: Sequence[MergeClause],
    *,
    target_alias: str | None = None,
    schema_evolution: bool = False,
    storage_options: StorageOptions | None = None,
    on_phase: OnPhase | None = None,
) -> ChangeMetrics:
    """Merge a source into the table at a path; the first clause that applies to a row acts on it."""
    check_clauses(clauses)
    clock = ChangeClock()
    table = ChangedTable.open(
        spark, path, alias=target_alias, storage_options=storage_options, on_phase=on_phase
    )
    inserts_only = all(clause.kind == NOT_MATCHED for clause in clauses)
    if not inserts_only:
        table.refuse_append_only("MERGE")
    with held_source(source) as held:
        plan = MergePlan.of(table, held, condition, clauses, grow=schema_evolution)
        refuse_mixed_computing(plan.rules, computed_names(plan.write))
        merge = _Merge(plan, clock)
        return merge.insert() if inserts_only else merge.change()


class _Merge:
    """One merge at work."""

    def __init__(self, plan: MergePlan, clock: ChangeClock) -> None:
        self._plan = plan
        self._clock = clock
        self._clauses = [rule.clause for rule in plan.rules]

    def insert(self) -> ChangeMetrics:
        """Insert the source rows that match nothing."""
        plan = self._plan
        self._clock.scanned()
        with ChangeWriter(plan.table, plan.write) as writer:
            writer.write(inserted_rows(plan, unmatched_source(plan)), plan.num_source_rows)
            return self._commit(writer, {"numTargetRowsInserted": writer.written_rows})

    def change(self) -> ChangeMetrics:
        """Update, delete and insert."""
        plan = self._plan
        with _kept(MergeRows.of(plan)) as rows:
            touched = rows.collect()
            self._refuse_repeated(touched)
            files = TouchedFiles.of(plan.table, touched)
            self._clock.scanned()
            with ChangeWriter(plan.table, plan.write) as writer:
                copied = self._take_out(writer, files)
                self._write(writer, rows, touched, files, copied)
                counts = rows.counts(touched)
                copies = 0 if copied is None else files.num_copied
                counts["numTargetRowsInserted"] = (
                    writer.written_rows - counts["numTargetRowsUpdated"] - copies
                )
                return self._commit(writer, {**counts, "numTargetRowsCopied": copies})

    def _refuse_repeated(self, touched: TouchedRows) -> None:
        if touched.matches > touched.matched and not allows_repeated_matches(self._clauses):
            raise RepeatedMatchError(
                f"The merge into {self._plan.table.store.root} was not done: several source rows match "
                f"one row of the table ({touched.matches} matches of {touched.matched} rows), so that it is "
                "not clear which of them counts. Make the source unique by what the condition compares."
            )

    def _take_out(self, writer: ChangeWriter, files: TouchedFiles) -> DataFrame | None:
        """Take the touched rows out of their files; gives the others where the files are written anew."""
        writer.keep(FileChanges(removes=removed(files.whole.files.adds())))
        if not files.rows:
            return None
        if self._plan.table.uses_deletion_vectors:
            writer.keep(mark_deleted(files.partial, files.rows))
            return None
        writer.keep(FileChanges(removes=removed(files.partial.files.adds())))
        return files.partial.rows_without(files.rows)

    def _write(
        self,
        writer: ChangeWriter,
        rows: MergeRows,
        touched: TouchedRows,
        files: TouchedFiles,
        copied: DataFrame | None,
    ) -> None:
        plan = self._plan
        updated = rows.updated() if rows.num_updated(touched) else None
        inserted = inserted_rows(plan, rows.unmatched_source()) if plan.of_kind(NOT_MATCHED) else None
        if copied is not None and plan.write.schema != plan.table.snapshot.schema:
            copied = apply_rules(copied, plan.write)
        parts = [part for part in (copied, updated, inserted) if part is not None]
        estimate = files.num_copied * (copied is not None) + files.num_rows + plan.num_source_rows
        if parts:
            writer.write(reduce(_union, parts), estimate)
        if plan.table.keeps_changes and files.num_rows:
            changes = rows.changes(touched, updated)
            if inserted is not None:
                changes.append(with_type(inserted, "insert"))
            writer.write_changes(reduce(DataFrame.unionByName, changes), 2 * files.num_rows)

    def _commit(self, writer: ChangeWriter, counts: Mapping[str, int]) -> ChangeMetrics:
        plan = self._plan
        parameters = {
            "predicate": [plan.condition.sql],
            **history_of(self._clauses, {at: rule.text for at, rule in enumerate(plan.rules) if rule.text}),
        }
        output = sum(counts.get(f"numTargetRows{name}", 0) for name in ("Inserted", "Updated", "Copied"))
        metrics: Counts = {
            **_zero_counts(),
            **counts,
            "numSourceRows": plan.num_source_rows,
            "numOutputRows": output,
            **writer.target_metrics(),
            **self._clock.metrics(),
        }
        operation = Operation("MERGE", parameters, metrics)
        beside: tuple[StagedAction, ...] = plan.write.changes
        return writer.commit(operation, plan.reads, beside)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    """The rows of both; inserted ones have no identity yet, where others have one."""
    return one.unionByName(other, allowMissingColumns=True)


def _zero_counts() -> dict[str, int]:
    """The metrics of a merge that are given even where they are nothing."""
    names = ("Inserted", "Copied", "Updated", "MatchedUpdated", "NotMatchedBySourceUpdated",
             "Deleted", "MatchedDeleted", "NotMatchedBySourceDeleted")  # fmt: skip
    return {f"numTargetRows{name}": 0 for name in names}


@contextmanager
def _kept(rows: MergeRows) -> Iterator[MergeRows]:
    """The rows computed once, where more than one job needs them."""
    if not rows.is_used_again:
        yield rows
        return
    frame = rows.frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        frame.unpersist()
