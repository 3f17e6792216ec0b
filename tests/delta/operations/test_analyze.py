"""Statistics can be added to files that lack them, by naming the files again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import ConcurrentDeleteReadError, DataFileError
from distributary.delta.operations.analyze import execute_analyze, plan_analyze


@pytest.fixture
def table(tmp_path: Path) -> ds.DeltaTable:
    """A table with one file that has statistics and one that lost them."""
    data = pa.table({"id": [1, 2], "tags": [["a"], None], "x": [0.5, None]})
    table = ds.DeltaTable.create(tmp_path / "t", data.schema)
    table.append(data)
    table.append(pa.table({"id": [5, 6], "tags": [[], ["b"]], "x": [float("nan"), 1.0]}))
    state = table.snapshot().state
    bare = [msgspec.structs.replace(add, stats=None, data_change=False) for add in state.files.adds()[1:]]
    commit(table.store, state, StagedCommit(Operation("TEST"), tuple(bare)))
    return table


def test_adding_a_path_again_gives_it_statistics_and_changes_no_row(table: ds.DeltaTable) -> None:
    """LW-017, LR-025, LR-050, LR-051: the later add replaces the statistics; dataChange is false."""
    before = table.snapshot().to_arrow()
    assert table.snapshot().files("id > 10").num_rows == 1
    assert table.analyze() == 4
    assert table.snapshot().files("id > 10").num_rows == 0
    assert str(table.snapshot().to_arrow().sort_by("id").to_pylist()) == str(before.sort_by("id").to_pylist())
    stats = [json.loads(text) for text in table.snapshot().files().column("stats").to_pylist()]
    assert [s["numRecords"] for s in stats] == [2, 2]
    assert stats[1]["nullCount"]["tags"] == 0
    assert "x" not in stats[1]["minValues"]
    last = (table.store.get("_delta_log/00000000000000000004.json")).decode()
    assert '"dataChange":false' in last


def test_nothing_to_do_commits_nothing(table: ds.DeltaTable) -> None:
    table.analyze()
    assert table.analyze() is None
    assert table.version() == 4
    assert table.analyze(every_file=True) == 5


def test_file_removed_meanwhile_is_a_conflict_and_stays_removed(table: ds.DeltaTable) -> None:
    """LW-016: naming a removed file again would bring its rows back."""
    plan = plan_analyze(table.snapshot().state)
    assert "1 of 2 files" in str(plan)
    ds.DeltaTable(table.uri).overwrite(pa.table({"id": [7]}))
    with pytest.raises(ConcurrentDeleteReadError):
        execute_analyze(table.store, plan)
    assert ds.DeltaTable(table.uri).snapshot().to_arrow().column("id").to_pylist() == [7]


def test_missing_file_is_named(table: ds.DeltaTable) -> None:
    path = plan_analyze(table.snapshot().state).files[0].path
    table.store.delete(path)
    with pytest.raises(DataFileError, match=path):
        table.analyze()
