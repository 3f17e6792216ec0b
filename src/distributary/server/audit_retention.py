"""The retention of the audit log: events older than the settings allow are removed, behind a seal.

Every worker looks now and then, and the first one that finds old events removes them; that they were
removed is an event itself. Without a limit nothing is ever removed.
"""

from __future__ import annotations

import threading
from typing import Final

from distributary.catalog import audit_log
from distributary.catalog.administration import Administration
from distributary.catalog.database import Database, now_ms
from distributary.errors import DistributaryError
from distributary.server.event_log import EventLog
from distributary.server.signing_keys import SigningKeys

LOOK_SECONDS: Final = 900.0
_DAY_MS: Final = 86_400_000


class AuditRetention:
    """Looks for old events from a thread of its own, once it is started."""

    def __init__(self, database: Database, keys: SigningKeys, log: EventLog, days: int) -> None:
        self._database = database
        self._keys = keys
        self._log = log
        self._days = days
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to look, where there is a limit."""
        if self._days:
            threading.Thread(target=self._look_on, name="audit-retention", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def remove_old(self) -> int:
        """Remove the events that are too old; gives how many there were."""
        before = now_ms() - self._days * _DAY_MS
        with self._database.read() as connection:
            if not self._days or not audit_log.has_events_before(connection, before):
                return 0
        return Administration(self._database, self._keys, actor="server").remove_audit_before(before)

    def _look_on(self) -> None:
        while not self._stop.is_set():
            try:
                self.remove_old()
            except DistributaryError as error:
                self._log.write("audit_retention_delayed", level="warning", error=error.code)
            except Exception as error:
                self._log.error("audit_retention_failed", error)
            self._stop.wait(LOOK_SECONDS)
