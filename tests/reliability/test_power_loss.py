"""A2: what a power loss may leave of recorded commits, checkpoints and data files."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.crash_disk import Op, states
from rigs.power_loss import lose_power


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "seeds"),
    [("one writer", [1]), ("racing writers", [1]), ("stalling writers", [2, 6]), ("rows", [1])],
)
def test_power_loss_at_any_moment_keeps_what_was_acknowledged(
    tmp_path: Path, scenario: str, seeds: list[int]
) -> None:
    """LW-001, A2, P1: every prefix; all, none and some of what was not synced; sectors torn at 512 bytes."""
    for seed in seeds:
        losses = lose_power(tmp_path, scenario, seed, sample=1)
        assert losses.faults == []
        assert losses.states > 350


def test_crash_disk_forgets_what_was_not_synced() -> None:
    """A2: the rig itself: bytes and names may be lost until they are synced, and not after."""
    made = [
        Op("create", "/r", "t", 1),
        Op("write", file=1, data=b"x" * 1024),
        Op("sync", file=1),
        Op("link", "/r", "f", 1),
    ]
    before = {state.files.get("/r/f") for state in states(made, "/r", 4)}
    assert before == {None, b"x" * 1024}
    after = [state.files.get("/r/f") for state in states([*made, Op("sync directory", "/r")], "/r", 4)]
    assert after[-1] == b"x" * 1024
    torn = {state.files.get("/r/t") for state in states(made[:2], "/r", 4, seed=3)}
    assert {None, b"", b"x" * 1024} <= torn
