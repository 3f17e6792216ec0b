"""Overwrite: rows of a DataFrame in place of all rows, of some partitions, or of those that match.

- Static: everything goes, optionally with another schema and partitioning.
- Dynamic: exactly the partitions that the new rows are in.
- `replace_where`: the rows that satisfy a condition. Over partition columns whole files go; over other
  columns the files that hold such rows are written anew without them. No new row may lie outside.

With the change feed on, a rewrite of files records the rows that came and went; whole files need no record,
since readers see which came and went.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from distributary.delta.commit.data_file_writer import remove_data_files
from distributary.delta.commit.staged_commit import StagedAction
from distributary.delta.log.actions import Add, AddCdcFile, CommitActions
from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.log_segment import LogSegment
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import WritePlan, WriteResult, commit_files
from distributary.delta.operations.overwrite import (
    Replaced,
    check_partitioned,
    check_removable,
    dynamically_replaced,
    replaced_files,
    stage_overwrite,
)
from distributary.delta.table_properties import TableProperties
from distributary.errors import InvalidInputError
from distributary.expressions.tree import Expression, columns_of
from distributary.spark.clustering import clustering_domain, clustering_of
from distributary.spark.data_files import CHANGE_TYPE, write_data_files
from distributary.spark.read_predicates import understood
from distributary.spark.resolved_columns import resolve_condition
from distributary.spark.row_files import write_rows
from distributary.spark.row_identity import IDENTITY
from distributary.spark.table_scan import FILE_ORDINAL, scan_snapshot
from distributary.spark.write_options import WriteOptions
from distributary.spark.write_plan import data_schema, plan_new_schema, plan_write, with_properties
from distributary.spark.write_rules import rows_in_schema
from distributary.storage.object_store import ObjectStore


def overwrite(store: ObjectStore, snapshot: Snapshot, frame: DataFrame, options: WriteOptions) -> WriteResult:
    """Replace rows of a table."""
    check_removable(snapshot)
    plan = _plan(frame, snapshot, options)
    if plan.is_done:
        return WriteResult(snapshot.version, snapshot, skipped=True)
    if options.replace_where is not None:
        return _replace_rows(store, plan, frame, options)
    if options.dynamic:
        check_partitioned(plan)
    adds = write_rows(store, plan, frame, options)
    replaced = dynamically_replaced(plan, adds) if options.dynamic else replaced_files(plan, None)
    staged = stage_overwrite(
        plan,
        adds,
        replaced,
        dynamic=options.dynamic,
        others=_clustering(plan, options),
        user_metadata=options.user_metadata,
        data_change=options.data_change,
    )
    return commit_files(store, plan, staged)


def _plan(frame: DataFrame, snapshot: Snapshot, options: WriteOptions) -> WritePlan:
    data = data_schema(frame)
    if not options.overwrite_schema:
        spark = frame.sparkSession
        return plan_write(spark, snapshot, data, merge_schema=options.merge_schema, txn=options.txn)
    plan = plan_new_schema(snapshot, data, options.partition_by, options.txn)
    return with_properties(plan, options.properties) if options.properties else plan


def _clustering(plan: WritePlan, options: WriteOptions) -> list[StagedAction]:
    """The clustering columns of a table whose columns were replaced: their physical names may differ."""
    if not options.overwrite_schema:
        return []
    before = [".".join(path) for path in clustering_of(plan.snapshot)]
    wanted = before if options.cluster_by is None else list(options.cluster_by)
    return [clustering_domain(plan, wanted)] if wanted or before else []


class _Region(msgspec.Struct, frozen=True):
    """The rows that are replaced: Spark's condition, and the engine's where it has one."""

    text: str
    predicate: Expression | None


def _replace_rows(
    store: ObjectStore, plan: WritePlan, frame: DataFrame, options: WriteOptions
) -> WriteResult:
    spark = frame.sparkSession
    region = _region(spark, store, plan, options)
    adds = write_rows(store, plan, frame, options, within=region.text)
    written: list[Add | AddCdcFile] = list(adds)
    try:
        replaced = _whole_files(plan, region)
        if replaced is None:
            touched = _touched(spark, store, plan.snapshot, region)
            replaced = Replaced(touched.adds(), region.predicate)
            written.extend(_rewritten(spark, store, plan, touched, region, adds, options))
        staged = stage_overwrite(
            plan,
            [file for file in written if isinstance(file, Add)],
            replaced,
            others=[file for file in written if isinstance(file, AddCdcFile)],
            predicate=region.text,
            user_metadata=options.user_metadata,
            data_change=options.data_change,
        )
    except BaseException:
        remove_data_files(store, written)
        raise
    return commit_files(store, plan, staged)


def _region(spark: SparkSession, store: ObjectStore, plan: WritePlan, options: WriteOptions) -> _Region:
    assert options.replace_where is not None
    rows = scan_snapshot(spark, store, plan.snapshot)
    resolved = resolve_condition(rows, options.replace_where, "replace_where")
    text = options.replace_where if isinstance(options.replace_where, str) else resolved.sql
    return _Region(text, understood(spark, plan.snapshot.schema, text))


def _whole_files(plan: WritePlan, region: _Region) -> Replaced | None:
    """The files of the partitions in a region; none where partition values alone do not decide."""
    if region.predicate is None:
        return None
    if {path[0] for path in columns_of(region.predicate)} - set(plan.metadata.partitioning):
        return None
    try:
        return replaced_files(plan, region.predicate)
    except InvalidInputError:
        return None


def _touched(spark: SparkSession, store: ObjectStore, snapshot: Snapshot, region: _Region) -> FileSelection:
    """The files that hold rows of the region."""
    files = snapshot.files
    rows = scan_snapshot(spark, store, snapshot, files, positions=True).filter(region.text)
    found = rows.select(FILE_ORDINAL).distinct().collect()
    mask = np.zeros(files.num_files, np.bool_)
    mask[[row[0] for row in found]] = True
    return files.filter(mask)


def _rewritten(
    spark: SparkSession,
    store: ObjectStore,
    plan: WritePlan,
    touched: FileSelection,
    region: _Region,
    adds: Sequence[Add],
    options: WriteOptions,
) -> list[Add | AddCdcFile]:
    """The rows of touched files that stay, in new files, and the record of changes where it is kept."""
    files: list[Add | AddCdcFile] = []
    old = scan_snapshot(spark, store, plan.snapshot, touched, identity=True)
    if touched.num_files:
        kept = old.filter(~F.coalesce(F.expr(region.text), F.lit(False)))
        rows = rows_in_schema(kept, plan.schema)
        files.extend(write_data_files(spark, store, plan, rows, data_change=options.data_change))
    if TableProperties.from_configuration(plan.metadata.properties).enable_change_data_feed:
        gone = rows_in_schema(old.filter(region.text).drop(*IDENTITY), plan.schema)
        changes = gone.withColumn(CHANGE_TYPE, F.lit("delete"))
        if adds:
            new = scan_snapshot(spark, store, _with_files(plan, adds))
            changes = changes.unionByName(new.withColumn(CHANGE_TYPE, F.lit("insert")))
        files.extend(write_data_files(spark, store, plan, changes, change=True))
    return files


def _with_files(plan: WritePlan, adds: Sequence[Add]) -> Snapshot:
    """A snapshot of nothing but new files, so that they can be read before they are committed."""
    version = plan.snapshot.version
    actions = CommitActions(
        version=version, files=tuple(adds), metadata=plan.metadata, protocol=plan.protocol
    )
    return Snapshot(plan.root, LogSegment(version, None, (), None), None, [actions])
