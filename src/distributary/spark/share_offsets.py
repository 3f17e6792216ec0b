"""How far a stream has read a shared table.

The files of a table stand in one order that never changes: those of the first snapshot, then those that
each later version adds, by version; within one of these by the id that the server gives them. A position
is the place of the next file in that order, so equal positions mean equal rows, whenever and wherever they
are read: after a failure the same files are read for the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from distributary.client.table_answer import SharedFile
from distributary.errors import DistributaryError, InvalidInputError

_FORM = 1


class StreamPosition(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The next file to read: by version and index; in the whole snapshot of that version, or in its adds."""

    form: int = _FORM
    table_id: str
    version: int
    index: int = 0
    snapshot: bool = False

    def to_offset(self) -> dict[str, Any]:
        """The position as Spark keeps it in checkpoints."""
        return msgspec.to_builtins(self)

    def after_version(self, version: int) -> StreamPosition:
        """The first file behind a version."""
        return StreamPosition(table_id=self.table_id, version=version + 1)


def read_offset(offset: dict[str, Any]) -> StreamPosition:
    """The position of an offset from a checkpoint."""
    try:
        position = msgspec.convert(offset, StreamPosition)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            f"the checkpoint is not of such a stream: {error}. Use another checkpoint location"
        ) from None
    if position.form > _FORM:
        raise InvalidInputError("the checkpoint was written by a newer distributary: upgrade this one")
    return position


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """What a stream reads of one version, in order; or why it cannot."""

    version: int
    files: tuple[SharedFile, ...] = ()
    snapshot: bool = False
    problem: DistributaryError | None = None


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """How much one batch may read; at least one file, or one version where versions are read whole."""

    files: int | None = None
    size: int | None = None

    def admits(self, files: int, size: int) -> bool:
        """Whether so many files of so many bytes together may be read."""
        return (self.files is None or files <= self.files) and (self.size is None or size <= self.size)


def advanced(
    start: StreamPosition, versions: Iterable[VersionFiles], limit: BatchLimit, *, whole: bool
) -> StreamPosition:
    """Where a batch that begins at a position ends; `whole` never ends it inside a version.

    A version that cannot be read ends the batch before it; it is an error where it would be the first.
    """
    position, files, size = start, 0, 0
    for found in versions:
        if found.problem is not None:
            if position == start:
                raise found.problem
            return position
        first = start.index if found.version == start.version else 0
        left = found.files[first:]
        for at, unit in enumerate([left] if whole else [(file,) for file in left], first):
            more = sum(file.action.size or 0 for file in unit)
            if files and not limit.admits(files + len(unit), size + more):
                return StreamPosition(
                    table_id=start.table_id, version=found.version, index=at, snapshot=found.snapshot
                )
            files, size = files + len(unit), size + more
        position = start.after_version(found.version)
    return position


def between(start: StreamPosition, end: StreamPosition, versions: Iterable[VersionFiles]) -> list[SharedFile]:
    """The files from one position up to another."""
    chosen: list[SharedFile] = []
    for found in versions:
        first = start.index if found.version == start.version else 0
        last = end.index if found.version == end.version else len(found.files)
        if found.version <= end.version:
            chosen.extend(found.files[first:last])
    return chosen
