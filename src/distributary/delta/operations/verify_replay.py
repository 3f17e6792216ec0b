"""Verifying what replay gives: every commit parses, and checkpoints and checksums agree with the commits.

The commits are replayed one by one from version 0 or, where those are cleaned up, from the oldest checkpoint
that can be read; after a gap, from the next one. Only a replay from version 0 can judge a checkpoint; any
replay can judge a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.delta.errors import CorruptCheckpointError, CorruptLogError, InvalidSchemaError
from distributary.delta.log.actions import (
    CommitActions,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
    decode_commit,
)
from distributary.delta.log.active_files import ActiveFiles, key_of
from distributary.delta.log.checkpoint_reader import CheckpointContents, read_checkpoint, sidecar_path
from distributary.delta.log.checksum import InvalidChecksum, compare, read_checksum
from distributary.delta.log.log_path import LogPath
from distributary.delta.log.log_segment import Checkpoint, LogListing
from distributary.delta.log.reconciliation import FileKey, latest_domains, latest_transactions
from distributary.delta.operations.verification_report import Findings
from distributary.delta.schema.data_types import parse_schema
from distributary.errors import ObjectNotFoundError
from distributary.storage.log_paths import canonical_paths
from distributary.storage.object_store import ObjectStore

_READ_AT_ONCE = 64


class ReplayedState:
    """The state of a table while its commits are replayed."""

    def __init__(self, root: str, start: CheckpointContents | None = None) -> None:
        self._root = root
        self.from_start = start is None
        self.protocol: Protocol | None = start.protocol if start else None
        self.metadata: Metadata | None = start.metadata if start else None
        self.transactions: Mapping[str, SetTransaction] = latest_transactions(
            start.transactions if start else ()
        )
        self.domains: Mapping[str, DomainMetadata] = latest_domains(start.domains if start else ())
        self.files = checkpoint_files(root, start) if start else dict[FileKey, int]()
        self.size = sum(self.files.values())

    def apply(self, commit: CommitActions) -> None:
        """Go one version on."""
        self.protocol = commit.protocol or self.protocol
        self.metadata = commit.metadata or self.metadata
        self.transactions = latest_transactions(commit.transactions, self.transactions)
        self.domains = latest_domains(commit.domains, self.domains)
        for action in commit.files:
            key = key_of(self._root, action.path, action.deletion_vector)
            self.size -= self.files.pop(key, 0)
            if not isinstance(action, Remove):
                self.files[key] = action.size
                self.size += action.size


def checkpoint_files(root: str, contents: CheckpointContents) -> dict[FileKey, int]:
    """The files that a checkpoint holds, with their sizes."""
    files = ActiveFiles.from_checkpoint(root, contents.rows)
    paths = canonical_paths(root, files.column("path")).to_pylist()
    vectors = (None if vector is None else vector.unique_id for vector in files.deletion_vectors())
    return dict(zip(zip(paths, vectors, strict=True), files.column("size").to_pylist(), strict=True))


def check_replay(store: ObjectStore, listing: LogListing, findings: Findings) -> None:
    """Replay the whole log and compare everything that is derived from it."""
    state: ReplayedState | None = None
    for version, commit in _commits(store, listing, findings):
        if version == 0:
            state = ReplayedState(store.root)
        if commit is None:
            state = None
        elif state is not None:
            state.apply(commit)
        for checkpoint in listing.checkpoints:
            if checkpoint.version == version:
                contents = check_checkpoint(store, checkpoint, findings)
                if contents is None:
                    continue
                if state is None:
                    state = ReplayedState(store.root, contents)
                elif state.from_start:
                    _compare_checkpoint(checkpoint, contents, state, findings, store.root)
        if version in listing.checksums:
            _check_checksum(store, listing.checksums[version], state, findings)


def _commits(
    store: ObjectStore, listing: LogListing, findings: Findings
) -> Iterator[tuple[int, CommitActions | None]]:
    """Every version from the first file of the log on; None for those without a commit that parses."""
    first = min([*listing.commits, *(point.version for point in listing.checkpoints)])
    versions = iter(range(first, listing.latest_version + 1))
    while chunk := list(islice(versions, _READ_AT_ONCE)):
        paths = {version: listing.commits[version].path for version in chunk if version in listing.commits}
        contents = dict(zip(paths, store.get_all(list(paths.values())), strict=True))
        for version in chunk:
            if version in paths:
                findings.checked("commits")
                yield version, _decoded(contents[version], version, paths[version], findings)
            else:
                yield version, None


def _decoded(data: bytes, version: int, path: str, findings: Findings) -> CommitActions | None:
    try:
        commit = decode_commit(data, version, path)
    except CorruptLogError as error:
        where = path if error.line is None else f"{path}, line {error.line}"
        findings.add("CORRUPT_COMMIT", where, str(error).removeprefix(f"{where}: "))
        return None
    if commit.metadata is not None and commit.metadata.schema_string is not None:
        try:
            parse_schema(commit.metadata.schema_string)
        except InvalidSchemaError as error:
            findings.add("CORRUPT_COMMIT", path, f"the schema of its metaData: {error}")
    return commit


def check_checkpoint(
    store: ObjectStore, checkpoint: Checkpoint, findings: Findings
) -> CheckpointContents | None:
    """Read every byte of a checkpoint and its sidecars; None where it cannot be used."""
    where = checkpoint.files[0].path
    findings.checked("checkpoints")
    try:
        contents = read_checkpoint(store, checkpoint)
        for path in _parquet_files(checkpoint, contents):
            _read_whole(store, path)
    except CorruptCheckpointError as error:
        # Its own files were listed, so only a sidecar can be missing.
        missing = isinstance(error.__cause__, ObjectNotFoundError)
        findings.add("SIDECAR_MISSING" if missing else "CORRUPT_CHECKPOINT", where, str(error))
        return None
    return contents


def _parquet_files(checkpoint: Checkpoint, contents: CheckpointContents) -> list[str]:
    own = [file.path for file in checkpoint.files if file.name.endswith(".parquet")]
    return [*own, *(sidecar_path(sidecar) for sidecar in contents.sidecars)]


def _read_whole(store: ObjectStore, path: str) -> None:
    try:
        file = pq.ParquetFile(store.open_file(path), page_checksum_verification=True)
        for batch in file.iter_batches():
            batch.validate()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptCheckpointError(f"checkpoint file {path} cannot be read: {error}") from error


def _compare_checkpoint(
    checkpoint: Checkpoint, contents: CheckpointContents, state: ReplayedState, findings: Findings, root: str
) -> None:
    trouble = [
        *_file_differences(checkpoint_files(root, contents), state.files),
        *_small_differences(contents, state),
    ]
    if trouble:
        message = f"it is not what the commits up to version {checkpoint.version} give: {'; '.join(trouble)}"
        findings.add("CHECKPOINT_DISAGREES", checkpoint.files[0].path, message)


def _file_differences(held: Mapping[FileKey, int], replayed: Mapping[FileKey, int]) -> Iterator[str]:
    extra, lacking = held.keys() - replayed.keys(), replayed.keys() - held.keys()
    resized = [key for key in held.keys() & replayed.keys() if held[key] != replayed[key]]
    for keys, what in (
        (extra, "files too many"),
        (lacking, "files too few"),
        (resized, "files of another size"),
    ):
        if keys:
            yield f"{len(keys):,} {what}, such as {min(key[0] for key in keys)}"


def _small_differences(contents: CheckpointContents, state: ReplayedState) -> Iterator[str]:
    """Differences besides the files; transactions may have expired, but not changed."""
    if _protocol(contents.protocol) != _protocol(state.protocol):
        yield "another protocol"
    if _identity(contents.metadata) != _identity(state.metadata):
        yield "another metaData"
    for name, transaction in latest_transactions(contents.transactions).items():
        known = state.transactions.get(name)
        if known is None or known.version != transaction.version:
            yield f"another transaction of application {name}"
    if latest_domains(contents.domains) != state.domains:
        yield "other domain metadata"


def _protocol(protocol: Protocol | None) -> object:
    return protocol and (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )


def _identity(metadata: Metadata | None) -> object:
    return metadata and (metadata.id, metadata.schema_string, metadata.partitioning, metadata.properties)


def _check_checksum(
    store: ObjectStore, path: LogPath, state: ReplayedState | None, findings: Findings
) -> None:
    checksum = read_checksum(store, path.version)
    if checksum is None:
        return
    findings.checked("checksums")
    if isinstance(checksum, InvalidChecksum):
        findings.add("CHECKSUM_UNREADABLE", path.path, f"{checksum.reason}; it can be deleted")
    elif state is not None and state.metadata is not None and state.protocol is not None:
        for trouble in compare(checksum, len(state.files), state.size, state.metadata, state.protocol):
            findings.add("CHECKSUM_DISAGREES", path.path, trouble)
