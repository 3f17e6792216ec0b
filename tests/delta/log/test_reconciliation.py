"""Replay: the newest reference to a file wins. Pure functions, and a slow oracle."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.errors import CorruptLogError
from distributary.delta.log.actions import Add, CommitActions, DomainMetadata, Remove, SetTransaction
from distributary.delta.log.reconciliation import (
    active_adds,
    latest_domains,
    latest_file_actions,
    latest_transactions,
)


def vector(name: str) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=f"{name:x<20}", offset=1, size_in_bytes=34, cardinality=1
    )


def add(path: str, size: int = 1, dv: str | None = None, stats: str | None = None) -> Add:
    return Add(path, {}, size, 0, data_change=True, stats=stats, deletion_vector=vector(dv) if dv else None)


def remove(path: str, dv: str | None = None) -> Remove:
    return Remove(path, data_change=True, deletion_vector=vector(dv) if dv else None)


def replay(*commits: list[Add | Remove]):
    numbered = [CommitActions(version, tuple(files)) for version, files in enumerate(commits)]
    return latest_file_actions(numbered, lambda path: path.removeprefix("./"))


def test_later_remove_and_later_add_win() -> None:
    """LR-020, LR-026: replay in ascending order; a file is active or a tombstone, never both."""
    removed = replay([add("a")], [remove("a")])
    assert active_adds(removed) == []
    assert list(removed.values()) == [remove("a")]
    assert active_adds(replay([add("a")], [remove("a")], [add("a", 5)])) == [add("a", 5)]


def test_later_add_replaces_all_fields() -> None:
    """LR-025: the latest add of a path replaces its statistics and everything else."""
    assert active_adds(replay([add("a", 1, stats="{}")], [add("a", 2)])) == [add("a", 2)]


def test_key_is_the_normal_form_of_the_path() -> None:
    """LR-024, LR-029: the same file under two spellings is one file."""
    assert active_adds(replay([add("./a")], [remove("a")])) == []


def test_key_includes_the_deletion_vector() -> None:
    """LR-024: with deletion vectors the key is the path and the vector."""
    updated = replay([add("a")], [remove("a"), add("a", dv="v")])
    assert active_adds(updated) == [add("a", dv="v")]
    assert active_adds(replay([add("a", dv="v")], [remove("a", dv="w")])) == [add("a", dv="v")]


@given(st.permutations([add("a", dv="v"), remove("a"), add("b"), remove("c"), add("d", 3)]))
def test_order_inside_a_version_means_nothing(actions: list[Add | Remove]) -> None:
    """LR-027: any order of one version's actions gives the same state."""
    assert replay([add("a"), add("c")], actions) == replay([add("a"), add("c")], sorted(actions, key=repr))


@pytest.mark.parametrize(
    "actions",
    [
        [add("a"), remove("a")],
        [remove("a"), add("a")],
        [add("a", 1), add("a", 2)],
        [add("a", dv="v"), add("a", dv="w")],
        [add("a"), add("a", dv="w")],
        [add("./a"), remove("a")],
    ],
)
def test_contradicting_actions_of_one_version_are_refused(actions: list[Add | Remove]) -> None:
    """LR-027: two file actions on one path in one version are invalid; the commit is named."""
    with pytest.raises(CorruptLogError, match="contradict") as caught:
        replay([], actions)
    assert caught.value.path == "_delta_log/00000000000000000001.json"


def test_saying_the_same_twice_is_harmless() -> None:
    """LR-027: the state does not hang on the order, so there is nothing to refuse."""
    assert active_adds(replay([add("a"), add("a")])) == [add("a")]


def test_latest_transaction_wins_even_with_a_lower_number() -> None:
    """LR-023: latest seen, not highest."""
    seen = latest_transactions([SetTransaction("a", 9), SetTransaction("b", 1), SetTransaction("a", 2)])
    assert {name: txn.version for name, txn in seen.items()} == {"a": 2, "b": 1}
    assert latest_transactions([SetTransaction("a", 1)], seen)["a"].version == 1


def test_removed_domain_hides_earlier_ones_and_may_come_back() -> None:
    before = latest_domains(
        [DomainMetadata("d", "1", removed=False), DomainMetadata("e", "2", removed=False)]
    )
    after = latest_domains([DomainMetadata("d", "", removed=True)], before)
    assert list(after) == ["e"]
    assert latest_domains([DomainMetadata("d", "3", removed=False)], after)["d"].configuration == "3"


_paths = st.sampled_from("abcd")
_actions = st.builds(add, _paths, st.integers(0, 9), st.none() | st.sampled_from("vw")) | st.builds(
    remove, _paths, st.none() | st.sampled_from("vw")
)
_commits = st.lists(st.lists(_actions, max_size=4, unique_by=lambda action: action.path), max_size=6)


@given(_commits)
def test_replay_equals_the_slow_oracle(commits: list[list[Add | Remove]]) -> None:
    """LR-020, LR-024, LR-026: adds and tombstones as two sets, moved one action at a time."""
    adds: dict[tuple[str, str | None], Add] = {}
    tombstones: dict[tuple[str, str | None], Remove] = {}
    for commit in commits:
        for action in commit:
            key = (action.path, action.deletion_vector.unique_id if action.deletion_vector else None)
            adds.pop(key, None)
            tombstones.pop(key, None)
            if isinstance(action, Add):
                adds[key] = action
            else:
                tombstones[key] = action
    found = replay(*commits)
    assert {k: a for k, a in found.items() if isinstance(a, Add)} == adds
    assert {k: a for k, a in found.items() if isinstance(a, Remove)} == tombstones


@given(_commits, st.integers(0, 6))
def test_replay_in_two_steps_equals_replay_in_one(commits: list[list[Add | Remove]], at: int) -> None:
    """LR-020: a refresh continues where the snapshot ended."""
    numbered = [CommitActions(version, tuple(files)) for version, files in enumerate(commits)]
    first = latest_file_actions(numbered[:at], str)
    assert latest_file_actions(numbered[at:], str, first) == latest_file_actions(numbered, str)
