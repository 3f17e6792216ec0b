"""Optimize: compaction, z-order, clustering, purge, conflicts, metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.errors import CommitConflictError, UnsupportedFeatureError
from distributary.delta.log.actions import Add
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark import optimize as optimize_module
from distributary.spark.file_bins import compaction_bins, partition_bins, purge_bins
from distributary.spark.optimize import optimize, purge
from distributary.spark.row_identity import RowIdentity
from distributary.spark.table_write import write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file_of(size: int, partition: str = "a", deleted: int = 0) -> Add:
    vector = (
        DeletionVectorDescriptor(
            storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=deleted
        )
        if deleted
        else None
    )
    stats = json.dumps({"numRecords": 100})
    return Add(f"f{size}", {"p": partition}, size, 0, True, stats=stats, deletion_vector=vector)


def test_bins_gather_small_files_of_one_partition_up_to_the_target() -> None:
    adds = [file_of(size) for size in (60, 10, 20, 100, 30, 5)] + [file_of(1, "b")]
    bins = compaction_bins(adds, 65)
    assert [sorted(adds[at].size for at in found.ordinals) for found in bins] == [[5, 10, 20, 30]]
    assert [found.size for found in partition_bins(adds)] == [225, 1]


def test_bins_take_single_files_only_where_enough_rows_are_deleted() -> None:
    adds = [file_of(500, deleted=6), file_of(501, deleted=5), file_of(10)]
    assert [found.ordinals for found in compaction_bins(adds, 100)] == [(0,)]
    assert [found.ordinals for found in purge_bins(adds, 100)] == [(0,), (1,)]


@pytest.fixture
def many_files(spark: SparkSession, tmp_path: Path) -> Path:
    """Two partitions of 4 files each, 100 rows together."""
    path = tmp_path / "t"
    frame = spark.sql(
        "SELECT id, (id * 37) % 100 AS v, concat('k', id % 10) AS s, int(id % 2) AS p "
        "FROM range(0, 100, 1, 4)"
    )
    write_table(frame, str(path), partition_by=["p"])
    return path


def content(path: Path) -> list[tuple[object, ...]]:
    rows = DeltaTable(path).snapshot().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_compaction_makes_one_file_a_partition_and_keeps_rows_and_readers_of_changes(
    spark: SparkSession, many_files: Path
) -> None:
    before = content(many_files)
    row = optimize(spark, str(many_files)).collect()[0]
    assert row.path == f"file:{many_files}"
    metrics = row.metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.partitionsOptimized) == (2, 8, 2)
    assert metrics.filesRemoved.totalFiles == 8
    assert content(many_files) == before
    entry = (many_files / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in entry]
    files = [action.get("add") or action.get("remove") for action in actions if "commitInfo" not in action]
    assert not any(file["dataChange"] for file in files)
    info = actions[0]["commitInfo"]
    assert info["operation"] == "OPTIMIZE"
    assert info["operationMetrics"]["numRemovedFiles"] == "8"
    again = optimize(spark, str(many_files)).collect()[0].metrics
    assert (again.numFilesAdded, again.totalConsideredFiles) == (0, 2)
    assert DeltaTable(many_files).version() == 1


def test_a_condition_limits_compaction_to_its_partitions(spark: SparkSession, many_files: Path) -> None:
    metrics = optimize(spark, str(many_files), where="p = 1").collect()[0].metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.totalConsideredFiles) == (1, 4, 4)
    odd = optimize(spark, str(many_files), where="pmod(p, 2) = 0").collect()[0].metrics
    assert odd.numFilesRemoved == 4
    with pytest.raises(InvalidInputError, match="partition columns only"):
        optimize(spark, str(many_files), where="v = 1")


def test_z_order_keeps_rows_and_narrows_the_ranges_of_each_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    frame = spark.sql(
        """SELECT id, (id * 7919) % 4096 AS a, (id * 104729) % 4096 AS b, concat('k', (id * 31) % 4096) AS s,
                  if(id % 50 = 0, NULL, date_add(date'2020-01-01', int((id * 13) % 4096))) AS d
           FROM range(0, 4096, 1, 4)"""
    )
    size = write_table(frame, str(path)).num_bytes
    before = content_keys(path)
    metrics = (
        optimize(spark, str(path), z_order_by=["a", "b"], target_file_size=-(-size // 16))
        .collect()[0]
        .metrics
    )
    assert metrics.zOrderStats.strategyName == "all"
    assert metrics.numFilesAdded == 16
    assert content_keys(path) == before
    for column in ("a", "b"):
        assert average_share(path, column) < 0.4
    optimize(spark, str(path), z_order_by=["s", "d"], target_file_size=-(-size // 16))
    assert content_keys(path) == before
    assert average_share(path, "a") > 0.9


def content_keys(path: Path) -> list[tuple[object, ...]]:
    rows = DeltaTable(path).snapshot().to_arrow().select(["id", "a", "s"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def average_share(path: Path, column: str) -> float:
    """How much of a column's range a file covers, on average."""
    stats = [json.loads(text) for text in DeltaTable(path).snapshot().files()["stats"].to_pylist()]
    widths = [part["maxValues"][column] - part["minValues"][column] for part in stats]
    return sum(widths) / len(widths) / 4096


def test_clustered_table_is_clustered_once_and_refuses_other_orders(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    frame = spark.sql("SELECT id, (id * 37) % 100 AS v FROM range(0, 100, 1, 4)")
    write_table(frame, str(path), cluster_by=["v"])
    metrics = optimize(spark, str(path)).collect()[0].metrics
    assert (metrics.numFilesRemoved, metrics.numFilesAdded) == (4, 1)
    assert metrics.clusteringStats.mergedFiles.numFiles == 4
    assert DeltaTable(path).snapshot().to_arrow()["v"].to_pylist() == list(range(100))
    assert optimize(spark, str(path)).collect()[0].metrics.numFilesRemoved == 0
    with pytest.raises(InvalidInputError, match="clustering columns"):
        optimize(spark, str(path), z_order_by=["id"])


def test_bad_z_order_columns_are_refused(spark: SparkSession, many_files: Path) -> None:
    with pytest.raises(InvalidInputError, match="partition column"):
        optimize(spark, str(many_files), z_order_by=["p"])
    with pytest.raises(InvalidInputError, match="twice"):
        optimize(spark, str(many_files), z_order_by=["v", "v"])
    DeltaTable(many_files).alter.set_properties({"delta.dataSkippingStatsColumns": "id"})
    with pytest.raises(InvalidInputError, match="no statistics"):
        optimize(spark, str(many_files), z_order_by=["v"])


def test_an_append_meanwhile_does_not_conflict_and_a_removal_does(
    spark: SparkSession, many_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable(many_files)
    written = optimize_module.write_data_files
    rows = pa.table({"id": [1000], "v": [0], "s": ["new"], "p": pa.array([0], pa.int32())})

    def then(action):
        def write(*arguments, **options):
            adds = written(*arguments, **options)
            action()
            return adds

        return write

    monkeypatch.setattr(optimize_module, "write_data_files", then(lambda: table.append(rows)))
    assert optimize(spark, str(many_files)).collect()[0].metrics.numFilesRemoved == 8
    assert len(content(many_files)) == 101
    assert table.version() == 2
    monkeypatch.setattr(
        optimize_module, "write_data_files", then(lambda: table.overwrite(rows, replace_where="p = 0"))
    )
    before = set(many_files.rglob("*.parquet"))
    with pytest.raises(CommitConflictError):
        optimize(spark, str(many_files))
    assert len(set(many_files.rglob("*.parquet")) - before) == 1


def test_row_tracking_without_names_of_its_columns_is_refused() -> None:
    tracking = {"delta.enableRowTracking": "true"}
    with pytest.raises(UnsupportedFeatureError, match="rows would get new ids"):
        RowIdentity.of(tracking, "/lake/t")
    assert RowIdentity.of({}, "/lake/t") is None


def test_purge_writes_just_the_files_with_deletion_vectors_anew(spark: SparkSession, tmp_path: Path) -> None:
    from distributary.spark.delete_update import delete

    path = tmp_path / "t"
    frame = spark.range(0, 100, 1, 4)
    write_table(frame, str(path), properties={"delta.enableDeletionVectors": "true"})
    delete(spark, str(path), "id IN (3, 4, 30)")
    before = content(path)
    vectors = DeltaTable(path).snapshot().files()["deletion_vector"].to_pylist()
    assert sum(vector is not None for vector in vectors) == 2
    metrics = purge(spark, str(path)).collect()[0].metrics
    assert (metrics.numFilesRemoved, metrics.deletionVectorStats.numDeletionVectorRowsRemoved) == (2, 3)
    assert content(path) == before
    assert DeltaTable(path).snapshot().files()["deletion_vector"].null_count == 3
    assert DeltaTable(path).history()[0].operation == "REORG"
