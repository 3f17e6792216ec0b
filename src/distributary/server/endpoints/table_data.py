"""Reads of a table's data and changes, at once or asynchronously (REST-170 to REST-179, A4 to A8).

The table is looked up before parameters and body are read, so that to whoever may not see it every request
looks the same. The heavy part runs on the query threads, a piece at a time in turn, so streams of many
recipients advance together. Each recipient has a bounded number of queries running in a worker. What was
read is audited.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from distributary.server.answers import Answer, StreamedAnswer, whole_or_streamed
from distributary.server.observability import QUERIES
from distributary.server.query_answer import ClientWishes, QueryAnswer
from distributary.server.read_audit import read_event
from distributary.server.request import check_json_depth
from distributary.server.table_answers import Asked
from distributary.sharing.capabilities import (
    CAPABILITIES_HEADER,
    FILE_ID_HASH_HEADER,
    parse_capabilities,
    parse_file_id_hash,
)
from distributary.sharing.error_response import (
    InvalidParameterError,
    ServiceUnavailableError,
    SharingError,
)
from distributary.sharing.query_request import (
    parse_changes_request,
    parse_poll_request,
    parse_query_request,
)

if TYPE_CHECKING:
    from distributary.server.routes import Call
    from distributary.server.service import Service

_LONGEST_KEY: Final = 255


async def table_query(service: Service, call: Call) -> Answer | StreamedAnswer:
    """The files of a table; for a client that asks for it, by a job that runs in the background."""
    asked = await asked_about(service, call)
    request, wishes = parse_query_request(await json_body(service, call)), wishes_of(call)
    if not wishes.capabilities.async_query:
        return await answered(
            service, call, asked, "query", lambda: service.tables.query(asked, request, wishes)
        )
    key = request.idempotency_key
    if not key or len(key) > _LONGEST_KEY:
        raise InvalidParameterError("An asynchronous query needs an idempotencyKey of 1 to 255 characters.")
    return await answered(
        service, call, asked, "query", lambda: service.jobs.submit(asked, key, request, wishes)
    )


async def poll_query(service: Service, call: Call) -> Answer | StreamedAnswer:
    """The state of an asynchronous query: pending, failed, or its answer."""
    asked = await asked_about(service, call)
    poll, wishes = parse_poll_request(await json_body(service, call)), wishes_of(call)
    query_id = call.names["queryId"]
    return await answered(
        service, call, asked, "query", lambda: service.jobs.answer(asked, query_id, poll, wishes)
    )


async def table_changes(service: Service, call: Call) -> Answer | StreamedAnswer:
    """The change data feed of a table."""
    asked = await asked_about(service, call)
    request, wishes = parse_changes_request(call.request.parameters()), wishes_of(call)
    return await answered(
        service, call, asked, "changes", lambda: service.tables.changes(asked, request, wishes)
    )


async def asked_about(service: Service, call: Call) -> Asked:
    """The table that a request names, as its caller may see it."""
    names = call.names
    table = await service.table(call.recipient, names["share"], names["schema"], names["table"])
    return Asked(call.recipient, table)


def wishes_of(call: Call) -> ClientWishes:
    """What the client says in its headers."""
    headers = call.request.headers
    return ClientWishes(
        parse_capabilities(headers.get(CAPABILITIES_HEADER)),
        parse_file_id_hash(headers.get(FILE_ID_HASH_HEADER)),
    )


async def json_body(service: Service, call: Call) -> bytes:
    """The body of a request, not too large and not too deep."""
    limits = service.settings.limits
    body = await call.request.body(limits.body_bytes, limits.body_seconds)
    check_json_depth(body, limits.json_depth)
    return body


async def answered(
    service: Service, call: Call, asked: Asked, kind: str, work: Callable[[], QueryAnswer]
) -> Answer | StreamedAnswer:
    """Do the work on a query thread, within the recipient's places, and note what was read."""
    if service.audit is not None:
        await service.audit.admit()
    service.queries.enter(asked.recipient.id)
    leave = partial(service.queries.leave, asked.recipient.id)
    making = asyncio.get_running_loop().run_in_executor(service.query_threads, _made, service, work, leave)
    try:
        await _made_in_time(service, making)
        answer, made = making.result()
    except BaseException as error:
        making.add_done_callback(partial(_given_up, service, leave))
        _note(service, call, asked, kind, error)
        raise
    if isinstance(answer, Answer):
        leave()
    _note(service, call, asked, kind, made)
    return answer


Made = tuple[Answer | StreamedAnswer, QueryAnswer]


async def _made_in_time(service: Service, making: asyncio.Future[Made]) -> None:
    """Wait for an answer to begin, as long as the settings say; the work itself cannot be interrupted."""
    seconds = service.settings.limits.request_seconds
    done, _ = await asyncio.wait({making}, timeout=seconds or None)
    if not done:
        raise ServiceUnavailableError("The answer takes too long to begin. Try again soon.", retry_after=10)


def _given_up(service: Service, leave: Callable[[], None], making: asyncio.Future[Made]) -> None:
    """Give back what an answer holds that nobody waits for any more."""
    if not making.cancelled() and making.exception() is None:
        answer = making.result()[0]
        if isinstance(answer, StreamedAnswer):
            service.query_threads.submit(answer.release)
            return
    leave()


def _made(service: Service, work: Callable[[], QueryAnswer], leave: Callable[[], None]) -> Made:
    made = work()
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in made.headers]
    headers.append((b"cache-control", b"no-store"))
    answer = whole_or_streamed(made.status, headers, made.chunks, service.query_threads)
    if isinstance(answer, Answer):
        return answer, made

    def release() -> None:
        try:
            answer.release()
        finally:
            leave()

    return dataclasses.replace(answer, release=release), made


def _note(service: Service, call: Call, asked: Asked, kind: str, result: QueryAnswer | BaseException) -> None:
    """Count and audit an answer."""
    details: dict[str, int | str] = {"request_id": call.request.id, "address": call.request.address}
    if isinstance(result, QueryAnswer):
        outcome = "allowed"
        if kind != "credentials":
            details["version"] = result.version
        if result.num_files is not None:
            details["files"] = result.num_files
    else:
        refused = isinstance(result, SharingError) and result.status < 500
        outcome = "denied" if refused else "failed"
        details["error"] = result.error_code if isinstance(result, SharingError) else "INTERNAL_ERROR"
    QUERIES.labels(kind, outcome).inc()
    if service.audit is not None:
        event = read_event(
            action=f"table.{kind}",
            recipient=asked.recipient.name,
            target=asked.table.full_name,
            outcome=outcome,
            details=details,
        )
        service.audit.note(event)
