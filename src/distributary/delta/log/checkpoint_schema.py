"""The columns of a checkpoint.

Implements S4 "Checkpoint Schema" (CK-008, CK-010 to CK-014) with the fields of newer editions: one struct
column for each kind of action, null where a row is another kind. Statistics stand in `add.stats` and
`add.stats_parsed` as the table's properties ask (CN-040); typed partition values go with the latter.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from distributary.delta.log.checkpoint_footer import STRING_MAP
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import (
    ColumnMappingMode,
    physical_name,
)
from distributary.delta.schema.data_types import StructField
from distributary.delta.statistics.typed_statistics import StatisticsLayout, statistics_layout

STRINGS = pa.list_(pa.field("element", pa.string()))

DELETION_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
REMOVE = pa.struct(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": STRING_MAP,
        "size": pa.int64(),
        "deletionVector": DELETION_VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
    }
)
SMALL_ACTIONS: dict[str, pa.StructType] = {
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "name": pa.string(),
            "description": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": STRING_MAP}),
            "schemaString": pa.string(),
            "partitionColumns": STRINGS,
            "createdTime": pa.int64(),
            "configuration": STRING_MAP,
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": STRINGS,
            "writerFeatures": STRINGS,
        }
    ),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
    "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
}
V2_ACTIONS: dict[str, pa.StructType] = {
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": STRING_MAP}),
    "sidecar": pa.struct(
        {
            "path": pa.string(),
            "sizeInBytes": pa.int64(),
            "modificationTime": pa.int64(),
            "tags": STRING_MAP,
        }
    ),
}


class PartitionColumn(msgspec.Struct, frozen=True):
    """A partition column: the field of the table's schema and the name that the log has for it."""

    field: StructField
    physical_name: str


class CheckpointLayout(msgspec.Struct, frozen=True):
    """What the add actions of one table's checkpoints hold besides their plain fields."""

    stats_as_json: bool
    statistics: StatisticsLayout | None
    partition_columns: tuple[PartitionColumn, ...]

    @property
    def add_type(self) -> pa.StructType:
        """The type of the column `add`."""
        fields: dict[str, pa.DataType] = {
            "path": pa.string(),
            "partitionValues": STRING_MAP,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "tags": STRING_MAP,
            "deletionVector": DELETION_VECTOR,
            "baseRowId": pa.int64(),
            "defaultRowCommitVersion": pa.int64(),
            "clusteringProvider": pa.string(),
        }
        if self.stats_as_json:
            fields["stats"] = pa.string()
        if self.partition_columns:
            fields["partitionValues_parsed"] = self.partition_type
        if self.statistics is not None:
            fields["stats_parsed"] = self.statistics.type
        return pa.struct(fields)

    @property
    def partition_type(self) -> pa.StructType:
        """The type of `add.partitionValues_parsed` (CK-010)."""
        return pa.struct(
            [(column.physical_name, arrow_type(column.field.data_type)) for column in self.partition_columns]
        )

    def file_schema(self) -> pa.Schema:
        """The columns of a sidecar: file actions only."""
        return pa.schema({"add": self.add_type, "remove": REMOVE})

    def whole_schema(self) -> pa.Schema:
        """The columns of a classic checkpoint (CK-013)."""
        return pa.schema({**SMALL_ACTIONS, "add": self.add_type, "remove": REMOVE})

    def top_schema(self) -> pa.Schema:
        """The columns of the top-level file of a v2 checkpoint with sidecars.

        Those of file actions are there though all null: delta-spark looks for `add` before it reads sidecars.
        """
        return pa.schema({**V2_ACTIONS, **SMALL_ACTIONS, "add": self.add_type, "remove": REMOVE})


def checkpoint_layout(snapshot: Snapshot) -> CheckpointLayout:
    """The layout that a table's schema and properties ask for (CK-010 to CK-012, C-38)."""
    properties = snapshot.properties
    if not properties.write_stats_as_struct:
        return CheckpointLayout(properties.write_stats_as_json, None, ())
    mode = snapshot.mapping_mode
    partitioning = snapshot.metadata.partitioning
    statistics = statistics_layout(snapshot.schema, partitioning, mode, properties)
    columns = tuple(_partition_column(snapshot, name, mode) for name in partitioning)
    return CheckpointLayout(properties.write_stats_as_json, statistics, columns)


def _partition_column(snapshot: Snapshot, name: str, mode: ColumnMappingMode) -> PartitionColumn:
    field = snapshot.schema.field(name)
    return PartitionColumn(field, physical_name(field, mode))


def leaf_names(schema: pa.Schema) -> list[str]:
    """The names of the Parquet leaf columns of a schema."""
    return [name for field in schema for name in _leaves(field.name, field.type)]


def _leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield from _leaves(f"{name}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from (f"{name}.key_value.key", f"{name}.key_value.value")
    elif pa.types.is_list(kind):
        yield f"{name}.list.element"
    else:
        yield name
