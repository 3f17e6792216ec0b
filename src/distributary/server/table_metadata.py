"""Answers about a table itself: its version and its metadata, and the two lines every answer begins with.

Implements "Query Table Version" and "Query Table Metadata" (REST-150 to REST-164, A2, A3) and the choice
of the version that a request means under a policy: history that is not shared, and versions before the
first shared one, do not exist for the recipient.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from distributary.delta.errors import VersionNotFoundError
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.data_types import StructType
from distributary.server.query_answer import ClientWishes, QueryAnswer, answer_headers
from distributary.server.served_table import ServedTable
from distributary.server.snapshot_cache import SnapshotCache
from distributary.sharing.capabilities import (
    TABLE_VERSION_HEADER,
    Capabilities,
    ResponseFormat,
    negotiate,
)
from distributary.sharing.delta_response import (
    DeltaLine,
    DeltaMetadata,
    DeltaProtocol,
    shown_protocol,
    whole_metadata,
)
from distributary.sharing.error_response import InvalidParameterError
from distributary.sharing.ndjson import encode_line
from distributary.sharing.parquet_response import (
    ParquetFormat,
    ParquetLine,
    ParquetMetadata,
    ParquetProtocol,
    plain_schema,
)
from distributary.sharing.query_request import MetadataRequest, VersionRequest
from distributary.sharing.table_policy import TablePolicy

CHANGE_FEED_KEY: Final = "delta.enableChangeDataFeed"


def answer_version(cache: SnapshotCache, policy: TablePolicy, request: VersionRequest) -> QueryAnswer:
    """The latest version, or the first one committed at or after a time."""
    table = cache.latest(policy)
    version = table.version
    if request.starting_timestamp is not None:
        require_history(policy)
        moment = request.starting_timestamp
        version = cache.answering(policy, lambda: first_version_from(table, moment))
    return QueryAnswer(version, ((TABLE_VERSION_HEADER, str(version)),), iter(()))


def answer_metadata(
    cache: SnapshotCache, policy: TablePolicy, request: MetadataRequest, wishes: ClientWishes
) -> QueryAnswer:
    """Exactly two lines: protocol and metadata."""

    def answer() -> QueryAnswer:
        table = chosen_table(cache, policy, request.version, request.timestamp)
        chosen = negotiate(wishes.capabilities, table.files.needed_features)
        version = table.version if request.is_versioned else None
        lines = first_lines(table, chosen, wishes.capabilities, version)
        headers = answer_headers(table.version, chosen, wishes)
        return QueryAnswer(table.version, headers, iter([lines]), chosen)

    return cache.answering(policy, answer)


def chosen_table(
    cache: SnapshotCache, policy: TablePolicy, version: int | None, timestamp: int | None
) -> ServedTable:
    """The version that a request means: by number, by time, or the latest."""
    if version is None and timestamp is None:
        return cache.latest(policy)
    require_history(policy)
    if timestamp is not None:
        version = version_at(cache.latest(policy), timestamp)
    assert version is not None
    require_shared(policy, version)
    return cache.at(policy, version)


def require_history(policy: TablePolicy) -> None:
    """Refuse versions where the history is not shared."""
    if not policy.history_shared:
        raise InvalidParameterError(
            "The history of this table is not shared: it can be read at its latest version only."
        )


def require_shared(policy: TablePolicy, version: int) -> None:
    """Refuse versions before the first shared one."""
    if version < policy.start_version:
        raise InvalidParameterError(
            f"Version {version} is not shared: the first shared version is {policy.start_version}."
        )


def version_at(table: ServedTable, timestamp: int) -> int:
    """The newest shared version committed at or before a time."""
    try:
        version = table.files.timeline.version_at(timestamp)
    except VersionNotFoundError:
        raise _no_version(timestamp) from None
    if version < table.policy.start_version:
        raise _no_version(timestamp)
    return version


def first_version_from(table: ServedTable, timestamp: int) -> int:
    """The oldest shared version committed at or after a time."""
    found = table.files.timeline.first_version_from(timestamp)
    if found is None:
        raise InvalidParameterError("The startingTimestamp is after the latest version of the table.")
    return max(found, table.policy.start_version)


def _no_version(timestamp: int) -> InvalidParameterError:
    return InvalidParameterError(f"There is no shared version at the time asked for ({timestamp} ms).")


def first_lines(
    table: ServedTable, chosen: ResponseFormat, capabilities: Capabilities, version: int | None
) -> bytes:
    """The protocol and the metadata of a table, with its visible size and number of files."""
    key = (chosen, capabilities.reader_features if chosen == "delta" else None, version)
    known = table.first_lines.get(key)
    if known is None:
        protocol = protocol_line(table.protocol, table.files.needed_features, chosen, capabilities)
        known = protocol + metadata_line(table, table.metadata, table.schema, chosen, version, sized=True)
        table.remember_first_lines(key, known)
    return known


def protocol_line(
    protocol: Protocol,
    needed: frozenset[str],
    chosen: ResponseFormat,
    capabilities: Capabilities,
    version: int | None = None,
) -> bytes:
    """A protocol; with a version where it is that of a later version."""
    if chosen == "parquet":
        return encode_line(ParquetLine(protocol=ParquetProtocol()))
    shown = shown_protocol(protocol, needed, capabilities)
    return encode_line(DeltaLine(protocol=DeltaProtocol(shown, version)))


def metadata_line(
    table: ServedTable,
    metadata: Metadata,
    schema: StructType,
    chosen: ResponseFormat,
    version: int | None,
    *,
    sized: bool = False,
) -> bytes:
    """A metadata of the table, the present or an older one."""
    extra = _Extra.of(table, version, sized=sized)
    if chosen == "delta":
        shown = whole_metadata(_under_policy(metadata, table.policy))
        return encode_line(DeltaLine(meta_data=DeltaMetadata(shown, **extra.fields)))
    return encode_line(
        ParquetLine(
            meta_data=ParquetMetadata(
                id=metadata.id,
                name=metadata.name,
                description=metadata.description,
                format=ParquetFormat(metadata.format.provider),
                schema_string=plain_schema(schema),
                configuration=_plain_configuration(metadata, table.policy),
                partition_columns=metadata.partitioning,
                **extra.fields,
            )
        )
    )


class _Extra(msgspec.Struct, frozen=True):
    """What the server adds to a metadata."""

    version: int | None
    size: int | None
    num_files: int | None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] | None = None
    access_modes: tuple[str, ...] | None = None

    @classmethod
    def of(cls, table: ServedTable, version: int | None, *, sized: bool) -> _Extra:
        size, num_files = (table.size, table.num_files) if sized else (None, None)
        policy = table.policy
        if "dir" not in policy.access_modes:
            return cls(version, size, num_files)
        auxiliary = policy.auxiliary_locations or None
        return cls(version, size, num_files, policy.location, auxiliary, policy.access_modes)

    @property
    def fields(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def shares_changes(policy: TablePolicy) -> bool:
    """Whether a policy lets changes be read at all."""
    return policy.history_shared and policy.change_feed


def _plain_configuration(metadata: Metadata, policy: TablePolicy) -> dict[str, str]:
    """The one property that the parquet format shows (C-19)."""
    enabled = metadata.properties.get(CHANGE_FEED_KEY, "").strip().lower() == "true"
    return {"enableChangeDataFeed": "true"} if enabled and shares_changes(policy) else {}


def _under_policy(metadata: Metadata, policy: TablePolicy) -> Metadata:
    """The metadata without a change feed that the recipient may not read."""
    if shares_changes(policy) or CHANGE_FEED_KEY not in metadata.properties:
        return metadata
    kept = {key: value for key, value in metadata.properties.items() if key != CHANGE_FEED_KEY}
    return msgspec.structs.replace(metadata, configuration=kept)
