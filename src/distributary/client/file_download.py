"""The bytes of a shared table's files: fresh URLs, whole small files, ranges of large ones.

`FileSource` is what the Delta reader gets as its `open_file`. Small files come whole in one request; of
large ones only the ranges that are needed. A URL that has expired, or is about to, is replaced: one
thread asks the server again while the others wait (CL-017). A body that was cut is resumed where it
broke. A file that has another size than the server said is an error, never a shorter one.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from distributary.client.connection import ConnectionSettings, Retry, retry_after
from distributary.client.disk_cache import DiskCache
from distributary.client.errors import FileDownloadError
from distributary.client.http_files import FileConnections, FileReply
from distributary.client.table_answer import FileUrl
from distributary.delta.scan.arrow_reader import FileAccess
from distributary.storage.ranged_file import RangedFile

WHOLE_BYTES: Final = 1 << 20
"""Files up to this size are fetched in one request, whatever part of them is needed."""

# URLs are not used in the last moments of their life: the request itself takes time.
_MARGIN_MS: Final = 1000
_TAIL_BYTES: Final = 128 * 1024
_PART_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 256 << 10
_MOST_REFRESHES: Final = 3
_MAYBE_EXPIRED: Final = (400, 401, 403, 404, 410)
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")

Urls = Mapping[str, FileUrl]


class FileUrls:
    """The URLs of one answer, asked for again when they expire."""

    def __init__(self, urls: Urls, refresh: Callable[[], Urls]) -> None:
        self._urls = urls
        self._refresh = refresh
        self._lock = threading.Lock()
        self._clocks_agree = True

    def current(self, key: str) -> FileUrl:
        """A URL that can be used now; its time is believed unless new ones are over at once."""
        found = self._urls[key]
        if not self._clocks_agree or not _is_over(found):
            return found
        found = self.renewed(key, found)
        self._clocks_agree = not _is_over(found)
        return found

    def renewed(self, key: str, stale: FileUrl) -> FileUrl:
        """Another URL than a stale one; asked for by the first thread that needs it."""
        with self._lock:
            if self._urls.get(key) == stale:
                self._urls = self._refresh()
            found = self._urls.get(key)
        if found is None:
            raise FileDownloadError(
                f"file {key} is no longer part of the table: it was changed while it was read, and its "
                "history is not shared. Read again"
            )
        return found


def _is_over(url: FileUrl) -> bool:
    return url.expires is not None and url.expires - _MARGIN_MS <= time.time() * 1000


class FileSource:
    """Reads files by their ids."""

    def __init__(
        self,
        urls: FileUrls,
        connections: FileConnections,
        settings: ConnectionSettings,
        *,
        cache: DiskCache | None = None,
        whole_bytes: int = WHOLE_BYTES,
    ) -> None:
        self._urls = urls
        self._connections = connections
        self._settings = settings
        self._cache = cache
        self._whole_bytes = whole_bytes
        self.received: Callable[[int], None] = lambda _bytes: None

    def access(self, *, first_rows: bool = False) -> FileAccess:
        """What the Delta reader needs; where only the first rows are wanted, columns come in pieces."""
        piece = _PIECE_BYTES if first_rows and self._cache is None else 0
        return FileAccess(self.open_file, self.read_range, remote=self._cache is None, piece_bytes=piece)

    def open_file(self, key: str, size: int) -> pa.NativeFile:
        """A file to read from; a size of 0 stands for one that is not known."""
        if self._cache is not None:
            return pa.OSFile(str(self._cache.path(key, size, partial(self.parts, key, size))))
        if size and size <= self._whole_bytes:
            return pa.BufferReader(self._fetch(key, 0, size, size))
        tail = b""
        if not size:
            size, tail = self._end_of(key)
        return pa.PythonFile(RangedFile(partial(self._fetch_range, key, size), size, tail), mode="r")

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """A part of a file whose size is not known (a deletion vector's)."""
        return self._fetch(key, offset, length, None)

    def parts(self, key: str, size: int) -> Iterator[bytes]:
        """A whole file, part by part; a size of 0 stands for one that is not known."""
        if not size:
            size, _ = self._end_of(key)
        for start in range(0, size, _PART_BYTES):
            yield self._fetch(key, start, min(_PART_BYTES, size - start), size)

    def _fetch_range(self, key: str, size: int, offset: int, length: int) -> bytes:
        return self._fetch(key, offset, length, size)

    def _end_of(self, key: str) -> tuple[int, bytes]:
        """The size of a file, and its last bytes."""
        download = _Download(self, key, 0, _TAIL_BYTES, None)
        return download.tail()

    def _fetch(self, key: str, offset: int, length: int, size: int | None) -> bytes:
        return _Download(self, key, offset, length, size).run()

    def ask(self, url: str, start: int | None, end: int | None, most: int) -> FileReply:
        """One request."""
        reply = self._connections.get(url, start, end, most)
        self.received(len(reply.data))
        return reply

    @property
    def urls(self) -> FileUrls:
        """The URLs."""
        return self._urls

    @property
    def settings(self) -> ConnectionSettings:
        """How long to try."""
        return self._settings


class _Download:
    """One range of one file, over as many requests as it takes."""

    def __init__(self, source: FileSource, key: str, offset: int, length: int, size: int | None) -> None:
        self._source = source
        self._key = key
        self._offset = offset
        self._length = length
        self._size = size
        self._got = bytearray()
        self._etag: str | None = None
        self._refreshes = 0
        self._retry = Retry(source.settings)

    def run(self) -> bytes:
        """The range, whole."""
        whole = self._size is not None and self._offset == 0 and self._length == self._size
        while True:
            start = self._offset + len(self._got)
            plain = whole and not self._got
            reply = self._asked(None if plain else start, None if plain else self._offset + self._length - 1)
            if reply is not None:
                data = self._checked(reply, start)
                if data is not None:
                    return data

    def tail(self) -> tuple[int, bytes]:
        """The size of the file, and its last bytes."""
        while True:
            reply = self._asked(None, self._length)
            if reply is None or reply.cut:
                continue
            if reply.status == 200:
                return len(reply.data), reply.data
            match = _CONTENT_RANGE.fullmatch(reply.content_range or "")
            if match is None or match[3] == "*" or int(match[1]) + len(reply.data) != int(match[3]):
                raise self._wrong("the answer does not say which bytes it has")
            return int(match[3]), reply.data

    def _asked(self, start: int | None, end: int | None) -> FileReply | None:
        """An answer with bytes; None where it has to be asked again, which was prepared here."""
        url = self._source.urls.current(self._key)
        # One byte more than expected shows that there is more than expected.
        most = (self._size or 1 << 62) + 1
        try:
            reply = self._source.ask(url.url, start, end, most)
        except (OSError, http.client.HTTPException) as error:
            self._pause(f"{type(error).__name__}: {error}", None)
            return None
        if reply.status in (200, 206):
            return reply
        if reply.status == 429 or reply.status >= 500:
            headers = {} if reply.retry_after is None else {"retry-after": reply.retry_after}
            self._pause(f"status {reply.status}", retry_after(headers))
            return None
        if reply.status in _MAYBE_EXPIRED and self._refreshes < _MOST_REFRESHES:
            self._refreshes += 1
            self._source.urls.renewed(self._key, url)
            return None
        raise self._wrong(f"the file server answered {reply.status}", reply.status)

    def _checked(self, reply: FileReply, start: int) -> bytes | None:
        """The range, where it is whole now; what came so far is kept where it is not."""
        if self._etag is not None and reply.etag is not None and reply.etag != self._etag:
            raise self._wrong("the file was replaced while it was read")
        self._etag = self._etag or reply.etag
        data = self._whole_body(reply) if reply.status == 200 else self._part(reply, start)
        if not self._got and len(data) == self._length:
            # The usual case, without a copy.
            return data
        self._got += data
        if len(self._got) == self._length:
            return bytes(self._got)
        if len(self._got) > self._length or not reply.cut:
            raise self._wrong(f"{len(self._got)} bytes came instead of {self._length}")
        self._pause("the connection was cut", None)
        return None

    def _whole_body(self, reply: FileReply) -> bytes:
        """What an answer with the whole file adds; a server may not know ranges."""
        if not reply.cut and self._size is not None and len(reply.data) != self._size:
            more = "more than " if len(reply.data) > self._size else ""
            raise self._wrong(
                f"it has {more}{min(len(reply.data), self._size)} bytes, and the server said {self._size}"
            )
        first, last = self._offset + len(self._got), self._offset + self._length
        return reply.data if (first, last) == (0, len(reply.data)) else reply.data[first:last]

    def _part(self, reply: FileReply, start: int) -> bytes:
        match = _CONTENT_RANGE.fullmatch(reply.content_range or "")
        if match is None or int(match[1]) != start:
            raise self._wrong("the answer has other bytes than were asked for")
        if self._size is not None and match[3] not in ("*", str(self._size)):
            raise self._wrong(f"it has {match[3]} bytes, and the server said {self._size}")
        return reply.data

    def _pause(self, problem: str, asked: float | None) -> None:
        if not self._retry.wait(asked):
            raise self._wrong(problem)

    def _wrong(self, problem: str, status: int | None = None) -> FileDownloadError:
        return FileDownloadError(f"file {self._key} cannot be downloaded: {problem}", status)
