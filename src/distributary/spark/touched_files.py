"""The files that a condition touches: some whole, some in part, and of these the rows.

Files are left out by partition values and statistics first. A condition over partition columns alone, or
none at all, decides about whole files without reading any; any other one is asked row by row in one scan of
the columns that it reads, or of all columns where the rows are needed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.expressions.tree import Expression
from distributary.spark.changed_table import ChangedTable
from distributary.spark.read_predicates import understood
from distributary.spark.resolved_columns import ResolvedColumn, attribute_names, resolve_condition
from distributary.spark.row_changes import ReadSet, files_read
from distributary.spark.row_identity import IDENTITY
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX
from distributary.spark.touched_rows import TouchedRows, collect_touched, count_touched


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Files touched whole, files touched in part with the touched rows of each, and how many rows that is."""

    whole: ChangedTable
    partial: ChangedTable
    rows: tuple[BitMap64, ...]
    num_rows: int
    num_copied: int

    @property
    def are_partial(self) -> bool:
        """Whether some files keep rows."""
        return self.partial.files.num_files > 0

    @classmethod
    def of(cls, table: ChangedTable, touched: TouchedRows) -> TouchedFiles:
        """Touched rows by the ordinals of a table's files."""
        counts = {ordinal: len(rows) for ordinal, rows in touched.by_file.items()}
        return cls.counted(table, counts, touched.by_file)

    @classmethod
    def counted(
        cls, table: ChangedTable, counts: Mapping[int, int], rows: Mapping[int, BitMap64] | None = None
    ) -> TouchedFiles:
        """Numbers of touched rows by the ordinals of a table's files; the rows too, where they get marked."""
        ordinals = list(counts)
        found = table.only(ordinals)
        live = found.live_records()
        gone = [at for at, ordinal in enumerate(ordinals) if counts[ordinal] == live[at]]
        kept = [at for at, ordinal in enumerate(ordinals) if counts[ordinal] < live[at]]
        marked = () if rows is None else tuple(rows[ordinals[at]] for at in kept)
        number = sum(counts.values())
        return cls(found.only(gone), found.only(kept), marked, number, sum(live) - number)

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
    kept: DataFrame | None = None

    @property
    def holds(self) -> Column:
        """Whether a row of the table is touched: unknown is no."""
        return holds(self.condition)

    def changed_rows(self, *, identity: bool = False) -> DataFrame:
        """The touched rows as they are."""
        if self.kept is not None:
            return self.kept.drop(FILE_ORDINAL, ROW_INDEX, *(() if identity else IDENTITY))
        return satisfying(self.files.rows(identity=identity), self.condition)

    def release(self) -> None:
        """Forget the rows that were kept."""
        if self.kept is not None:
            self.kept.unpersist()

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


def search(table: ChangedTable, condition: Column | str | None, what: str, *, keep: bool = False) -> Search:
    """Find the rows that satisfy a condition (all without one).

    With `keep` the rows that are to be marked stay with the executors until they are released, so that what
    becomes of them needs no second scan of every column.
    """
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
    reads = read_set(candidates, predicate)
    if not table.uses_deletion_vectors:
        rows = satisfying(candidates.rows(positions=True), condition)
        files = TouchedFiles.counted(candidates, count_touched(rows.select(FILE_ORDINAL)))
        return Search(table, files, reads, resolved.sql, condition)
    rows = satisfying(candidates.rows(positions=True, identity=keep), condition)
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK) if keep else None
    try:
        files = TouchedFiles.of(candidates, collect_touched(rows.select(FILE_ORDINAL, ROW_INDEX)))
    except BaseException:
        rows.unpersist()
        raise
    return Search(table, files, reads, resolved.sql, condition, kept)


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
