"""The public listener as an ASGI application: protocol, file tickets, health.

A request is given an id, is authenticated (401 before anything else is said), counted against the
recipient's rate, routed and answered; whatever goes wrong becomes one of the protocol's errors. Nothing that
blocks runs here: the catalog, tables and files are asked on threads. Each request ends in one line of the
log and one entry of the metrics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from distributary.catalog.recipients import Recipient
from distributary.server.answers import Answer, Delivery, StreamedAnswer, deliver
from distributary.server.authentication import TokenInvalidError, TokenMissingError, caller_address
from distributary.server.endpoints import health
from distributary.server.endpoints.file_access import file_bytes
from distributary.server.error_responses import (
    HeadersTooLargeError,
    as_sharing_error,
    error_headers,
    is_unexpected,
)
from distributary.server.event_log import RequestLine
from distributary.server.file_tickets import FILES_PATH
from distributary.server.observability import (
    AUTH_FAILURES,
    CUT_STREAMS,
    RATE_LIMITED,
    REQUEST_ID_HEADER,
    RequestIds,
    observe_request,
    request_began,
)
from distributary.server.protocol_routes import PROTOCOL_ROUTES
from distributary.server.remembered_lists import (
    ListRequest,
    RememberedList,
    RememberedLists,
    list_request,
)
from distributary.server.request import (
    MAX_TARGET_BYTES,
    ClientDisconnectedError,
    Receive,
    Request,
    Scope,
    Send,
    headers_of,
)
from distributary.server.routes import Call, Route, Router
from distributary.server.service import Service
from distributary.sharing.error_response import (
    PermissionDeniedError,
    TooManyRequestsError,
)

_REQUEST_ID: Final = REQUEST_ID_HEADER.encode()
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FILE_ROUTES: Final = Router([Route("file", "GET", FILES_PATH + "/{head}/{file}/{name}", None)])
_HEALTH_ROUTES: Final = Router(
    [Route("healthz", "GET", "/healthz", None), Route("readyz", "GET", "/readyz", None)]
)


@dataclass(slots=True)
class Exchange:
    """What is known of one request while it is answered, for the log and the metrics."""

    id: str
    method: str
    route: str = "none"
    recipient: str | None = None
    recipient_id: str | None = None
    user_agent: str | None = None
    address: str = ""
    started: float = field(default_factory=time.perf_counter)


class SharingApp:
    """The ASGI callable of one worker."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ids = RequestIds()
        self._prefix = service.settings.prefix
        self._routes = Router(PROTOCOL_ROUTES)
        self._lists = RememberedLists(service.authentication)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the life of the process."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._exchange(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._service.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = list_request(scope)
        known = None if asked is None else self._lists.get(asked.key)
        if asked is not None and known is not None and self._admits(known.recipient_id):
            await self._given_again(asked, known, send)
            return
        exchange = Exchange(self._ids.id_for(_given_id(scope)), scope["method"])
        request_began()
        delivery = Delivery(0, 0, complete=False)
        try:
            answer = await self._answered(exchange, scope, receive)
            if answer is not None:
                delivery = await self._delivered(exchange, answer, receive, send)
                if asked is not None and isinstance(answer, Answer) and answer.until:
                    recipient_id, name = exchange.recipient_id or "", exchange.recipient or ""
                    self._lists.keep(asked, recipient_id, name, exchange.route, answer)
        finally:
            self._record(exchange, delivery)

    def _admits(self, recipient_id: str) -> bool:
        """Whether a recipient may call again now; where not, the long way says so."""
        try:
            self._service.call_rate.admit(recipient_id)
        except TooManyRequestsError:
            return False
        return True

    async def _given_again(self, asked: ListRequest, known: RememberedList, send: Send) -> None:
        """Answer with a list that was just given."""
        started, id, complete = time.perf_counter(), self._ids.id_for(asked.given_id), False
        request_began()
        try:
            headers = [*known.headers, (_REQUEST_ID, id.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": known.body, "more_body": False})
            complete = True
        finally:
            line = RequestLine(
                request_id=id, method="GET", route=known.route, status=200, bytes=len(known.body),
                ms=time.perf_counter() - started, address=asked.key[1], recipient=known.recipient,
                user_agent=asked.user_agent, complete=None if complete else False,
            )  # fmt: skip
            self._noted(line)

    async def _answered(
        self, exchange: Exchange, scope: Scope, receive: Receive
    ) -> Answer | StreamedAnswer | None:
        """The answer to a request, be it an error; None where nobody waits for it any more."""
        try:
            return await self._answer(exchange, self._request(exchange, scope, receive))
        except ClientDisconnectedError:
            return None
        except Exception as error:
            return self._error_answer(exchange, error)

    async def _delivered(
        self, exchange: Exchange, answer: Answer | StreamedAnswer, receive: Receive, send: Send
    ) -> Delivery:
        try:
            return await deliver(
                answer,
                receive,
                send,
                head=exchange.method == "HEAD",
                patience=self._service.patience,
                also=((_REQUEST_ID, exchange.id.encode()),),
            )
        except Exception as error:
            self._service.log.error("stream_failed", error, request_id=exchange.id, route=exchange.route)
            CUT_STREAMS.labels("failed").inc()
            return Delivery(answer.status, 0, complete=False)

    def _request(self, exchange: Exchange, scope: Scope, receive: Receive) -> Request:
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_TARGET_BYTES:
            raise HeadersTooLargeError(f"The path and query exceed {MAX_TARGET_BYTES} bytes.")
        headers = headers_of(scope)
        settings = self._service.settings
        client = scope["client"]
        peer = client[0] if client else ""
        exchange.address = caller_address(peer, headers.get("x-forwarded-for"), settings.trusted_proxies)
        exchange.user_agent = headers.get("user-agent")
        path = scope["raw_path"].decode("latin-1")
        return Request(
            exchange.id, scope["method"], path, scope["query_string"], headers, exchange.address, receive
        )

    async def _answer(self, exchange: Exchange, request: Request) -> Answer | StreamedAnswer:
        path = request.path
        if path == self._prefix or path.startswith(self._prefix + "/"):
            return await self._protocol_answer(exchange, request, path[len(self._prefix) :])
        if path.startswith(FILES_PATH + "/"):
            exchange.route = "file"
            match = _FILE_ROUTES.match(request.method, path)
            return await file_bytes(self._service, request, match.names)
        match = _HEALTH_ROUTES.match(request.method, path)
        exchange.route = match.route.name
        if match.route.name == "healthz":
            return await health.alive()
        service = self._service
        return await health.ready(service.catalog_threads, service.database, draining=service.draining)

    async def _protocol_answer(
        self, exchange: Exchange, request: Request, path: str
    ) -> Answer | StreamedAnswer:
        service = self._service
        recipient = await service.authentication.caller(request.headers.get("authorization"), request.address)
        exchange.recipient, exchange.recipient_id = recipient.name, recipient.id
        service.call_rate.admit(recipient.id)
        return await self._routed(exchange, request, recipient, path)

    async def _routed(
        self, exchange: Exchange, request: Request, recipient: Recipient, path: str
    ) -> Answer | StreamedAnswer:
        match = self._routes.match(request.method, path)
        exchange.route = match.route.name
        return await match.route.handler(self._service, Call(request, recipient, match.names))

    def _error_answer(self, exchange: Exchange, error: Exception) -> Answer:
        told = as_sharing_error(error)
        if isinstance(error, TokenMissingError | TokenInvalidError):
            AUTH_FAILURES.labels(error.code.lower()).inc()
        elif isinstance(error, PermissionDeniedError):
            AUTH_FAILURES.labels("denied").inc()
        elif isinstance(error, TooManyRequestsError):
            RATE_LIMITED.inc()
        if is_unexpected(error):
            cause = error.__cause__ if told is error and error.__cause__ is not None else error
            self._service.log.error("request_failed", cause, request_id=exchange.id, route=exchange.route)
        body = b"" if exchange.method == "HEAD" else told.response().encode()
        return Answer(told.status, error_headers(told), body)

    def _record(self, exchange: Exchange, delivery: Delivery) -> None:
        self._noted(
            RequestLine(
                request_id=exchange.id,
                method=exchange.method if exchange.method in _METHODS else "other",
                route=exchange.route,
                status=delivery.status,
                ms=time.perf_counter() - exchange.started,
                bytes=delivery.sent,
                address=exchange.address,
                recipient=exchange.recipient,
                user_agent=exchange.user_agent,
                complete=None if delivery.complete else False,
            )
        )

    def _noted(self, line: RequestLine) -> None:
        """Count and log a request; the line comes with its seconds."""
        observe_request(line.route, line.method, line.status, line.ms, line.bytes)
        if line.complete is False:
            CUT_STREAMS.labels("left").inc()
        line.ms *= 1000
        self._service.log.request(line)


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID:
            return value.decode("latin-1")
    return None
