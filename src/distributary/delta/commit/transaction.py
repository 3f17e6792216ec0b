"""The commit of a transaction: optimistic, checked, and known to have happened or not.

Implements LW-001 to LW-005 and LW-016. A staged commit is written as the next version; when
another writer was first, each commit since the read is checked, and the staged one is
written again on top, or refused with an error that names the winner. Named phases let tests
script interleavings. After success the log is cared for (checkpoint, checksum, clean-up);
that never makes a commit fail.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable

import msgspec

from distributary.delta.commit.conflict_checker import Contest, check_conflicts, effective_isolation
from distributary.delta.commit.log_entry import EntryContext, render_entry
from distributary.delta.commit.post_commit import care_for_log
from distributary.delta.commit.staged_commit import StagedCommit
from distributary.delta.errors import (
    AppendOnlyError,
    CommitConflictError,
    CommitStateUnknownError,
    MetadataChangedError,
    ProtocolChangedError,
    TooManyAttemptsError,
)
from distributary.delta.log.actions import decode_commit
from distributary.delta.log.history import read_commit
from distributary.delta.log.log_path import LogFileKind, LogPath, commit_name, commit_path
from distributary.delta.log.log_segment import LogSegment
from distributary.delta.log.protocol_support import check_can_read, check_can_write
from distributary.delta.log.snapshot import Snapshot, refresh
from distributary.delta.schema.data_types import parse_schema
from distributary.delta.table_properties import TableProperties
from distributary.errors import (
    EntryUnconfirmedError,
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)
from distributary.storage.commit_file import create_commit
from distributary.storage.object_store import ObjectStore

MAX_ATTEMPTS = 50
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 2.0
_MOST_LOOKS = 5
_SURELY_KEPT = 600_000  # milliseconds

PREPARED = "prepared"
BEFORE_WRITE = "before_write"
WRITTEN = "written"
CONFLICT = "conflict"
POST_COMMIT = "post_commit"

OnPhase = Callable[[str, int], None]


class CommitResult(msgspec.Struct, frozen=True):
    """A commit that happened: its version, and the table at that version."""

    version: int
    snapshot: Snapshot


def commit(
    store: ObjectStore,
    snapshot: Snapshot | None,
    staged: StagedCommit,
    *,
    on_phase: OnPhase = lambda phase, version: None,
    max_attempts: int = MAX_ATTEMPTS,
    now: Callable[[], int] = lambda: int(time.time() * 1000),
) -> CommitResult:
    """Commit what was staged on a snapshot (`None` creates the table)."""
    staged.check()
    check_allowed(store.root, snapshot, staged)
    commit_id = str(uuid.uuid4())
    base = snapshot
    isolation = _isolation(snapshot, staged)
    on_phase(PREPARED, -1 if base is None else base.version)
    for attempt in range(max_attempts):
        read_version = None if snapshot is None else snapshot.version
        context = EntryContext(store, base, read_version, commit_id, isolation, now())
        entry = render_entry(staged, context)
        on_phase(BEFORE_WRITE, context.version)
        _check_still_in_log(store, base, staged, context.now)
        if _write(store, context, entry):
            on_phase(WRITTEN, context.version)
            result = CommitResult(context.version, _committed(store, base, context.version, entry))
            care_for_log(store, result.snapshot, now())
            on_phase(POST_COMMIT, context.version)
            return result
        on_phase(CONFLICT, context.version)
        _pause(attempt)
        base = _rebase(store, snapshot, base, staged, isolation)
    raise TooManyAttemptsError(
        f"{staged.operation.name} on {store.root} lost {max_attempts} races against other writers; "
        "nothing was committed. Try again when fewer writers are at work."
    )


def check_allowed(where: str, snapshot: Snapshot | None, staged: StagedCommit) -> None:
    """Refuse what the table's protocol or properties forbid."""
    metadata = staged.metadata or (snapshot.metadata if snapshot else None)
    protocol = staged.protocol or (snapshot.protocol if snapshot else None)
    if metadata is None or protocol is None:
        raise InvalidInputError(f"the first commit of {where} needs metadata and a protocol")
    schema = parse_schema(metadata.schema_string or "")
    for agreed in (protocol, snapshot.protocol) if snapshot else (protocol,):
        if staged.copies_files:
            check_can_read(agreed, where)
        else:
            check_can_write(agreed, metadata, schema, where)
    append_only = TableProperties.from_configuration(metadata.properties).append_only
    if append_only and any(remove.data_change for remove in staged.removes):
        raise AppendOnlyError(
            f"{where} is append-only (delta.appendOnly=true): {staged.operation.name} would remove rows. "
            "Unset the property first if that is intended."
        )


def _isolation(snapshot: Snapshot | None, staged: StagedCommit) -> str:
    level = "Serializable" if snapshot is None else snapshot.properties.isolation_level
    return effective_isolation(staged, level)


def _check_still_in_log(store: ObjectStore, base: Snapshot | None, staged: StagedCommit, now: int) -> None:
    """Refuse to go on from a version that log cleanup has taken: the place after it is free but not the next.

    Cleanup takes the oldest entries first, so while the entry of the base is there, all later ones are.
    It takes old ones only; far from here, where a look costs time, young ones are not looked for.
    """
    tip = None if base is None else base.segment.tip
    if base is None or tip is None or (store.is_remote and now - tip.last_modified < _SURELY_KEPT):
        return
    try:
        store.head(commit_path(base.version))
    except ObjectNotFoundError as error:
        raise CommitConflictError(
            f"{staged.operation.name} on {store.root} was not committed: version {base.version}, which it "
            "rests on, was removed by log cleanup meanwhile, so later commits cannot be checked. Read the "
            "table again and repeat the operation.",
            version=base.version,
        ) from error


def _write(store: ObjectStore, context: EntryContext, entry: bytes) -> bool:
    """Whether the entry became this version; false where another writer's is there."""
    follows = None if context.version == 0 else commit_path(context.version - 1)
    try:
        create_commit(store, commit_path(context.version), entry, context.commit_id, follows=follows)
    except ObjectExistsError:
        return False
    except EntryUnconfirmedError as error:
        raise CommitStateUnknownError(
            f"it is not known whether version {context.version} of {store.root} was committed: {error}. "
            f"Look for {context.commit_id} in the table's history before you repeat the operation.",
            version=context.version,
            commit_id=context.commit_id,
        ) from error
    return True


def _rebase(
    store: ObjectStore, read: Snapshot | None, base: Snapshot | None, staged: StagedCommit, isolation: str
) -> Snapshot:
    """The latest snapshot, after every commit since the last look was checked.

    Reading many commits takes a while, in which more may come; so it looks again until it is up to date.
    """
    if read is None or base is None:
        raise ProtocolChangedError(
            f"{store.root} was created by another writer meanwhile; open it and go on from there", version=0
        )
    for _ in range(_MOST_LOOKS):
        latest = refresh(store, base)
        for version in range(base.version + 1, latest.version + 1):
            check_conflicts(Contest(staged, read, read_commit(store, version), isolation))
        if latest.version < base.version or latest.metadata.id != read.metadata.id:
            raise MetadataChangedError(
                f"{staged.operation.name} on {store.root} was not committed: another table was created in "
                "its place meanwhile. Open that one and repeat the operation.",
                version=latest.version,
            )
        behind, base = latest.version - base.version, latest
        if behind <= 1:
            break
    return base


def _pause(attempt: int) -> None:
    """Wait a random while, longer after each lost race, so that writers do not march in step.

    The log is looked at after the wait: what was seen before it would be stale, and lose again.
    """
    time.sleep(random.uniform(0, min(_FIRST_PAUSE * 3**attempt, _LONGEST_PAUSE)))


def _committed(store: ObjectStore, base: Snapshot | None, version: int, entry: bytes) -> Snapshot:
    """The table right after the commit, which has happened: no failure to look at it may deny that."""
    path = commit_path(version)
    found = _entry_path(store, version, len(entry))
    actions = decode_commit(entry, version, path)
    if base is None:
        return Snapshot(store.root, LogSegment(version, None, (found,), found), None, [actions])
    return base.advance([actions], [found])


def _entry_path(store: ObjectStore, version: int, size: int) -> LogPath:
    try:
        meta = store.head(commit_path(version))
    except StorageError:
        return LogPath(commit_name(version), LogFileKind.COMMIT, version, size, 0)
    return LogPath(
        commit_name(version), LogFileKind.COMMIT, version, meta.size, meta.last_modified, meta.etag
    )
