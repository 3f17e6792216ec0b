"""The least that an ASGI application on granian can do: the bound of every server that is built so.

It answers each request with the same short list, knows no tokens, writes no log and counts nothing.
"""

from __future__ import annotations

from typing import Any

BODY = b'{"items":[{"name":"lake","id":"00000000-0000-0000-0000-000000000000"}]}'
HEADERS = [
    (b"content-type", b"application/json; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"content-length", str(len(BODY)).encode()),
]


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY, "more_body": False})
        return
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})
