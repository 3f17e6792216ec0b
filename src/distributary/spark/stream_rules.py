"""What a stream gives of a version: the files that it adds; and what it does about versions that do more.

A stream hands rows out once and cannot take them back. So a version that changed or removed rows stops it,
unless its rules say that such versions are passed over, or that rows of rewritten files may come again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distributary.client.table_answer import SharedFile
from distributary.delta.log.actions import Add
from distributary.errors import DistributaryError
from distributary.spark.errors import StreamSourceChangedError
from distributary.spark.share_offsets import VersionFiles


@dataclass(frozen=True, slots=True)
class StreamRules:
    """What a stream does about versions that do more than add rows."""

    changes: bool = False
    """Read changes, in which rows that were changed or removed have their place."""
    skip_change_commits: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    versions_at_once: int = 100
    version_seconds: float = 10.0
    """How long the latest version is believed before the server is asked again."""

    def files_of(
        self, version: int, actions: Iterable[SharedFile], problem: DistributaryError | None, where: str
    ) -> VersionFiles:
        """The files of a version that a stream gives, in their order, or why it cannot."""
        files = ordered(actions)
        if self.changes:
            return VersionFiles(version, files, problem=problem)
        adds = tuple(file for file in files if isinstance(file.action, Add))
        if len(adds) == len(files):
            return VersionFiles(version, adds, problem=problem)
        if self.skip_change_commits:
            return VersionFiles(version, problem=problem)
        return VersionFiles(version, adds, problem=problem or self._problem(version, bool(adds), where))

    def _problem(self, version: int, has_adds: bool, where: str) -> DistributaryError | None:
        if self.ignore_changes or (self.ignore_deletes and not has_adds):
            return None
        what, also = ("changed", "") if has_adds else ("removed", "ignoreDeletes to pass over removed rows, ")
        return StreamSourceChangedError(
            f"{where}: version {version} {what} rows that a stream may have given before. Read "
            "the changes (readChangeFeed=true), or set skipChangeCommits to pass over such versions, "
            f"{also}or ignoreChanges to get the rows of rewritten files again"
        )


def ordered(files: Iterable[SharedFile]) -> tuple[SharedFile, ...]:
    """Files in the order in which every stream reads them."""
    return tuple(sorted(files, key=lambda file: (file.action.path, type(file.action).__name__)))
