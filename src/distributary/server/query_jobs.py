"""Asynchronous queries: submitted with an idempotency key, run in the background, polled anywhere (A8).

A job lives in the database. Some worker of some server claims it, works the whole answer out once (so the
snapshot is loaded, lines are rendered and every error is met) and stores which version it was. A poll at
any worker then answers from that version, exactly as a synchronous query would have, page by page. A
worker that dies lets its lease run out, and another claims the job.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from concurrent.futures import Executor
from typing import Final

import msgspec

from distributary.catalog import grants, query_jobs
from distributary.catalog.database import Database, now_ms
from distributary.catalog.errors import NameTakenError
from distributary.catalog.query_jobs import QueryJob
from distributary.errors import DistributaryError
from distributary.server.error_responses import as_sharing_error
from distributary.server.event_log import EventLog
from distributary.server.query_answer import ClientWishes, QueryAnswer
from distributary.server.settings import Settings
from distributary.server.table_answers import Asked, TableAnswers
from distributary.sharing.capabilities import (
    CAPABILITIES_HEADER,
    TABLE_VERSION_HEADER,
    Capabilities,
    ResponseFormat,
    response_capabilities,
)
from distributary.sharing.error_response import (
    AlreadyExistsError,
    InternalError,
    InvalidParameterError,
    MalformedRequestError,
    ResourceNotFoundError,
    SharingError,
    UnsupportedOperationError,
)
from distributary.sharing.ndjson import NDJSON_CONTENT_TYPE
from distributary.sharing.query_request import PollRequest, QueryRequest, VersionRequest

LEASE_MS: Final = 30_000
LOOK_SECONDS: Final = 1.0
_RENEW_SECONDS: Final = 10.0
_TOLD: Final = (
    InvalidParameterError,
    MalformedRequestError,
    ResourceNotFoundError,
    UnsupportedOperationError,
)


class StoredQuery(msgspec.Struct, frozen=True):
    """What a job has to know of its query."""

    request: QueryRequest
    capabilities: Capabilities
    file_ids: ResponseFormat | None

    @property
    def wishes(self) -> ClientWishes:
        """What the client said in headers when it submitted the query."""
        return ClientWishes(self.capabilities, self.file_ids)


class StoredResult(msgspec.Struct, frozen=True):
    """Which version a finished job answers from."""

    version: int
    table: str


class QueryJobs:
    """Submits, runs and answers asynchronous queries."""

    def __init__(
        self,
        database: Database,
        tables: TableAnswers,
        threads: Executor,
        log: EventLog,
        settings: Settings,
    ) -> None:
        self._database = database
        self._tables = tables
        self._threads = threads
        self._log = log
        self._life_ms = settings.lifetimes.query_job_seconds * 1000
        self._name = f"{socket.gethostname()}-{secrets.token_hex(6)}"
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._runner = threading.Thread(target=self._run_on, name="query-jobs", daemon=True)

    def start(self) -> None:
        """Begin to look for jobs."""
        self._runner.start()

    def stop(self) -> None:
        """Look for no more jobs; one that runs is left to another worker."""
        self._stop.set()
        self._wake.set()

    def submit(self, asked: Asked, key: str, request: QueryRequest, wishes: ClientWishes) -> QueryAnswer:
        """Keep a query as a job, or find the one that was submitted with the same key."""
        version = self._tables.version(asked, VersionRequest()).version
        query = StoredQuery(_without_pages(request), wishes.capabilities, wishes.file_ids)
        now = now_ms()
        try:
            with self._database.write() as connection:
                job = query_jobs.start_job(
                    connection,
                    recipient_id=asked.recipient.id,
                    table_id=asked.table.id,
                    idempotency_key=key,
                    request=msgspec.msgpack.encode(query, order="deterministic"),
                    now=now,
                    expires_at=now + self._life_ms,
                )
        except NameTakenError as error:
            raise AlreadyExistsError(
                "This idempotencyKey was used for another query of this table: use a new one."
            ) from error
        self._wake.set()
        return _pending(job, version)

    def answer(self, asked: Asked, query_id: str, poll: PollRequest, wishes: ClientWishes) -> QueryAnswer:
        """The answer of a job that is done; its state while it is not; its error when it failed."""
        with self._database.read() as connection:
            job = query_jobs.find_job(
                connection, query_id, recipient_id=asked.recipient.id, table_id=asked.table.id
            )
        if job is None or job.expires_at <= now_ms():
            raise ResourceNotFoundError("There is no such query of this recipient, or not any more.")
        if job.state == query_jobs.FAILED:
            raise _failure(job)
        if job.state != query_jobs.DONE or job.result is None:
            return _pending(job, self._tables.version(asked, VersionRequest()).version)
        result = msgspec.msgpack.decode(job.result, type=StoredResult)
        query = _stored(job)
        request = self._pinned(asked, query.request, result)
        request = msgspec.structs.replace(request, max_files=poll.max_files, page_token=poll.page_token)
        # What the client announced at submission decides the format; only the end may be asked for anew.
        end = wishes.capabilities.include_end_stream_action or query.capabilities.include_end_stream_action
        capabilities = msgspec.structs.replace(query.capabilities, include_end_stream_action=end)
        return self._tables.query(asked, request, ClientWishes(capabilities, query.file_ids))

    def _pinned(self, asked: Asked, request: QueryRequest, result: StoredResult) -> QueryRequest:
        """The request at the version that the job found; a refresh token is how a version is held."""
        if request.is_versioned:
            return request
        state = {"version": result.version, "table": result.table}
        token = self._tables.tokens(asked).issue("refresh", state)
        return msgspec.structs.replace(request, refresh_token=token)

    def _run_on(self) -> None:
        swept = 0.0
        while not self._stop.is_set():
            try:
                while not self._stop.is_set() and self._run_one():
                    pass
                if time.monotonic() - swept > 60:
                    swept = time.monotonic()
                    self._sweep()
            except DistributaryError as error:
                self._log.write("query_jobs_delayed", level="warning", error=error.code)
            except Exception as error:
                self._log.error("query_jobs_failed", error)
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()

    def _run_one(self) -> bool:
        """Claim a job and run it; False when there is none."""
        with self._database.read() as connection:
            if not query_jobs.has_open_jobs(connection, now_ms()):
                return False
        with self._database.write() as connection:
            job = query_jobs.claim_job(connection, self._name, now=now_ms(), lease_ms=LEASE_MS)
        if job is None:
            return False
        self._threads.submit(self._work, job).result()
        return True

    def _work(self, job: QueryJob) -> None:
        try:
            result = self._worked_out(job)
        except Exception as error:
            told = as_sharing_error(error)
            self._log.error("query_job_failed", error, job=job.id)
            with self._database.write() as connection:
                query_jobs.fail_job(connection, job, self._name, told.error_code, str(told))
            return
        if result is not None:
            with self._database.write() as connection:
                query_jobs.finish_job(connection, job, self._name, msgspec.msgpack.encode(result))

    def _worked_out(self, job: QueryJob) -> StoredResult | None:
        """Work the whole answer out; None when the job became another worker's."""
        asked = self._asked(job)
        query = _stored(job)
        answer = self._tables.query(asked, query.request, query.wishes)
        renewed = time.monotonic()
        for _ in answer.chunks:
            if self._stop.is_set():
                return None
            if time.monotonic() - renewed > _RENEW_SECONDS:
                renewed = time.monotonic()
                with self._database.write() as connection:
                    if not query_jobs.renew_lease(
                        connection, job, self._name, now=now_ms(), lease_ms=LEASE_MS
                    ):
                        return None
        return StoredResult(answer.version, self._tables.metadata_id(asked, answer.version))

    def _asked(self, job: QueryJob) -> Asked:
        recipient = grants.recipient_by_id(self._database, job.recipient_id)
        table = (
            None if recipient is None else grants.shared_table_by_id(self._database, recipient, job.table_id)
        )
        if recipient is None or table is None:
            raise ResourceNotFoundError("The table is not shared with this recipient any more.")
        return Asked(recipient, table)

    def _sweep(self) -> None:
        with self._database.write() as connection:
            query_jobs.remove_expired_jobs(connection, now_ms())


def _without_pages(request: QueryRequest) -> QueryRequest:
    """The query itself: pages are the polls', fresh URLs come with each of them."""
    return msgspec.structs.replace(
        request, max_files=None, page_token=None, idempotency_key=None, include_refresh_token=False
    )


def _stored(job: QueryJob) -> StoredQuery:
    return msgspec.msgpack.decode(job.request, type=StoredQuery)


def _pending(job: QueryJob, version: int) -> QueryAnswer:
    line = msgspec.json.encode({"queryStatus": {"queryId": job.id, "status": "pending"}}) + b"\n"
    chosen = _stored(job).capabilities.response_formats[0]
    headers = (
        (TABLE_VERSION_HEADER, str(version)),
        ("Content-Type", NDJSON_CONTENT_TYPE),
        (CAPABILITIES_HEADER, response_capabilities(chosen, async_query=True)),
    )
    return QueryAnswer(version, headers, iter([line]), chosen)


def _failure(job: QueryJob) -> SharingError:
    for kind in _TOLD:
        if kind.error_code == job.error_code:
            return kind(job.error_message or "The query failed.")
    return InternalError("The query failed. Submit it again with a new idempotencyKey.")
