"""A few threads that encode files side by side, each file strictly in order.

A `Lane` is a queue of steps that run one after the other; lanes share the threads. Rows that wait are
counted in bytes against a budget, so that a fast source waits for slow encoding. The first error stops
everything: steps not yet begun are dropped, and whoever waits gets the error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Step = Callable[[], None]


class EncoderThreads:
    """Threads for one write, and its budget of waiting bytes."""

    def __init__(self, count: int, max_waiting_bytes: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="distributary-encode")
        self._budget = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting_bytes = 0
        self._raw_bytes = self._encoded_bytes = 0
        self._busy_lanes = 0
        self._error: BaseException | None = None

    def lane(self) -> Lane:
        """A new queue of steps."""
        return Lane(self)

    def reserve(self, size: int) -> None:
        """Wait until so many bytes may wait; one piece that is larger than the budget goes alone."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._error or not self._waiting_bytes or self._waiting_bytes + size <= self._budget
            )
            self._raise_error()
            self._waiting_bytes += size

    def release(self, size: int, encoded: int) -> None:
        """So many bytes wait no more; encoded they were so large."""
        with self._changed:
            self._waiting_bytes -= size
            self._raw_bytes += size
            self._encoded_bytes += encoded
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting_bytes

    @property
    def ratio(self) -> float:
        """How large rows become in files, relative to memory; 0 while nothing was encoded."""
        with self._changed:
            return self._encoded_bytes / self._raw_bytes if self._raw_bytes else 0.0

    def first_ratio(self) -> float:
        """The same, once the first rows that wait are encoded."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._raw_bytes or not self._waiting_bytes)
            self._raise_error()
        return self.ratio

    def join(self) -> None:
        """Wait until every step has run, and end the threads."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self._busy_lanes)
            self._raise_error()
        self._pool.shutdown()

    def stop(self) -> None:
        """Drop what has not begun, wait for what has, and end the threads."""
        with self._changed:
            self._error = self._error or InterruptedError("the write was given up")
        self._pool.shutdown()

    @property
    def stopped(self) -> bool:
        """Whether no further step shall begin."""
        return self._error is not None

    def start(self, drain: Step) -> None:
        """Let a thread work on a lane that has become busy."""
        with self._changed:
            self._busy_lanes += 1
        self._pool.submit(drain)

    def rested(self, error: BaseException | None) -> None:
        """A lane has nothing to do any more, or has failed."""
        with self._changed:
            self._busy_lanes -= 1
            self._error = self._error or error
            self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class Lane:
    """Steps that run one after the other."""

    def __init__(self, threads: EncoderThreads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._steps: deque[Step] = deque()
        self._busy = False

    def submit(self, step: Step) -> None:
        """Add a step after those that are there."""
        with self._lock:
            self._steps.append(step)
            if self._busy:
                return
            self._busy = True
        self._threads.start(self._drain)

    def _drain(self) -> None:
        error: BaseException | None = None
        try:
            while (step := self._next()) is not None:
                step()
        except BaseException as failure:
            error = failure
        self._threads.rested(error)

    def _next(self) -> Step | None:
        with self._lock:
            if self._steps and not self._threads.stopped:
                return self._steps.popleft()
            self._busy = False
            return None
