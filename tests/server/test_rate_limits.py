"""Limits per recipient: exact in one process, shared between workers, fair to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.server.rate_limits import CallRate, Concurrency
from distributary.sharing.error_response import TooManyRequestsError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def admitted(rate: CallRate, recipient: str, calls: int) -> int:
    count = 0
    for _ in range(calls):
        try:
            rate.admit(recipient)
        except TooManyRequestsError:
            continue
        count += 1
    return count


def test_burst_then_rate():
    """RELIABILITY C5: excess gets 429 with Retry-After."""
    clock = Clock()
    rate = CallRate(10, 20, None, clock)
    assert admitted(rate, "a", 100) == 20
    with pytest.raises(TooManyRequestsError) as refusal:
        rate.admit("a")
    assert refusal.value.retry_after == 1
    clock.now += 1
    assert admitted(rate, "a", 100) == 10
    clock.now += 3600
    assert admitted(rate, "a", 100) == 20


def test_one_recipient_does_not_use_up_another_one_s_calls():
    rate = CallRate(10, 20, None, Clock())
    assert admitted(rate, "greedy", 1000) == 20
    assert admitted(rate, "modest", 20) == 20


def test_workers_share_one_limit(tmp_path: Path):
    clock, file = Clock(), tmp_path / "limits"
    workers = [CallRate(10, 20, file, clock) for _ in range(3)]
    assert sum(admitted(worker, "a", 20) for worker in workers) == 20


def test_moments_of_another_boot_are_forgotten(tmp_path: Path):
    before, after = Clock(), Clock()
    before.now = 10_000_000
    assert admitted(CallRate(10, 20, tmp_path / "limits", before), "a", 50) == 20
    assert admitted(CallRate(10, 20, tmp_path / "limits", after), "a", 50) == 20


def test_zero_is_no_limit():
    assert admitted(CallRate(0, 0, None), "a", 10_000) == 10_000
    unlimited = Concurrency(0, "queries")
    for _ in range(1000):
        unlimited.enter("a")


def test_work_at_once_is_bounded_per_recipient():
    queries = Concurrency(2, "queries")
    queries.enter("a")
    queries.enter("a")
    with pytest.raises(TooManyRequestsError, match="2 queries running"):
        queries.enter("a")
    queries.enter("b")
    queries.leave("a")
    queries.enter("a")
    assert queries.running() == 3
