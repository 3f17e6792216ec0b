"""Append: rows become new files of a table, in one commit.

Implements S4 "Adding data" for a single machine: LW-002, LW-006 to LW-009, LW-012, LW-013. A plan says what
will be written under which schema; acting writes the files first and then commits them. Rows are checked
against the schema and the rules of the table before anything of them is committed. When the commit surely
did not happen the files are removed; when that is not known they stay, and vacuum finds them if need be.

With `txn=(application id, version)` a write happens once: a version that the application has already
committed is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa

from distributary.delta.commit.data_file_writer import (
    DataFileWriter,
    WriterSettings,
    num_records,
    remove_data_files,
)
from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.commit.write_validation import WriteRules
from distributary.delta.errors import (
    CommitConflictError,
    ConcurrentTransactionError,
    TableRuleError,
    TooManyAttemptsError,
    UnsupportedFeatureError,
)
from distributary.delta.log.actions import Add, Metadata, Protocol, SetTransaction
from distributary.delta.log.protocol_support import mapping_mode_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.create import define_table
from distributary.delta.operations.row_stream import Rows, RowStream, row_stream
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.schema_evolution import check_appendable, merge_schemas
from distributary.delta.statistics.collection import clustering_columns
from distributary.delta.table_properties import ENABLE_TYPE_WIDENING, TableProperties
from distributary.errors import InvalidInputError
from distributary.storage.object_store import ObjectStore

CLUSTERING_DOMAIN = "delta.clustering"

Transaction = tuple[str, int]
Check = Callable[[pa.RecordBatch], None]


class WriteResult(msgspec.Struct, frozen=True):
    """What a write did; `version` is that of its commit, or the one found where it was skipped."""

    version: int
    snapshot: Snapshot
    num_files: int = 0
    num_rows: int = 0
    num_bytes: int = 0
    num_removed_files: int = 0
    skipped: bool = False


class WritePlan(msgspec.Struct, frozen=True):
    """The table as it will be when the rows are written: where, with which columns, and what changes."""

    root: str
    snapshot: Snapshot
    schema: StructType
    metadata: Metadata
    protocol: Protocol
    txn: Transaction | None = None

    @property
    def changes(self) -> tuple[StagedAction, ...]:
        """The actions beside files: a new protocol, new metadata, the application's transaction."""
        actions: list[StagedAction] = []
        if self.protocol != self.snapshot.protocol:
            actions.append(self.protocol)
        if self.metadata != self.snapshot.metadata:
            actions.append(self.metadata)
        if self.txn is not None:
            actions.append(SetTransaction(*self.txn, last_updated=time.time_ns() // 1_000_000))
        return tuple(actions)

    @property
    def is_done(self) -> bool:
        """Whether the application has committed this version, or a later one, already (LW-012)."""
        return self.txn is not None and _has_committed(self.snapshot, self.txn)

    def __str__(self) -> str:
        grown = len(self.schema) - len(self.snapshot.schema)
        return f"{self.root}: write on version {self.snapshot.version}" + (
            f", {grown} new columns" if grown > 0 else ""
        )


def append(
    store: ObjectStore,
    snapshot: Snapshot,
    data: Rows,
    *,
    merge_schema: bool = False,
    txn: Transaction | None = None,
    settings: WriterSettings | None = None,
) -> WriteResult:
    """Add rows to a table."""
    rows = row_stream(data)
    plan = plan_write(snapshot, rows.schema, merge_schema=merge_schema, txn=txn)
    if plan.is_done:
        return WriteResult(snapshot.version, snapshot, skipped=True)
    adds = write_rows(store, plan, rows, settings=settings)
    operation = Operation("WRITE", write_parameters("Append", plan), write_metrics(adds))
    staged = StagedCommit(operation, (*plan.changes, *adds), blind_append=True)
    return commit_files(store, plan, staged)


def plan_write(
    snapshot: Snapshot, columns: pa.Schema, *, merge_schema: bool = False, txn: Transaction | None = None
) -> WritePlan:
    """How rows with these columns will be written; refuses what the table does not take."""
    data = delta_schema(columns)
    if merge_schema:
        plan = _grown(snapshot, data)
    else:
        check_appendable(snapshot.schema, data)
        plan = WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol)
    snapshot.check_writable()
    return msgspec.structs.replace(plan, txn=txn)


def write_rows(
    store: ObjectStore,
    plan: WritePlan,
    rows: RowStream,
    *,
    check: Check | None = None,
    settings: WriterSettings | None = None,
) -> list[Add]:
    """Write data files of rows that satisfy the table's rules (and one more check)."""
    properties = TableProperties.from_configuration(plan.metadata.properties)
    rules = WriteRules.of(plan.metadata, plan.protocol, plan.schema)
    clustering = plan.snapshot.domains.get(CLUSTERING_DOMAIN)
    writer = DataFileWriter(
        store,
        plan.schema,
        plan.metadata.partitioning,
        mapping_mode_of(plan.metadata.properties, plan.protocol),
        properties,
        required_statistics=clustering_columns(clustering and clustering.configuration),
        settings=settings,
    )
    return writer.write(_checked(rules.apply(rows.batches, rows.schema.names), check))


def commit_files(store: ObjectStore, plan: WritePlan, staged: StagedCommit) -> WriteResult:
    """Commit new files; they are removed where it is certain that nothing was committed."""
    try:
        result = commit(store, plan.snapshot, staged)
    except ConcurrentTransactionError:
        remove_data_files(store, staged.new_files)
        latest = load_snapshot(store)
        if plan.txn is not None and _has_committed(latest, plan.txn):
            return WriteResult(latest.version, latest, skipped=True)
        raise
    except (CommitConflictError, TooManyAttemptsError, TableRuleError, UnsupportedFeatureError):
        remove_data_files(store, staged.new_files)
        raise
    return _written(result, staged)


def write_parameters(mode: str, plan: WritePlan) -> dict[str, object]:
    """What history says about a write, in Spark's words."""
    return {"mode": mode, "partitionBy": list(plan.metadata.partitioning)}


def write_metrics(adds: Iterable[Add]) -> dict[str, int | str]:
    """How much a write added, in Spark's words."""
    files = list(adds)
    return {
        "numFiles": len(files),
        "numOutputRows": num_records(files),
        "numOutputBytes": sum(add.size for add in files),
    }


def check_mapping(snapshot: Snapshot) -> None:
    """Refuse to change the schema of a table whose property asks for a mapping that its protocol lacks."""
    if snapshot.properties.column_mapping_mode is not snapshot.mapping_mode:
        raise InvalidInputError(
            f"{snapshot.root} has delta.columnMapping.mode set, but its protocol does not support column "
            "mapping. Upgrade the protocol or unset the property before the schema changes."
        )


def _grown(snapshot: Snapshot, data: StructType) -> WritePlan:
    """The table with the columns that the data brings along."""
    widening = snapshot.properties.get(ENABLE_TYPE_WIDENING)
    merged = merge_schemas(snapshot.schema, data, allow_widening=widening)
    if merged == snapshot.schema:
        return WritePlan(snapshot.root, snapshot, snapshot.schema, snapshot.metadata, snapshot.protocol)
    check_mapping(snapshot)
    metadata, partitioning = snapshot.metadata, snapshot.metadata.partitioning
    table = define_table(snapshot.root, snapshot.protocol, metadata, merged, partitioning)
    return WritePlan(snapshot.root, snapshot, table.schema, table.metadata, table.protocol)


def _checked(batches: Iterable[pa.RecordBatch], check: Check | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if check is not None:
            check(batch)
        yield batch


def _has_committed(snapshot: Snapshot, txn: Transaction) -> bool:
    app_id, version = txn
    found = snapshot.transactions.get(app_id)
    return found is not None and found.version >= version


def _written(result: CommitResult, staged: StagedCommit) -> WriteResult:
    return WriteResult(
        version=result.version,
        snapshot=result.snapshot,
        num_files=len(staged.adds),
        num_rows=num_records(staged.adds),
        num_bytes=sum(add.size for add in staged.adds),
        num_removed_files=len(staged.removes),
    )
