"""The admin listener as an ASGI application: health, metrics, and the description of the protocol.

It answers on an address of its own, loopback by default, and never on the public one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from distributary.catalog.database import Database
from distributary.server.answers import Answer, deliver
from distributary.server.endpoints import health
from distributary.server.error_responses import as_sharing_error, error_headers
from distributary.server.observability import METRICS_CONTENT_TYPE, metrics_text
from distributary.server.openapi import openapi_description
from distributary.server.request import Receive, Scope, Send
from distributary.server.routes import Route, Router
from distributary.server.settings import Settings

_JSON: Final = ((b"content-type", b"application/json"),)

AdminEndpoint = Callable[[], Awaitable[Answer]]


class AdminApp:
    """The ASGI callable of the admin listener."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(settings.database)
        self._threads = ThreadPoolExecutor(2, "admin")
        self._routes: Router[AdminEndpoint] = Router(
            [
                Route("healthz", "GET", "/healthz", health.alive),
                Route("readyz", "GET", "/readyz", self._ready),
                Route("metrics", "GET", "/metrics", self._metrics),
                Route("openapi", "GET", "/openapi.json", self._description),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            answer = await self._answered(scope)
            await deliver(answer, receive, send, head=scope["method"] == "HEAD")

    async def _answered(self, scope: Scope) -> Answer:
        try:
            match = self._routes.match(scope["method"], scope["raw_path"].decode("latin-1"))
            return await match.route.handler()
        except Exception as error:
            told = as_sharing_error(error)
            return Answer(told.status, error_headers(told), told.response().encode())

    async def _ready(self) -> Answer:
        return await health.ready(self._threads, self._database, draining=False)

    async def _metrics(self) -> Answer:
        text = await asyncio.get_running_loop().run_in_executor(self._threads, metrics_text)
        return Answer(200, ((b"content-type", METRICS_CONTENT_TYPE.encode()),), text)

    async def _description(self) -> Answer:
        return Answer(200, _JSON, msgspec.json.encode(openapi_description(self._settings.endpoint)))


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
