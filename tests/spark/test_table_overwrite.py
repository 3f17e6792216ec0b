"""Overwrites by Spark: everything, a new schema, partitions, and rows that match a condition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.errors import AppendOnlyError, ConstraintViolationError
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark.table_write import write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def ids_of(path: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(path).snapshot(version).to_arrow()["id"].to_pylist())


def numbers(spark: SparkSession, *ids: int, p: int = 0) -> DataFrame:
    return spark.createDataFrame([(value, p) for value in ids], "id long, p int").coalesce(1)


@pytest.fixture
def partitioned(spark: SparkSession, tmp_path: Path) -> Path:
    """Two partitions, three rows each: 0, 2, 4 and 1, 3, 5."""
    path = tmp_path / "t"
    frame = spark.sql("SELECT id, int(id % 2) AS p FROM range(0, 6, 1, 1)")
    write_table(frame, str(path), partition_by=["p"])
    return path


def test_static_overwrite_replaces_all_rows_and_keeps_the_older_version(
    spark: SparkSession, partitioned: Path
) -> None:
    """LW-014: removed files stay until vacuum."""
    result = write_table(numbers(spark, 9), str(partitioned), "overwrite")
    assert (result.num_removed_files, result.num_files) == (2, 1)
    assert ids_of(partitioned) == [9]
    assert ids_of(partitioned, 0) == [0, 1, 2, 3, 4, 5]


def test_a_table_can_be_overwritten_with_rows_read_from_itself(
    spark: SparkSession, partitioned: Path
) -> None:
    from distributary.spark import read_table

    write_table(read_table(spark, str(partitioned)).filter("id < 2"), str(partitioned), "overwrite")
    assert ids_of(partitioned) == [0, 1]


def test_overwrite_schema_changes_columns_and_partitioning(spark: SparkSession, partitioned: Path) -> None:
    frame = spark.sql("SELECT 'x' AS name, 1 AS q")
    with pytest.raises(InvalidInputError, match="partition_by"):
        write_table(frame, str(partitioned), "overwrite", overwrite_schema=True)
    write_table(frame, str(partitioned), "overwrite", overwrite_schema=True, partition_by=["q"])
    snapshot = DeltaTable(partitioned).snapshot()
    assert snapshot.schema.names == ("name", "q")
    assert snapshot.metadata.partitioning == ("q",)
    assert snapshot.to_arrow().to_pylist() == [{"name": "x", "q": 1}]


def test_dynamic_overwrite_replaces_only_the_partitions_of_the_new_rows(
    spark: SparkSession, partitioned: Path
) -> None:
    result = write_table(
        numbers(spark, 10, p=0), str(partitioned), "overwrite", partition_overwrite="dynamic"
    )
    assert result.num_removed_files == 1
    assert ids_of(partitioned) == [1, 3, 5, 10]


def test_replace_where_over_partitions_exchanges_whole_files(spark: SparkSession, partitioned: Path) -> None:
    result = write_table(numbers(spark, 7, p=1), str(partitioned), "overwrite", replace_where="p = 1")
    assert (result.num_removed_files, result.num_files) == (1, 1)
    assert ids_of(partitioned) == [0, 2, 4, 7]


def test_replace_where_refuses_rows_outside_and_leaves_nothing(
    spark: SparkSession, partitioned: Path
) -> None:
    before = set(partitioned.rglob("*.parquet"))
    with pytest.raises(ConstraintViolationError, match="replace_where"):
        write_table(numbers(spark, 7, p=0), str(partitioned), "overwrite", replace_where="p = 1")
    assert DeltaTable(partitioned).version() == 0
    assert set(partitioned.rglob("*.parquet")) == before


@pytest.mark.parametrize("condition", ["id >= 4", "p = 1 AND id > 4 OR id = 4", "abs(id - 4.5) < 1"])
def test_replace_where_over_data_columns_rewrites_the_files_that_hold_such_rows(
    spark: SparkSession, partitioned: Path, condition: str
) -> None:
    result = write_table(numbers(spark, 4), str(partitioned), "overwrite", replace_where=condition)
    assert ids_of(partitioned) == [0, 1, 2, 3, 4]
    assert result.num_removed_files == 2


def test_replace_where_keeps_rows_for_which_the_condition_is_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_table(spark.sql("SELECT * FROM VALUES (1L, 1), (2L, NULL), (3L, 3) AS t(id, v)"), str(path))
    write_table(spark.sql("SELECT 9L AS id, 5 AS v"), str(path), "overwrite", replace_where="v > 0")
    assert ids_of(path) == [2, 9]


def test_replace_where_with_the_change_feed_records_rows_that_came_and_went(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_table(numbers(spark, 1, 2, 3), str(path), properties={"delta.enableChangeDataFeed": "true"})
    write_table(numbers(spark, 8, 9), str(path), "overwrite", replace_where="id > 2")
    changes = DeltaTable(path).changes(starting_version=1).to_arrow().to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in changes) == [
        ("delete", 3),
        ("insert", 8),
        ("insert", 9),
    ]
    assert ids_of(path) == [1, 2, 8, 9]


def test_replace_where_can_bring_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_table(numbers(spark, 1, 2), str(path))
    wider = spark.sql("SELECT 5L AS id, 0 AS p, 'n' AS extra")
    write_table(wider, str(path), "overwrite", replace_where="id >= 2", merge_schema=True)
    rows = DeltaTable(path).snapshot().to_arrow().to_pylist()
    assert sorted((row["id"], row["extra"]) for row in rows) == [(1, None), (5, "n")]


def test_replace_where_given_as_a_column_works_like_its_text(spark: SparkSession, partitioned: Path) -> None:
    from pyspark.sql import functions as sf

    write_table(numbers(spark, 4), str(partitioned), "overwrite", replace_where=sf.col("id") == 4)
    assert ids_of(partitioned) == [0, 1, 2, 3, 4, 5]


def test_append_only_table_refuses_every_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    """CN-001."""
    path = tmp_path / "t"
    write_table(numbers(spark, 1), str(path), properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        write_table(numbers(spark, 2), str(path), "overwrite")
