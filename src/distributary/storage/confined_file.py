"""A file opened beneath a directory and nowhere else (RELIABILITY F1).

The path is walked segment by segment, each opened relative to the one before and never through a symbolic
link, so neither `..` nor a link (also one put there between a check and the opening) leads outside. What
is opened in the end must be a regular file: devices, pipes and directories are refused. Every refusal is
the same `ObjectNotFoundError`, so an answer does not tell what lies outside.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from distributary.errors import ObjectNotFoundError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_KEY = 4096


@dataclass(slots=True)
class ConfinedFile:
    """An open regular file; `descriptor` belongs to it until `close`."""

    descriptor: int
    size: int
    modified_ns: int
    inode: int

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from an offset; shorter only at the end of the file."""
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def open_confined(root: str, key: str) -> ConfinedFile:
    """Open the file `key` beneath the directory `root`; the caller closes it."""
    segments = key.split("/")
    if not _is_plain(key, segments):
        raise _missing()
    try:
        with _directory(root, segments[:-1]) as folder:
            return _opened(os.open(segments[-1], _FILE, dir_fd=folder))
    except (OSError, ValueError) as error:
        raise _missing() from error


def _is_plain(key: str, segments: list[str]) -> bool:
    """Whether a key has only ordinary segments."""
    if len(key) > _MAX_KEY or "\0" in key or "\\" in key:
        return False
    return all(segment not in ("", ".", "..") for segment in segments)


@contextmanager
def _directory(root: str, segments: list[str]) -> Iterator[int]:
    """Walk down to a directory; only the root itself may be reached through links."""
    current = os.open(root, _DIRECTORY)
    try:
        for segment in segments:
            below = os.open(segment, _DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        with suppress(OSError):
            os.close(current)


def _opened(descriptor: int) -> ConfinedFile:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise _missing()
    return ConfinedFile(descriptor, facts.st_size, facts.st_mtime_ns, facts.st_ino)


def _missing() -> ObjectNotFoundError:
    return ObjectNotFoundError("There is no such file in the table.")
