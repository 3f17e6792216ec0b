"""The change data feed through Spark, against the engine's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.errors import ChangeFeedError
from distributary.spark import read_changes

sys.path.insert(0, str(Path(__file__).parent))

from corpus_frames import arrow_rows
from deleted_rows import delete_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEEDS = [
    "deltars__cdf-table",
    "deltars__cdf-table-with-cdc-and-dvs",
    "kernelrs__cdf-table-update-ops",
    "kernelrs__cdf-table-with-dv",
    "kernelrs__cdf-column-mapping-id-mode",
    "kernelrs__cdf-column-mapping-name-mode-3-7",
]


def _texts(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", FEEDS)
def test_feed_of_the_corpus_reads_as_the_engine_reads_it(
    spark: SparkSession, delta_tables: Any, name: str
) -> None:
    """CDF-002, CDF-005: change files, whole files, and exchanged deletion vectors."""
    table = ds.DeltaTable(delta_tables.tables / name)
    start = next(version for version in range(table.version() + 1) if _readable(table, version))
    engine = table.changes(start)
    found = arrow_rows(read_changes(spark, table.uri, start), engine.arrow_schema, [])
    assert _texts(found) == _texts(engine.to_arrow())
    assert found.column_names == engine.arrow_schema.names


def _readable(table: ds.DeltaTable, version: int) -> bool:
    try:
        table.changes(version).to_arrow()
    except ds.DistributaryError:
        return False
    return True


def test_exchanged_vector_tells_the_rows_that_it_deleted(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = ds.DeltaTable.create(tmp_path / "t", schema, partition_by=["p"], properties=properties)
    table.append(pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a"] * 6}))
    delete_rows(tmp_path / "t", {0: [1, 4]})
    frame = read_changes(spark, table.uri, starting_version=2)
    rows = sorted(
        (row["id"], row["p"], row["_change_type"], row["_commit_version"]) for row in frame.collect()
    )
    assert rows == [(1, "a", "delete", 2), (4, "a", "delete", 2)]
    assert read_changes(spark, table.uri, 0, 1).filter("_change_type = 'insert'").count() == 6


def test_versions_without_a_feed_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = ds.DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    with pytest.raises(ChangeFeedError):
        read_changes(spark, table.uri, 0)
