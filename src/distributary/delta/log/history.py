"""History: when each version was committed, by whom, and which version held at a time.

The one place that turns versions into times. From the version at which in-commit
timestamps were enabled, the time is the one that the commit itself carries; before it, the
modification time of the commit file, made strictly increasing so that travel by time is
monotonic even when clocks went backwards or files were copied. Commit provenance is never
needed to read a table (LR-048).
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from distributary.delta.errors import CorruptLogError, VersionNotFoundError
from distributary.delta.log.actions import CommitActions, decode_commit
from distributary.delta.log.log_path import LogPath, commit_path
from distributary.delta.log.log_segment import LogListing, list_log
from distributary.delta.log.snapshot import Snapshot
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore

_FETCHED_AT_ONCE = 8


class HistoryEntry(msgspec.Struct, frozen=True):
    """One commit: its version, its time in milliseconds, and what its writer said of it."""

    version: int
    timestamp: int
    commit_info: dict[str, Any]

    @property
    def operation(self) -> str | None:
        """What the writer did, e.g. WRITE or MERGE."""
        return self.commit_info.get("operation")


class Timeline(msgspec.Struct, frozen=True):
    """The versions that can be shown, with their times."""

    versions: tuple[int, ...]
    file_times: tuple[int, ...]
    in_commit_from: int | None
    in_commit_since: int | None
    read_in_commit_time: Callable[[int], int]

    def time_of(self, version: int) -> int:
        """When a version was committed, in milliseconds since the epoch."""
        if self.in_commit_from is not None and version >= self.in_commit_from:
            return self.read_in_commit_time(version)
        if not self.versions or not self.versions[0] <= version <= self.versions[-1]:
            raise VersionNotFoundError(f"the log has no time for version {version} any more")
        return self.file_times[version - self.versions[0]]

    def version_at(self, timestamp: int, now: int | None = None) -> int:
        """The newest version committed at or before a time.

        A time after the last commit gives the last version, as long as it has passed: what
        held then is settled. A future time is refused, because it is not.
        """
        if not self.versions:
            raise VersionNotFoundError(f"there is no version at or before {_iso(timestamp)}")
        low, high = self._span(timestamp)
        self._refuse_outside(timestamp, low, now)
        after = bisect.bisect_right(self.versions, timestamp, low, high, key=self.time_of)
        return self.versions[max(after - 1, low)]

    def first_version_from(self, timestamp: int) -> int | None:
        """The oldest version committed at or after a time; `None` where all are older."""
        low, high = self._span(timestamp)
        at = bisect.bisect_left(self.versions, timestamp, low, high, key=self.time_of)
        return self.versions[at] if at < len(self.versions) else None

    def _span(self, timestamp: int) -> tuple[int, int]:
        """The positions of the versions among which a time is looked for.

        Times of files and times in commits are of different clocks and are never compared:
        a time from the enablement of in-commit timestamps on is looked for after it only.
        """
        split = self._split()
        if 0 < split < len(self.versions):
            return (split, len(self.versions)) if timestamp >= self._in_commit_start(split) else (0, split)
        return 0, len(self.versions)

    def _split(self) -> int:
        """The position of the first version that carries its own time."""
        if self.in_commit_from is None or not self.versions:
            return len(self.versions)
        return min(max(self.in_commit_from - self.versions[0], 0), len(self.versions))

    def _in_commit_start(self, split: int) -> int:
        return (
            self.in_commit_since if self.in_commit_since is not None else self.time_of(self.versions[split])
        )

    def _refuse_outside(self, timestamp: int, low: int, now: int | None) -> None:
        first, last = self.time_of(self.versions[0]), self.time_of(self.versions[-1])
        if low == 0 and timestamp < first:
            raise VersionNotFoundError(
                f"there is no version at or before {_iso(timestamp)}: the oldest, {self.versions[0]}, "
                f"is of {_iso(first)}"
            )
        if timestamp > max(last, int(time.time() * 1000) if now is None else now):
            raise VersionNotFoundError(
                f"{_iso(timestamp)} is in the future; the latest version, {self.versions[-1]}, "
                f"is of {_iso(last)}"
            )


def timeline(store: ObjectStore, snapshot: Snapshot) -> Timeline:
    """The times of all versions that the log can still show, up to the snapshot's."""
    listing = list_log(store)
    paths = _showable_commits(listing, snapshot.version)
    settings = snapshot.properties.in_commit_timestamps
    return Timeline(
        versions=tuple(path.version for path in paths),
        file_times=increasing([path.last_modified for path in paths]),
        in_commit_from=(settings.enablement_version or 0) if settings.enabled else None,
        in_commit_since=settings.enablement_timestamp if settings.enabled else None,
        read_in_commit_time=_reader(store),
    )


def _showable_commits(listing: LogListing, last: int) -> list[LogPath]:
    """The commits that end at `last` without a gap and whose version can be rebuilt."""
    paths: list[LogPath] = []
    version = last
    while version in listing.commits:
        paths.append(listing.commits[version])
        version -= 1
    starts = [point.version for point in listing.checkpoints if point.version >= version]
    oldest = 0 if version < 0 else min(starts, default=0)
    return [path for path in reversed(paths) if path.version >= oldest]


def increasing(times: Sequence[int]) -> tuple[int, ...]:
    """Each time, or one millisecond after the one before where that is later."""
    result: list[int] = []
    for moment in times:
        result.append(moment if not result else max(moment, result[-1] + 1))
    return tuple(result)


def _reader(store: ObjectStore) -> Callable[[int], int]:
    known: dict[int, int] = {}

    def read(version: int) -> int:
        if version not in known:
            known[version] = in_commit_time(read_commit(store, version))
        return known[version]

    return read


def in_commit_time(commit: CommitActions) -> int:
    """The time that a commit carries, required once the table has the feature."""
    found = commit.in_commit_timestamp
    if found is None:
        raise CorruptLogError(
            "commitInfo has no inCommitTimestamp, though the table requires it",
            path=commit_path(commit.version),
        )
    return found


def read_commit(store: ObjectStore, version: int) -> CommitActions:
    """Read one commit by its version."""
    path = commit_path(version)
    try:
        return decode_commit(store.get(path), version, path)
    except ObjectNotFoundError as error:
        raise VersionNotFoundError(
            f"the commit of version {version} is not in the log of {store.root} any more"
        ) from error


def read_commits_in_turn(store: ObjectStore, versions: Sequence[int]) -> Iterator[CommitActions]:
    """Read the commits of versions in the order given, fetching a few at once."""
    for start in range(0, len(versions), _FETCHED_AT_ONCE):
        some = versions[start : start + _FETCHED_AT_ONCE]
        paths = [commit_path(version) for version in some]
        try:
            contents = store.get_all(paths)
        except ObjectNotFoundError:  # one by one, so that the error names the version
            yield from (read_commit(store, version) for version in some)
            continue
        for version, path, data in zip(some, paths, contents, strict=True):
            yield decode_commit(data, version, path)


def history(store: ObjectStore, snapshot: Snapshot, limit: int | None = None) -> list[HistoryEntry]:
    """The commits up to a snapshot, newest first."""
    times = timeline(store, snapshot)
    versions = list(reversed(times.versions))[:limit]
    return [
        HistoryEntry(commit.version, times.time_of(commit.version), commit.commit_info)
        for commit in _read_newest_first(store, versions)
    ]


def _read_newest_first(store: ObjectStore, versions: Sequence[int]) -> list[CommitActions]:
    """The commits of versions, newest first, as far as they are not cleaned up meanwhile."""
    try:
        data = store.get_all([commit_path(version) for version in versions])
    except ObjectNotFoundError:
        return _read_while_there(store, versions)
    return [
        decode_commit(text, version, commit_path(version))
        for text, version in zip(data, versions, strict=True)
    ]


def _read_while_there(store: ObjectStore, versions: Sequence[int]) -> list[CommitActions]:
    commits: list[CommitActions] = []
    for version in versions:
        try:
            commits.append(read_commit(store, version))
        except VersionNotFoundError:
            break
    return commits


def _iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms after 1970"
