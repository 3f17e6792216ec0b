"""Version checksums: `<version>.crc` beside a commit.

A checksum file summarises a version (newer editions, "Version Checksum File"): it is
optional, never needed for reading, and never believed against the log. `compare` says in
words where it disagrees with the state that replay gives.
"""

from __future__ import annotations

import msgspec

from distributary.delta.log.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from distributary.delta.log.log_path import checksum_path
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore


class VersionChecksum(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The summary of one version."""

    table_size_bytes: int
    num_files: int
    num_metadata: int = 1
    num_protocol: int = 1
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txn_id: str | None = None
    in_commit_timestamp_opt: int | None = None
    set_transactions: list[SetTransaction] | None = None
    domain_metadata: list[DomainMetadata] | None = None


class InvalidChecksum(msgspec.Struct, frozen=True):
    """A checksum file that cannot be parsed, and why."""

    reason: str


def read_checksum(store: ObjectStore, version: int) -> VersionChecksum | InvalidChecksum | None:
    """Read the checksum of a version; `None` where there is none."""
    try:
        data = store.get(checksum_path(version))
    except ObjectNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=VersionChecksum)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return InvalidChecksum(str(error))


def compare(
    checksum: VersionChecksum, num_files: int, size: int, metadata: Metadata, protocol: Protocol
) -> list[str]:
    """Say where a checksum disagrees with the state of its version."""
    found: list[str] = []
    if checksum.num_files != num_files:
        found.append(f"it counts {checksum.num_files} files, the log {num_files}")
    if checksum.table_size_bytes != size:
        found.append(f"it sums {checksum.table_size_bytes} bytes, the log {size}")
    if checksum.metadata is not None and checksum.metadata.id != metadata.id:
        found.append(f"it has the table id {checksum.metadata.id}, the log {metadata.id}")
    if checksum.protocol is not None and _versions(checksum.protocol) != _versions(protocol):
        found.append("its protocol is another than the log's")
    return found


def _versions(protocol: Protocol) -> tuple[int, int, frozenset[str], frozenset[str]]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
