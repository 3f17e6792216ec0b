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
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from distributary.delta.errors import CorruptLogError, VersionNotFoundError
from distributary.delta.log.actions import CommitActions, decode_commit
from distributary.delta.log.log_path import LogPath, commit_path
from distributary.delta.log.log_segment import LogListing, list_log
from distributary.delta.log.snapshot import Snapshot
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore


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
        self._refuse_outside(timestamp, now)
        split = self._split()
        if split < len(self.versions) and timestamp >= self._in_commit_start(split):
            low, high = split, len(self.versions)
        else:
            low, high = 0, split
        return self.versions[self._last_at_or_before(timestamp, low, high)]

    def first_version_from(self, timestamp: int) -> int | None:
        """The oldest version committed at or after a time; `None` where all are older."""
        at = bisect.bisect_left(self.versions, timestamp, key=self.time_of)
        return self.versions[at] if at < len(self.versions) else None

    def _split(self) -> int:
        """The position of the first version that carries its own time."""
        if self.in_commit_from is None or not self.versions:
            return len(self.versions)
        return min(max(self.in_commit_from - self.versions[0], 0), len(self.versions))

    def _in_commit_start(self, split: int) -> int:
        if split == 0:
            return self.time_of(self.versions[0])
        return self.in_commit_since if self.in_commit_since is not None else self.time_of(self.versions[split])

    def _last_at_or_before(self, timestamp: int, low: int, high: int) -> int:
        start = low
        while low < high:
            middle = (low + high) // 2
            if self.time_of(self.versions[middle]) <= timestamp:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, start)

    def _refuse_outside(self, timestamp: int, now: int | None) -> None:
        if not self.versions or timestamp < (first := self.time_of(self.versions[0])):
            oldest = "" if not self.versions else f": the oldest version, {self.versions[0]}, is of {_iso(first)}"
            raise VersionNotFoundError(f"there is no version at or before {_iso(timestamp)}{oldest}")
        if timestamp > (int(time.time() * 1000) if now is None else now) and (
            timestamp > (last := self.time_of(self.versions[-1]))
        ):
            raise VersionNotFoundError(
                f"{_iso(timestamp)} is in the future; the latest version, {self.versions[-1]}, is of {_iso(last)}"
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
    if 0 in listing.commits:
        oldest = 0
    else:
        oldest = min((point.version for point in listing.checkpoints), default=0)
    paths: list[LogPath] = []
    version = last
    while version >= oldest and version in listing.commits:
        paths.append(listing.commits[version])
        version -= 1
    return paths[::-1]


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


def history(store: ObjectStore, snapshot: Snapshot, limit: int | None = None) -> list[HistoryEntry]:
    """The commits up to a snapshot, newest first."""
    times = timeline(store, snapshot)
    versions = list(reversed(times.versions))[:limit]
    data = store.get_all([commit_path(version) for version in versions])
    commits = [
        decode_commit(text, version, commit_path(version))
        for text, version in zip(data, versions, strict=True)
    ]
    return [HistoryEntry(commit.version, times.time_of(commit.version), commit.commit_info) for commit in commits]


def _iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
