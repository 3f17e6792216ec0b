"""The delta response format: actions of the log, with URLs where it has paths.

Implements "Delta Format Responses" (RF-060 to RF-067): lines that a client writes into a local log and
reads with a Delta reader. Deletion vectors in files become ``p`` with a URL, inline ones stay (RF-066).

The protocol that is sent is the table's own, without the reader features that do not take part in reading
what is sent (log formats such as v2 checkpoints, and features that nothing switches on), unless the client
announced them: its Delta reader would refuse the table for nothing (A15).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from distributary.delta.log.actions import Add, Metadata, PartitionValues, Protocol, Remove
from distributary.delta.table_features import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from distributary.sharing.capabilities import Capabilities, announces
from distributary.sharing.ndjson import EndStreamAction, QueryStatus

_COLUMN_MAPPING_VERSION = 2


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of wire objects: camelCase, absent fields left out."""


class DeltaProtocol(_Wire, frozen=True):
    """The table's protocol action; `version` where it is a later version's."""

    delta_protocol: Protocol
    version: int | None = None


class DeltaMetadata(_Wire, frozen=True):
    """The table's metadata action, and what the server adds to it."""

    delta_metadata: Metadata
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] | None = None
    access_modes: tuple[str, ...] | None = None


class Cdc(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change file; unlike in the log `data_change` is always written."""

    path: str
    partition_values: PartitionValues
    size: int
    data_change: bool
    tags: dict[str, str | None] | None = None


class DeltaSingleAction(_Wire, frozen=True):
    """Exactly one action of the log."""

    add: Add | None = None
    remove: Remove | None = None
    cdc: Cdc | None = None


class DeltaFile(_Wire, frozen=True):
    """A file action (RF-063 to RF-065)."""

    id: str
    delta_single_action: DeltaSingleAction
    deletion_vector_file_id: str | None = None
    version: int | None = None
    timestamp: int | None = None
    expiration_timestamp: int | None = None


class DeltaLine(_Wire, frozen=True):
    """One line: exactly one of these is set."""

    protocol: DeltaProtocol | None = None
    meta_data: DeltaMetadata | None = None
    file: DeltaFile | None = None
    end_stream_action: EndStreamAction | None = None
    query_status: QueryStatus | None = None


def shown_protocol(protocol: Protocol, needed: Collection[str], capabilities: Capabilities) -> Protocol:
    """The protocol with those reader features only that are needed or that the client announced."""
    if protocol.min_reader_version < READER_FEATURES_VERSION:
        return _shown_legacy(protocol, needed, capabilities)
    listed = protocol.reader_features or ()
    kept = tuple(name for name in listed if name in needed or announces(capabilities, name))
    if len(kept) == len(listed):
        return protocol
    dropped = set(listed) - set(kept)
    return Protocol(
        min_reader_version=READER_FEATURES_VERSION if kept else 1,
        min_writer_version=WRITER_FEATURES_VERSION,
        reader_features=kept or None,
        writer_features=tuple(name for name in protocol.writer_features or () if name not in dropped),
    )


def _shown_legacy(protocol: Protocol, needed: Collection[str], capabilities: Capabilities) -> Protocol:
    is_mapped = protocol.min_reader_version >= _COLUMN_MAPPING_VERSION
    if not is_mapped or "columnMapping" in needed or announces(capabilities, "columnMapping"):
        return protocol
    return msgspec.structs.replace(protocol, min_reader_version=1)


def whole_metadata(metadata: Metadata) -> Metadata:
    """The metadata with empty collections instead of absent ones, which some Delta readers need."""
    return msgspec.structs.replace(
        metadata,
        partition_columns=metadata.partition_columns or [],
        configuration=metadata.configuration or {},
    )
