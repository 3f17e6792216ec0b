"""Create: version 0 of a table.

Implements LW-003, LW-004 and S4 "Metadata" for new tables. The first commit has the protocol, exactly what
the schema, properties and features need, and the metadata. Of several creators at once one wins; the
others see the table that is there (mode `ignore`) or are told so (mode `error`).

Properties are stored as given, except `delta.feature.<name> = supported`, which asks for a feature of the
protocol. Tables made here keep statistics in checkpoints as typed columns
(`delta.checkpoint.writeStatsAsStruct`) unless told otherwise.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from distributary.delta.commit.protocol_upgrade import required_protocol
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.commit.write_validation import WriteRules
from distributary.delta.errors import ProtocolChangedError, TableExistsError, TableNotFoundError
from distributary.delta.log.actions import Metadata
from distributary.delta.log.actions import Protocol as ProtocolAction
from distributary.delta.log.protocol_support import check_can_write, features_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.column_mapping import (
    MAX_COLUMN_ID_PROPERTY,
    ColumnMappingMode,
    assign_column_mapping,
)
from distributary.delta.schema.data_types import StructType, schema_to_json
from distributary.delta.schema.schema_evolution import without_reserved_metadata
from distributary.delta.schema.schema_rules import check_table_schema, check_user_metadata
from distributary.delta.table_properties import (
    ENABLE_ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    WRITE_STATS_AS_STRUCT,
    TableProperties,
)
from distributary.errors import InvalidInputError
from distributary.storage.object_store import ObjectStore

FEATURE_PREFIX: Final = "delta.feature."
_VERSION_KEYS: Final = ("delta.minReaderVersion", "delta.minWriterVersion")

ExistsMode = Literal["error", "ignore"]


@runtime_checkable
class ArrowSchema(Protocol):
    """Anything that gives its columns by the Arrow C schema interface."""

    def __arrow_c_schema__(self) -> object: ...


SchemaLike = pa.Schema | StructType | ArrowSchema


class CreatePlan(msgspec.Struct, frozen=True):
    """What the first commit of a table will say."""

    root: str
    schema: StructType
    metadata: Metadata
    protocol: ProtocolAction

    def __str__(self) -> str:
        parts = ", ".join(self.metadata.partitioning)
        features = ", ".join(sorted(features_of(self.protocol)))
        return (
            f"{self.root}: {len(self.schema)} columns{f', partitioned by {parts}' if parts else ''}, "
            f"reader version {self.protocol.min_reader_version}, writer version "
            f"{self.protocol.min_writer_version} ({features})"
        )


def plan_create(
    store: ObjectStore,
    schema: SchemaLike,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    check_rules: bool = True,
) -> CreatePlan:
    """The metadata and protocol of a new table; refuses what a table must not have.

    `check_rules=False` is for engines that evaluate any SQL: rules outside the closed list are let in.
    """
    configuration, features = table_configuration(properties or {})
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        configuration=configuration,
        created_time=time.time_ns() // 1_000_000,
    )
    columns = declared_schema(schema)
    return define_table(store.root, None, metadata, columns, partition_by, features, check_rules=check_rules)


def execute_create(store: ObjectStore, plan: CreatePlan, mode: ExistsMode = "error") -> CommitResult:
    """Commit version 0, or find the table that is there."""
    existing = _existing(store)
    if existing is None:
        parameters = {
            "isManaged": "false",
            "description": plan.metadata.description,
            "partitionBy": list(plan.metadata.partitioning),
            "properties": plan.metadata.properties,
        }
        staged = StagedCommit(Operation("CREATE TABLE", parameters), (plan.protocol, plan.metadata))
        try:
            return commit(store, None, staged)
        except ProtocolChangedError:
            existing = load_snapshot(store)
    if mode == "error":
        raise TableExistsError(
            f'There is a Delta table at {store.root} already. Open it, or create with mode="ignore".'
        )
    return CommitResult(existing.version, existing)


def declared_schema(schema: SchemaLike) -> StructType:
    """The columns that a caller asks for; column ids and rules of another table do not come along."""
    if isinstance(schema, StructType):
        check_user_metadata(schema)
        return schema
    if isinstance(schema, pa.Schema):
        return without_reserved_metadata(delta_schema(schema))
    return without_reserved_metadata(delta_schema(pa.schema(schema)))


def table_configuration(properties: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """The configuration of a new table, and the features that its properties ask for by name."""
    fixed = [key for key in _VERSION_KEYS if key in properties]
    if fixed:
        raise InvalidInputError(
            f"{fixed[0]} is not set by hand: a table gets the protocol that it needs. Ask for a feature with "
            f"{FEATURE_PREFIX}<name> = supported."
        )
    features = {key.removeprefix(FEATURE_PREFIX) for key in properties if key.startswith(FEATURE_PREFIX)}
    configuration = {
        key: _text(key, value) for key, value in properties.items() if not key.startswith(FEATURE_PREFIX)
    }
    configuration.setdefault(WRITE_STATS_AS_STRUCT.key, "true")
    known = TableProperties.from_configuration(configuration)
    known.check()
    if known.get(ENABLE_ROW_TRACKING):
        configuration.setdefault(ROW_ID_COLUMN.key, f"_row-id-col-{uuid.uuid4()}")
        configuration.setdefault(ROW_COMMIT_VERSION_COLUMN.key, f"_row-commit-version-col-{uuid.uuid4()}")
    return configuration, frozenset(features)


def define_table(
    where: str,
    current: ProtocolAction | None,
    metadata: Metadata,
    schema: StructType,
    partition_by: Sequence[str],
    features: frozenset[str] = frozenset(),
    *,
    check_rules: bool = True,
) -> CreatePlan:
    """A table's metadata with this schema, column ids where columns are mapped, and the protocol for it."""
    properties = TableProperties.from_configuration(metadata.configuration)
    mode = properties.column_mapping_mode
    partitioning = [schema.field(column).name for column in partition_by]
    check_table_schema(schema, partitioning, mode, change_feed=properties.enable_change_data_feed)
    configuration = dict(metadata.properties)
    if mode is not ColumnMappingMode.NONE:
        mapped = assign_column_mapping(schema, int(configuration.get(MAX_COLUMN_ID_PROPERTY, "0")))
        schema = mapped.schema
        configuration[MAX_COLUMN_ID_PROPERTY] = str(mapped.max_column_id)
    metadata = msgspec.structs.replace(
        metadata,
        schema_string=schema_to_json(schema),
        partition_columns=partitioning,
        configuration=configuration,
    )
    protocol = required_protocol(current, metadata, schema, features)
    plan = CreatePlan(where, schema, metadata, protocol)
    _check_supported(plan, check_rules)
    return plan


def _check_supported(plan: CreatePlan, check_rules: bool) -> None:
    """Refuse a table that could not be written afterwards: unknown features, rules that do not evaluate."""
    protocol = plan.protocol
    check_can_write(protocol, plan.metadata, plan.schema, plan.root)
    if check_rules:
        WriteRules.of(plan.metadata, protocol, plan.schema)


def _existing(store: ObjectStore) -> Snapshot | None:
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise InvalidInputError(f"Table property {key} must be text, not {type(value).__name__}.")
