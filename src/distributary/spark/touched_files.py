"""The files that a condition touches: some whole, some in part, and of these the rows.

Files are left out by partition values and statistics first. A condition over partition columns alone, or
none at all, decides about whole files without reading any; any other one is asked row by row in one scan of
the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.expressions.tree import Expression
from distributary.spark.changed_table import ChangedTable
from distributary.spark.read_predicates import understood
from distributary.spark.resolved_columns import ResolvedColumn, attribute_names, resolve_condition
from distributary.spark.row_changes import ReadSet, files_read
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX
from distributary.spark.touched_rows import TouchedRows, collect_touched


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Files touched whole, files touched in part with the touched rows of each, and how many rows that is."""

    whole: ChangedTable
    partial: ChangedTable
    rows: tuple[BitMap64, ...]
    num_rows: int
    num_copied: int

    @classmethod
    def of(cls, table: ChangedTable, touched: TouchedRows) -> TouchedFiles:
        """Touched rows by the ordinals of a table's files."""
        ordinals = list(touched.by_file)
        found = table.only(ordinals)
        live = found.live_records()
        rows = [touched.by_file[ordinal] for ordinal in ordinals]
        gone = [at for at in range(len(rows)) if len(rows[at]) == live[at]]
        kept = [at for at in range(len(rows)) if len(rows[at]) < live[at]]
        number = sum(len(part) for part in rows)
        return cls(
            found.only(gone), found.only(kept), tuple(rows[at] for at in kept), number, sum(live) - number
        )

    @classmethod
    def all_of(cls, table: ChangedTable) -> TouchedFiles:
        """Every row of every file."""
        return cls(table, table.only(()), (), sum(table.live_records()), 0)


@dataclass(frozen=True, slots=True)
class Search:
    """What a condition found: the touched files, what was read to find them, and the condition itself."""

    table: ChangedTable
    touched: TouchedFiles
    reads: ReadSet
    text: str
    condition: Column | str | None = None

    @property
    def holds(self) -> Column:
        """Whether a row of the table is touched: unknown is no."""
        return holds(self.condition)

    def changed_rows(self, *, identity: bool = False) -> DataFrame:
        """The touched rows as they are."""
        return satisfying(self.files.rows(identity=identity), self.condition)

    @property
    def files(self) -> ChangedTable:
        """The files that are touched, whole or in part."""
        whole, partial = self.touched.whole.files.blocks, self.touched.partial.files.blocks
        return self.table.with_files((*whole, *partial))


def satisfying(rows: DataFrame, condition: Column | str | None) -> DataFrame:
    """The rows for which a condition is true; it stands alone, so that Spark can push it into the scan."""
    return rows if condition is None else rows.filter(condition)


def holds(condition: Column | str | None) -> Column:
    """Whether a condition is true; unknown is no."""
    if condition is None:
        return sf.lit(True)
    column = sf.expr(condition) if isinstance(condition, str) else condition
    return sf.coalesce(column, sf.lit(False))


def search(table: ChangedTable, condition: Column | str | None, what: str) -> Search:
    """Find the rows that satisfy a condition (all without one)."""
    if condition is None:
        return Search(table, TouchedFiles.all_of(table), ReadSet(whole_table=True), "true")
    bare = table.only(()).rows()
    resolved = resolve_condition(bare, condition, what)
    state = table.snapshot
    predicate = understood(table.spark, state.schema, resolved.sql, table.alias)
    if _names(bare, resolved) <= set(state.metadata.partitioning):
        found = table.only(_satisfying(table, condition))
        return Search(table, TouchedFiles.all_of(found), read_set(found, predicate), resolved.sql)
    candidates = table.narrowed(predicate)
    rows = satisfying(candidates.rows(positions=True), condition)
    touched = collect_touched(rows.select(FILE_ORDINAL, ROW_INDEX))
    files = TouchedFiles.of(candidates, touched)
    return Search(table, files, read_set(candidates, predicate), resolved.sql, condition)


def read_set(candidates: ChangedTable, predicate: Expression | None) -> ReadSet:
    """What was read: the files that may satisfy a predicate, or the whole table where there is none."""
    if predicate is None:
        return ReadSet(whole_table=True)
    return ReadSet((predicate,), files=files_read(candidates))


def _names(rows: DataFrame, resolved: ResolvedColumn) -> set[str]:
    names = attribute_names(rows)
    return {names[at] for at in resolved.attributes}


def _satisfying(table: ChangedTable, condition: Column | str) -> Sequence[int]:
    """The files whose partition values satisfy a condition, decided by Spark on these values alone."""
    if not table.files.num_files:
        return []
    found = satisfying(table.partitions(), condition).select(FILE_ORDINAL).toArrow()
    return sorted(found.column(0).to_pylist())
