"""The application without a listener: requests as values, for what needs ten thousand of them."""

from __future__ import annotations

import asyncio
import io
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from distributary.server.app import SharingApp
from distributary.server.event_log import EventLog
from distributary.server.service import Service
from distributary.server.settings import Cache, Settings
from sharing_world.contents import Contents


@dataclass(frozen=True)
class Reply:
    """What the application sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        assert self.status == 200, self.body
        return [json.loads(line) for line in self.body.splitlines()]


class InProcess:
    """One worker's application, driven by hand."""

    def __init__(self, contents: Contents, **settings: Any) -> None:
        self.contents = contents
        self.written = io.BytesIO()
        values = Settings(
            database=contents.database.url.render_as_string(hide_password=False),
            key_file=str(contents.keys.path),
            cache=Cache(folder=str(contents.folder / f"cache-{uuid.uuid4().hex}")),
        )
        self.service = Service(msgspec.structs.replace(values, **settings), EventLog(self.written))
        self.app = SharingApp(self.service)

    def close(self) -> None:
        self.service.close()

    def call(self, *arguments: Any, **more: Any) -> Reply:
        """One request, from beginning to end."""
        return asyncio.run(self.send(*arguments, **more))

    async def send(
        self,
        method: str,
        path: str,
        *,
        token: str | None = "acme",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> Reply:
        """One request; `token` names a recipient or is a token."""
        sent: list[Any] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(self._scope(method, path, token, headers or {}, address), receive, send)
        start, *rest = sent
        names = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], names, b"".join(message["body"] for message in rest))

    def _scope(
        self, method: str, path: str, token: str | None, headers: Mapping[str, str], address: str
    ) -> dict[str, Any]:
        path, _, query = path.partition("?")
        if path.startswith("/shares"):
            path = f"/delta-sharing{path}"
        listed = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        if token is not None:
            text = f"Bearer {self.contents.tokens.get(token, token)}"
            listed.append((b"authorization", text.encode("utf-8", "replace")))
        return {
            "type": "http",
            "method": method,
            "raw_path": path.encode("utf-8", "surrogateescape"),
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": listed,
            "client": (address, "1"),
        }
