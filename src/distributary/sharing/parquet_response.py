"""The parquet response format: protocol, metadata and files in the protocol's own words.

Implements "Parquet Format Responses" (RF-010 to RF-055): what every client since the first edition can
read. Column metadata is cut down to comments and the configuration to ``enableChangeDataFeed``
(SC-009, C-19); null partition values are empty strings (PV-009).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from distributary.delta.schema.data_types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)
from distributary.sharing.ndjson import EndStreamAction, QueryStatus


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of wire objects: camelCase, absent fields left out."""


class ParquetProtocol(msgspec.Struct, frozen=True, rename="camel"):
    """The version of the protocol itself, always 1 (RF-012)."""

    min_reader_version: int = 1


class ParquetFormat(msgspec.Struct, frozen=True, rename="camel"):
    """How files are encoded."""

    provider: str = "parquet"


class ParquetMetadata(_Wire, frozen=True):
    """The table (RF-020 to RF-032)."""

    id: str
    format: ParquetFormat
    schema_string: str
    partition_columns: tuple[str, ...]
    name: str | None = None
    description: str | None = None
    configuration: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] | None = None
    access_modes: tuple[str, ...] | None = None


class ParquetFile(_Wire, frozen=True):
    """A data file, added file, change file or removed file (RF-040 to RF-052)."""

    url: str
    id: str
    partition_values: dict[str, str | None]
    size: int
    stats: str | None = None
    expiration_timestamp: int | None = None
    version: int | None = None
    timestamp: int | None = None


class ParquetLine(_Wire, frozen=True):
    """One line: exactly one of these is set."""

    protocol: ParquetProtocol | None = None
    meta_data: ParquetMetadata | None = None
    file: ParquetFile | None = None
    add: ParquetFile | None = None
    cdf: ParquetFile | None = None
    remove: ParquetFile | None = None
    end_stream_action: EndStreamAction | None = None
    query_status: QueryStatus | None = None


def plain_schema(schema: StructType) -> str:
    """The text of a schema whose columns keep nothing of their metadata but comments."""
    return schema_to_json(_plain_struct(schema))


def plain_partition_values(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Partition values with the empty string for null (PV-001)."""
    return {name: value or "" for name, value in values.items()}


def _plain_struct(struct: StructType) -> StructType:
    return StructType(tuple(_plain_field(field) for field in struct.fields))


def _plain_field(field: StructField) -> StructField:
    kept = {key: value for key, value in field.metadata.items() if key == "comment"}
    return msgspec.structs.replace(field, data_type=_plain_type(field.data_type), metadata=kept)


def _plain_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _plain_struct(data_type)
        case ArrayType():
            return msgspec.structs.replace(data_type, element_type=_plain_type(data_type.element_type))
        case MapType():
            return msgspec.structs.replace(
                data_type,
                key_type=_plain_type(data_type.key_type),
                value_type=_plain_type(data_type.value_type),
            )
        case _:
            return data_type
