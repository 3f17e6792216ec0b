"""A snapshot: the state of a table at one version.

Implements S4 "Delta Table Specification" (LR-008, LR-020 to LR-028): protocol, metadata,
active files, tombstones, transactions, domains. A snapshot is immutable; `refresh` gives a
new one that replays only what was committed since. Small state is read at once; file state
is read column by column when asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

from distributary.delta.errors import (
    CorruptCheckpointError,
    IncompleteLogError,
    LogGapError,
    UnsupportedFeatureError,
)
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
from distributary.delta.log.checkpoint_reader import CheckpointContents, read_checkpoint
from distributary.delta.log.checkpoint_rows import ParquetRows
from distributary.delta.log.file_columns import removes_of
from distributary.delta.log.log_path import LOG_DIRECTORY, LogPath, commit_path
from distributary.delta.log.log_segment import Checkpoint, LogListing, LogSegment, find_segment, list_log
from distributary.delta.log.protocol_support import check_can_read, check_can_write, mapping_mode_of
from distributary.delta.log.reconciliation import (
    latest_domains,
    latest_file_actions,
    latest_transactions,
)
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.delta.table_properties import TableProperties
from distributary.errors import DistributaryError, ObjectNotFoundError
from distributary.storage.log_paths import canonical_path
from distributary.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)

# After this many commits a refresh starts again from a newer checkpoint, where there is one.
_LONGEST_TAIL = 200
# How often a log is listed anew when files that were listed are gone.
_MOST_LISTINGS = 3


class Snapshot:
    """The state of a table at one version."""

    def __init__(
        self,
        root: str,
        segment: LogSegment,
        checkpoint: CheckpointContents | None,
        commits: Sequence[CommitActions],
        known: tuple[ActiveFiles, Sequence[CommitActions]] | None = None,
    ) -> None:
        self.root = root
        self.segment = segment
        self._checkpoint = checkpoint
        self._commits = tuple(commits)
        self._known = known
        self.protocol = self._latest_protocol()
        self.metadata = self._latest_metadata()
        self._check_readable()

    @property
    def version(self) -> int:
        """The version of the table that this is."""
        return self.segment.version

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        return self._schema

    @cached_property
    def _schema(self) -> StructType:
        if self.metadata.schema_string is None:
            raise self._incomplete("schema in any metaData")
        return parse_schema(self.metadata.schema_string)

    @cached_property
    def properties(self) -> TableProperties:
        """The table's properties with their types and defaults."""
        return TableProperties.from_configuration(self.metadata.properties)

    @property
    def mapping_mode(self) -> ColumnMappingMode:
        """How the columns are found in data files."""
        return self._mapping_mode

    @cached_property
    def _mapping_mode(self) -> ColumnMappingMode:
        return mapping_mode_of(self.metadata.properties, self.protocol)

    @cached_property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The last transaction of each application."""
        before = latest_transactions(self._checkpoint.transactions if self._checkpoint else ())
        return latest_transactions((txn for commit in self._commits for txn in commit.transactions), before)

    @cached_property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The configuration of each domain that is not removed."""
        before = latest_domains(self._checkpoint.domains if self._checkpoint else ())
        return latest_domains((domain for commit in self._commits for domain in commit.domains), before)

    @property
    def files(self) -> ActiveFiles:
        """The active files."""
        return self._files

    @cached_property
    def _files(self) -> ActiveFiles:
        if self._known is None:
            rows = self._checkpoint.rows if self._checkpoint else ()
            start, commits = ActiveFiles.from_checkpoint(self.root, rows), self._commits
        else:
            start, commits = self._known
        return start.apply(latest_file_actions(commits, partial(canonical_path, self.root)))

    @property
    def files_known(self) -> bool:
        """Whether the active files were worked out already, so that asking for them is cheap."""
        return self._known is not None or "_files" in vars(self)

    def tombstones(self) -> list[Remove]:
        """The files that were removed, as far back as the log still says."""
        actions = self.files.actions
        recent = [action for action in actions.values() if isinstance(action, Remove)]
        older = (
            remove
            for remove in self._checkpoint_removes()
            if key_of(self.root, remove.path, remove.deletion_vector) not in actions
        )
        return [*older, *recent]

    @property
    def last_commit(self) -> CommitActions | None:
        """The commit of this very version, where replay read it."""
        return self._commits[-1] if self._commits else None

    def _checkpoint_removes(self) -> Iterator[Remove]:
        if self._checkpoint is None:
            return
        yield from self._checkpoint.removes
        for rows in self._checkpoint.rows:
            if isinstance(rows, ParquetRows):
                yield from removes_of(rows)

    def _latest_protocol(self) -> Protocol:
        found = [commit.protocol for commit in self._commits if commit.protocol is not None]
        protocol = found[-1] if found else (self._checkpoint.protocol if self._checkpoint else None)
        if protocol is None:
            raise self._incomplete("protocol")
        return protocol

    def _latest_metadata(self) -> Metadata:
        found = [commit.metadata for commit in self._commits if commit.metadata is not None]
        metadata = found[-1] if found else (self._checkpoint.metadata if self._checkpoint else None)
        if metadata is None:
            raise self._incomplete("metaData")
        return metadata

    def _incomplete(self, action: str) -> IncompleteLogError:
        return IncompleteLogError(
            f"there is no {action} action up to version {self.version} of {self.root}; "
            "restore the missing log files",
            path=LOG_DIRECTORY,
        )

    def check_writable(self) -> None:
        """Refuse a table whose rules for writers are not all known (LW-010)."""
        check_can_write(self.protocol, self.metadata, self.schema, self.root)

    def _check_readable(self) -> None:
        check_can_read(self.protocol, self.root)
        provider = self.metadata.format.provider
        if provider != "parquet":
            raise UnsupportedFeatureError(
                f"{self.root} keeps its data as {provider!r}; only parquet can be read"
            )

    def advance(self, commits: Sequence[CommitActions], paths: Sequence[LogPath]) -> Snapshot:
        """The snapshot after later commits."""
        segment = LogSegment(
            commits[-1].version, self.segment.checkpoint, (*self.segment.commits, *paths), paths[-1]
        )
        return Snapshot(
            self.root, segment, self._checkpoint, (*self._commits, *commits), self._known_before(commits)
        )

    def _known_before(
        self, commits: Sequence[CommitActions]
    ) -> tuple[ActiveFiles, Sequence[CommitActions]] | None:
        """The newest active files that were worked out, and the commits to apply to them."""
        if "_files" in vars(self):
            return self.files, commits
        return None if self._known is None else (self._known[0], (*self._known[1], *commits))


def load_snapshot(
    store: ObjectStore, version: int | None = None, without: frozenset[str] = frozenset()
) -> Snapshot:
    """Load a version (the latest by default), going down the ladder past unusable checkpoints.

    Log files may be cleaned up between listing and reading; then the log is listed again.
    """
    failure: CorruptCheckpointError | None = None
    listings = 0
    while True:
        checkpoint: Checkpoint | None = None
        try:
            segment = find_segment(store, version, without)
            checkpoint = segment.checkpoint
            return load_segment(store, segment)
        except CorruptCheckpointError as error:
            _log.warning("%s: going on without it", error)
            failure = error
            without |= checkpoint.names if checkpoint else frozenset()
        except (LogGapError, ObjectNotFoundError) as error:
            listings += 1
            if listings == _MOST_LISTINGS:
                raise _ladder_ended(failure, error) from error


def _ladder_ended(failure: CorruptCheckpointError | None, error: DistributaryError) -> DistributaryError:
    if failure is None:
        return error
    return CorruptCheckpointError(
        f"{failure}; and nothing older can replace it, because the log before it was cleaned up ({error})"
    )


def load_segment(store: ObjectStore, segment: LogSegment) -> Snapshot:
    """Read the files of a segment."""
    checkpoint = read_checkpoint(store, segment.checkpoint) if segment.checkpoint else None
    commits = read_commits(store, segment.commits)
    return Snapshot(store.root, segment, checkpoint, commits)


def without_checkpoint(store: ObjectStore, snapshot: Snapshot) -> Snapshot:
    """The same version without the checkpoint of a snapshot, which proved unreadable later on."""
    return load_snapshot(store, snapshot.version, _unusable_files(store, snapshot))


def _unusable_files(store: ObjectStore, snapshot: Snapshot) -> frozenset[str]:
    """The files of a checkpoint that failed; none where they are gone or others by now."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None or any(_changed(store, file) for file in checkpoint.files):
        return frozenset()
    return checkpoint.names


def _changed(store: ObjectStore, file: LogPath) -> bool:
    try:
        found = store.head(file.path)
    except ObjectNotFoundError:
        return True
    if store.local_path(file.path) is None:
        return found.size != file.size
    return found.etag != file.etag


def read_commits(store: ObjectStore, paths: Sequence[LogPath]) -> list[CommitActions]:
    """Read commits in the order given."""
    contents = store.get_all([path.path for path in paths])
    return [decode_commit(data, path.version, path.path) for data, path in zip(contents, paths, strict=True)]


def refresh(store: ObjectStore, snapshot: Snapshot) -> Snapshot:
    """The latest snapshot, replaying only what was committed since; the same one where nothing was."""
    if _is_latest(store, snapshot):
        return snapshot
    listing = list_log(store, snapshot.version)
    newer = [listing.commits[at] for at in sorted(listing.commits) if at > snapshot.version]
    if not _continues(snapshot, listing, newer):
        return load_snapshot(store)
    if not newer:
        return snapshot
    try:
        return snapshot.advance(read_commits(store, newer), newer)
    except ObjectNotFoundError:
        return load_snapshot(store)


def _is_latest(store: ObjectStore, snapshot: Snapshot) -> bool:
    """On a local disk three look-ups answer whether anything changed.

    The one after next is looked for too: where the next commit was lost, going on would hide all later
    ones and let a writer fill the hole. A longer gap is found when the log is listed.
    """
    if store.is_remote or any(_exists(store, snapshot.version + ahead) for ahead in (1, 2)):
        return False
    return _same_commit(store, snapshot)


def _exists(store: ObjectStore, version: int) -> bool:
    try:
        store.head(commit_path(version))
    except ObjectNotFoundError:
        return False
    return True


def _same_commit(store: ObjectStore, snapshot: Snapshot) -> bool:
    tip = snapshot.segment.tip
    return tip is not None and not _changed(store, tip)


def _continues(snapshot: Snapshot, listing: LogListing, newer: Sequence[LogPath]) -> bool:
    """Whether the log goes on from this snapshot: the same table, no gap, and not too long a tail."""
    known, found = snapshot.segment.tip, listing.commits.get(snapshot.version)
    same = known is not None and found is not None and found.same_file(known)
    contiguous = [path.version for path in newer] == list(
        range(snapshot.version + 1, snapshot.version + 1 + len(newer))
    )
    return same and contiguous and len(snapshot.segment.commits) + len(newer) <= _LONGEST_TAIL
