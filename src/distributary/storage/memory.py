"""Tables in the memory of this process: ``memory://name[/prefix]``.

All stores of the same name share their objects until the process ends. Meant for tests, examples and
small throw-away tables.
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import pyarrow as pa

from distributary.errors import ObjectExistsError, ObjectNotFoundError
from distributary.storage.base_store import ObjectMeta, ObjectStore, Reopen, checked_key
from distributary.storage.location import Location

_volumes: dict[str, dict[str, tuple[bytes, int]]] = {}
_lock = threading.Lock()


class Memory(ObjectStore):
    """The objects below one prefix of a named volume."""

    def __init__(self, location: Location, allowed_roots: Sequence[str], reopen: Reopen) -> None:
        super().__init__(location, allowed_roots, reopen)
        self._prefix = f"{location.path}/" if location.path else ""
        with _lock:
            self._objects = _volumes.setdefault(location.authority, {})

    def get(self, path: str) -> bytes:
        return self._entry(path)[0]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.get(path)[offset : offset + length]

    def head(self, path: str) -> ObjectMeta:
        return _meta(path, self._entry(path))

    def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
        start = len(directory) + 1 if directory else 0
        for meta in self.list_all(directory):
            name = meta.path[start:]
            if name >= name_after and "/" not in name:
                yield meta

    def list_all(self, directory: str = "") -> Iterator[ObjectMeta]:
        prefix = self._prefix + (f"{directory}/" if directory else "")
        with _lock:
            found = sorted((key, entry) for key, entry in self._objects.items() if key.startswith(prefix))
        for key, entry in found:
            yield _meta(key[len(self._prefix) :], entry)

    def list_directories(self, directory: str = "") -> list[str]:
        prefix = f"{directory}/" if directory else ""
        nested = (meta.path[len(prefix) :].partition("/") for meta in self.list_all(directory))
        return sorted({prefix + name for name, slash, _ in nested if slash})

    def open_file(self, path: str, size: int | None = None) -> pa.NativeFile:
        del size
        return pa.BufferReader(self.get(path))

    def put(self, path: str, data: bytes) -> None:
        with _lock:
            self._objects[self._key(path)] = (bytes(data), _now())

    def put_if_absent(self, path: str, data: bytes) -> None:
        key = self._key(path)
        with _lock:
            if key in self._objects:
                raise ObjectExistsError(f"{path} in {self.root} exists already; it is not overwritten")
            self._objects[key] = (bytes(data), _now())

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        output = io.BytesIO()
        yield output
        self.put_if_absent(path, output.getvalue())

    def delete(self, path: str) -> None:
        with _lock:
            self._objects.pop(self._key(path), None)

    def _key(self, path: str) -> str:
        return self._prefix + checked_key(path)

    def _entry(self, path: str) -> tuple[bytes, int]:
        try:
            return self._objects[self._key(path)]
        except KeyError:
            raise ObjectNotFoundError(f"There is no {path} in {self.root}: check the path") from None


def _meta(path: str, entry: tuple[bytes, int]) -> ObjectMeta:
    data, written = entry
    etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return ObjectMeta(path, len(data), written, etag)


def _now() -> int:
    return time.time_ns() // 1_000_000
