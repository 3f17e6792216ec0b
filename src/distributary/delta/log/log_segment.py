"""The log segment: which files of the log make up one version.

Implements S4 "Finding the start point" (LR-060 to LR-063): the newest complete checkpoint
at or before the version, and every commit after it. The choice uses names only. The ladder
is hint → listing → older complete checkpoint → JSON from 0: a caller that finds a
checkpoint unreadable asks again `without` it. A missing commit is a `LogGapError` (LR-028).
Compacted logs are recognised and left aside: replaying the commits is always right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from distributary.delta.errors import LogGapError, TableNotFoundError, VersionNotFoundError
from distributary.delta.log.last_checkpoint import read_last_checkpoint
from distributary.delta.log.log_path import (
    LOG_DIRECTORY,
    LogFileKind,
    LogPath,
    commit_path,
    parse_log_path,
)
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore


class Checkpoint(msgspec.Struct, frozen=True):
    """A complete checkpoint: one file, or all parts of a multi-part one."""

    version: int
    files: tuple[LogPath, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its files."""
        return frozenset(file.name for file in self.files)


class LogListing(msgspec.Struct, frozen=True):
    """The log files found from one name onwards."""

    commits: dict[int, LogPath]
    checkpoints: tuple[Checkpoint, ...]
    checksums: dict[int, LogPath]

    @property
    def latest_version(self) -> int:
        """The newest version that a commit or a complete checkpoint shows; -1 for none."""
        newest = max(self.commits, default=-1)
        return max([newest, *(checkpoint.version for checkpoint in self.checkpoints)])


class LogSegment(msgspec.Struct, frozen=True):
    """The files that together give one version of the table."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogPath, ...]
    tip: LogPath | None = None
    """The commit of the version itself, where the log still has it, even if the checkpoint replaces it."""

    @property
    def last_modified(self) -> int:
        """When the newest file of the segment was written, in milliseconds."""
        files = self.commits or (self.checkpoint.files if self.checkpoint else ())
        return max((file.last_modified for file in files), default=0)


def list_log(store: ObjectStore, from_version: int = 0) -> LogListing:
    """List the log from a version onwards."""
    return arrange(_log_paths(store, from_version))


def _log_paths(store: ObjectStore, from_version: int) -> Iterator[LogPath]:
    try:
        for meta in store.list_from(LOG_DIRECTORY, f"{from_version:020d}"):
            parsed = parse_log_path(meta.path.rpartition("/")[2], meta.size, meta.last_modified, meta.etag)
            if parsed is not None:
                yield parsed
    except ObjectNotFoundError:
        return


def arrange(paths: Iterable[LogPath]) -> LogListing:
    """Sort log files by what they are; keep only complete checkpoints (LR-062, CK-006)."""
    commits: dict[int, LogPath] = {}
    checksums: dict[int, LogPath] = {}
    singles: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, LogPath]] = defaultdict(dict)
    for path in paths:
        match path.kind:
            case LogFileKind.COMMIT:
                commits[path.version] = path
            case LogFileKind.CHECKSUM:
                checksums[path.version] = path
            case LogFileKind.CHECKPOINT | LogFileKind.UUID_CHECKPOINT:
                singles.append(Checkpoint(path.version, (path,)))
            case LogFileKind.MULTI_PART_CHECKPOINT:
                parts[path.version, path.parts][path.part] = path
            case LogFileKind.COMPACTION:
                pass
    complete = [
        Checkpoint(version, tuple(found[part] for part in sorted(found)))
        for (version, total), found in parts.items()
        if len(found) == total and min(found) == 1 and max(found) == total
    ]
    ordered = sorted([*complete, *singles], key=lambda checkpoint: checkpoint.version)
    return LogListing(commits, tuple(ordered), checksums)


def find_segment(
    store: ObjectStore, version: int | None = None, without: frozenset[str] = frozenset()
) -> LogSegment:
    """Choose the segment of a version (the latest by default), avoiding the files `without`."""
    hint = read_last_checkpoint(store)
    if hint is not None and hint.version > 0 and (version is None or hint.version <= version):
        listing = list_log(store, hint.version)
        if any(_usable(point, version, without) for point in listing.checkpoints):
            return choose_segment(listing, version, without, store.root)
    return choose_segment(list_log(store), version, without, store.root)


def _usable(checkpoint: Checkpoint, version: int | None, without: frozenset[str]) -> bool:
    return (version is None or checkpoint.version <= version) and not checkpoint.names & without


def choose_segment(
    listing: LogListing, version: int | None, without: frozenset[str], root: str
) -> LogSegment:
    """Choose the newest usable checkpoint and the commits after it."""
    latest = listing.latest_version
    if latest < 0:
        raise TableNotFoundError(f"no Delta table at {root}: there is no log under {LOG_DIRECTORY}")
    target = latest if version is None else version
    if not 0 <= target <= latest:
        raise VersionNotFoundError(f"{root} has no version {target}: the latest is {latest}")
    usable = [point for point in listing.checkpoints if _usable(point, target, without)]
    checkpoint = usable[-1] if usable else None
    start = checkpoint.version + 1 if checkpoint else 0
    missing = next((number for number in range(start, target + 1) if number not in listing.commits), None)
    if missing is not None:
        _refuse_gap(listing, start, target, missing, root)
    commits = tuple(listing.commits[number] for number in range(start, target + 1))
    return LogSegment(target, checkpoint, commits, listing.commits.get(target))


def _refuse_gap(listing: LogListing, start: int, target: int, missing: int, root: str) -> None:
    earliest = _earliest_version(listing)
    if start == 0 and earliest is not None and target < earliest:
        raise VersionNotFoundError(
            f"{root} cannot show version {target} any more: its log was cleaned up; "
            f"the oldest version is {earliest}"
        )
    raise LogGapError(
        f"version {missing} is missing, so version {target} of {root} cannot be rebuilt; "
        "restore the file, or read a version before the gap",
        path=commit_path(missing),
    )


def _earliest_version(listing: LogListing) -> int | None:
    """The oldest version that can be rebuilt: 0, or the oldest complete checkpoint."""
    if 0 in listing.commits:
        return 0
    return listing.checkpoints[0].version if listing.checkpoints else None
