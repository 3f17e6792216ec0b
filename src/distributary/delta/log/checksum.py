"""Version checksums: `<version>.crc` beside a commit.

A checksum file summarises a version (newer editions, "Version Checksum File"): it is
optional, never needed for reading, and never believed against the log. `compare` says in
words where it disagrees with the state that replay gives.

One is written after a commit, and never over another. Its counts come from the active files
where those are known or few; for a huge table that nobody has replayed, from the checksum
before it and the commit's own actions; where these do not suffice, none is written.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow.compute as pc

from distributary.delta.log.actions import (
    CommitActions,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
)
from distributary.delta.log.checkpoint_actions import metadata_fields
from distributary.delta.log.log_path import checksum_path
from distributary.delta.log.snapshot import Snapshot
from distributary.errors import ObjectExistsError, ObjectNotFoundError
from distributary.storage.object_store import ObjectStore

_MOST_CHECKPOINT_BYTES = 16 << 20
_MOST_TRANSACTIONS = 1000


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
    num_deleted_records_opt: int | None = None
    num_deletion_vectors_opt: int | None = None


class FileCounts(msgspec.Struct, frozen=True):
    """How many files a version has and their size; deletion vectors where they were counted."""

    num_files: int
    size: int
    deleted_records: int | None = None
    deletion_vectors: int | None = None


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


def write_checksum(store: ObjectStore, snapshot: Snapshot) -> VersionChecksum | None:
    """Write the checksum of a snapshot's version; `None` where one exists or it would cost a long replay."""
    counts = _counts(store, snapshot)
    if counts is None:
        return None
    checksum = _checksum(snapshot, counts)
    try:
        store.put_hint(checksum_path(snapshot.version), encode_checksum(checksum))
    except ObjectExistsError:
        return None
    return checksum


def encode_checksum(checksum: VersionChecksum) -> bytes:
    """The JSON of a checksum, with every field that other engines require."""
    fields: dict[str, Any] = msgspec.to_builtins(checksum)
    fields |= {"numMetadata": checksum.num_metadata, "numProtocol": checksum.num_protocol}
    if checksum.metadata is not None:
        fields["metadata"] = metadata_fields(checksum.metadata)
    return msgspec.json.encode(fields)


def counts_after(before: FileCounts, commit: CommitActions) -> FileCounts | None:
    """The counts after a commit, by its actions alone; `None` where they do not tell.

    They do not where a remove has no size, and where files are added without a change of data
    and without a remove: such a commit describes files anew that the table has already (LW-017).
    """
    removes, adds = commit.removes, commit.adds
    sizes = [remove.size for remove in removes]
    described_anew = not removes and any(not add.data_change for add in adds)
    if described_anew or _repeats_a_file(commit) or None in sizes:
        return None
    return FileCounts(
        num_files=before.num_files + len(adds) - len(removes),
        size=before.size + sum(add.size for add in adds) - sum(size or 0 for size in sizes),
    )


def _repeats_a_file(commit: CommitActions) -> bool:
    """Whether a file is named twice by the same kind of action."""
    names = [(action.path, isinstance(action, Remove)) for action in commit.files]
    return len(set(names)) != len(names)


def _counts(store: ObjectStore, snapshot: Snapshot) -> FileCounts | None:
    if snapshot.files_known or _replays_cheaply(snapshot):
        return _counted(snapshot)
    previous = read_checksum(store, snapshot.version - 1) if snapshot.version else None
    commit = snapshot.last_commit
    if not isinstance(previous, VersionChecksum) or commit is None or commit.version != snapshot.version:
        return None
    return counts_after(FileCounts(previous.num_files, previous.table_size_bytes), commit)


def _replays_cheaply(snapshot: Snapshot) -> bool:
    checkpoint = snapshot.segment.checkpoint
    return checkpoint is None or sum(file.size for file in checkpoint.files) <= _MOST_CHECKPOINT_BYTES


def _counted(snapshot: Snapshot) -> FileCounts:
    files = snapshot.files
    size: int = pc.sum(files.column("size")).as_py() or 0
    if not files.has_deletion_vectors():
        return FileCounts(files.num_files, size, 0, 0)
    deleted = files.column("deletionVector", "cardinality")
    return FileCounts(
        num_files=files.num_files,
        size=size,
        deleted_records=pc.sum(deleted).as_py() or 0,
        deletion_vectors=files.num_files - deleted.null_count,
    )


def _checksum(snapshot: Snapshot, counts: FileCounts) -> VersionChecksum:
    commit = snapshot.last_commit
    own = commit if commit is not None and commit.version == snapshot.version else None
    info = own.commit_info if own is not None else {}
    transaction = info.get("txnId")
    few = len(snapshot.transactions) <= _MOST_TRANSACTIONS
    return VersionChecksum(
        table_size_bytes=counts.size,
        num_files=counts.num_files,
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        txn_id=transaction if isinstance(transaction, str) else None,
        in_commit_timestamp_opt=own.in_commit_timestamp if own is not None else None,
        set_transactions=list(snapshot.transactions.values()) if few else None,
        domain_metadata=list(snapshot.domains.values()),
        num_deleted_records_opt=counts.deleted_records,
        num_deletion_vectors_opt=counts.deletion_vectors,
    )
