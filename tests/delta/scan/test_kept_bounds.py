"""Bounds that are kept answer as pruning a single time does, also after commits and checkpoints."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distributary as ds
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.scan.kept_bounds import KeptBounds
from distributary.delta.scan.table_scan import bound_predicate

PREDICATES = [
    "day = 'b'",
    "day IS NULL OR id < 7",
    "id >= 10",
    "id >= 10 AND day <> 'a'",
    "nested.x = 3",
    "name > 'n05'",
    "NOT (id = 3)",
    "id IS NULL",
    "nested.x IS NULL",
]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Snapshots of one table: of commits, of a checkpoint, of a checkpoint and later commits."""
    path = tmp_path_factory.mktemp("kept") / "t"

    def rows(start):
        ids = list(range(start, start + 9))
        return pa.table(
            {
                "id": pa.array([None if at % 5 == 4 else at for at in ids], pa.int64()),
                "name": [f"n{at:02d}" for at in ids],
                "nested": [{"x": at} for at in ids],
                "day": [("a", "b", None)[at % 3] for at in ids],
            }
        )

    table = ds.DeltaTable.create(path, rows(0).schema, partition_by=["day"])
    table.append(rows(0))
    found = [table.snapshot().state]
    table.append(rows(9))
    table.checkpoint()
    found.append(ds.DeltaTable(path).snapshot().state)
    again = ds.DeltaTable(path)
    again.snapshot()
    again.append(rows(18))
    found.append(again.snapshot().state)
    again.overwrite(rows(3).filter(pc.equal(rows(3)["day"], "b")), replace_where="day = 'b'")
    found.append(again.snapshot().state)
    return found


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=3), st.integers(0, 3))
def test_kept_bounds_decide_as_a_single_pruning_does(states, texts, which):
    """ST-007, LR-053."""
    state = states[which]
    kept = KeptBounds(state)
    for text in texts:
        bound = bound_predicate(text, state.schema)
        assert bound is not None
        single = FilePruner(state.schema, state.metadata.partitioning, state.mapping_mode)
        pruned = single.prune(state.files, bound)
        decision = kept.decide(bound)
        assert state.files.filter(decision.may_match).column("path").to_pylist() == (
            pruned.files.column("path").to_pylist()
        )
        assert decision.all_match.filter(decision.may_match).to_pylist() == pruned.all_match.to_pylist()


def test_kept_rows_counts_are_those_of_the_files(states):
    for state in states:
        pruned = FilePruner(state.schema, state.metadata.partitioning, state.mapping_mode).prune(
            state.files, None
        )
        assert KeptBounds(state).live_records.to_pylist() == pruned.live_records().to_pylist()


def test_rows_of_a_checkpoint_are_kept_across_versions(states):
    """The two last states share a checkpoint: what was decoded of it is not decoded again."""
    shared = {id(block.rows) for block in states[2].files.blocks} & {
        id(block.rows) for block in states[3].files.blocks
    }
    assert shared
