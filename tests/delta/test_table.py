"""Open tables whose log changes behind their back: damaged checkpoints, cleaned-up versions."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.commit.post_commit import clean_up
from distributary.delta.errors import CommitConflictError, CorruptCheckpointError
from distributary.delta.operations.append import append

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "place": [f"p{i % 2}" for i in ids]}, schema=SCHEMA)


def ids(table: ds.DeltaTable) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("id").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> ds.DeltaTable:
    """A table opened from a checkpoint whose files were not looked at yet, and which is damaged since."""
    made = ds.DeltaTable.create(tmp_path / "t", SCHEMA, partition_by=["place"])
    made.append(rows(1, 2))
    made.append(rows(3))
    made.checkpoint()
    opened = ds.DeltaTable(tmp_path / "t")
    assert opened.version() == 2
    (point,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    point.write_bytes(point.read_bytes()[:-100])
    return opened


WRITES: dict[str, tuple[Callable[[ds.DeltaTable], object], list[int]]] = {
    "append": (lambda table: table.append(rows(9)), [1, 2, 3, 9]),
    "overwrite": (lambda table: table.overwrite(rows(9)), [9]),
    "replace": (lambda table: table.overwrite(rows(9), replace_where="place = 'p1'"), [2, 9]),
    "dynamic": (lambda table: table.overwrite(rows(9), dynamic=True), [2, 9]),
    "restore": (lambda table: table.restore(1), [1, 2]),
    "analyze": (lambda table: table.analyze(every_file=True), [1, 2, 3]),
    "vacuum": (lambda table: table.vacuum(datetime.timedelta(days=7)), [1, 2, 3]),
    "checkpoint": (lambda table: table.checkpoint(), [1, 2, 3]),
}


@pytest.mark.parametrize("name", WRITES)
def test_damage_to_an_open_checkpoint_stops_no_write(name: str, table: ds.DeltaTable) -> None:
    """P3: the JSON log can rebuild what the checkpoint had, for writers too."""
    write, expected = WRITES[name]
    write(table)
    assert ids(table) == expected
    assert ids(ds.DeltaTable(table.uri)) == expected


def test_rows_that_come_once_are_not_taken_twice(table: ds.DeltaTable) -> None:
    """A stream may have been read when the damage shows: nothing is committed, and the next call works."""
    with pytest.raises(CorruptCheckpointError):
        table.overwrite(rows(9).to_reader(), dynamic=True)
    assert table.version() == 2
    table.overwrite(rows(9).to_reader(), dynamic=True)
    assert ids(table) == [2, 9]


def test_commit_on_a_version_that_cleanup_took_is_refused(tmp_path: Path) -> None:
    """LW-001, P1: the place after a forgotten version is free, but a commit there would be lost."""
    table = ds.DeltaTable.create(tmp_path / "t", SCHEMA)
    outdated = table.snapshot().state
    for number in range(3):
        table.append(rows(number))
    table.checkpoint()
    long_ago = time.time() - 40 * 86400
    for path in (tmp_path / "t" / "_delta_log").iterdir():
        os.utime(path, (long_ago, long_ago))
    assert clean_up(table.store, table.snapshot().state, int(time.time() * 1000)) > 0
    before = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(CommitConflictError, match="cleanup"):
        append(table.store, outdated, rows(9))
    assert sorted((tmp_path / "t").rglob("*")) == before
    assert ids(table) == [0, 1, 2]
    table.append(rows(9))
    assert ids(table) == [0, 1, 2, 9]
