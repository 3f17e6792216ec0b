"""Log cleanup: which old files of the log may go, and removing them.

Implements metadata cleanup of newer editions with the retention of S4 (`delta.logRetentionDuration`,
`delta.enableExpiredLogCleanup`). The cutoff is midnight UTC of the day on which the retention ended. The
version that was current then, and every later one, stays readable; so the newest complete checkpoint at or
before that version stays, with its commit and everything after it. What is older goes: commits, checkpoints,
checksums and compactions, then sidecars that no remaining checkpoint names, and temporary files that
writers left behind.

Guarantees: a checkpoint is believed only after it was read whole; without such a one nothing goes.
Deletion starts with the oldest version and takes a version's commit before its checkpoint, so that at any
moment of a cleanup, finished or not, every promised version can be read. A plan prints itself and does
nothing; `execute_cleanup` acts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta

import msgspec

from distributary.delta.errors import CorruptCheckpointError, DeltaError
from distributary.delta.log.actions import Sidecar, decode_commit
from distributary.delta.log.checkpoint_reader import read_checkpoint, sidecar_path
from distributary.delta.log.checkpoint_rows import FILE_LEAVES, ParquetRows
from distributary.delta.log.history import increasing
from distributary.delta.log.log_path import (
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    LogFileKind,
    LogPath,
    parse_log_path,
)
from distributary.delta.log.log_segment import Checkpoint, arrange
from distributary.delta.table_properties import (
    CHECKPOINT_PROTECTION_VERSION,
    ENABLE_EXPIRED_LOG_CLEANUP,
    TableProperties,
)
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectMeta, ObjectStore

_DAY = 24 * 60 * 60 * 1000
_ORPHAN_AGE = _DAY
_BATCH_ROWS = 50_000
# Ours, Hadoop's and the ones of delta-rs: files that a writer renames or links when they are finished.
_TEMPORARY = re.compile(r"\..+\.tmp|_commit_[0-9A-Fa-f-]+\.json\.tmp")
_ORDER = (LogFileKind.COMMIT, LogFileKind.CHECKSUM, LogFileKind.COMPACTION)


class LogDirectory(msgspec.Struct, frozen=True):
    """Everything in the log directory: the log's own files, sidecars, and all other files."""

    files: tuple[LogPath, ...]
    sidecars: tuple[ObjectMeta, ...] = ()
    others: tuple[ObjectMeta, ...] = ()


class CleanupPlan(msgspec.Struct, frozen=True):
    """The files to delete, in this order, and why no more."""

    paths: tuple[str, ...]
    kept_from: int | None
    reason: str

    def __str__(self) -> str:
        lines = [f"{len(self.paths)} files of the log can go: {self.reason}"]
        return "\n".join([*lines, *(f"  {path}" for path in self.paths)])


def list_directory(store: ObjectStore) -> LogDirectory:
    """List the whole log directory."""
    files: list[LogPath] = []
    others: list[ObjectMeta] = []
    for meta in store.list_from(LOG_DIRECTORY):
        parsed = parse_log_path(_name(meta), meta.size, meta.last_modified)
        if parsed is None:
            others.append(meta)
        else:
            files.append(parsed)
    return LogDirectory(tuple(files), tuple(store.list_from(SIDECAR_DIRECTORY)), tuple(others))


def plan_cleanup(
    directory: LogDirectory,
    properties: TableProperties,
    now: int,
    is_sound: Callable[[Checkpoint], bool],
    sidecars_of: Callable[[Sequence[LogPath]], Collection[str] | None],
) -> CleanupPlan:
    """Decide what may go at `now` (ms).

    `is_sound` says whether a checkpoint can be read whole; `sidecars_of` names the sidecars that
    checkpoint files refer to, `None` where that cannot be told. Both are asked only when it matters.
    """
    if not properties.get(ENABLE_EXPIRED_LOG_CLEANUP):
        return CleanupPlan((), None, "delta.enableExpiredLogCleanup is false")
    keep_from, reason = _kept_version(directory, properties, now, is_sound)
    expired = [] if keep_from is None else _older(directory.files, keep_from)
    gone = {file.name for file in expired}
    remaining = [file for file in directory.files if file.name not in gone]
    paths = [
        *(file.path for file in expired),
        *_orphan_sidecars(directory.sidecars, remaining, now, sidecars_of),
        *_leftovers(directory, gone, now),
    ]
    return CleanupPlan(tuple(paths), keep_from, reason)


def cleanup_cutoff(now: int, retention: timedelta) -> int:
    """The midnight (UTC, ms) up to which versions have expired."""
    return (now - retention // timedelta(milliseconds=1)) // _DAY * _DAY


def expired_version(commits: Iterable[LogPath], cutoff: int) -> int | None:
    """The newest version that was committed at or before the cutoff; it was current then."""
    ordered = sorted(commits, key=lambda path: path.version)
    times = increasing([path.last_modified for path in ordered])
    return max((path.version for path, at in zip(ordered, times, strict=True) if at <= cutoff), default=None)


def _kept_version(
    directory: LogDirectory, properties: TableProperties, now: int, is_sound: Callable[[Checkpoint], bool]
) -> tuple[int | None, str]:
    """The version of the checkpoint that everything older can go for, and the reason in words."""
    listing = arrange(directory.files)
    cutoff = cleanup_cutoff(now, properties.log_retention)
    expired = expired_version(listing.commits.values(), cutoff)
    if expired is None:
        return None, "no version is older than the retention"
    protected = properties.get(CHECKPOINT_PROTECTION_VERSION)
    oldest = min((file.version for file in directory.files), default=0)
    for point in reversed(listing.checkpoints):
        if point.version > expired:
            continue
        if point.version < protected:
            return None, f"checkpoints before version {protected} are protected"
        if point.version <= oldest:
            return None, f"nothing is older than the checkpoint of version {point.version}"
        if is_sound(point):
            return point.version, f"version {expired} and later stay readable from checkpoint {point.version}"
    return None, f"there is no older checkpoint from which version {expired} could be read without them"


def _older(files: Iterable[LogPath], keep_from: int) -> list[LogPath]:
    """The files of versions before the one that is kept, oldest first; checkpoints last of their version."""
    older = [file for file in files if file.version < keep_from or _is_covered(file, keep_from)]
    return sorted(older, key=lambda file: (file.version, _rank(file.kind), file.name))


def _is_covered(file: LogPath, keep_from: int) -> bool:
    return file.kind is LogFileKind.COMPACTION and file.version <= keep_from


def _rank(kind: LogFileKind) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _orphan_sidecars(
    sidecars: Sequence[ObjectMeta],
    remaining: Sequence[LogPath],
    now: int,
    sidecars_of: Callable[[Sequence[LogPath]], Collection[str] | None],
) -> list[str]:
    """Sidecars older than a day that no remaining checkpoint names; a younger one may yet be named."""
    old = [meta for meta in sidecars if meta.last_modified < now - _ORPHAN_AGE]
    if not old:
        return []
    named = sidecars_of([file for file in remaining if _may_name_sidecars(file)])
    if named is None:
        return []
    return [meta.path for meta in old if meta.path not in named]


def _may_name_sidecars(file: LogPath) -> bool:
    return file.kind in (LogFileKind.CHECKPOINT, LogFileKind.UUID_CHECKPOINT)


def _leftovers(directory: LogDirectory, gone: Collection[str], now: int) -> list[str]:
    """Old temporary files, and Hadoop's hidden checksums of files that go."""
    hidden = {f".{name}.crc" for name in gone}
    return [
        meta.path
        for meta in directory.others
        if _name(meta) in hidden
        or (_TEMPORARY.fullmatch(_name(meta)) and meta.last_modified < now - _ORPHAN_AGE)
    ]


def _name(meta: ObjectMeta) -> str:
    return meta.path.rpartition("/")[2]


def prepare_cleanup(store: ObjectStore, properties: TableProperties, now: int) -> CleanupPlan:
    """List the log and plan its cleanup, reading the checkpoints that the plan rests on."""

    def sound(point: Checkpoint) -> bool:
        return is_sound_checkpoint(store, point)

    def named(files: Sequence[LogPath]) -> Collection[str] | None:
        return named_sidecars(store, files)

    return plan_cleanup(list_directory(store), properties, now, sound, named)


def execute_cleanup(store: ObjectStore, plan: CleanupPlan) -> int:
    """Delete the files of a plan in its order; returns how many."""
    for path in plan.paths:
        store.delete(path)
    return len(plan.paths)


def is_sound_checkpoint(store: ObjectStore, point: Checkpoint) -> bool:
    """Whether a checkpoint can be read to its last page, sidecars included."""
    fields = list(dict.fromkeys(leaf[0] for leaf in FILE_LEAVES))
    try:
        for rows in read_checkpoint(store, point).rows:
            if isinstance(rows, ParquetRows):
                for action in ("add", "remove"):
                    if rows.has(action, ("path",)):
                        for _ in rows.batches(action, fields, _BATCH_ROWS):
                            pass
    except CorruptCheckpointError:
        return False
    return True


def named_sidecars(store: ObjectStore, files: Sequence[LogPath]) -> set[str] | None:
    """The sidecars that checkpoint files name; `None` when one of the files cannot be read."""
    named: set[str] = set()
    for file in files:
        try:
            named |= _sidecars(store, file)
        except (DeltaError, ObjectNotFoundError):
            return None
    return named


def _sidecars(store: ObjectStore, file: LogPath) -> set[str]:
    if file.name.endswith(".json"):
        actions = decode_commit(store.get(file.path), file.version, file.path)
        return {sidecar_path(sidecar) for sidecar in actions.sidecars}
    rows = ParquetRows(store, file.path, file.size or None)
    return {
        sidecar_path(msgspec.convert(fields, Sidecar, strict=False))
        for _, fields in rows.structs(["sidecar"])
    }
