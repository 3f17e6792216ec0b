"""Sync: a local Delta copy of a shared table, kept up to date by the files that come and go.

The first run copies the files of one version. Later ones ask for what was added and removed since
(`startingVersion`) and make one commit for each shared version, with schema, properties and protocol as that
version has them. Where that cannot be had (the history is not shared, versions are too old, or files were
rearranged by commits that servers do not tell of), the copy is compared with a snapshot and brought in line
by one commit. In every case the shared version goes into the commit itself, so a run that is killed at any
moment is taken up by the next one: nothing is missing and nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Literal, Protocol

import msgspec

from distributary.client.copied_files import FileCopier, Received, local_add
from distributary.client.errors import FileDownloadError, IncompleteResponseError, SyncTargetError
from distributary.client.file_download import FileSource, FileUrls
from distributary.client.local_copy import FileChange, LocalCopy, TableState
from distributary.client.progress import download_bar
from distributary.client.session import Session
from distributary.client.table_answer import SharedFile, TableAnswer
from distributary.client.table_query import QueryBody, SnapshotQuestion
from distributary.delta.log.actions import Add, Remove
from distributary.sharing.error_response import (
    InvalidParameterError,
    MalformedRequestError,
    ResourceNotFoundError,
    UnsupportedOperationError,
)
from distributary.sharing.names import TableName
from distributary.storage.object_store import ObjectStore

How = Literal["versions", "snapshot"]

VERSIONS_AT_ONCE: Final = 100
_FILES_AHEAD: Final = 64
_BYTES_AHEAD: Final = 256 << 20
_GONE: Final = (403, 404, 410)
# What servers answer where a range of versions, or the history at all, cannot be had.
_NO_VERSIONS: Final = (
    InvalidParameterError,
    MalformedRequestError,
    UnsupportedOperationError,
    ResourceNotFoundError,
)


class Copier(Protocol):
    """Fetches files of one answer into a copy."""

    def fetch(self, adds: Sequence[Add], received: Received) -> int:
        """Fetch the files of adds that the copy lacks; gives the bytes that came."""
        ...


Copying = Callable[[SnapshotQuestion, TableAnswer], Copier]
"""How the files of an answer are fetched: by this process, or by Spark's tasks."""


class SyncedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a copy: which shared version it brought, and by how many files."""

    shared_version: int
    version: int
    """The copy's own version."""
    by: How
    added_files: int
    removed_files: int
    added_bytes: int
    downloaded_bytes: int


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did, and where the copy stands now."""

    table: str
    path: str
    shared_version: int
    version: int
    commits: int = 0
    added_files: int = 0
    removed_files: int = 0
    downloaded_bytes: int = 0


class TableSync:
    """Keeps one copy of one shared table."""

    def __init__(
        self,
        session: Session,
        table: TableName,
        table_id: str,
        store: ObjectStore,
        received: Received | None = None,
        copying: Copying | None = None,
    ) -> None:
        self._session = session
        self._table = table
        self._copying = copying or self._copied_here
        self._id = table_id
        self._store = store
        self._copy = LocalCopy(store, str(table))
        self._received = received
        self._query = msgspec.structs.replace(session.settings.query, formats=("delta",))

    def run(self, starting_version: int | None = None, *, compare: bool = False) -> Iterator[SyncedVersion]:
        """Bring the copy up to the latest version; gives each commit when it has happened."""
        done = self._copy.shared_version(self._id)
        if done is None:
            first = self._by_snapshot(starting_version)
            assert first is not None
            yield first
            done = first.shared_version
        latest = self._session.rest.table_version(self._table, None)
        if latest < done:
            raise SyncTargetError(
                f"{self._store.root} is a copy of version {done} of {self._table}, and the server has "
                f"version {latest}: the table was replaced or put back. Sync to another place"
            )
        while done < latest:
            for synced in self._next_versions(done, latest):
                yield synced
                done = synced.shared_version
        if compare and (repaired := self._by_snapshot(None)) is not None:
            yield repaired

    def finish(self, starting_version: int | None = None, *, compare: bool = False) -> SyncResult:
        """Bring the copy up to the latest version, and tell what was done."""
        commits = list(self.run(starting_version, compare=compare))
        snapshot, version = self._copy.snapshot, self._copy.shared_version(self._id)
        assert snapshot is not None
        assert version is not None
        return SyncResult(
            table=str(self._table),
            path=self._store.root,
            shared_version=version,
            version=snapshot.version,
            commits=len(commits),
            added_files=sum(one.added_files for one in commits),
            removed_files=sum(one.removed_files for one in commits),
            downloaded_bytes=sum(one.downloaded_bytes for one in commits),
        )

    def _next_versions(self, done: int, latest: int) -> Iterator[SyncedVersion]:
        """The next versions one by one, or the latest at once where they cannot be had; at least one."""
        found = self._asked_versions(done, latest)
        if found is None:
            yield self._whole(None)
            return
        question, answer, last = found
        self._check(answer)
        try:
            yield from self._by_versions(question, answer, done, last)
        except FileDownloadError as error:
            if error.status not in _GONE:
                raise
            # A file of a version in between is gone; the latest version has all of its own.
            yield self._whole(None)

    def _asked_versions(self, done: int, latest: int) -> tuple[SnapshotQuestion, TableAnswer, int] | None:
        """The files that came and went in the next versions; None where the server cannot tell."""
        for count in (VERSIONS_AT_ONCE, 1):
            last = min(done + count, latest)
            body = QueryBody(starting_version=done + 1, ending_version=last, include_historical_protocol=True)
            question = SnapshotQuestion(self._session.rest, self._table, body, self._query)
            try:
                return question, question.ask(), last
            except _NO_VERSIONS:
                continue
        return None

    def _by_versions(
        self, question: SnapshotQuestion, answer: TableAnswer, done: int, last: int
    ) -> Iterator[SyncedVersion]:
        copier = self._copying(question, answer)
        files, states = _files_by_version(answer), _states_by_version(answer)
        state = TableState(answer.protocol, answer.metadata)
        for versions in _groups(range(done + 1, last + 1), files):
            ahead = [file.action for version in versions for file in files.get(version, ())]
            downloaded = self._fetched(copier, [action for action in ahead if isinstance(action, Add)])
            for version in versions:
                state = states.get(version, state)
                if version <= done:
                    continue
                change = self._copy.change(*_actions(files.get(version, ())))
                synced = (
                    self._whole(version)
                    if change is None
                    else self._committed(version, state, change, "versions", downloaded)
                )
                downloaded, done = 0, synced.shared_version
                yield synced

    def _whole(self, version: int | None) -> SyncedVersion:
        """A version by comparing; the latest one where that one cannot be had."""
        try:
            found = self._by_snapshot(version, always=True)
        except _NO_VERSIONS:
            if version is None:
                raise
            found = self._by_snapshot(None, always=True)
        assert found is not None
        return found

    def _by_snapshot(self, version: int | None, *, always: bool = False) -> SyncedVersion | None:
        """Bring the copy in line with a version; None where it already is, unless it is always committed."""
        question = SnapshotQuestion(self._session.rest, self._table, QueryBody(version=version), self._query)
        answer = question.ask()
        self._check(answer)
        if answer.version is None:
            raise IncompleteResponseError(f"{self._table}: the server did not say which version it gave")
        shared = {file.action.path: file.action for file in answer.files if isinstance(file.action, Add)}
        if len(shared) != len(answer.files):
            raise IncompleteResponseError("a snapshot was asked for, and removed files were given")
        local = {key: local_add(add) for key, add in shared.items()}
        change = self._copy.difference({add.path: add for add in local.values()})
        exists = self._copy.snapshot is not None
        if exists and not always and not change.adds and not change.removes:
            return None
        new = {add.path for add in change.adds}
        missing = [shared[key] for key, add in local.items() if add.path in new]
        downloaded = self._fetched(self._copying(question, answer), missing)
        state = TableState(answer.protocol, answer.metadata)
        return self._committed(answer.version, state, change, "snapshot", downloaded)

    def _check(self, answer: TableAnswer) -> None:
        if answer.metadata.id != self._id:
            raise SyncTargetError(
                f"{self._table} is another table now (its id has changed): the copy of the former one is "
                "left as it is. Sync to another place"
            )

    def _copied_here(self, question: SnapshotQuestion, answer: TableAnswer) -> FileCopier:
        source = FileSource(
            FileUrls(answer.urls, question.fresh_urls),
            self._session.connections,
            self._session.rest.settings,
        )
        return FileCopier(self._store, source)

    def _fetched(self, copier: Copier, adds: list[Add]) -> int:
        total = sum(add.size for add in adds)
        with ExitStack() as stack:
            bar = download_bar(str(self._table), total, self._session.settings.progress)
            received = self._received or stack.enter_context(bar)
            return copier.fetch(adds, received)

    def _committed(
        self, version: int, state: TableState, change: FileChange, by: How, downloaded: int
    ) -> SyncedVersion:
        return SyncedVersion(
            shared_version=version,
            version=self._copy.commit(self._id, version, state, change, by),
            by=by,
            added_files=len(change.adds),
            removed_files=len(change.removes),
            added_bytes=sum(add.size for add in change.adds),
            downloaded_bytes=downloaded,
        )


def _files_by_version(answer: TableAnswer) -> dict[int, list[SharedFile]]:
    found: defaultdict[int, list[SharedFile]] = defaultdict(list)
    for file in answer.files:
        if file.version is None:
            raise IncompleteResponseError("a changed file of the answer has no version")
        found[file.version].append(file)
    return dict(found)


def _states_by_version(answer: TableAnswer) -> dict[int, TableState]:
    """Protocol and metadata at the versions that change one of them."""
    state, found = TableState(answer.protocol, answer.metadata), dict[int, TableState]()
    versions = [later.version for later in answer.later if later.version is not None]
    if len(versions) != len(answer.later):
        raise IncompleteResponseError("changed metadata of the answer has no version")
    for version, later in sorted(zip(versions, answer.later, strict=True), key=lambda pair: pair[0]):
        state = TableState(later.protocol or state.protocol, later.metadata or state.metadata)
        found[version] = state
    return found


def _actions(files: Sequence[SharedFile]) -> tuple[list[Add], list[str]]:
    adds = [file.action for file in files if isinstance(file.action, Add)]
    return adds, [file.action.path for file in files if isinstance(file.action, Remove)]


def _groups(versions: range, files: Mapping[int, list[SharedFile]]) -> Iterator[list[int]]:
    """Versions whose files are fetched together, so that small ones do not wait for each other."""
    group: list[int] = []
    count = size = 0
    for version in versions:
        group.append(version)
        count += len(files.get(version, ()))
        size += sum(file.action.size or 0 for file in files.get(version, ()))
        if count >= _FILES_AHEAD or size >= _BYTES_AHEAD:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group
