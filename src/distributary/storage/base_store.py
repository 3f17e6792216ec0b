"""What every store can do: the objects below one table root, by key.

A key is the decoded path of an object relative to the root, with ``/`` between segments and exactly
the characters that the object has (no escaping). Listings come in name order (code points, which is
UTF-8 byte order); a directory that does not exist is empty. Every failure is a typed error of
``distributary.errors`` that names root and key and never a secret.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from distributary.errors import InvalidInputError
from distributary.storage.location import Location, parse_root

if TYPE_CHECKING:
    import pyarrow as pa


class ObjectMeta(msgspec.Struct, frozen=True):
    """What a store tells about an object: key, bytes, time of last change (ms since 1970, UTC), etag."""

    path: str
    size: int
    last_modified: int
    etag: str | None = None


Reopen = Callable[[str, Sequence[str]], "ObjectStore"]
"""Opens another root, given its own allowed roots, with the options of the store that asks."""


class ObjectStore(ABC):
    """The objects below one root; safe to use from many threads."""

    is_remote: bool = False
    """Whether objects are reached over a network, where an answer can be lost."""

    def __init__(self, location: Location, allowed_roots: Sequence[str], reopen: Reopen) -> None:
        self.location = location
        self.root: str = location.uri
        self._reopen = reopen
        self._siblings: dict[str, ObjectStore] = {}
        self.allowed_roots: tuple[str, ...] = tuple(parse_root(allowed).uri for allowed in allowed_roots)

    @property
    def bucket(self) -> str:
        """The place whose rules hold for this store: all roots in it behave alike."""
        return f"{self.location.scheme}://{self.location.authority}"

    @abstractmethod
    def get(self, path: str) -> bytes:
        """The whole object."""

    @abstractmethod
    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer where the object ends before."""

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges of one object, in the order asked."""
        return [self.get_range(path, offset, length) for offset, length in ranges]

    def get_all(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked; fetched in parallel where that is faster."""
        return [self.get(path) for path in paths]

    @abstractmethod
    def head(self, path: str) -> ObjectMeta:
        """What is known about an object, without its content."""

    @abstractmethod
    def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
        """The files directly in ``directory`` whose name is ``name_after`` or greater, in name order."""

    @abstractmethod
    def list_all(self, directory: str = "") -> Iterator[ObjectMeta]:
        """Every file below ``directory``, at any depth."""

    @abstractmethod
    def list_directories(self, directory: str = "") -> list[str]:
        """The keys of the directories directly in ``directory``, in name order."""

    @abstractmethod
    def open_file(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The object as a file for pyarrow, read by ranges; ``size`` saves a request where it is known."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing one that is there; readers see the old or the new one, whole."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create an object exactly once, or raise ObjectExistsError; readers never see a part of it."""

    def put_hint(self, path: str, data: bytes) -> None:
        """Like ``put_if_absent``, for what can be made again: it may be lost when the power fails."""
        self.put_if_absent(path, data)

    def settle(self, path: str) -> None:
        """Make the name of an object durable that another writer may have created a moment ago."""
        del path

    @abstractmethod
    def open_output(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """A file to write a large object into, never held in memory whole.

        The object is created exactly once, like by ``put_if_absent``, when the block ends; an error
        in the block leaves nothing behind. Only a large object on a cloud may replace one that another
        writer creates in that very moment: its key should be one that nobody else writes.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove an object; one that is not there is no error."""

    def local_path(self, path: str) -> Path | None:
        """Where the object lies on this machine's disk, or None for a store that is no disk."""
        del path
        return None

    def sibling(self, root: str) -> ObjectStore:
        """The store of another root, opened with the same options."""
        store = self._siblings.get(root)
        if store is None:
            store = self._siblings[root] = self._reopen(root, (self.root, *self.allowed_roots))
        return store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"


def checked_key(path: str) -> str:
    """The key as given, refused where it is empty, rooted, climbing or no text a store can hold."""
    segments = path.split("/")
    if "\0" in path or any(segment in ("", ".", "..") for segment in segments):
        raise InvalidInputError(f"Not a key of an object: {path!r} (no empty, '.' or '..' segments)")
    return path
