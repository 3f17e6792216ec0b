"""A change of a table's metadata or protocol, as a value that can be shown before it is made.

A plan is made from the state of a table alone and reads no rows. It carries the new metadata and protocol,
already checked (schema rules, properties, features that we can write), and what must hold for the rows that
are there. `str` of a plan says what would change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import msgspec

from distributary.delta.commit.protocol_upgrade import required_protocol
from distributary.delta.commit.staged_commit import Operation
from distributary.delta.commit.write_validation import RowCheck
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.protocol_support import check_can_write, mapping_mode_of
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.column_mapping import (
    MAX_COLUMN_ID_PROPERTY,
    MODE_PROPERTY,
    ColumnMappingMode,
    assign_column_mapping,
    existing_name,
    new_physical_name,
)
from distributary.delta.schema.data_types import StructType, parse_type, schema_to_json
from distributary.delta.schema.schema_edits import ColumnPath
from distributary.delta.schema.schema_rules import check_table_schema
from distributary.delta.table_properties import MAX_COLUMN_ID, TableProperties
from distributary.errors import InvalidInputError

_CLUSTERING = "delta.clustering"
_TOLD = ("comment", "CURRENT_DEFAULT")


class TableState(msgspec.Struct, frozen=True):
    """What a change of metadata starts from; clustering columns are physical paths."""

    where: str
    metadata: Metadata
    protocol: Protocol
    schema: StructType
    clustering: tuple[ColumnPath, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableState:
        """The state of a table at a snapshot."""
        domain = snapshot.domains.get(_CLUSTERING)
        columns = _clustering_columns(domain.configuration) if domain is not None else ()
        return cls(snapshot.root, snapshot.metadata, snapshot.protocol, snapshot.schema, columns)

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties as they are in the log."""
        return self.metadata.properties

    @property
    def properties(self) -> TableProperties:
        """The table's properties with their types and defaults."""
        return TableProperties.from_configuration(self.configuration)

    @property
    def mode(self) -> ColumnMappingMode:
        """How columns are found in files."""
        return mapping_mode_of(self.configuration, self.protocol)


class AlterationPlan(msgspec.Struct, frozen=True):
    """One change, and what the rows that are there must satisfy for it."""

    operation: Operation
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    must_hold: RowCheck | None = None
    must_have: ColumnPath = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether the table is already as asked."""
        return self.metadata is None and self.protocol is None

    @property
    def reads_rows(self) -> bool:
        """Whether the rows that are there decide."""
        return self.must_hold is not None or bool(self.must_have)

    def __str__(self) -> str:
        parts = [self.operation.name]
        shown = ((key, value) for key, value in self.operation.parameters.items() if key != "newProtocol")
        parts.extend(f"{key}: {_shown(value)}" for key, value in shown)
        if self.protocol is not None:
            features = ", ".join(self.protocol.writer_features or ())
            parts.append(
                f"protocol: reader {self.protocol.min_reader_version}, writer "
                f"{self.protocol.min_writer_version}{f' ({features})' if features else ''}"
            )
        if self.reads_rows:
            parts.append("after a look at every row")
        return "; ".join(parts) if not self.changes_nothing else f"{parts[0]}: nothing to change"


def _shown(value: Any) -> str:
    """A parameter of an operation in few words: a column is its name and type."""
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return str(value)
    entries = cast("dict[str, Any]", value)
    if "column" in entries:
        return " ".join(_shown(entry) for entry in entries.values())
    if {"name", "type", "nullable"} <= entries.keys():
        kind = entries["type"]
        return " ".join(
            (
                entries["name"],
                kind if isinstance(kind, str) else str(parse_type(kind)),
                *(() if entries["nullable"] else ("not null",)),
                *(f"{key} {entry!r}" for key, entry in entries["metadata"].items() if key in _TOLD),
            )
        )
    return ", ".join(f"{key} = {entry}" for key, entry in entries.items())


def plan_change(
    state: TableState,
    operation: Operation,
    *,
    schema: StructType | None = None,
    configuration: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] | None = None,
    description: Mapping[str, str | None] | None = None,
    features: Collection[str] = (),
    protocol: Protocol | None = None,
) -> AlterationPlan:
    """The plan for new parts of the metadata, with ids for new columns and the protocol that they need."""
    properties = dict(state.configuration if configuration is None else configuration)
    columns = state.schema if schema is None else schema
    partitioning = list(state.metadata.partitioning if partition_columns is None else partition_columns)
    draft = _metadata(state, columns, properties, partitioning, description or {})
    needed = required_protocol(protocol or state.protocol, draft, columns, features)
    mode = mapping_mode_of(properties, needed)
    _check_mode_change(state.mode, mode)
    if mode is not ColumnMappingMode.NONE:
        starts = state.mode is ColumnMappingMode.NONE
        name_for = existing_name if starts else new_physical_name
        mapped = assign_column_mapping(columns, state.properties.get(MAX_COLUMN_ID), name_for=name_for)
        columns = mapped.schema
        properties[MAX_COLUMN_ID_PROPERTY] = str(mapped.max_column_id)
        draft = _metadata(state, columns, properties, partitioning, description or {})
    _check(state, draft, needed, columns, mode)
    return AlterationPlan(
        operation,
        draft if draft != state.metadata else None,
        needed if needed != state.protocol else None,
    )


def _metadata(
    state: TableState,
    schema: StructType,
    configuration: dict[str, str],
    partition_columns: list[str],
    description: Mapping[str, str | None],
) -> Metadata:
    same_schema = schema == state.schema
    changed: dict[str, Any] = {
        "schema_string": state.metadata.schema_string if same_schema else schema_to_json(schema),
        "configuration": configuration
        if configuration != state.configuration
        else state.metadata.configuration,
        "partition_columns": state.metadata.partition_columns
        if tuple(partition_columns) == state.metadata.partitioning
        else partition_columns,
    }
    return msgspec.structs.replace(state.metadata, **changed, **description)


def _check(
    state: TableState, metadata: Metadata, protocol: Protocol, schema: StructType, mode: ColumnMappingMode
) -> None:
    properties = TableProperties.from_configuration(metadata.properties)
    if schema != state.schema or mode is not state.mode or properties.enable_change_data_feed:
        check_table_schema(
            schema, metadata.partitioning, mode, change_feed=properties.enable_change_data_feed
        )
    check_can_write(protocol, metadata, schema, state.where)


def _check_mode_change(before: ColumnMappingMode, after: ColumnMappingMode) -> None:
    if before is not after and (before, after) != (ColumnMappingMode.NONE, ColumnMappingMode.NAME):
        raise InvalidInputError(
            f"{MODE_PROPERTY} cannot go from {before.value} to {after.value}: the files that are there would "
            "be misread. A table can only start to map its columns by name."
        )


def _clustering_columns(configuration: str) -> tuple[ColumnPath, ...]:
    try:
        decoded = msgspec.json.decode(configuration, type=dict[str, Any])
    except msgspec.DecodeError:
        return ()
    columns = cast("list[list[str]]", decoded.get("clusteringColumns") or [])
    return tuple(tuple(path) for path in columns)
