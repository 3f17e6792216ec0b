"""A1: writers killed at random moments, and at every system call."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs import syscall_rig
from rigs.kill_rig import run_kills
from rigs.syscall_rig import SCENARIOS, faults_of, run_faults

needs_strace = pytest.mark.skipif(syscall_rig.missing() is not None, reason=str(syscall_rig.missing()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_writers_killed_at_random_moments_lose_and_tear_nothing(tmp_path: Path, seed: int) -> None:
    """LW-001, LW-002, A1, P1: 500 kills a seed; what was acknowledged is there, once."""
    outcome = run_kills(tmp_path, rounds=250, seed=seed)
    assert outcome["faults"] == []
    assert outcome["kills"] == 500
    assert outcome["acknowledged"] > 250


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_writer_killed_at_every_system_call_leaves_a_whole_table(memory_path: Path, scenario: str) -> None:
    """LW-001, LW-002, A1, P1: exhaustive; wholly there or not at all, and no repair is needed."""
    outcomes = run_faults(memory_path, scenario, "KILL")
    assert len(outcomes) > 25
    assert [fault for outcome in outcomes for fault in faults_of(outcome, "KILL")] == []
