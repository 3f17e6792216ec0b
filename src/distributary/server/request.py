"""Request: what the server reads of an HTTP request, within budgets.

Path segments are decoded once, each for itself (REST-004), so an escaped `/` is part of a name and never a
separator. Headers have lower-case names. Budgets (RELIABILITY G1): 32 KiB of headers, 8 KiB of path and
query, 1 MiB of body that must arrive within 30 s, JSON at most 32 levels deep. What exceeds one is
refused before more is read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from distributary.server.error_responses import (
    HeadersTooLargeError,
    PayloadTooLargeError,
    RequestTimeoutError,
)
from distributary.sharing.error_response import MalformedRequestError, ResourceNotFoundError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_HEADER_BYTES = 32 * 1024
MAX_TARGET_BYTES = 8 * 1024
MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 30.0
MAX_JSON_DEPTH = 32
_MAX_PARAMETERS = 50
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body not yet read."""

    id: str
    method: str
    path: str
    """As sent: percent escapes undecoded, without the query."""
    query_string: bytes
    headers: Mapping[str, str]
    address: str
    """Who called: the peer, or what a trusted proxy says."""
    receive: Receive

    def parameters(self) -> dict[str, str]:
        """The query parameters; one that is given twice is an error."""
        return parameters(self.query_string)

    async def body(self, limit: int = MAX_BODY_BYTES, seconds: float = BODY_SECONDS) -> bytes:
        """The whole body, where it is small and comes soon enough."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise MalformedRequestError("Content-Encoding is not supported: send the body as it is.")
        announced = self.headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit():
            raise MalformedRequestError("Content-Length is not a number.")
        if int(announced[:19]) > limit:
            raise PayloadTooLargeError(f"The body exceeds {limit} bytes.")
        try:
            async with asyncio.timeout(seconds):
                return await _received(self.receive, limit)
        except TimeoutError as error:
            raise RequestTimeoutError(f"The body did not arrive within {seconds:g} s.") from error


class ClientDisconnectedError(Exception):
    """The client left before its request was complete; nobody is there to answer."""


async def _received(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise PayloadTooLargeError(f"The body exceeds {limit} bytes.")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, lower-case names; of a repeated one the values joined, as HTTP says."""
    headers: dict[str, str] = {}
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(f"The headers exceed {MAX_HEADER_BYTES} bytes.")
    return headers


def path_segments(path: str) -> tuple[str, ...]:
    """The decoded segments of a path; what is no text cannot exist."""
    if "%" not in path:
        return tuple(path.split("/")[1:])
    try:
        return tuple(unquote_to_bytes(part).decode("utf-8") for part in path.split("/")[1:])
    except UnicodeDecodeError as error:
        raise ResourceNotFoundError("There is nothing at this path.") from error


def parameters(query_string: bytes) -> dict[str, str]:
    """The parameters of a query string."""
    if not query_string:
        return {}
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_PARAMETERS,
        )
    except ValueError as error:
        raise MalformedRequestError("The query string cannot be read.") from error
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedRequestError("A query parameter is given twice.")
    return found


def check_json_depth(body: bytes, limit: int = MAX_JSON_DEPTH) -> None:
    """Refuse a JSON text that nests too deeply, before anything parses it."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return
    depth = 0
    for token in _STRUCTURE.finditer(body):
        first = token[0][0]
        if first in b"[{":
            depth += 1
            if depth > limit:
                raise MalformedRequestError(f"The JSON of the body nests more than {limit} levels deep.")
        elif first in b"]}":
            depth -= 1
