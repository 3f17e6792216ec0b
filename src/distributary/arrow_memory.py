"""The memory that Arrow takes while a frame is made: from an allocator that suits short-lived buffers.

Decoding takes and gives back many buffers. Arrow's usual allocator (mimalloc) has the kernel clear huge pages
for them again and again: for ten files of a million rows that was half of all CPU time. While a frame is
made, jemalloc is asked instead where Arrow has it; afterwards the allocator is what it was before. Buffers
know where they came from, so other threads may go on using Arrow meanwhile. Who chose an allocator by Arrow's
own variable `ARROW_DEFAULT_MEMORY_POOL` keeps it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

_CHOSEN: Final = "ARROW_DEFAULT_MEMORY_POOL"
_REPLACED: Final = "mimalloc"


class _Readers:
    """How many frames are being made, and the allocator to go back to after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: pa.MemoryPool | None = None

    def enter(self) -> None:
        """The first one changes the allocator."""
        with self._lock:
            self._count += 1
            if self._count == 1 and _may_replace():
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.jemalloc_memory_pool())

    def leave(self) -> None:
        """The last one puts it back."""
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._before is not None:
                pa.set_memory_pool(self._before)
                self._before = None


_readers: Final = _Readers()


@contextmanager
def frame_memory() -> Generator[None]:
    """Inside, Arrow takes memory for a frame."""
    _readers.enter()
    try:
        yield
    finally:
        _readers.leave()


def _may_replace() -> bool:
    return (
        _CHOSEN not in os.environ
        and pa.default_memory_pool().backend_name == _REPLACED
        and "jemalloc" in pa.supported_memory_backends()
    )
