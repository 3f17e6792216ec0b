"""A table as it is declared: columns, partitioning, properties; created, or put in place of another.

Rules (generated columns, defaults) are checked by Spark before anything is committed. Replacing is one
commit: the metadata becomes the new one, the files go, the history and the table's id stay. Rows of a query
(CREATE TABLE … AS SELECT) are part of that same commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

from distributary.delta.commit.data_file_writer import remove_data_files
from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.table_rules import GENERATION_KEY
from distributary.delta.commit.transaction import commit
from distributary.delta.commit.write_validation import DEFAULT_KEY, LENGTH_KEY
from distributary.delta.errors import (
    CommitConflictError,
    TableExistsError,
    TableNotFoundError,
    TableRuleError,
    TooManyAttemptsError,
)
from distributary.delta.log.actions import Add, DomainMetadata, Remove
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.append import CLUSTERING_DOMAIN, WritePlan, write_metrics
from distributary.delta.operations.create import define_table, plan_create, table_configuration
from distributary.delta.operations.restore import removal
from distributary.delta.schema.data_types import STRING, DataType, StructField, StructType
from distributary.delta.schema.type_text import parse_type_text
from distributary.errors import InvalidInputError
from distributary.spark.clustering import CLUSTERING_FEATURE, clustering_domain
from distributary.spark.data_files import write_data_files
from distributary.spark.store_assignment import spark_schema
from distributary.spark.write_plan import data_schema, unborn
from distributary.spark.write_rules import apply_rules
from distributary.storage.object_store import ObjectStore, open_store

Mode = Literal["create", "if_not_exists", "replace", "create_or_replace"]
_OPERATIONS: Final[Mapping[str, str]] = {
    "create": "CREATE TABLE",
    "if_not_exists": "CREATE TABLE",
    "replace": "REPLACE TABLE",
    "create_or_replace": "CREATE OR REPLACE TABLE",
}


class TableDefinition(msgspec.Struct, frozen=True):
    """What a table is to be; columns come from the query where none are declared."""

    columns: tuple[StructField, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    comment: str | None = None
    name: str | None = None


def declared_column(
    name: str,
    data_type: DataType | str,
    *,
    nullable: bool = True,
    comment: str | None = None,
    generated: str | None = None,
    default: str | None = None,
) -> StructField:
    """A column with its rules as Delta's metadata; `varchar(n)` and `char(n)` are strings with a length."""
    parts = {"comment": comment, GENERATION_KEY: generated, DEFAULT_KEY: default}
    metadata: dict[str, Any] = {key: value for key, value in parts.items() if value is not None}
    if isinstance(data_type, str) and data_type.lower().replace(" ", "").startswith(("varchar(", "char(")):
        metadata[LENGTH_KEY] = data_type.lower().replace(" ", "")
        data_type = STRING
    kind = parse_type_text(data_type) if isinstance(data_type, str) else data_type
    return StructField(name, kind, nullable, metadata)


def define(
    spark: SparkSession,
    path: str,
    definition: TableDefinition,
    mode: Mode = "create",
    rows: Callable[[], DataFrame] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Snapshot:
    """Create a table, or put it in place of the one that is there; `rows` is called where they are needed."""
    store = open_store(path, storage_options)
    existing = _existing(store)
    if existing is not None and mode == "if_not_exists":
        return existing
    if existing is not None and mode == "create":
        raise TableExistsError(
            f"There is a Delta table at {store.root} already. Open it, or say IF NOT EXISTS or OR REPLACE."
        )
    if existing is None and mode == "replace":
        raise TableNotFoundError(f"There is no Delta table at {store.root} to replace; create it.")
    if definition.partition_by and definition.cluster_by:
        raise InvalidInputError("A table is partitioned or clustered, not both: choose one.")
    frame = None if rows is None else rows()
    plan = _plan(store, existing, _with_columns(definition, frame))
    _check_rules(spark, plan)
    adds = [] if frame is None else write_data_files(spark, store, plan, apply_rules(frame, plan))
    operation = _operation(definition, plan, mode, adds, with_rows=frame is not None)
    domains = _clustering(plan, existing, definition.cluster_by)
    return _commit(store, plan, existing, operation, [*domains, *adds])


def _with_columns(definition: TableDefinition, frame: DataFrame | None) -> TableDefinition:
    if frame is None or definition.columns:
        return definition
    return msgspec.structs.replace(definition, columns=data_schema(frame).fields)


def _plan(store: ObjectStore, existing: Snapshot | None, definition: TableDefinition) -> WritePlan:
    schema = StructType(definition.columns)
    properties = dict(definition.properties)
    if definition.cluster_by:
        properties[CLUSTERING_FEATURE] = "supported"
    fresh = plan_create(
        store,
        schema,
        partition_by=definition.partition_by,
        properties=properties,
        name=definition.name,
        description=definition.comment,
        check_rules=False,
    )
    if existing is None:
        return unborn(fresh)
    _, features = table_configuration(properties)
    metadata = msgspec.structs.replace(fresh.metadata, id=existing.metadata.id)
    table = define_table(
        store.root,
        existing.protocol,
        metadata,
        schema,
        fresh.metadata.partitioning,
        features,
        check_rules=False,
    )
    return WritePlan(store.root, existing, table.schema, table.metadata, table.protocol)


def _check_rules(spark: SparkSession, plan: WritePlan) -> None:
    """Let Spark read every rule of the table, so that no table is made that nobody can write to."""
    given = [field for field in plan.schema.fields if GENERATION_KEY not in field.metadata]
    kind = spark_schema(StructType(tuple(StructField(f.name, f.data_type) for f in given)))
    _ = apply_rules(spark.createDataFrame([], kind), plan).schema


def _clustering(
    plan: WritePlan, existing: Snapshot | None, columns: tuple[str, ...]
) -> tuple[DomainMetadata, ...]:
    if columns:
        return (clustering_domain(plan, columns),)
    if existing is not None and CLUSTERING_DOMAIN in existing.domains:
        return (DomainMetadata(CLUSTERING_DOMAIN, "", removed=True),)
    return ()


def _operation(
    definition: TableDefinition, plan: WritePlan, mode: Mode, adds: list[Add], *, with_rows: bool
) -> Operation:
    parameters = {
        "isManaged": "false",
        "description": definition.comment,
        "partitionBy": list(plan.metadata.partitioning),
        "clusterBy": list(definition.cluster_by),
        "properties": dict(definition.properties),
    }
    name = _OPERATIONS[mode] + (" AS SELECT" if with_rows else "")
    return Operation(name, parameters, write_metrics(adds) if with_rows else {})


def _commit(
    store: ObjectStore,
    plan: WritePlan,
    existing: Snapshot | None,
    operation: Operation,
    actions: list[StagedAction],
) -> Snapshot:
    removes = () if existing is None else _removals(existing)
    first = (plan.protocol, plan.metadata) if existing is None else plan.changes
    staged = StagedCommit(
        operation, (*first, *removes, *actions), read_whole_table=existing is not None and bool(removes)
    )
    try:
        return commit(store, existing, staged).snapshot
    except (CommitConflictError, TooManyAttemptsError, TableRuleError):
        remove_data_files(store, staged.adds)
        raise


def _removals(snapshot: Snapshot) -> tuple[Remove, ...]:
    now = time.time_ns() // 1_000_000
    return tuple(removal(add, now) for add in snapshot.files.adds())


def _existing(store: ObjectStore) -> Snapshot | None:
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None
