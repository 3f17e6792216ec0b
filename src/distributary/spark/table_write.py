"""DataFrame → files → statistics → one commit.

`write_table` appends to a table or replaces rows of it, and makes the table where there is none. Rows are
checked against the table's rules in Spark's own SQL while they are written; the commit is the engine's, with
its conflict checks, so that Spark and other writers can change one table at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import DataFrame

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
from distributary.delta.log.actions import Add
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import (
    Transaction,
    WritePlan,
    WriteResult,
    commit_files,
    write_metrics,
    write_parameters,
)
from distributary.spark.data_files import write_data_files
from distributary.spark.write_plan import data_schema, plan_new_table, plan_write
from distributary.spark.write_rules import apply_rules
from distributary.storage.object_store import ObjectStore, open_store

Mode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]


def write_table(
    df: DataFrame,
    path: str,
    mode: Mode = "append",
    *,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    txn: Transaction | None = None,
    merge_schema: bool = False,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> WriteResult:
    """Write rows to the Delta table at a path, which is created where there is none."""
    store = open_store(path, storage_options)
    snapshot = _existing(store)
    spark = df.sparkSession
    if snapshot is None:
        plan = plan_new_table(
            store, data_schema(df), partition_by=partition_by or (), properties=properties, txn=txn
        )
        adds = write_data_files(spark, store, plan, apply_rules(df, plan))
        return _commit_new(store, plan, adds, mode, user_metadata)
    if mode == "ignore":
        return WriteResult(snapshot.version, snapshot, skipped=True)
    if mode in ("error", "errorifexists"):
        raise TableExistsError(f"There is a Delta table at {store.root} already.")
    plan = plan_write(spark, snapshot, data_schema(df), merge_schema=merge_schema, txn=txn)
    if plan.is_done:
        return WriteResult(snapshot.version, snapshot, skipped=True)
    adds = write_data_files(spark, store, plan, apply_rules(df, plan))
    operation = Operation("WRITE", write_parameters("Append", plan), write_metrics(adds), user_metadata)
    return commit_files(store, plan, StagedCommit(operation, (*plan.changes, *adds), blind_append=True))


def _existing(store: ObjectStore) -> Snapshot | None:
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def _commit_new(
    store: ObjectStore, plan: WritePlan, adds: list[Add], mode: str, user_metadata: str | None
) -> WriteResult:
    operation = Operation(
        "WRITE", write_parameters("ErrorIfExists", plan), write_metrics(adds), user_metadata
    )
    actions = (plan.protocol, plan.metadata, *plan.changes, *adds)
    try:
        result = commit(store, None, StagedCommit(operation, actions))
    except (CommitConflictError, TableRuleError, UnsupportedFeatureError):
        remove_data_files(store, adds)
        raise
    return WriteResult(
        result.version,
        result.snapshot,
        num_files=len(adds),
        num_rows=num_records(adds),
        num_bytes=sum(add.size for add in adds),
    )
