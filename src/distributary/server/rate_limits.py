"""Limits per recipient: protocol calls a second, and how many queries and downloads may run at once.

The rate is one for all workers of a node: the next permitted moment of each recipient (the generic cell
rate algorithm) lies in a small memory-mapped file that the workers share. Two workers that write the same
place at the same moment may grant one call too many, never one too few for long. What runs at once is
counted per worker, so that a worker that dies leaves no count behind.

A limit of 0 is no limit.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from distributary.server.settings import Settings
from distributary.sharing.error_response import TooManyRequestsError

_PLACES = 1 << 20  # two of a hundred recipients share one with a probability of half a percent
_MOMENT = struct.Struct("<d")


def call_rates(settings: Settings) -> Path:
    """The file that the workers of a node share."""
    return settings.cache_folder / "call-rates"


class CallRate:
    """How often recipients may call: `rate` a second for long, `burst` at once."""

    def __init__(
        self, rate: float, burst: int, file: Path | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._step = 1 / rate if rate > 0 else 0.0
        self._tolerance = self._step * (max(burst, 1) + 0.5)  # half a call more than rounding can take away
        self._moments = _moments(file)
        self._now = now
        self._places: dict[str, int] = {}

    def admit(self, recipient: str) -> None:
        """Count one call of a recipient; too many are refused with the time to come back."""
        if not self._step:
            return
        place, now = self._place(recipient), self._now()
        moment = _MOMENT.unpack_from(self._moments, place)[0]
        if moment > now + self._tolerance + 1:  # a clock of another boot wrote it
            moment = now
        following = max(moment, now) + self._step
        if following - now > self._tolerance:
            wait = max(1, math.ceil(following - now - self._tolerance))
            raise TooManyRequestsError(
                f"More requests than this recipient's limit: try again in {wait} s.", retry_after=wait
            )
        _MOMENT.pack_into(self._moments, place, following)

    def _place(self, recipient: str) -> int:
        place = self._places.get(recipient)
        if place is None:
            digest = hashlib.blake2b(recipient.encode(), digest_size=8).digest()
            place = int.from_bytes(digest) % _PLACES * _MOMENT.size
            if len(self._places) > 100_000:
                self._places.clear()
            self._places[recipient] = place
        return place


def _moments(file: Path | None) -> mmap.mmap:
    """The memory of the moments: a sparse file that workers share, or the process's own."""
    size = _PLACES * _MOMENT.size
    if file is None:
        return mmap.mmap(-1, size)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Concurrency:
    """How many of one kind of work a recipient may have running in this worker."""

    limit: int
    what: str
    _running: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, recipient: str) -> None:
        """Take a place; `leave` gives it back. Without a free one the work is refused."""
        with self._lock:
            if self.limit and self._running[recipient] >= self.limit:
                raise TooManyRequestsError(
                    f"This recipient has {self.limit} {self.what} running: wait for one to end.",
                    retry_after=1,
                )
            self._running[recipient] += 1

    def leave(self, recipient: str) -> None:
        """Give a place back."""
        with self._lock:
            self._running[recipient] -= 1
            if self._running[recipient] <= 0:
                del self._running[recipient]

    def running(self) -> int:
        """How much of this work runs now, of all recipients."""
        return self._running.total()
