"""Vacuum deletes what no version within the retention needs, and nothing else."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.operations.vacuum import VacuumPlan, VacuumResult, plan_vacuum
from distributary.errors import InvalidInputError

WEEK = datetime.timedelta(days=7)
NOW = int(time.time() * 1000)


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def age(folder: Path, days: float, but: tuple[str, ...] = ("_delta_log",)) -> None:
    """Make every file below a folder older, the log excepted."""
    then = time.time() - days * 86400
    for path in folder.rglob("*"):
        if path.is_file() and not any(part in but for part in path.parts):
            os.utime(path, (then, then))


def data_files(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] != "_delta_log"}


@pytest.fixture
def table(tmp_path: Path) -> ds.DeltaTable:
    """A table whose first file was removed eight days ago, by a log that says so."""
    table = ds.DeltaTable.create(tmp_path / "t", rows().schema)
    table.append(rows(1, 2))
    table.overwrite(rows(3))
    return table


def folder_of(table: ds.DeltaTable) -> Path:
    found = table.store.local_path("x")
    assert found is not None
    return found.parent


def planned(table: ds.DeltaTable, days_later: float, **options: object) -> VacuumPlan:
    now = int(time.time() * 1000 + days_later * 86_400_000)
    return plan_vacuum(table.store, table.snapshot().state, now=now, **options)  # type: ignore[arg-type]


def test_file_removed_within_the_retention_is_kept(table: ds.DeltaTable) -> None:
    """RET-001, RET-002: a tombstone protects its file for a week, though the file itself is old."""
    age(folder_of(table), 30)
    assert planned(table, 6.9).files == ()


def test_file_removed_before_the_retention_goes(table: ds.DeltaTable) -> None:
    """RET-001, RET-003: only the removed file goes; the current version still reads, the old one does not."""
    before = data_files(folder_of(table))
    current = {add.path for add in table.snapshot().state.files.adds()}
    age(folder_of(table), 30)
    plan = planned(table, 7.1)
    assert set(plan.files) == before - current
    assert "1 files" in str(plan)


def test_dry_run_deletes_nothing_and_the_act_deletes_what_was_planned(table: ds.DeltaTable) -> None:
    """RET-004: what the plan names goes; the rows of the current version stay."""
    folder = folder_of(table)
    age(folder, 30)
    before = data_files(folder)
    plan = table.vacuum(datetime.timedelta(0), force=True, dry_run=True)
    assert isinstance(plan, VacuumPlan)
    assert data_files(folder) == before
    result = table.vacuum(datetime.timedelta(0), force=True)
    assert isinstance(result, VacuumResult)
    assert (result.deleted, result.bytes, result.failed) == (1, plan.bytes, ())
    assert data_files(folder) == before - set(plan.files)
    assert table.snapshot().to_arrow().column("id").to_pylist() == [3]


def test_log_and_hidden_files_are_never_touched(table: ds.DeltaTable) -> None:
    """RET-004: the log, hidden files and hidden directories stay, whatever their age."""
    folder = folder_of(table)
    for name in ("_SUCCESS", ".hidden", "_spark_metadata/0", "a/_temporary/x.parquet", "_delta_log/foreign"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "orphan.parquet").write_bytes(b"x")
    age(folder, 30, but=())
    assert set(planned(table, 1).files) == {"orphan.parquet"}


def test_partition_directory_with_a_hidden_looking_name_is_judged(tmp_path: Path) -> None:
    """RET-004: a column may be called _year; its directories are the table's."""
    data = pa.table({"id": [1], "_year": [2024]})
    table = ds.DeltaTable.create(tmp_path / "t", data.schema, partition_by=["_year"])
    table.append(data)
    orphan = tmp_path / "t" / "_year=2023" / "orphan.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"x")
    age(tmp_path / "t", 30)
    assert planned(table, 0).files == ("_year=2023/orphan.parquet",)


def test_old_change_files_go_and_young_ones_stay(table: ds.DeltaTable) -> None:
    """RET-004, CDF-005: change files are kept for the retention, by their own age."""
    folder = folder_of(table)
    for name, days in (("old", 30), ("young", 1)):
        path = folder / "_change_data" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        then = time.time() - days * 86400
        os.utime(path, (then, then))
    assert planned(table, 0).files == ("_change_data/old.parquet",)


def test_uncommitted_young_file_is_kept(table: ds.DeltaTable) -> None:
    """RET-005: a writer may be about to commit it."""
    (folder_of(table) / "about-to-be-committed.parquet").write_bytes(b"x")
    assert planned(table, 0).files == ()


def test_short_retention_is_refused_unless_forced(table: ds.DeltaTable) -> None:
    """RET-001: the table's own retention is the least, and the message says what is at stake."""
    with pytest.raises(InvalidInputError, match="shorter than the 7 days"):
        table.vacuum(datetime.timedelta(days=6))
    with pytest.raises(InvalidInputError, match="negative"):
        table.vacuum(datetime.timedelta(days=-1), force=True)
    assert isinstance(table.vacuum(WEEK), VacuumResult)


def test_table_property_sets_the_retention(tmp_path: Path) -> None:
    """RET-001: `delta.deletedFileRetentionDuration` is user-set."""
    properties = {"delta.deletedFileRetentionDuration": "interval 1 day"}
    table = ds.DeltaTable.create(tmp_path / "t", rows().schema, properties=properties)
    table.append(rows(1))
    table.overwrite(rows(2))
    age(tmp_path / "t", 30)
    assert len(planned(table, 1.1).files) == 1
    assert planned(table, 0.9).files == ()


def test_deletion_vectors_of_active_files_are_kept(tmp_path: Path, delta_tables: object) -> None:
    """RET-004: a vector file is as alive as its data file."""
    import shutil

    source = delta_tables.tables / "spark__table-with-dv-small"  # type: ignore[attr-defined]
    shutil.copytree(source, tmp_path / "t")
    table = ds.DeltaTable(tmp_path / "t")
    before = table.snapshot().to_arrow().num_rows
    age(tmp_path / "t", 900)
    table.vacuum(datetime.timedelta(0), force=True)
    assert list((tmp_path / "t").glob("*.bin"))
    assert ds.DeltaTable(tmp_path / "t").snapshot().to_arrow().num_rows == before


def test_table_with_unknown_writer_feature_is_not_vacuumed(tmp_path: Path, delta_tables: object) -> None:
    """RET-004, LW-010: its rules about files are not known."""
    import shutil

    source = delta_tables.tables / "trino__deltalake.unsupported_writer_version"  # type: ignore[attr-defined]
    shutil.copytree(source, tmp_path / "t")
    with pytest.raises(ds.DistributaryError, match="write"):
        ds.DeltaTable(tmp_path / "t").vacuum()
