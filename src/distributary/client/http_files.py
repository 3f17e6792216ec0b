"""Files over HTTP: connections that are kept and used again, and ranges of one URL.

The standard library's connections are used here: for a thousand small files the HTTP itself costs a third
of what the client of `rest` needs. No token is ever sent to a file URL. Redirects are followed only to
addresses that file URLs may have.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from distributary.client.connection import ConnectionSettings, Origin, check_file_url, proxy_for
from distributary.client.errors import UntrustedAddressError

SLOWEST_RATE: Final = 1000
_CHUNK: Final = 1 << 20
_MOST_IDLE: Final = 32
_MOST_REDIRECTS: Final = 3
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class FileReply(msgspec.Struct, frozen=True):
    """What a file server answered; `cut` where the connection broke before the end of the body."""

    status: int
    data: bytes
    cut: bool
    content_range: str | None
    etag: str | None
    retry_after: str | None

    def __repr__(self) -> str:
        return f"FileReply({self.status}, {len(self.data)} bytes)"


class FileConnections:
    """Connections to file servers, kept between requests; to be used by any number of threads."""

    def __init__(
        self, endpoint: Origin, settings: ConnectionSettings, context: Callable[[], ssl.SSLContext]
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._context = context
        self._idle: defaultdict[Origin, deque[http.client.HTTPConnection]] = defaultdict(deque)
        self._lock = threading.Lock()
        self._closed = False

    def get(self, url: str, start: int | None, end: int | None, most: int) -> FileReply:
        """A GET of a range (`end` included; a start of None asks for the last `end` bytes), or of all.

        At most `most` bytes of the body are taken. OSError and HTTPException where there is no answer.
        """
        headers = {"Accept-Encoding": "identity"}
        if start is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end}"
        elif end is not None:
            headers["Range"] = f"bytes=-{end}"
        for _ in range(_MOST_REDIRECTS):
            reply, place = self._once(url, headers, most)
            if place is None:
                return reply
            url = urljoin(url, place)
        raise UntrustedAddressError("a file URL redirects without end")

    def close(self) -> None:
        """Close the connections that are not in use; those in use are closed after it."""
        with self._lock:
            self._closed = True
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _once(self, url: str, headers: dict[str, str], most: int) -> tuple[FileReply, str | None]:
        origin = check_file_url(url, self._endpoint, self._settings)
        connection, used = self._take(origin)
        try:
            response = self._send(connection, origin, url, headers)
        except (OSError, http.client.HTTPException):
            connection.close()
            if not used:
                raise
            # The server may have closed a kept connection just now; that says nothing about the server.
            connection = self._connect(origin)
            response = self._send(connection, origin, url, headers)
        try:
            reply = self._read(response, most)
        except BaseException:
            connection.close()
            raise
        self._give_back(origin, connection, response, reply)
        place = response.headers.get("Location") if response.status in _REDIRECTS else None
        return reply, place

    def _send(
        self, connection: http.client.HTTPConnection, origin: Origin, url: str, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        proxy = proxy_for(origin, self._settings) if origin.scheme == "http" else None
        if proxy is not None:
            target = f"{origin}{target}"
            headers = {**headers, **_proxy_headers(proxy)}
        connection.request("GET", target, headers=headers)
        return connection.getresponse()

    def _read(self, response: http.client.HTTPResponse, most: int) -> FileReply:
        """The body, read as it comes; more than wanted is left, and a body that only drips is given up."""
        started, parts, received, cut = time.monotonic(), list[bytes](), 0, False
        expected = response.length
        try:
            while received <= most and (part := response.read1(_CHUNK)):
                parts.append(part)
                received += len(part)
                elapsed = time.monotonic() - started
                if elapsed > self._settings.timeout and received < elapsed * SLOWEST_RATE:
                    raise TimeoutError(f"only {received} bytes in {elapsed:.0f} seconds")
        except http.client.IncompleteRead as error:
            parts.append(error.partial)
            cut = True
        except (ConnectionError, ssl.SSLError):
            cut = True
        if response.length == 0:
            # It knows that nothing is left only when told so; then the connection can be used again.
            response.close()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        cut = cut or (expected is not None and len(data) < min(expected, most))
        headers = response.headers
        return FileReply(
            response.status,
            data,
            cut,
            headers.get("Content-Range"),
            headers.get("ETag"),
            headers.get("Retry-After"),
        )

    def _take(self, origin: Origin) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            kept = self._idle[origin]
            if kept:
                return kept.pop(), True
        return self._connect(origin), False

    def _give_back(
        self,
        origin: Origin,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        reply: FileReply,
    ) -> None:
        finished = response.isclosed() and not reply.cut and not response.will_close
        with self._lock:
            if finished and not self._closed and len(self._idle[origin]) < _MOST_IDLE:
                self._idle[origin].append(connection)
                return
        connection.close()

    def _connect(self, origin: Origin) -> http.client.HTTPConnection:
        timeout = self._settings.timeout
        proxy = proxy_for(origin, self._settings)
        host, port = origin.host, origin.port
        if proxy is not None:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            host, port = parts.hostname or "", parts.port or 3128
        if origin.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context())
        if proxy is not None:
            connection.set_tunnel(origin.host, origin.port, headers=_proxy_headers(proxy))
        return connection


def _proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.username is None:
        return {}
    text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(text.encode()).decode()}
