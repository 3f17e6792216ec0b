"""Data files written by Spark: statistics, types of values, and what failing tasks and jobs leave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from distributary.delta.log.snapshot import load_snapshot
from distributary.delta.statistics.collection import indexed_columns
from distributary.delta.statistics.existing_file import statistics_of
from distributary.delta.table import DeltaTable
from distributary.spark import new_files
from distributary.spark.table_write import write_table
from distributary.storage.log_paths import resolve_path
from distributary.storage.object_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_TYPE = """
SELECT id, CAST(id AS byte) AS b, CAST(id AS short) AS sh, int(id) AS i,
       float(id) / 3 AS f, -double(id) / 3 AS d,
       if(id % 7 = 3, double('NaN'), 1.5D) AS nan, if(id % 7 = 3, double('Infinity'), 1D) AS inf,
       cast(id AS decimal(8, 2)) AS d32, cast(-id AS decimal(18, 4)) AS d64,
       cast(id AS decimal(30, 5)) AS d128,
       concat('é', repeat('x', int(id % 5) * 20)) AS s, if(id % 3 = 0, NULL, id) AS some,
       CAST(NULL AS int) AS none,
       id % 2 = 0 AS flag, cast('ab' AS binary) AS bin, date_add(date'2020-01-01', int(id)) AS day,
       timestamp_micros(1577836800000001 + id) AS ts, timestamp_ntz'2020-01-01 00:00:00.123456' AS ntz,
       if(id % 3 = 0, NULL, array(id, NULL)) AS a, if(id % 4 = 0, NULL, map('k', id)) AS m,
       if(id % 5 = 0, NULL,
          named_struct('x', id, 'deep', named_struct('y', if(id % 2 = 0, NULL, array(1))))) AS st
FROM range(0, 40, 1, 2)"""


def statistics_by_engine(path: str) -> list[tuple[object, object]]:
    """The statistics in the log, and what the engine computes by reading the rows."""
    store = open_store(path)
    snapshot = load_snapshot(store)
    columns = indexed_columns(
        snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode, snapshot.properties
    )
    pairs: list[tuple[object, object]] = []
    for add in snapshot.files.adds():
        where, key = resolve_path(store, add.path)
        computed = statistics_of(where.open_file(key), columns, pre_buffer=False)
        pairs.append((json.loads(add.stats or "{}"), json.loads(computed)))
    return pairs


@pytest.mark.parametrize("many", [False, True])
def test_statistics_from_footers_equal_those_of_the_engine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """ST-002 to ST-006: NaN, infinities, nested nulls, long texts; on the driver and by tasks."""
    if many:
        monkeypatch.setattr(new_files, "MANY_FILES", 1)
        monkeypatch.setattr(new_files._log, "warning", lambda *_: pytest.fail("tasks did not do it"))
    path = str(tmp_path / "t")
    write_table(spark.sql(EVERY_TYPE), path)
    pairs = statistics_by_engine(path)
    assert len(pairs) == 2
    for ours, engines in pairs:
        assert ours == engines
    assert "nan" not in pairs[0][0]["minValues"]  # type: ignore[index]
    assert pairs[0][0]["nullCount"]["a"] > 0  # type: ignore[index]


def test_properties_choose_codec_and_the_columns_of_statistics(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    properties = {"delta.parquet.compression.codec": "snappy", "delta.dataSkippingStatsColumns": "b"}
    write_table(spark.sql("SELECT id AS a, id AS b FROM range(3)"), path, properties=properties)
    (stats,) = DeltaTable(path).snapshot().files()["stats"].to_pylist()[:1]
    assert set(json.loads(stats)["maxValues"]) == {"b"}
    file = pq.ParquetFile(next(Path(path).rglob("*.parquet")))
    assert file.metadata.row_group(0).column(0).compression == "SNAPPY"


def test_timestamps_are_never_int96_and_the_session_keeps_its_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    key = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(key)
    spark.conf.set(key, "INT96")
    try:
        write_table(spark.sql("SELECT timestamp'1582-10-04 00:00:00' AS t, date'1500-01-01' AS d"), path)
        assert spark.conf.get(key) == "INT96"
    finally:
        spark.conf.set(key, str(before))
    file = pq.ParquetFile(next(Path(path).rglob("*.parquet")))
    assert file.schema.column(0).physical_type == "INT64"
    assert str(DeltaTable(path).snapshot().to_arrow()["d"][0].as_py()) == "1500-01-01"


def test_retried_tasks_are_written_once_and_a_failing_job_leaves_nothing(tmp_path: Path) -> None:
    """Two executors of their own: a task fails at first, another takes its process down, a job fails."""
    program = Path(__file__).parent / "programs" / "unreliable_tasks.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "t")], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["retried"] == {"rows": 400, "distinct": 400, "files": 4}
    assert result["died"] == {"rows": 400, "distinct": 400, "files": 4}
    assert result["failed"] == {"version": 1, "left": []}


def test_attempts_that_were_not_committed_are_never_named(tmp_path: Path) -> None:
    """What a copy of a task leaves (speculation: the coordinator lets one attempt commit) is no file."""
    store = open_store(str(tmp_path))
    kept = ["w/p=1/part-00000.parquet", "w/part-00001.parquet"]
    left = [
        "w/_temporary/0/_temporary/attempt_1_0001_m_000001_7/part-00001.parquet",
        "w/_temporary/0/task_1_0001_m_000001/p=1/part-00001.parquet",
        "w/p=1/.part-00000.parquet.crc",
        "w/_SUCCESS",
        "w/.spark-staging-1/part-00002.parquet",
    ]
    for key in (*kept, *left):
        store.put_if_absent(key, b"x")
    assert sorted(file.path for file in new_files.written_files(store, "w")) == sorted(kept)
    assert sorted(file.path for file in store.list_all("w")) == sorted(kept)
