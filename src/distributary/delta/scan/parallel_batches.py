"""Many readers at once, with bounded memory.

Each unit (a data file) gives record batches; a few threads read units side by side and the
consumer takes batches as they come. Threads wait while more than a set number of bytes lie
unread, so memory follows the configuration, not the table. The first failure stops all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

Unit = TypeVar("Unit")


class _Buffer:
    """Batches between threads, limited by bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._batches: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition()
        self.readers = 0
        self.closed = False
        self.failure: BaseException | None = None

    def put(self, batch: pa.RecordBatch) -> bool:
        """Add a batch when there is room; false when nobody wants more."""
        size = batch.nbytes
        with self._changed:
            self._changed.wait_for(
                lambda: self.closed or self._bytes == 0 or self._bytes + size <= self._max_bytes
            )
            if self.closed:
                return False
            self._batches.append(batch)
            self._bytes += size
            self._changed.notify_all()
            return True

    def take(self) -> pa.RecordBatch | None:
        """The next batch; `None` when every reader is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self.failure is not None or self.readers == 0)
            if self.failure is not None:
                raise self.failure
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._bytes -= batch.nbytes
            self._changed.notify_all()
            return batch

    def finish(self, failure: BaseException | None) -> None:
        """Note that a reader is done, or why it failed."""
        with self._changed:
            self.readers -= 1
            if failure is not None and self.failure is None:
                self.failure = failure
                self.closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Tell the readers to stop."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


def parallel_batches(
    units: Iterable[Unit],
    read: Callable[[Unit], Iterator[pa.RecordBatch]],
    *,
    workers: int,
    max_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """The batches of all units, in no particular order."""
    if workers <= 1:
        for unit in units:
            yield from read(unit)
        return
    buffer = _Buffer(max_bytes)
    pending = deque(units)
    buffer.readers = min(workers, len(pending))
    if buffer.readers <= 1:
        for unit in pending:
            yield from read(unit)
        return

    def work() -> None:
        failure: BaseException | None = None
        try:
            _drain(pending, read, buffer)
        except BaseException as error:
            failure = error
        finally:
            buffer.finish(failure)

    with ThreadPoolExecutor(buffer.readers, thread_name_prefix="distributary-scan") as pool:
        try:
            for _ in range(buffer.readers):
                pool.submit(work)
            while (batch := buffer.take()) is not None:
                yield batch
        finally:
            buffer.close()


def _drain(pending: deque[Unit], read: Callable[[Unit], Iterator[pa.RecordBatch]], buffer: _Buffer) -> None:
    while not buffer.closed:
        try:
            unit = pending.popleft()
        except IndexError:
            return
        for batch in read(unit):
            if not buffer.put(batch):
                return
