"""write_table: modes, new tables, schema growth, transactions, options of a write."""

from __future__ import annotations

import datetime
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.errors import SchemaMismatchError, TableExistsError
from distributary.delta.schema.data_types import INTEGER, LONG, StructField, StructType
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark.table_write import write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(path: Path) -> list[dict[str, object]]:
    return sorted(DeltaTable(path).snapshot().to_arrow().to_pylist(), key=str)


def last_entry(path: Path) -> list[dict[str, object]]:
    entry = sorted((path / "_delta_log").glob("*.json"))[-1]
    return [json.loads(line) for line in entry.read_text().splitlines()]


def commit_info(path: Path) -> dict[str, object]:
    return next(line["commitInfo"] for line in last_entry(path) if "commitInfo" in line)  # type: ignore[return-value]


def test_new_table_and_append_hold_all_rows_and_no_leftovers(spark: SparkSession, tmp_path: Path) -> None:
    """LW-002, LW-009: one commit each; `_SUCCESS`, `.crc` and `_temporary` are swept."""
    path = tmp_path / "t"
    first = write_table(spark.sql("SELECT id, id * 1.5D AS v FROM range(0, 10, 1, 2)"), str(path))
    second = write_table(spark.sql("SELECT id + 10 AS id, 0.5D AS v FROM range(5)"), str(path))
    assert (first.version, first.num_rows, first.num_files) == (0, 10, 2)
    assert (second.version, second.num_rows) == (1, 5)
    assert [row["id"] for row in sorted(rows_of(path), key=lambda row: row["id"])] == list(range(15))
    assert DeltaTable(path).snapshot().schema.field("id").nullable
    files = [file for file in path.rglob("*") if file.is_file() and "_delta_log" not in file.parts]
    assert files
    assert all(file.suffix == ".parquet" and not file.name.startswith((".", "_")) for file in files)
    info = commit_info(path)
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info["isBlindAppend"] is True


def test_mode_error_refuses_and_ignore_leaves_an_existing_table_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(3)
    write_table(frame, path, "error")
    with pytest.raises(TableExistsError):
        write_table(frame, path, "error")
    assert write_table(frame, path, "ignore").skipped
    assert DeltaTable(path).version() == 0


def test_contradicting_options_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(3)
    for options in (
        {"mode": "update"},
        {"replace_where": "id = 1"},
        {"mode": "overwrite", "replace_where": "id = 1", "overwrite_schema": True},
        {"mode": "overwrite", "overwrite_schema": True, "merge_schema": True},
        {"partition_overwrite": "some"},
        {"partition_by": ["id"], "cluster_by": ["id"]},
    ):
        with pytest.raises(InvalidInputError):
            write_table(frame, path, **options)  # type: ignore[arg-type]
    assert not DeltaTable.exists(path)


def test_partition_values_are_the_same_texts_in_every_session_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """PV-001 to PV-009: instants in UTC, empty text null, odd characters kept; directories are for people."""
    path = tmp_path / "t"
    frame = spark.sql(
        """SELECT id, element_at(array('FR', 'é x/=%', '', NULL), int(id) + 1) AS s,
                  timestamp_micros(1577836800123000 + id) AS t, date'2020-02-29' AS d,
                  cast('ab' AS binary) AS b, 1e-7D AS x, cast(1.5 AS decimal(10,2)) AS m, id % 2 = 0 AS f
           FROM range(4)"""
    )
    write_table(frame, str(path), partition_by=["s", "t", "d", "b", "x", "m", "f"])
    values = [add["add"]["partitionValues"] for add in last_entry(path) if "add" in add]  # type: ignore[index]
    assert {value["s"] for value in values} == {"FR", "é x/=%", None}
    assert {value["t"] for value in values} == {f"2020-01-01 00:00:00.12300{n}" for n in "123"} | {
        "2020-01-01 00:00:00.123"
    }
    others = {(v["d"], v["b"], v["x"], v["m"]) for v in values}
    assert others == {("2020-02-29", "ab", "1.0E-7", "1.50")}
    found = rows_of(path)
    assert {row["t"] for row in found} == {
        datetime.datetime(2020, 1, 1, 0, 0, 0, 123000 + n, datetime.UTC) for n in range(4)
    }


def test_appending_to_another_partitioning_or_with_other_properties_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("SELECT id, id % 2 AS p FROM range(4)")
    write_table(frame, path, partition_by=["p"], properties={"delta.appendOnly": "false"})
    write_table(frame, path, partition_by=["P"])
    with pytest.raises(InvalidInputError, match="partitioned by p"):
        write_table(frame, path, partition_by=["id"])
    with pytest.raises(InvalidInputError, match=r"delta\.appendOnly"):
        write_table(frame, path, properties={"delta.appendOnly": "true"})


def test_merge_schema_adds_columns_and_an_unknown_column_is_refused_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_table(spark.sql("SELECT 1L AS id, named_struct('a', 1) AS s"), str(path))
    wider = spark.sql("SELECT 2L AS ID, named_struct('b', 'x', 'a', 5) AS s, 'new' AS extra")
    with pytest.raises(SchemaMismatchError, match=r"s\.b"):
        write_table(wider, str(path))
    write_table(wider, str(path), merge_schema=True)
    assert rows_of(path) == [
        {"id": 1, "s": {"a": 1, "b": None}, "extra": None},
        {"id": 2, "s": {"a": 5, "b": "x"}, "extra": "new"},
    ]


def test_merge_schema_widens_a_column_where_the_table_allows_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_table(spark.sql("SELECT 1 AS v"), str(path), properties={"delta.enableTypeWidening": "true"})
    write_table(spark.sql("SELECT 3000000000L AS v"), str(path), merge_schema=True)
    assert DeltaTable(path).snapshot().schema.field("v").data_type == LONG
    assert [row["v"] for row in rows_of(path)] == [1, 3000000000]


def test_the_same_transaction_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """LW-012."""
    path = str(tmp_path / "t")
    frame = spark.range(3)
    assert not write_table(frame, path, txn=("job", 7)).skipped
    assert write_table(frame, path, txn=("job", 7)).skipped
    assert write_table(frame, path, txn=("job", 6)).skipped
    assert not write_table(frame, path, txn=("job", 8), user_metadata="note").skipped
    assert commit_info(tmp_path / "t")["userMetadata"] == "note"
    assert DeltaTable(path).snapshot().to_arrow().num_rows == 6


def test_sorted_and_balanced_writes_lay_rows_out(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT (id * 7919) % 1000 AS id, id % 4 AS p FROM range(0, 1000, 1, 8)")
    write_table(frame, str(tmp_path / "sorted"), sort_by=["id"])
    ranges = [
        json.loads(text) for text in DeltaTable(tmp_path / "sorted").snapshot().files()["stats"].to_pylist()
    ]
    bounds = sorted((stats["minValues"]["id"], stats["maxValues"]["id"]) for stats in ranges)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(bounds))
    plain = write_table(frame, str(tmp_path / "plain"), partition_by=["p"])
    balanced = write_table(frame, str(tmp_path / "balanced"), partition_by=["p"], optimize_write=True)
    assert plain.num_files == 32
    assert balanced.num_files == 4


def test_target_file_size_limits_the_records_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("SELECT id, uuid() AS u FROM range(0, 2000, 1, 1)")
    size = write_table(frame, path).num_bytes
    assert write_table(frame, path, target_file_size=size // 3).num_files >= 3


def test_empty_frame_makes_a_table_without_files(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert write_table(spark.range(0), path).num_files == 0
    assert write_table(spark.range(0), path).num_files == 0
    assert DeltaTable(path).snapshot().to_arrow().num_rows == 0


def test_clustered_table_declares_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_table(spark.sql("SELECT id, 'x' AS s FROM range(3)"), str(path), cluster_by=["s", "id"])
    domain = next(line["domainMetadata"] for line in last_entry(path) if "domainMetadata" in line)
    assert domain["domain"] == "delta.clustering"  # type: ignore[index]
    columns = json.loads(domain["configuration"])["clusteringColumns"]  # type: ignore[index]
    assert columns == [["s"], ["id"]]
    with pytest.raises(InvalidInputError, match="clustered by s, id"):
        write_table(spark.range(1), str(path), cluster_by=["id"])


def test_column_mapping_writes_physical_names_and_field_ids_at_every_level(
    spark: SparkSession, tmp_path: Path
) -> None:
    """LW-006 with column mapping; statistics and partition values go by physical names too."""
    import pyarrow.parquet as pq

    path = tmp_path / "t"
    frame = spark.sql(
        "SELECT id, named_struct('a b', id, 'c', array(named_struct('d', id))) AS `s t`, id % 2 AS `p q` "
        "FROM range(4)"
    )
    write_table(frame, str(path), partition_by=["p q"], properties={"delta.columnMapping.mode": "name"})
    schema = DeltaTable(path).snapshot().schema
    names = {str(field.metadata["delta.columnMapping.physicalName"]) for field in schema.fields}
    adds = [line["add"] for line in last_entry(path) if "add" in line]
    partition = str(schema.field("p q").metadata["delta.columnMapping.physicalName"])
    assert {tuple(add["partitionValues"]) for add in adds} == {(partition,)}  # type: ignore[index]
    assert set(json.loads(adds[0]["stats"])["minValues"]) < names  # type: ignore[index]
    file = next(path.rglob("*.parquet"))
    text = str(pq.ParquetFile(file).schema)
    for field in schema.fields:
        if field.name != "p q":
            assert f"field_id={field.metadata['delta.columnMapping.id']} " in text
    inner = schema.field("s t").data_type
    assert isinstance(inner, StructType)
    for field in inner.fields:
        assert f"field_id={field.metadata['delta.columnMapping.id']} " in text
    assert [row["s t"]["c"][0]["d"] for row in sorted(rows_of(path), key=lambda row: row["id"])] == [
        0,
        1,
        2,
        3,
    ]


def test_row_ids_and_in_commit_timestamps_are_kept_up(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    write_table(spark.range(0, 4, 1, 1), str(path), properties=properties)
    write_table(spark.range(0, 3, 1, 1), str(path))
    add = next(line["add"] for line in last_entry(path) if "add" in line)
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (4, 1)  # type: ignore[index]
    assert "inCommitTimestamp" in commit_info(path)


def test_a_table_made_by_arrow_takes_rows_of_spark_and_the_other_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    schema = StructType((StructField("id", LONG), StructField("n", INTEGER)))
    table = DeltaTable.create(path, schema)
    write_table(spark.sql("SELECT 1L AS id, 1 AS n"), str(path))
    import pyarrow as pa

    table.append(pa.table({"id": [2], "n": pa.array([2], pa.int32())}))
    assert rows_of(path) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
