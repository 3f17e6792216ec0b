"""Service: what one worker process holds to answer requests.

The catalog, the keys and the tables with their caches; threads for the catalog, for queries and for
files, kept apart so that one recipient's million-file query holds up nobody's list; limits; the log and
the audit. Nothing here outlives the process: any number of workers and servers answer alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from distributary.catalog import grants, shares
from distributary.catalog.database import Database
from distributary.catalog.recipients import Recipient
from distributary.catalog.shared_tables import SharedTable
from distributary.catalog.shares import Share
from distributary.server.answers import Patience
from distributary.server.audit_retention import AuditRetention
from distributary.server.authentication import Authentication
from distributary.server.continuation_tokens import ContinuationTokens, TokenKind
from distributary.server.event_log import EventLog
from distributary.server.key_ring import KeyRing
from distributary.server.observability import write_counts
from distributary.server.query_jobs import QueryJobs
from distributary.server.rate_limits import CallRate, Concurrency, call_rates
from distributary.server.read_audit import ReadAudit
from distributary.server.recent_answers import RecentAnswers
from distributary.server.settings import Settings
from distributary.server.table_answers import TableAnswers
from distributary.sharing.error_response import ResourceNotFoundError

CATALOG_THREADS: Final = 4
QUERY_THREADS: Final = 4
FILE_THREADS: Final = 8

Found = TypeVar("Found")


class Service:
    """One worker's means of answering."""

    def __init__(self, settings: Settings, log: EventLog | None = None) -> None:
        self.settings = settings
        self.log = log or EventLog(level=settings.log.level, as_text=settings.log.format == "text")
        self.log.beside(write_counts)
        self.database = Database(settings.database)
        self.keys = KeyRing(settings.key_path)
        self.tokens = ContinuationTokens(self.keys, longest=_token_lifetimes(settings))
        self.draining = False
        self._start_threads()
        self._set_limits()
        self.authentication = Authentication(self.database, self.catalog_threads)
        self.audit = ReadAudit(self.database, self.keys, self.log) if settings.audit.reads else None
        days = settings.audit.retention_days
        self.retention = AuditRetention(self.database, self.keys, self.log, days)
        self.tables = TableAnswers(settings, self.keys, self.tokens)
        self.jobs = QueryJobs(self.database, self.tables, self.query_threads, self.log, settings)
        self._lists: RecentAnswers[tuple[str, str, bytes], bytes] = RecentAnswers(self.catalog_threads)
        self._shares: RecentAnswers[tuple[str, str], Share] = RecentAnswers(self.catalog_threads)
        self._tables: RecentAnswers[tuple[str, ...], SharedTable] = RecentAnswers(self.catalog_threads)

    def _start_threads(self) -> None:
        self.catalog_threads = ThreadPoolExecutor(CATALOG_THREADS, "catalog")
        self.query_threads = ThreadPoolExecutor(QUERY_THREADS, "query")
        self.file_threads = ThreadPoolExecutor(FILE_THREADS, "file")

    def _set_limits(self) -> None:
        limits = self.settings.limits
        file = call_rates(self.settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.call_rate = CallRate(limits.calls_per_second, limits.burst, file)
        self.queries = Concurrency(limits.concurrent_queries, "queries")
        self.downloads = Concurrency(limits.concurrent_downloads, "downloads")
        self.patience = Patience(limits.stalled_seconds or 3600.0, limits.slowest_rate)

    async def start(self) -> None:
        """Begin what runs beside requests."""
        self.jobs.start()
        self.retention.start()

    async def stop(self) -> None:
        """End what runs beside requests, and write what is still to be written."""
        self.draining = True
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def close(self) -> None:
        """Release everything."""
        self.jobs.stop()
        self.retention.stop()
        for threads in (self.query_threads, self.file_threads, self.catalog_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        if self.audit is not None:
            self.audit.close()
        self.database.close()
        self.log.close()

    async def in_catalog(self, ask: Callable[[], Found]) -> Found:
        """Ask the catalog, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.catalog_threads, ask)

    async def list_page(self, key: tuple[str, str, bytes], load: Callable[[], bytes]) -> bytes:
        """A page of a list, at most a second old."""
        page = await self._lists.get(key, load)
        return b"" if page is None else page

    def list_until(self, key: tuple[str, str, bytes], recipient: Recipient, share: str | None) -> float:
        """Until when a page that was just given stays true: as long as all that it was made of."""
        page = self._lists.until(key)
        return page if share is None else min(page, self._shares.until((recipient.id, share)))

    async def share(self, recipient: Recipient, name: str) -> Share:
        """A share that is granted to a recipient; any other is not there."""
        found = await self._shares.get(
            (recipient.id, name), lambda: shares.visible_share(self.database, recipient, name)
        )
        if found is None:
            raise ResourceNotFoundError("There is no such share that this recipient can see.")
        return found

    async def table(self, recipient: Recipient, share: str, schema: str, table: str) -> SharedTable:
        """A table of a share that is granted to a recipient; any other is not there."""
        found = await self._tables.get(
            (recipient.id, share, schema, table),
            lambda: grants.shared_table(self.database, recipient, share, schema, table),
        )
        if found is None:
            raise ResourceNotFoundError("There is no such table that this recipient can see.")
        return found

    async def table_by_id(self, recipient: Recipient, id: str) -> SharedTable | None:
        """A table that a ticket names, if it is still granted."""
        return await self._tables.get(
            (recipient.id, id), lambda: grants.shared_table_by_id(self.database, recipient, id)
        )


def _token_lifetimes(settings: Settings) -> dict[TokenKind, int]:
    lifetimes = settings.lifetimes
    return {
        "list": lifetimes.page_token_seconds,
        "page": lifetimes.page_token_seconds,
        "refresh": lifetimes.refresh_token_seconds,
        "job": lifetimes.query_job_seconds,
    }
