"""Which table features take part in reading the files of a table, so that a client must know them.

Features that concern the log alone (v2 checkpoints, the vacuum check) never reach a recipient, and
features that nothing switches on change nothing (C-07). A file may keep its deletion vector, and a column
its older types, after the property was switched off: those count as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructType
from distributary.delta.table_features import (
    FEATURES,
    FeatureKind,
    active_feature_names,
    supported_feature_names,
)

DELETION_VECTORS: Final = "deletionVectors"

_OF_THE_LOG: Final = frozenset(("v2Checkpoint", "vacuumProtocolCheck"))
_TYPE_CHANGES: Final = "delta.typeChanges"


def supports_deletion_vectors(protocol: Protocol) -> bool:
    """Whether files of a table may have deletion vectors."""
    return DELETION_VECTORS in _supported(protocol)


def needed_features(
    protocol: Protocol, metadata: Metadata, schema: StructType, *, has_deletion_vectors: bool
) -> frozenset[str]:
    """The features that a client must know to read the files."""
    supported = _supported(protocol)
    needed = {
        name
        for name in active_feature_names(supported, metadata.properties, schema)
        if FEATURES[name].kind is FeatureKind.READER_WRITER and name not in _OF_THE_LOG
    }
    if has_deletion_vectors:
        needed.add(DELETION_VECTORS)
    if any(_TYPE_CHANGES in keys for keys in _column_metadata(schema)):
        needed |= {name for name in supported if name.startswith("typeWidening")}
    return frozenset(needed)


def _supported(protocol: Protocol) -> frozenset[str]:
    return supported_feature_names(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
    )


def _column_metadata(data_type: DataType) -> Iterator[dict[str, object]]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field.metadata
                yield from _column_metadata(field.data_type)
        case ArrayType(element, _):
            yield from _column_metadata(element)
        case MapType(key, value, _):
            yield from _column_metadata(key)
            yield from _column_metadata(value)
        case _:
            return
