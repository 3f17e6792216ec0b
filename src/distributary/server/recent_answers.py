"""Answers of the catalog that a worker remembers for less than a second.

Every request needs a recipient and a grant; asking the database each time would cost more than answering.
What is remembered is at most `seconds` old, counted from before the database was asked, so that whatever
an administrator takes away is gone within a second (RELIABILITY P6). Only one request asks for a key at
a time; the others wait for its answer. Failures are not remembered: without a database nothing is
answered (P9).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

REMEMBERED_SECONDS = 0.75
_MOST_KEYS = 20_000


class RecentAnswers(Generic[Key, Value]):
    """What was found for keys a moment ago; loads run on an executor, never on the event loop."""

    def __init__(
        self,
        executor: Executor,
        seconds: float = REMEMBERED_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor = executor
        self._seconds = seconds
        self._now = now
        self._found: dict[Key, tuple[float, Value]] = {}
        self._loading: dict[Key, asyncio.Future[Value | None]] = {}

    def recent(self, key: Key) -> Value | None:
        """What is remembered of a key, without waiting; None where nothing is."""
        found = self._found.get(key)
        return found[1] if found is not None and found[0] > self._now() else None

    def until(self, key: Key) -> float:
        """Until when what is remembered of a key may be used; a moment that has passed where nothing is."""
        found = self._found.get(key)
        return 0.0 if found is None else found[0]

    async def get(self, key: Key, load: Callable[[], Value | None]) -> Value | None:
        """What is remembered of a key, or what loading it gives; None is not remembered."""
        found = self._found.get(key)
        if found is not None and found[0] > self._now():
            return found[1]
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(self._loaded(key, load))
            loading.add_done_callback(_seen)
        return await asyncio.shield(loading)

    async def _loaded(self, key: Key, load: Callable[[], Value | None]) -> Value | None:
        try:
            until = self._now() + self._seconds
            value = await asyncio.get_running_loop().run_in_executor(self._executor, load)
            if value is not None:
                self._remember(key, until, value)
            return value
        finally:
            self._loading.pop(key, None)

    def _remember(self, key: Key, until: float, value: Value) -> None:
        if len(self._found) >= _MOST_KEYS:
            now = self._now()
            self._found = {known: entry for known, entry in self._found.items() if entry[0] > now}
            if len(self._found) >= _MOST_KEYS:
                self._found.clear()
        self._found[key] = (until, value)


def _seen(loading: asyncio.Future[Any]) -> None:
    """Look at an error that nobody waits for any more, so that it is not reported as lost."""
    if not loading.cancelled():
        loading.exception()
