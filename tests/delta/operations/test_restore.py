"""Restore makes an older version the newest again, by an ordinary commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.errors import ConcurrentAppendError, DataFileError
from distributary.delta.operations.restore import execute_restore, plan_restore
from distributary.errors import InvalidInputError


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def ids(table: ds.DeltaTable, version: int | None = None) -> list[int]:
    return sorted(table.snapshot(version).to_arrow().column("id").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> ds.DeltaTable:
    table = ds.DeltaTable.create(tmp_path / "t", rows().schema)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.overwrite(rows(9))
    return table


def test_rows_of_the_older_version_come_back_and_history_stays(table: ds.DeltaTable) -> None:
    assert table.restore(version=2) == 4
    assert ids(table) == [1, 2, 3]
    assert ids(table, 3) == [9]
    assert table.history()[0].operation == "RESTORE"


def test_restore_by_timestamp_takes_the_version_of_that_time(table: ds.DeltaTable) -> None:
    moment = table.snapshot(1).timestamp() / 1000
    import datetime

    table.restore(timestamp=datetime.datetime.fromtimestamp(moment, datetime.UTC))
    assert ids(table) == [1, 2]


def test_schema_and_properties_come_back_too(table: ds.DeltaTable) -> None:
    before = table.snapshot().schema
    table.alter.add_column("note", pa.string())
    table.restore(version=3)
    assert table.snapshot().schema == before


def test_vacuumed_files_refuse_the_restore_by_name(table: ds.DeltaTable) -> None:
    state = table.snapshot(1).state
    gone = state.files.adds()[0].path
    table.store.delete(gone)
    with pytest.raises(DataFileError, match=gone):
        table.restore(version=2)
    assert table.restore(version=2, ignore_missing_files=True) == 4
    assert ids(table) == [3]


def test_concurrent_append_makes_the_restore_a_conflict(table: ds.DeltaTable) -> None:
    """LW-016: what was appended meanwhile must not vanish unseen."""
    plan = plan_restore(table.store, table.snapshot().state, table.snapshot(1).state, now=0)
    assert "brings back 1 files, removes 1" in str(plan)
    ds.DeltaTable(table.uri).append(rows(10))
    with pytest.raises(ConcurrentAppendError):
        execute_restore(table.store, plan)


def test_restore_needs_exactly_one_of_version_and_timestamp(table: ds.DeltaTable) -> None:
    with pytest.raises(InvalidInputError, match="one of them"):
        table.restore()
    with pytest.raises(InvalidInputError, match="one of them"):
        table.restore(version=1, timestamp="2024-01-01")


def test_restoring_the_current_version_changes_no_row(table: ds.DeltaTable) -> None:
    table.restore(version=3)
    assert ids(table) == [9]
