"""Sending answers: every byte once, whatever the reader's pace; what is held is given back."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from distributary.server.answers import Answer, Patience, StreamedAnswer, deliver, whole_or_streamed

THREADS = ThreadPoolExecutor(2)


def sent(answer, *, pace=lambda: 0.0, leaves_after=None, patience=None, head=False):
    """Deliver an answer to a reader, and give what it got and what became of it."""
    got = bytearray()
    gone = asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        await asyncio.sleep(pace())
        got.extend(message.get("body", b""))
        if leaves_after is not None and len(got) >= leaves_after:
            gone.set()

    async def run():
        more = {} if patience is None else {"patience": patience}
        return await deliver(answer, receive, send, head=head, **more)

    return asyncio.run(run()), bytes(got)


@pytest.mark.parametrize("sizes", [[10], [70_000, 1, 3_000_000], [200_000] * 20, [0, 5, 0]])
def test_every_byte_is_sent_once(sizes):
    """RELIABILITY P4: pieces of any size, parts that grow while they are taken quickly"""
    data = random.Random(1).randbytes(sum(sizes))
    pieces = [data[sum(sizes[:n]) : sum(sizes[: n + 1])] for n in range(len(sizes))]
    dice = random.Random(2)
    slow = [lambda: 0.0, lambda: dice.choice([0.0, 0.0, 0.0, 0.12])]
    for pace in slow:
        released: list[int] = []
        answer = StreamedAnswer(200, (), iter(pieces), THREADS, release=partial(released.append, 1))
        delivery, got = sent(answer, pace=pace)
        assert got == data
        assert (delivery.complete, delivery.sent, released) == (True, len(data), [1])


def test_client_that_leaves_stops_the_work():
    """RELIABILITY C2"""
    made, released = [], []

    def pieces():
        for number in range(1000):
            made.append(number)
            yield b"x" * 100_000

    answer = StreamedAnswer(200, (), pieces(), THREADS, release=lambda: released.append(1))
    delivery, _ = sent(answer, leaves_after=1_000_000)
    assert not delivery.complete
    assert len(made) < 30
    assert released == [1]


def test_reader_that_takes_nothing_is_cut_off():
    """RELIABILITY C4: the slowest rate, and no longer"""
    answer = StreamedAnswer(200, (), iter([b"x" * 10] * 5), THREADS)
    dice = iter([0.0, 0.0] + [5.0] * 10)
    delivery, _ = sent(answer, pace=lambda: next(dice), patience=Patience(0.05, 1))
    assert not delivery.complete


def test_failure_midway_gives_back_what_is_held_and_is_not_ended_cleanly():
    released = []

    def pieces():
        yield b"x"
        raise ValueError("broken")

    answer = StreamedAnswer(200, (), pieces(), THREADS, release=lambda: released.append(1))
    with pytest.raises(ValueError, match="broken"):
        sent(answer)
    assert released == [1]


def test_head_sends_no_body_and_gives_back_what_is_held():
    released = []
    answer = StreamedAnswer(200, (), iter([b"x"]), THREADS, 1, lambda: released.append(1))
    assert sent(answer, head=True)[1] == b""
    assert released == [1]


def test_short_answers_are_whole_and_long_ones_are_streams():
    assert whole_or_streamed(200, (), iter([b"a", b"b"]), THREADS) == Answer(200, (), b"ab")
    for pieces, known in ((3, 600_000), (9, None)):
        long = whole_or_streamed(200, (), iter([b"a" * 200_000] * pieces), THREADS)
        assert isinstance(long, StreamedAnswer)
        assert long.length == known
        assert sent(long)[1] == b"a" * 200_000 * pieces
