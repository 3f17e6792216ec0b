"""Rows of Delta tables through Spark's own reader, against what the engine reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import distributary as ds
from distributary.spark import read_table
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX, scan_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = pa.table(
    {"id": pa.array(range(10), pa.int64()), "day": [f"d{at % 3}" for at in range(10)], "price": [1.5] * 10}
)


def test_table_reads_as_the_engine_does(spark: SparkSession, tmp_path: Path) -> None:
    table = ds.DeltaTable.create(tmp_path / "orders", ORDERS.schema, partition_by=["day"])
    table.append(ORDERS)
    frame = read_table(spark, str(tmp_path / "orders"))
    assert frame.columns == ["id", "day", "price"]
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows == sorted(tuple(row.values()) for row in ORDERS.to_pylist())


def test_positions_tell_file_and_row_of_each_row(spark: SparkSession, tmp_path: Path) -> None:
    table = ds.DeltaTable.create(tmp_path / "orders", ORDERS.schema)
    table.append(ORDERS.slice(0, 6))
    table.append(ORDERS.slice(6))
    state = table.snapshot().state
    frame = scan_snapshot(spark, table.store, state, positions=True)
    assert frame.columns == ["id", "day", "price", FILE_ORDINAL, ROW_INDEX]
    found = {(row[FILE_ORDINAL], row[ROW_INDEX]): row["id"] for row in frame.collect()}
    counts = [len([1 for file, _ in found if file == at]) for at in range(state.files.num_files)]
    assert sorted(counts) == [4, 6]
    first = counts.index(6)
    assert found == {(first, at) if at < 6 else (1 - first, at - 6): at for at in range(10)}
