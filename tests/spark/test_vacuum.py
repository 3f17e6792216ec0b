"""Vacuum on Spark: the engine's decision, listed and deleted here or by tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark import vacuum as vacuum_module
from distributary.spark.table_write import write_table
from distributary.spark.vacuum import vacuum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def overwritten(spark: SparkSession, tmp_path: Path) -> Path:
    """A table whose first files are no longer in use, all of them an hour old."""
    path = tmp_path / "t"
    for first in (0, 10):
        write_table(spark.range(first, first + 5, 1, 2), str(path), "overwrite")
    hour_ago = time.time() - 3600
    for file in path.rglob("*.parquet"):
        os.utime(file, (hour_ago, hour_ago))
    return path


@pytest.mark.parametrize("many", [False, True])
def test_vacuum_deletes_what_no_version_needs_alone_or_by_tasks(
    spark: SparkSession, overwritten: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """RET-001 to RET-004."""
    if many:
        monkeypatch.setattr(vacuum_module, "MANY_DIRECTORIES", 1)
        monkeypatch.setattr(vacuum_module, "MANY_FILES", 1)
        monkeypatch.setattr(vacuum_module._log, "warning", lambda *_: pytest.fail("tasks did not do it"))
    with pytest.raises(InvalidInputError, match="retention"):
        vacuum(spark, str(overwritten), 0)
    listed = vacuum(spark, str(overwritten), 0, dry_run=True, force=True)
    assert len(listed.files) == 2
    assert len(list(overwritten.rglob("*.parquet"))) == 4
    vacuum(spark, str(overwritten), 0, force=True)
    assert len(list(overwritten.rglob("*.parquet"))) == 2
    assert len([place for place in overwritten.iterdir() if place.name != "_delta_log"]) == 1
    assert sorted(DeltaTable(overwritten).snapshot().to_arrow()["id"].to_pylist()) == [10, 11, 12, 13, 14]


def test_vacuum_keeps_files_within_the_retention(spark: SparkSession, overwritten: Path) -> None:
    assert vacuum(spark, str(overwritten), dry_run=True).files == ()
