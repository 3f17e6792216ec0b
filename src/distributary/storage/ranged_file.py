"""A remote object as a file: each read is a ranged request, small reads share one.

Parquet readers jump: the footer at the end, then column chunks. A small read fetches a window of
``READ_AHEAD`` bytes (the last one of the object for reads near its end) and keeps the newest few, so a
footer costs one request and a small object one in all; a large read fetches just what it asks for.

pyarrow calls ``seek`` and ``read`` separately, from several threads: the position belongs to the thread.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable

READ_AHEAD = 128 * 1024
_WINDOWS_KEPT = 4


class RangedFile:
    """The file interface that ``pyarrow.PythonFile`` needs, over a function that fetches a range."""

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        tail: bytes = b"",
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._here = threading.local()
        self._windows: deque[tuple[int, bytes]] = deque(maxlen=_WINDOWS_KEPT)
        if tail:
            self._windows.append((size - len(tail), tail))
        self.closed = False

    def read(self, length: int = -1) -> bytes:
        """``length`` bytes from this thread's position, fewer at the end, all the rest for -1."""
        offset = self.tell()
        available = max(0, self._size - offset)
        wanted = available if length < 0 else min(length, available)
        data = self._read_at(offset, wanted) if wanted else b""
        self._here.position = offset + len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move this thread's position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._here.position = base + offset
        return self._here.position

    def tell(self) -> int:
        """This thread's position."""
        return getattr(self._here, "position", 0)

    def close(self) -> None:
        """Drop what is kept."""
        self.closed = True
        self._windows.clear()

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Nothing to do."""

    def _read_at(self, offset: int, length: int) -> bytes:
        for start, window in list(self._windows):
            if start <= offset and offset + length <= start + len(window):
                return window[offset - start : offset - start + length]
        if length >= READ_AHEAD:
            return self._fetch(offset, length)
        start = max(0, min(offset, self._size - READ_AHEAD))
        window = self._fetch(start, min(READ_AHEAD, self._size - start))
        self._windows.append((start, window))
        return window[offset - start : offset - start + length]
