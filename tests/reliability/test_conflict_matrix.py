"""A4: every pair of operations, both isolation levels, outcome by outcome.

Rows are winners, columns are losers in the same order. The letters are the loser's outcome:

. committed after a rebase: nothing that it read or removes was touched.
A ConcurrentAppendError: the winner added rows where the loser read. Under WriteSerializable blind appends
  are let pass, since the loser may be ordered before them; Serializable holds to the order of the log.
R ConcurrentDeleteReadError: the winner removed a file that the loser read (any file, if it read them all).
D ConcurrentDeleteDeleteError: both remove the same file.
M MetadataChangedError: under another schema or other properties the loser's files may be wrong.
P ProtocolChangedError: the winner changed what writers must do.
T ConcurrentTransactionError: the same application id, so perhaps the same batch twice.
X ConcurrentDomainError: both replace the same domain.

This is the behaviour that delta-spark documents (isolation levels, conflict exceptions), with three notes.
A protocol or metadata change is always a conflict here, where its newest version can reconcile a few. A
rearranging loser (optimize, analyze) is held to no level, as there: only removed files matter to it. A
rearranging winner is recognised by what it removes; that it adds files without new rows is no conflict.
"""

from __future__ import annotations

import msgspec
import pytest
from rigs.conflict_cases import OPERATIONS, alter, append, contest, optimize, overwrite, table, update
from rigs.plain_table import creation

from distributary.delta.commit.conflict_checker import (
    SNAPSHOT_ISOLATION,
    WRITE_SERIALIZABLE,
    effective_isolation,
)
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import (
    BEFORE_WRITE,
    CONFLICT,
    POST_COMMIT,
    PREPARED,
    WRITTEN,
    commit,
)
from distributary.delta.errors import MetadataChangedError, TooManyAttemptsError
from distributary.delta.log.actions import Add, Remove, SetTransaction
from distributary.errors import InvalidInputError
from distributary.storage.object_store import open_store

LETTERS = {
    ".": "ok",
    "A": "ConcurrentAppendError",
    "R": "ConcurrentDeleteReadError",
    "D": "ConcurrentDeleteDeleteError",
    "M": "MetadataChangedError",
    "P": "ProtocolChangedError",
    "T": "ConcurrentTransactionError",
    "X": "ConcurrentDomainError",
}

MATRIX = {
    ("WriteSerializable", "same"): """
        append               . . . . . . . . . . . A . .
        append_reading       . A A A A A . . . . . A . .
        overwrite            . A A A A A R . . . . A R .
        overwrite_partition  . A A A A A R . . . . A R .
        delete               . R R D R R R . . . . R R .
        update               . A A A A A R . . . . A R .
        optimize             . R R D R R R . . . . R R .
        alter                M M M M M M M M M M M M M M
        upgrade              P P P P P P P P P P P P P P
        stream               . . . . . . . . . T . A . .
        other_stream         . . . . . . . . . . . A . .
        restore              . A A A A A R . . . . A R .
        analyze              . . . . . . . . . . . . . .
        domain               . . . . . . . . . . . . . X
    """,
    ("WriteSerializable", "disjoint"): """
        append               . . . . . . . . . . . A . .
        append_reading       . . A . . . . . . . . A . .
        overwrite            . R A D R R R . . . . A R .
        overwrite_partition  . . A . . . . . . . . A . .
        delete               . . R . . . . . . . . R . .
        update               . . A . . . . . . . . A . .
        optimize             . . R . . . . . . . . R . .
        alter                M M M M M M M M M M M M M M
        upgrade              P P P P P P P P P P P P P P
        stream               . . . . . . . . . T . A . .
        other_stream         . . . . . . . . . . . A . .
        restore              . . A . . . . . . . . A . .
        analyze              . . . . . . . . . . . . . .
        domain               . . . . . . . . . . . . . X
    """,
    ("Serializable", "same"): """
        append               . A A A A A . . . . . A . .
        append_reading       . A A A A A . . . . . A . .
        overwrite            . A A A A A R . . . . A R .
        overwrite_partition  . A A A A A R . . . . A R .
        delete               . R R D R R R . . . . R R .
        update               . A A A A A R . . . . A R .
        optimize             . R R D R R R . . . . R R .
        alter                M M M M M M M M M M M M M M
        upgrade              P P P P P P P P P P P P P P
        stream               . A A A A A . . . T . A . .
        other_stream         . A A A A A . . . . . A . .
        restore              . A A A A A R . . . . A R .
        analyze              . . . . . . . . . . . . . .
        domain               . . . . . . . . . . . . . X
    """,
    ("Serializable", "disjoint"): """
        append               . . A . . . . . . . . A . .
        append_reading       . . A . . . . . . . . A . .
        overwrite            . R A D R R R . . . . A R .
        overwrite_partition  . . A . . . . . . . . A . .
        delete               . . R . . . . . . . . R . .
        update               . . A . . . . . . . . A . .
        optimize             . . R . . . . . . . . R . .
        alter                M M M M M M M M M M M M M M
        upgrade              P P P P P P P P P P P P P P
        stream               . . A . . . . . . T . A . .
        other_stream         . . A . . . . . . . . A . .
        restore              . . A . . . . . . . . A . .
        analyze              . . . . . . . . . . . . . .
        domain               . . . . . . . . . . . . . X
    """,
}


def cells() -> list[tuple[str, str, str, list[str]]]:
    rows = [
        (level, where, *line.split(maxsplit=1))
        for (level, where), grid in MATRIX.items()
        for line in grid.strip().splitlines()
    ]
    return [(level, where, winner, letters.split()) for level, where, winner, letters in rows]


@pytest.mark.parametrize(("level", "where", "winner", "letters"), cells())
def test_every_loser_against_a_winner_ends_as_the_matrix_says(
    level: str, where: str, winner: str, letters: list[str]
) -> None:
    """LW-016, LW-002, A4: fourteen losers against one winner, on the same partition or on another."""
    at = "a" if where == "same" else "b"
    outcomes = [contest(OPERATIONS[winner](at), stage("a"), level) for stage in OPERATIONS.values()]
    expected = [LETTERS[letter] for letter in letters]
    assert dict(zip(OPERATIONS, outcomes, strict=True)) == dict(zip(OPERATIONS, expected, strict=True))


def test_matrix_covers_every_pair() -> None:
    """A4: 14 operations, 2 levels, 2 places: 784 cells."""
    assert sum(len(letters) for *_, letters in cells()) == 4 * len(OPERATIONS) ** 2 == 784
    for places in MATRIX.values():
        assert [line.split()[0] for line in places.strip().splitlines()] == list(OPERATIONS)


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
def test_metadata_change_that_rests_on_all_rows_conflicts_even_with_blind_appends(level: str) -> None:
    """LW-016: a new constraint was checked against all rows, so rows that came meanwhile are a conflict."""
    adding_constraint = msgspec.structs.replace(alter("a"), read_whole_table=True)
    assert contest(append("a"), adding_constraint, level) == "ConcurrentAppendError"


def test_rearranging_is_held_to_no_level_only_where_nothing_else_is_changed() -> None:
    """LW-016: files alone may be rearranged under concurrent appends; with metadata beside them, not."""
    assert effective_isolation(optimize("a"), WRITE_SERIALIZABLE) == SNAPSHOT_ISOLATION
    mixed = msgspec.structs.replace(optimize("a"), actions=(*optimize("a").actions, *alter("a").actions))
    assert effective_isolation(mixed, WRITE_SERIALIZABLE) == WRITE_SERIALIZABLE


def test_several_winners_are_each_checked_and_the_first_that_conflicts_is_named() -> None:
    """LW-016, A4: two harmless appends and then an update of the file that the loser rewrites."""
    store, snapshot = table("WriteSerializable")
    winners = [append("a"), append("b"), update("a")]
    base = snapshot

    def interleave(phase: str, version: int) -> None:
        nonlocal base
        while phase == BEFORE_WRITE and winners:
            base = commit(store, base, winners.pop(0)).snapshot

    with pytest.raises(Exception, match="version 3") as caught:
        commit(store, snapshot, update("a"), on_phase=interleave)
    assert caught.value.version == 3  # type: ignore[attr-defined]


def test_phases_of_a_commit_that_loses_once_come_in_order() -> None:
    """LW-002: the phases by which interleavings are scripted."""
    store, snapshot = table("WriteSerializable")
    phases: list[tuple[str, int]] = []
    waiting = [append("a")]

    def watch(phase: str, version: int) -> None:
        phases.append((phase, version))
        if phase == BEFORE_WRITE and waiting:
            commit(store, snapshot, waiting.pop())

    assert commit(store, snapshot, append("a"), on_phase=watch).version == 2
    assert phases == [
        (PREPARED, 0), (BEFORE_WRITE, 1), (CONFLICT, 1), (BEFORE_WRITE, 2), (WRITTEN, 2), (POST_COMMIT, 2),
    ]  # fmt: skip


def test_writer_that_always_loses_gives_up_with_a_typed_error_and_commits_nothing() -> None:
    """LW-002, A11: attempts are bounded."""
    store, snapshot = table("WriteSerializable")
    base = snapshot

    def interleave(phase: str, version: int) -> None:
        nonlocal base
        if phase == BEFORE_WRITE:
            base = commit(store, base, append("a")).snapshot

    with pytest.raises(TooManyAttemptsError):
        commit(store, snapshot, overwrite("a"), on_phase=interleave, max_attempts=4)
    assert base.version == 4


def test_table_created_anew_meanwhile_is_not_written_into() -> None:
    """LW-016: a rebase onto another table of the same place is refused."""
    store, snapshot = table("WriteSerializable")

    def replace(phase: str, version: int) -> None:
        if phase == BEFORE_WRITE and version == 1:
            for meta in list(store.list_all()):
                store.delete(meta.path)
            new = creation()
            other = msgspec.structs.replace(new.actions[1], id="another")
            made = commit(store, None, msgspec.structs.replace(new, actions=(new.actions[0], other)))
            commit(store, made.snapshot, append("a"))

    with pytest.raises(MetadataChangedError, match="another table"):
        commit(store, snapshot, append("a"), on_phase=replace)


@pytest.mark.parametrize(
    "actions",
    [
        (Add("x", {}, 1, 1, True), Remove("x", True)),
        (Add("x", {}, 1, 1, True), Add("x", {}, 1, 1, True)),
        (*alter("a").actions, *alter("a").actions),
        (SetTransaction("app", 1), SetTransaction("app", 2)),
    ],
)
def test_entry_that_contradicts_itself_is_refused_before_anything_is_written(actions: tuple) -> None:
    """LW-005: one entry holds a path, the metadata, the protocol and an application id at most once."""
    store, snapshot = table("WriteSerializable")
    with pytest.raises(InvalidInputError):
        commit(store, snapshot, StagedCommit(Operation("WRITE"), actions))
    entries = [meta.path for meta in open_store(store.root).list_from("_delta_log") if "json" in meta.path]
    assert len(entries) == 1
