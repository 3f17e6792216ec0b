"""What a protocol action asks for, and whether this engine can give it.

The table of features knows plain values; this joins it with the `protocol` action: which
features hold, and the refusals of LR-007 (reading) and LW-010 (writing), which name every
feature that stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.column_mapping import ColumnMappingMode, column_mapping_mode
from distributary.delta.schema.data_types import StructType
from distributary.delta.table_features import check_readable, check_writable, supported_feature_names


def features_of(protocol: Protocol) -> frozenset[str]:
    """The features that a protocol supports: listed, or implied by its legacy versions."""
    return supported_feature_names(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
    )


def mapping_mode_of(configuration: Mapping[str, str], protocol: Protocol) -> ColumnMappingMode:
    """How columns are found in the files of a table with this configuration and protocol."""
    return column_mapping_mode(configuration, supported="columnMapping" in features_of(protocol))


def check_can_read(protocol: Protocol, where: str) -> None:
    """Refuse a table that cannot be read safely."""
    check_readable(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
        where,
    )


def check_can_write(protocol: Protocol, metadata: Metadata, schema: StructType, where: str) -> None:
    """Refuse a table that cannot be written safely."""
    check_writable(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
        where,
        configuration=metadata.properties,
        schema=schema,
    )
