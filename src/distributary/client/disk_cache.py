"""Files of shared tables kept on disk, so that they are downloaded once (CL-008).

Files are kept by the table's and the file's id, never by URL: a URL is signed anew each time, an id
stays. A file appears under its name only when all its bytes are there. Above a number of bytes those that
were not used for the longest time are removed. Any number of processes may use one directory.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

DEFAULT_BYTES = 10 << 30


class DiskCache:
    """The files of one table in a directory."""

    def __init__(self, directory: Path, table: str, max_bytes: int = DEFAULT_BYTES) -> None:
        self._root = directory
        self._table = table
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._added = 0

    def path(self, key: str, size: int, download: Callable[[], Iterable[bytes]]) -> Path:
        """Where a file is kept; it is downloaded where it is not there, or not whole."""
        kept = self._root / f"{hashlib.sha256(f'{self._table}/{key}'.encode()).hexdigest()}.bin"
        with suppress(OSError):
            if not size or kept.stat().st_size == size:
                os.utime(kept)
                return kept
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = kept.with_name(f".{kept.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with unfinished.open("wb") as file:
                for part in download():
                    file.write(part)
                added = file.tell()
            unfinished.replace(kept)
        finally:
            unfinished.unlink(missing_ok=True)
        self._make_room(added)
        return kept

    def _make_room(self, added: int) -> None:
        """Remove what was not used for the longest time; looked at now and then, not for every file."""
        with self._lock:
            self._added += added
            if self._added < self._max_bytes // 20 and added < self._max_bytes:
                return
            self._added = 0
        files: list[tuple[float, int, Path]] = []
        for file in self._root.glob("*.bin"):
            with suppress(OSError):
                facts = file.stat()
                files.append((facts.st_mtime, facts.st_size, file))
        excess = sum(size for _, size, _ in files) - self._max_bytes
        for _, size, file in sorted(files)[:-1]:
            if excess <= 0:
                return
            file.unlink(missing_ok=True)
            excess -= size
