"""The audit of reads: every answer about a table is noted, in batches, off the path of the request.

Reads are queued and appended to the audit log within 200 ms (DESIGN, Audit). The queue is bounded and never
drops: when the database is behind, requests wait for a place, and when it is gone they are refused
anyway. A killed worker may lose the reads of its last 200 ms; a stopped one writes them first.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from distributary.catalog import audit_log
from distributary.catalog.audit_log import Event
from distributary.catalog.database import Database, now_ms
from distributary.errors import DistributaryError
from distributary.server.event_log import EventLog
from distributary.server.observability import AUDIT_WAITING
from distributary.server.signing_keys import SigningKeys
from distributary.sharing.error_response import ServiceUnavailableError

BATCH_SECONDS: Final = 0.2
MOST_WAITING: Final = 50_000
_LONGEST_WAIT: Final = 10.0
_BATCH: Final = 5_000


class ReadAudit:
    """Collects events and appends them from a thread of its own."""

    def __init__(self, database: Database, keys: SigningKeys, log: EventLog) -> None:
        self._database = database
        self._keys = keys
        self._log = log
        self._waiting: list[Event] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write_on, name="read-audit", daemon=True)
        self._writer.start()

    async def admit(self) -> None:
        """Wait until there is a place for another event; without one the request is refused."""
        waited = 0.0
        while len(self._waiting) >= MOST_WAITING:
            if waited >= _LONGEST_WAIT:
                raise ServiceUnavailableError("The server cannot record this read now.", retry_after=5)
            await asyncio.sleep(BATCH_SECONDS)
            waited += BATCH_SECONDS

    def note(self, event: Event) -> None:
        """Queue an event."""
        with self._lock:
            self._waiting.append(event)

    def close(self) -> None:
        """Write what is left and stop."""
        self._stop.set()
        self._writer.join(timeout=10)
        self._write_batches()

    def _write_on(self) -> None:
        while not self._stop.wait(BATCH_SECONDS):
            self._write_batches()

    def _write_batches(self) -> None:
        AUDIT_WAITING.set(len(self._waiting))
        while self._waiting and self._written(self._waiting[:_BATCH]):
            pass

    def _written(self, batch: list[Event]) -> bool:
        """Append a batch; on failure it stays in the queue, in order, for the next turn."""
        try:
            with self._database.write() as connection:
                audit_log.append(connection, self._keys, batch)
        except DistributaryError as error:
            self._log.write("audit_delayed", level="error", error=error.code, waiting=len(self._waiting))
            return False
        with self._lock:
            del self._waiting[: len(batch)]
        return True


def read_event(
    *, action: str, recipient: str, target: str, outcome: str, details: dict[str, int | str]
) -> Event:
    """An event about a recipient's request, at the present time."""
    return Event(
        action=action,
        actor=f"recipient:{recipient}",
        target=target,
        outcome=outcome,
        details=details,
        at=now_ms(),
    )
