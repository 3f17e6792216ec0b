"""A5 to A7: a proxy in front of an S3 server that loses answers, resets, cuts, delays and lies.

One request a connection, forwarded byte for byte (signatures stay valid). `fault` looks at each request
and says what happens to it:

- ``drop``: forwarded and carried out, but the answer never comes (the connection closes);
- ``reset``: the same, with a TCP reset;  ``cut``: the answer breaks off in its middle;
- ``late``: the connection closes first, the request reaches the server a moment later;
- ``twice``: the request reaches the server twice, and the second answer is given;
- ``unconditional``: forwarded without If-None-Match;  ``409``, ``500``, ``503``: answered so, not forwarded.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

LATER = 0.15
_CODES = {"409": "ConditionalRequestConflict", "500": "InternalError", "503": "SlowDown"}


class Request(NamedTuple):
    """The head of a request."""

    method: str
    path: str

    @property
    def is_commit(self) -> bool:
        """Whether it creates an entry of a Delta log."""
        return self.method == "PUT" and re.search(r"_delta_log/\d{20}\.json", self.path) is not None


Fault = Callable[[Request], str | None]


class FaultProxy:
    """A proxy whose faults can be changed while it runs."""

    def __init__(self, upstream: str, fault: Fault) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self.fault = fault
        self.struck = 0
        self.endpoint = ""
        self._background: set[asyncio.Task[bytes]] = set()

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, limit=1 << 24)
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await stop.wait()
        server.close()
        for task in self._background:
            task.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head, body = await _read_request(reader)
                method, path, _ = head.split(b" ", 2)
                fault = self.fault(Request(method.decode(), path.decode()))
                self.struck += fault is not None
                await self._carry_out(fault, head, body, writer)
        finally:
            writer.close()

    async def _carry_out(
        self, fault: str | None, head: bytes, body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        if fault in _CODES:
            text = f"<Error><Code>{_CODES[fault]}</Code></Error>".encode()
            status = f"HTTP/1.1 {fault} Fault\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            writer.write(status.encode() + text)
        elif fault == "late":
            task = asyncio.create_task(self._later(head, body))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        else:
            if fault == "unconditional":
                head = re.sub(rb"(?i)\r\nif-none-match: [^\r]*", b"", head)
            answer = await self._forward(head, body)
            if fault == "twice":
                answer = await self._forward(head, body)
            _give(writer, answer, fault)
        await writer.drain()

    async def _later(self, head: bytes, body: bytes) -> bytes:
        await asyncio.sleep(LATER)
        return await self._forward(head, body)

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(_closing(head) + body)
            await writer.drain()
            return _closing(await reader.read())
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return head, body


def _closing(message: bytes) -> bytes:
    """The message with the connection ending after it."""
    head, mark, body = message.partition(b"\r\n\r\n")
    return re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head) + b"\r\nConnection: close" + mark + body


def _give(writer: asyncio.StreamWriter, answer: bytes, fault: str | None) -> None:
    if fault == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    elif fault == "cut":
        writer.write(answer[: len(answer) // 2])
    elif fault != "drop":
        writer.write(answer)


@contextmanager
def fault_proxy(upstream: str, fault: Fault = lambda request: None) -> Iterator[FaultProxy]:
    """Run a proxy in a thread of its own."""
    proxy = FaultProxy(upstream, fault)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def run() -> None:
        loop.run_until_complete(proxy.serve(started, stop))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
