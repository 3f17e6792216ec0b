"""Answers: what the server sends back, at once or as a stream.

Streams are sent piece by piece; the next piece is made on a thread while the last one is on its way, so a
slow reader holds two pieces in memory and no more (RELIABILITY C4). granian reports a client's leaving
only through `receive`, never in `send`; a stream therefore watches both, and stops making pieces within
one of them (C2). A reader that is slower than the slowest rate for the stall time is cut off: parts start
small and grow while they are taken quickly, so a part never takes a rightful reader longer than that. A
stream that fails midway ends without its last chunk, which every HTTP client sees as cut (P4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final

from distributary.server.request import Receive, Send

Headers = Sequence[tuple[bytes, bytes]]
PIECE_BYTES: Final = 1024 * 1024
_QUICK_SECONDS: Final = 0.1
_LEAST_PART: Final = 4096
_FIRST_PART: Final = 64 * 1024
_WHOLE_BYTES: Final = 256 * 1024
_READY_BYTES: Final = 900 * 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    until: float = 0.0
    """Until when (`time.monotonic`) the same caller may be given it again, as far as the catalog goes."""


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer whose pieces are made on `executor` while it is sent."""

    status: int
    headers: Headers
    pieces: Iterator[bytes]
    executor: Executor = field(repr=False)
    length: int | None = None
    """The number of bytes, where it is known beforehand."""
    release: Callable[[], None] = lambda: None
    """Gives back what the answer holds (files, places of limits); called once, on the executor."""
    ready: list[bytes] = field(default_factory=list[bytes], repr=False)
    """Pieces that are made already; they go first."""
    ended: bool = False
    """Whether there are no others than those."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How slow a reader may be."""

    seconds: float = 60.0
    bytes_per_second: int = 1024

    @property
    def least_part(self) -> int:
        """How much the slowest rightful reader takes in the time."""
        return min(max(int(self.seconds * self.bytes_per_second), _LEAST_PART), _FIRST_PART)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of an answer."""

    status: int
    sent: int
    complete: bool


async def deliver(
    answer: Answer | StreamedAnswer,
    receive: Receive,
    send: Send,
    *,
    head: bool = False,
    patience: Patience = Patience(),  # noqa: B008  # a frozen value
    also: Headers = (),
) -> Delivery:
    """Send an answer with further headers; `head` sends the headers only."""
    if isinstance(answer, StreamedAnswer):
        return await _deliver_stream(answer, receive, send, None if head else patience, also)
    headers = [*answer.headers, *also, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if head else answer.body
    await send({"type": "http.response.body", "body": body, "more_body": False})
    return Delivery(answer.status, len(body), complete=True)


async def _deliver_stream(
    answer: StreamedAnswer, receive: Receive, send: Send, patience: Patience | None, also: Headers
) -> Delivery:
    headers = [*answer.headers, *also]
    if answer.length is not None:
        headers.append((b"content-length", str(answer.length).encode()))
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if patience is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return Delivery(answer.status, 0, complete=True)
        return await _pump(answer, receive, _Sender(send, patience))
    finally:
        if answer.ended:
            answer.release()
        else:
            await asyncio.get_running_loop().run_in_executor(answer.executor, answer.release)


async def _pump(answer: StreamedAnswer, receive: Receive, sender: _Sender) -> Delivery:
    """Make and send piece after piece until the end, or until nobody takes them."""
    gone = asyncio.ensure_future(_disconnected(receive))
    making = None if answer.ended else _making(answer)
    try:
        for piece in _emptied(answer.ready):
            if not await sender.took(piece, gone):
                return Delivery(answer.status, sender.sent, complete=False)
        while making is not None and (piece := await making) is not None:
            making = _making(answer)
            if not await sender.took(piece, gone):
                return Delivery(answer.status, sender.sent, complete=False)
        await sender.send({"type": "http.response.body", "body": b"", "more_body": False})
        return Delivery(answer.status, sender.sent, complete=True)
    finally:
        gone.cancel()
        if making is not None:
            await asyncio.wait([making])


def _making(answer: StreamedAnswer) -> asyncio.Future[bytes | None]:
    """The next piece, which a thread makes."""
    return asyncio.get_running_loop().run_in_executor(answer.executor, _next_piece, answer.pieces)


class _Sender:
    """Sends pieces in parts whose size follows how quickly they are taken."""

    def __init__(self, send: Send, patience: Patience) -> None:
        self.send = send
        self.sent = 0
        self._patience = patience
        self._part = patience.least_part

    async def took(self, piece: bytes, gone: asyncio.Future[None]) -> bool:
        """Whether the client took a whole piece before it left and before the time was up."""
        start = 0
        while start < len(piece):
            part = piece[start : start + self._part]
            if gone.done() or not await self._took_part(part, gone):
                return False
            start += len(part)
            self.sent += len(part)
        return True

    async def _took_part(self, part: bytes, gone: asyncio.Future[None]) -> bool:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        sending = asyncio.ensure_future(
            self.send({"type": "http.response.body", "body": part, "more_body": True})
        )
        await asyncio.wait(
            {sending, gone}, timeout=self._patience.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not sending.done():
            sending.cancel()
            return False
        sending.result()
        await asyncio.sleep(0)
        quick = loop.time() - begun < _QUICK_SECONDS
        self._part = min(self._part * 2, PIECE_BYTES) if quick else self._patience.least_part
        return not gone.done()


def _next_piece(pieces: Iterator[bytes]) -> bytes | None:
    for piece in pieces:
        if piece:
            return piece
    return None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def whole_or_streamed(
    status: int, headers: Headers, pieces: Iterator[bytes], executor: Executor
) -> Answer | StreamedAnswer:
    """Give a short answer whole, a long one as a stream; to be called off the event loop.

    One in between is made at once, too, but sent as a stream: its reader may be slow.
    """
    taken: list[bytes] = []
    size = 0
    for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if size > _READY_BYTES:
            return StreamedAnswer(status, headers, pieces, executor, release=_closing(pieces), ready=taken)
    if size > _WHOLE_BYTES:
        return StreamedAnswer(status, headers, pieces, executor, size, ready=taken, ended=True)
    return Answer(status, headers, b"".join(taken))


def _emptied(taken: list[bytes]) -> Iterator[bytes]:
    """Hand pieces on without keeping them."""
    while taken:
        yield taken.pop(0)


def _closing(pieces: Iterator[bytes]) -> Callable[[], None]:
    """How to let a generator end early, where it is one."""
    close: Callable[[], None] | None = getattr(pieces, "close", None)
    return close if close is not None else lambda: None
