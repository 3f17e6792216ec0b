"""Optimize: the same rows in fewer, larger or better ordered files, in one commit.

- Compaction gathers small files of a partition into files of the target size; one task writes one file.
- Z-order and clustering columns order the rows of each partition along a curve (z_order).
- Purge rids a table of deletion vectors.

The commit says `dataChange=false`: readers of changes see nothing, concurrent appends never conflict, and a
concurrent change of one of the files makes this commit fail, not the other. As many rows must come out as
went in, else nothing is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

import msgspec
import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession

from distributary.delta.commit.data_file_writer import num_records, remove_data_files
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.errors import DataFileError
from distributary.delta.log.actions import Add
from distributary.delta.log.active_files import FileSelection, key_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import WritePlan, commit_files
from distributary.delta.operations.restore import removal
from distributary.delta.schema.column_mapping import physical_path
from distributary.delta.statistics.collection import indexed_columns
from distributary.delta.table_properties import TARGET_FILE_SIZE
from distributary.errors import InvalidInputError
from distributary.spark.cloud_connectors import check_connector
from distributary.spark.clustering import clustering_of
from distributary.spark.curve_columns import curve_columns
from distributary.spark.data_files import write_data_files
from distributary.spark.file_bins import (
    DEFAULT_TARGET,
    FileBin,
    compaction_bins,
    num_rows,
    partition_bins,
    purge_bins,
)
from distributary.spark.jvm import jvm_of
from distributary.spark.optimize_metrics import Optimized
from distributary.spark.partition_condition import files_in_partitions
from distributary.spark.table_scan import scan_snapshot
from distributary.spark.table_store import table_store
from distributary.spark.z_order import z_ordered
from distributary.storage.object_store import ObjectStore

CLUSTERING_PROVIDER: Final = "distributary"
_BINS_A_JOB: Final = 64

Layout = Callable[[DataFrame, FileBin], DataFrame]


class OptimizePlan(msgspec.Struct, frozen=True):
    """The files that were looked at, the bins to write anew, and how their rows are laid out."""

    snapshot: Snapshot
    files: FileSelection
    adds: Sequence[Add]
    bins: Sequence[FileBin]
    columns: tuple[tuple[str, ...], ...] = ()
    curve: str | None = None
    target: int = DEFAULT_TARGET
    name: str = "OPTIMIZE"

    def __str__(self) -> str:
        count = sum(len(found.ordinals) for found in self.bins)
        return f"{self.snapshot.root}: {count:,} of {len(self.adds):,} files in {len(self.bins):,} bins"


def optimize(
    spark: SparkSession,
    path: str,
    where: str | Column | None = None,
    z_order_by: Sequence[str] = (),
    *,
    full: bool = False,
    target_file_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> DataFrame:
    """Write files anew for faster reading; gives one row of delta-spark's metrics.

    `where` is a condition over partition columns. A table with clustering columns is clustered by them;
    `full` clusters also what is clustered already.
    """
    jvm_of(spark)
    store = table_store(spark, path, storage_options)
    check_connector(spark, store)
    snapshot = load_snapshot(store)
    started = time.time_ns() // 1_000_000
    plan = plan_optimize(spark, store, snapshot, where, tuple(z_order_by), full=full, target=target_file_size)
    return _execute(spark, store, plan, started, where, user_metadata)


def purge(
    spark: SparkSession,
    path: str,
    where: str | Column | None = None,
    *,
    target_file_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> DataFrame:
    """Write the files anew that have deletion vectors (REORG … APPLY (PURGE)); gives the same metrics."""
    jvm_of(spark)
    store = table_store(spark, path, storage_options)
    check_connector(spark, store)
    snapshot = load_snapshot(store)
    started = time.time_ns() // 1_000_000
    snapshot.check_writable()
    files = snapshot.files if where is None else files_in_partitions(spark, store, snapshot, where)
    adds, size = files.adds(), _target(snapshot, target_file_size)
    plan = OptimizePlan(snapshot, files, adds, purge_bins(adds, size), target=size, name="REORG")
    return _execute(spark, store, plan, started, where, user_metadata)


def plan_optimize(
    spark: SparkSession,
    store: ObjectStore,
    snapshot: Snapshot,
    where: str | Column | None,
    z_order_by: tuple[str, ...],
    *,
    full: bool = False,
    target: int | None = None,
) -> OptimizePlan:
    """Decide what is written anew; refuses what cannot be done without harm."""
    snapshot.check_writable()
    clustering = clustering_of(snapshot)
    if clustering and (z_order_by or where is not None):
        names = ", ".join(".".join(path) for path in clustering)
        raise InvalidInputError(
            f"{snapshot.root} has clustering columns ({names}), by which optimize orders it: leave out the "
            "condition and the z-order columns"
        )
    size = _target(snapshot, target)
    files = snapshot.files if where is None else files_in_partitions(spark, store, snapshot, where)
    adds = files.adds()
    if z_order_by:
        paths = tuple(_column_path(snapshot, name) for name in z_order_by)
        return OptimizePlan(snapshot, files, adds, partition_bins(adds), paths, "z-order", size)
    if clustering:
        bins = partition_bins(adds, _unclustered(adds, size, full))
        return OptimizePlan(snapshot, files, adds, bins, tuple(clustering), "clustering", size)
    return OptimizePlan(snapshot, files, adds, compaction_bins(adds, size), target=size)


def _target(snapshot: Snapshot, size: int | None) -> int:
    return size or snapshot.properties.get(TARGET_FILE_SIZE) or DEFAULT_TARGET


def _execute(
    spark: SparkSession,
    store: ObjectStore,
    plan: OptimizePlan,
    started: int,
    where: str | Column | None,
    user_metadata: str | None,
) -> DataFrame:
    removed = [plan.adds[at] for found in plan.bins for at in found.ordinals]
    added = _rewritten(spark, store, plan, removed) if removed else []
    done = Optimized(plan.adds, removed, added, len(plan.bins), started, plan.curve)
    if removed:
        operation = _operation(plan, done, where, user_metadata)
        commit_files(store, _write_plan(plan.snapshot), _staged(plan.snapshot, operation, removed, added))
    return done.frame(spark, plan.snapshot)


def _column_path(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    found = snapshot.schema.find(name)
    path = (found.name,) if found is not None else tuple(name.split("."))
    if path[0] in snapshot.metadata.partitioning:
        raise InvalidInputError(
            f"{name} is a partition column, in which all rows of a file are equal: z-order by other columns"
        )
    physical = physical_path(snapshot.schema, path, snapshot.mapping_mode)
    indexed = indexed_columns(
        snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode, snapshot.properties
    )
    if physical not in {column.path for column in indexed}:
        raise InvalidInputError(
            f"{name} has no statistics, so that no file could be skipped by it: name it in "
            "delta.dataSkippingStatsColumns and write the files anew first"
        )
    return path


def _unclustered(adds: Sequence[Add], target: int, full: bool) -> list[int]:
    """The files to cluster: those that are not yet, and with them the small ones; nothing where all are."""
    new = [at for at, add in enumerate(adds) if full or add.clustering_provider != CLUSTERING_PROVIDER]
    if not new:
        return []
    chosen = set(new)
    return [at for at, add in enumerate(adds) if at in chosen or add.size < target]


def _rewritten(
    spark: SparkSession, store: ObjectStore, plan: OptimizePlan, removed: Sequence[Add]
) -> list[Add]:
    """The new files; as many rows come out as went in."""
    added: list[Add] = []
    layout = _layout(spark, plan)
    try:
        for start in range(0, len(plan.bins), _BINS_A_JOB):
            frames = [
                layout(_rows(spark, store, plan, found), found)
                for found in plan.bins[start : start + _BINS_A_JOB]
            ]
            rows = reduce(DataFrame.union, frames)
            target = _write_plan(plan.snapshot)
            added.extend(write_data_files(spark, store, target, rows, data_change=False, bounded=False))
        _check_same_number(plan, removed, added)
    except BaseException:
        remove_data_files(store, added)
        raise
    if plan.curve != "clustering":
        return added
    return [msgspec.structs.replace(add, clustering_provider=CLUSTERING_PROVIDER) for add in added]


def _rows(spark: SparkSession, store: ObjectStore, plan: OptimizePlan, found: FileBin) -> DataFrame:
    mask = np.zeros(len(plan.adds), np.bool_)
    mask[list(found.ordinals)] = True
    return scan_snapshot(spark, store, plan.snapshot, plan.files.filter(mask), identity=True)


def _layout(spark: SparkSession, plan: OptimizePlan) -> Layout:
    if plan.curve is None:
        return lambda rows, _: rows.coalesce(1)
    columns = curve_columns(plan.snapshot.schema, plan.columns)

    def along_curve(rows: DataFrame, found: FileBin) -> DataFrame:
        counts = [num_rows(plan.adds[at]) or 0 for at in found.ordinals]
        return z_ordered(rows, columns, max(-(-found.size // plan.target), 1), sum(counts))

    return along_curve


def _check_same_number(plan: OptimizePlan, removed: Sequence[Add], added: Sequence[Add]) -> None:
    counts = [num_rows(add) for add in removed]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts) and sum(known) != num_records(added):
        raise DataFileError(
            f"{plan.snapshot.root}: {sum(known)} rows were to be written anew, but {num_records(added)} were "
            "written. Nothing was committed; verify the table."
        )


def _write_plan(snapshot: Snapshot) -> WritePlan:
    return WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol)


def _operation(
    plan: OptimizePlan, done: Optimized, where: str | Column | None, user_metadata: str | None
) -> Operation:
    predicate = [] if where is None else [str(where)]
    names = [".".join(path) for path in plan.columns]
    parameters: dict[str, object] = {"predicate": predicate, "applyPurge": True}
    if plan.name == "OPTIMIZE":
        parameters = {
            "predicate": predicate,
            "auto": False,
            "clusterBy": names if plan.curve == "clustering" else [],
            "zOrderBy": names if plan.curve == "z-order" else [],
        }
    return Operation(plan.name, parameters, done.operation_metrics(), user_metadata)


def _staged(
    snapshot: Snapshot, operation: Operation, removed: Sequence[Add], added: Sequence[Add]
) -> StagedCommit:
    now = time.time_ns() // 1_000_000
    removes = [removal(add, now, data_change=False) for add in removed]
    read = frozenset(key_of(snapshot.root, add.path, add.deletion_vector) for add in removed)
    return StagedCommit(operation, (*removes, *added), read_files=read)
