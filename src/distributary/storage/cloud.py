"""Tables on S3, Azure and GCS, through obstore.

Keys are the objects' own keys, unescaped; obstore escapes them on the wire. obstore's own retries are
off: reads, listings and plain writes are repeated here a few times with jitter when the store throttles
or does not answer, ``put_if_absent`` is sent once, since a lost answer must be settled by reading back
(DESIGN, Commit). An unreachable endpoint fails within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

import obstore
import pyarrow as pa
import stamina

from distributary.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)
from distributary.storage.base_store import ObjectMeta, ObjectStore, Reopen, checked_key
from distributary.storage.cloud_errors import is_beyond_end, is_conflict, typed_error
from distributary.storage.cloud_identity import KeySource
from distributary.storage.location import Location
from distributary.storage.ranged_file import READ_AHEAD, RangedFile

T = TypeVar("T")

_HELD_IN_MEMORY = 32 << 20
_REPEATED = (ThrottledError, StorageUnreachableError)
# Retries are logged by stamina; without a logging set-up they shall not appear on the terminal.
logging.getLogger("stamina").addHandler(logging.NullHandler())


class CloudStore(ObjectStore):
    """The objects below one prefix of a bucket or container."""

    is_remote = True

    def __init__(
        self,
        location: Location,
        client: Any,
        max_concurrency: int,
        allowed_roots: Sequence[str],
        reopen: Reopen,
        keys: KeySource | None = None,
    ) -> None:
        super().__init__(location, allowed_roots, reopen)
        self._client = client
        self.keys = keys
        """The keys that sign requests to S3, where they are known here."""
        self._max_concurrency = max_concurrency
        self._prefix = f"{location.path}/" if location.path else ""

    @property
    def bucket(self) -> str:
        endpoint = self._client.config.get("endpoint", "")
        return f"{super().bucket} {endpoint}"

    @property
    def client(self) -> Any:
        """obstore's own store."""
        return self._client

    def object_key(self, path: str) -> str:
        """The key of an object in its bucket."""
        return self._key(path)

    def get(self, path: str) -> bytes:
        key = self._key(path)
        return self._retried(path, lambda: obstore.get(self._client, key).bytes().to_bytes())

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)

        def fetch() -> bytes:
            try:
                return obstore.get_range(self._client, key, start=offset, length=length).to_bytes()
            except Exception as error:
                if is_beyond_end(error):
                    return b""
                raise

        return self._retried(path, fetch) if length else b""

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return list(self._pool().map(lambda part: self.get_range(path, *part), ranges))

    def get_all(self, paths: Sequence[str]) -> list[bytes]:
        return list(self._pool().map(self.get, paths))

    def head(self, path: str) -> ObjectMeta:
        key = self._key(path)
        return self._meta(self._retried(path, lambda: obstore.head(self._client, key)))

    def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        # The offset of a store is exclusive: one character less begins before the name that is asked for.
        for meta in self._listed(directory, prefix + name_after[:-1] if len(name_after) > 1 else None):
            name = meta.path[len(prefix) :]
            if "/" not in name and name >= name_after:
                yield meta

    def list_all(self, directory: str = "") -> Iterator[ObjectMeta]:
        return self._listed(directory, None)

    def list_directories(self, directory: str = "") -> list[str]:
        prefix = self._directory(directory)
        found = self._retried(directory, lambda: obstore.list_with_delimiter(self._client, prefix))
        return sorted(name[len(self._prefix) :] for name in found["common_prefixes"])

    def open_file(self, path: str, size: int | None = None) -> pa.NativeFile:
        def fetch(offset: int, length: int) -> bytes:
            return self.get_range(path, offset, length)

        if size is None:
            size, tail = self._tail(path)
            return pa.PythonFile(RangedFile(fetch, size, tail), mode="r")
        return pa.PythonFile(RangedFile(fetch, size), mode="r")

    def put(self, path: str, data: bytes) -> None:
        key = self._key(path)
        self._retried(path, lambda: obstore.put(self._client, key, data, mode="overwrite"))

    def put_if_absent(self, path: str, data: bytes) -> None:
        key = self._key(path)
        for attempt in stamina.retry_context(on=ThrottledError, attempts=5, timeout=20, wait_max=2):
            with attempt:
                try:
                    obstore.put(self._client, key, data, mode="create", use_multipart=False)
                except Exception as error:
                    raise self._refused(error, path) from None

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        with SpooledTemporaryFile(_HELD_IN_MEMORY) as spool:
            yield spool
            if spool.tell() <= _HELD_IN_MEMORY:
                spool.seek(0)
                self.put_if_absent(path, spool.read())
            else:
                self._upload(path, spool)

    def delete(self, path: str) -> None:
        key = self._key(path)
        try:
            self._retried(path, lambda: obstore.delete(self._client, key))
        except ObjectNotFoundError:
            return

    def _upload(self, path: str, spool: IO[bytes]) -> None:
        """Send a large object in parts; only a plain put can have the condition, so it is asked before."""
        key = self._key(path)
        try:
            self.head(path)
        except ObjectNotFoundError:
            pass
        else:
            raise ObjectExistsError(f"{path} in {self.root} exists already; it is not overwritten")

        def send() -> None:
            spool.seek(0)
            obstore.put(self._client, key, spool, use_multipart=True)

        self._retried(path, send)

    def _key(self, path: str) -> str:
        return self._prefix + checked_key(path)

    def _directory(self, directory: str) -> str | None:
        return (self._prefix + directory).rstrip("/") or None

    def _pool(self) -> ThreadPoolExecutor:
        return _pool_of(self._max_concurrency)

    def _meta(self, meta: Any) -> ObjectMeta:
        changed = int(meta["last_modified"].timestamp() * 1000)
        etag = meta["e_tag"]
        return ObjectMeta(meta["path"][len(self._prefix) :], meta["size"], changed, etag and etag.strip('"'))

    def _listed(self, directory: str, offset: str | None) -> Iterator[ObjectMeta]:
        """The objects below a directory, page by page; after a failure it goes on where it was."""
        last = None if offset is None else self._prefix + offset
        stream: Any = None

        def next_page() -> Any:
            nonlocal stream
            if stream is None:
                stream = obstore.list(self._client, self._directory(directory), offset=last, chunk_size=1000)
            try:
                return next(stream, None)
            except Exception:
                stream = None
                raise

        while (page := self._retried(directory, next_page)) is not None:
            for meta in page:
                last = meta["path"]
                yield self._meta(meta)

    def _tail(self, path: str) -> tuple[int, bytes]:
        """The size of an object and its last bytes, in one request where the store can do that."""
        key = self._key(path)

        def fetch() -> tuple[int, bytes]:
            found = obstore.get(self._client, key, options={"range": {"suffix": READ_AHEAD}})
            return found.meta["size"], found.bytes().to_bytes()

        try:
            return self._retried(path, fetch)
        except (ObjectNotFoundError, AccessDeniedError, ThrottledError, StorageUnreachableError):
            raise
        except StorageError:  # Azure has no such ranges, and an empty object has no last bytes.
            return self.head(path).size, b""

    def _refused(self, error: Exception, path: str) -> Exception:
        """Why a create-once failed; a conflict without an object is another writer under way (409)."""
        if not is_conflict(error):
            return typed_error(error, self.root, path)
        try:
            self.head(path)
        except ObjectNotFoundError:
            return ThrottledError(f"Another writer is creating {path} in {self.root}: try again")
        return ObjectExistsError(f"{path} in {self.root} exists already; it is not overwritten")

    def _retried(self, path: str, request: Callable[[], T]) -> T:
        """The answer to a request that may be repeated, or the typed error of the last try."""
        try:
            return request()  # most succeed at once, and do without the cost of a loop
        except Exception as error:
            failed = typed_error(error, self.root, path)
        if not isinstance(failed, _REPEATED):
            raise failed from None
        for attempt in stamina.retry_context(
            on=_REPEATED, attempts=4, timeout=15, wait_initial=0.1, wait_max=3
        ):
            with attempt:
                if attempt.num == 1:
                    raise failed
                try:
                    return request()
                except Exception as error:
                    raise typed_error(error, self.root, path) from None
        raise AssertionError("unreachable: the last attempt returns or raises")


@lru_cache(maxsize=8)
def _pool_of(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="distributary-storage")
