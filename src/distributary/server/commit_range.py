"""The commits of a range of versions, each with the protocol and metadata that hold at it.

The range is read through once before anything is answered, so that a range that cannot be given is
refused as a whole: a version without change data feed, a feature that the client does not know. Commits
are kept for the answer as far as memory allows and read again beyond that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from distributary.delta.log.actions import Add, CommitActions, Metadata, Protocol
from distributary.delta.log.active_files import key_of
from distributary.delta.log.history import read_commits_in_turn
from distributary.delta.log.protocol_support import mapping_mode_of
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.delta.table_properties import TableProperties
from distributary.server.served_table import ServedTable
from distributary.server.snapshot_cache import SnapshotCache
from distributary.sharing.error_response import InvalidParameterError
from distributary.sharing.reader_features import needed_features
from distributary.sharing.table_policy import TablePolicy

_KEPT_ACTIONS = 50_000


@dataclass(frozen=True)
class VersionState:
    """What holds at a version."""

    version: int
    protocol: Protocol
    metadata: Metadata

    @classmethod
    def of(cls, table: ServedTable) -> VersionState:
        """The state of a snapshot."""
        return cls(table.version, table.protocol, table.metadata)

    @cached_property
    def schema(self) -> StructType:
        """The columns."""
        return parse_schema(self.metadata.schema_string or '{"type":"struct","fields":[]}')

    @cached_property
    def mapping_mode(self) -> ColumnMappingMode:
        """How the columns are found in files."""
        return mapping_mode_of(self.metadata.properties, self.protocol)

    @cached_property
    def needed_features(self) -> frozenset[str]:
        """What a client must know by protocol and metadata; vectors of single files come on top."""
        return needed_features(self.protocol, self.metadata, self.schema, has_deletion_vectors=False)

    @property
    def has_change_feed(self) -> bool:
        """Whether changes are recorded."""
        return TableProperties.from_configuration(self.metadata.properties).enable_change_data_feed

    def after(self, commit: CommitActions) -> VersionState:
        """What holds after a commit."""
        if commit.metadata is None and commit.protocol is None:
            return replace(self, version=commit.version)
        return VersionState(
            commit.version, commit.protocol or self.protocol, commit.metadata or self.metadata
        )


class CommitRange:
    """The commits from one version to another, both included."""

    def __init__(
        self, cache: SnapshotCache, policy: TablePolicy, start: int, end: int, *, needs_feed: bool
    ) -> None:
        self._cache = cache
        self._policy = policy
        self.start = start
        self.end = end
        table = cache.at(policy, start)
        self.store = table.store
        self.first = VersionState.of(table)
        self._kept: dict[int, CommitActions] = {}
        self._before: dict[int, dict[tuple[str, str | None], Add]] = {}
        self.needed_features = self._checked(needs_feed)

    def commits(self, from_version: int) -> Iterator[tuple[CommitActions, VersionState]]:
        """The commits from a version on, with what holds at each."""
        for commit, state in self._all():
            if commit.version >= from_version:
                yield commit, state

    def recorded_add(self, commit: CommitActions, path: str, vector: str | None) -> Add | None:
        """The add of a file that a commit removes, for what its tombstone leaves out."""
        known = self._before.get(commit.version)
        if known is None:
            snapshot = self._cache.at(self._policy, commit.version - 1).snapshot
            adds = snapshot.files.adds()
            known = {key_of(self.store.root, add.path, add.deletion_vector): add for add in adds}
            self._before = {commit.version: known}
        canonical = key_of(self.store.root, path, None)[0]
        return known.get((canonical, vector))

    def _all(self) -> Iterator[tuple[CommitActions, VersionState]]:
        state = self.first
        versions = range(self.start, self.end + 1)
        read = read_commits_in_turn(self.store, [at for at in versions if at not in self._kept])
        for version in versions:
            commit = self._kept.get(version) or next(read)
            state = state.after(commit) if version > self.start else self.first
            yield commit, state

    def _checked(self, needs_feed: bool) -> frozenset[str]:
        """The features that the range needs; refused where a version of it cannot be given."""
        needed: set[str] = set()
        kept = 0
        for commit, state in self._all():
            if needs_feed and not state.has_change_feed:
                raise InvalidParameterError(
                    f"The table has no change data feed at version {commit.version}. Ask for later versions."
                )
            needed |= state.needed_features
            if any(action.deletion_vector is not None for action in commit.files):
                needed.add("deletionVectors")
            kept += len(commit.files) + len(commit.change_files)
            if kept <= _KEPT_ACTIONS:
                self._kept[commit.version] = commit
        return frozenset(needed)
