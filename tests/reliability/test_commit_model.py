"""A model check of the commit protocol: all interleavings of three writers (RELIABILITY 1.6, rig 7)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rigs.commit_model import Exploration, Protocol, explore


@pytest.fixture(scope="module")
def explored() -> Exploration:
    return explore(Protocol())


def test_three_writers_in_every_interleaving_keep_all_promises(explored: Exploration) -> None:
    """LW-001, LW-002, A1, A5: lost requests and answers, late and doubled delivery, crashes anywhere."""
    assert explored.faults == frozenset()
    assert explored.states > 10_000


def test_state_count_is_the_one_that_the_docs_say(explored: Exploration, project_dir: Path) -> None:
    """A figure in the docs is the figure of this very model."""
    text = (project_dir / "docs" / "guarantees.md").read_text()
    found = re.search(r"([\d,]+) states and ([\d,]+) steps", text)
    assert found is not None
    assert [int(number.replace(",", "")) for number in found.groups()] == [explored.states, explored.steps]


def test_model_without_reading_ids_back_takes_its_own_commit_for_anothers() -> None:
    """A5: the mutant shows that the model can fail, and why ids are read back."""
    mutant = explore(Protocol(reads_back=False))
    assert mutant.faults == {"a writer takes its own commit for another's"}


def test_model_of_a_store_that_overwrites_loses_an_acknowledged_commit() -> None:
    """A7: the mutant shows why a store without create-once is refused."""
    mutant = explore(Protocol(writers=2, creates_once=False))
    assert "an acknowledged commit is lost" in mutant.faults
