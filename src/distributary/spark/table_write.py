"""DataFrame → files → statistics → one commit.

`write_table` appends to a table or replaces rows of it, and makes the table where there is none. Rows are
checked against the table's rules in Spark's own SQL while they are written; the commit is the engine's, with
its conflict checks, so that Spark and other writers can change one table at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame

from distributary.delta.commit.data_file_writer import num_records, remove_data_files
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import (
    CommitConflictError,
    TableExistsError,
    TableNotFoundError,
    TableRuleError,
    UnsupportedFeatureError,
)
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import (
    Transaction,
    WriteResult,
    commit_files,
    write_metrics,
    write_parameters,
)
from distributary.errors import InvalidInputError
from distributary.spark.cloud_connectors import check_connector
from distributary.spark.clustering import CLUSTERING_FEATURE, clustering_domain, clustering_of
from distributary.spark.jvm import jvm_of
from distributary.spark.row_files import write_rows
from distributary.spark.table_overwrite import overwrite
from distributary.spark.table_store import table_store
from distributary.spark.write_options import Mode, WriteOptions
from distributary.spark.write_plan import data_schema, plan_new_table, plan_write, unborn
from distributary.storage.object_store import ObjectStore


def write_table(
    df: DataFrame,
    path: str,
    mode: Mode = "append",
    *,
    partition_by: Sequence[str] | None = None,
    replace_where: str | Column | None = None,
    partition_overwrite: Literal["static", "dynamic"] = "static",
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    properties: Mapping[str, str] | None = None,
    txn: Transaction | None = None,
    cluster_by: Sequence[str] | None = None,
    sort_by: Sequence[str] = (),
    optimize_write: bool | None = None,
    target_file_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    data_change: bool = True,
) -> WriteResult:
    """Write rows to the Delta table at a path, which is created where there is none.

    - `mode`: `append`, `overwrite`, `error` (refuse where there is a table) or `ignore`.
    - `partition_by`, `cluster_by`, `properties`: of a new table; a table that is there must agree.
    - `replace_where`, `partition_overwrite="dynamic"`, `overwrite_schema`: what an overwrite replaces.
    - `merge_schema`: new columns of the data become columns of the table.
    - `txn`: an application's id and the number of this write; the same number is written once.
    - `sort_by` orders rows over all files first; `optimize_write` gathers the rows of each partition first,
      so that few files are made; both move all rows once.
    - `data_change=False`: the rows are the same as before, only laid out differently.
    """
    options = WriteOptions(
        mode=mode,
        partition_by=None if partition_by is None else tuple(partition_by),
        replace_where=replace_where,
        dynamic=_is_dynamic(partition_overwrite),
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        properties=dict(properties or {}),
        txn=txn,
        cluster_by=None if cluster_by is None else tuple(cluster_by),
        sort_by=tuple(sort_by),
        optimize_write=optimize_write,
        target_file_size=target_file_size,
        user_metadata=user_metadata,
        data_change=data_change,
    )
    options.check()
    return write_frame(table_store(df.sparkSession, path, storage_options), df, options)


def write_frame(store: ObjectStore, frame: DataFrame, options: WriteOptions) -> WriteResult:
    """The same with the store and the options as values."""
    jvm_of(frame.sparkSession)
    check_connector(frame.sparkSession, store)
    snapshot = existing_snapshot(store)
    if snapshot is None:
        return _create(store, frame, options)
    if options.mode == "ignore":
        return WriteResult(snapshot.version, snapshot, skipped=True)
    if options.mode in ("error", "errorifexists"):
        raise TableExistsError(
            f'There is a Delta table at {store.root} already. Write with mode="append" or "overwrite".'
        )
    _check_agrees(snapshot, options)
    if options.mode == "overwrite":
        return overwrite(store, snapshot, frame, options)
    return _append(store, snapshot, frame, options)


def existing_snapshot(store: ObjectStore) -> Snapshot | None:
    """The latest version of the table, if there is one."""
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def _append(store: ObjectStore, snapshot: Snapshot, frame: DataFrame, options: WriteOptions) -> WriteResult:
    plan = plan_write(
        frame.sparkSession,
        snapshot,
        data_schema(frame),
        merge_schema=options.merge_schema,
        txn=options.txn,
    )
    if plan.is_done:
        return WriteResult(snapshot.version, snapshot, skipped=True)
    adds = write_rows(store, plan, frame, options)
    parameters = write_parameters("Append", plan)
    operation = Operation("WRITE", parameters, write_metrics(adds), options.user_metadata)
    return commit_files(store, plan, StagedCommit(operation, (*plan.changes, *adds), blind_append=True))


def _create(store: ObjectStore, frame: DataFrame, options: WriteOptions) -> WriteResult:
    """Write the first version of a table: its definition and its rows in one commit."""
    properties = dict(options.properties)
    if options.cluster_by:
        properties[CLUSTERING_FEATURE] = "supported"
    plan = plan_new_table(
        store,
        data_schema(frame),
        partition_by=options.partition_by or (),
        properties=properties,
        txn=options.txn,
    )
    others = (clustering_domain(plan, options.cluster_by),) if options.cluster_by else ()
    plan = unborn(plan, options.txn, others)
    adds = write_rows(store, plan, frame, options)
    operation = Operation(
        "WRITE", write_parameters(options.parameter, plan), write_metrics(adds), options.user_metadata
    )
    actions = (plan.protocol, plan.metadata, *plan.changes, *others, *adds)
    return _committed_first(store, StagedCommit(operation, actions))


def _committed_first(store: ObjectStore, staged: StagedCommit) -> WriteResult:
    try:
        result = commit(store, None, staged)
    except (CommitConflictError, TableRuleError, UnsupportedFeatureError):
        remove_data_files(store, staged.new_files)
        raise
    return WriteResult(
        result.version,
        result.snapshot,
        num_files=len(staged.adds),
        num_rows=num_records(staged.adds),
        num_bytes=sum(add.size for add in staged.adds),
    )


def _check_agrees(snapshot: Snapshot, options: WriteOptions) -> None:
    """Refuse a definition that differs from that of the table that is there."""
    if options.overwrite_schema:
        return
    have = snapshot.metadata.partitioning
    wanted = options.partition_by
    if wanted is not None and [name.lower() for name in wanted] != [name.lower() for name in have]:
        raise InvalidInputError(
            f"{snapshot.root} is partitioned by {', '.join(have) or '(nothing)'}, not by "
            f"{', '.join(wanted) or '(nothing)'}. Leave partition_by out, or overwrite with "
            "overwrite_schema=True."
        )
    clustering = [".".join(path) for path in clustering_of(snapshot)]
    if options.cluster_by is not None and list(options.cluster_by) != clustering:
        raise InvalidInputError(
            f"{snapshot.root} is clustered by {', '.join(clustering) or '(nothing)'}. Leave cluster_by out, "
            "or overwrite with overwrite_schema=True."
        )
    current = snapshot.metadata.properties
    changed = [key for key, value in options.properties.items() if current.get(key) != value]
    if changed:
        raise InvalidInputError(
            f"{changed[0]} is set for new tables only; change a property of {snapshot.root} with "
            "ALTER TABLE … SET TBLPROPERTIES or table.alter.set_properties(…)"
        )


def _is_dynamic(choice: str) -> bool:
    if choice not in ("static", "dynamic"):
        raise InvalidInputError(f'partition_overwrite is "static" or "dynamic", not {choice!r}')
    return choice == "dynamic"
