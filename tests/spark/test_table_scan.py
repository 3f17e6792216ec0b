"""Rows of Delta tables through Spark's own reader, against what the engine reads."""

from __future__ import annotations

import datetime as dt
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.spark import count_rows, index_blob, jvm, read_table
from distributary.spark.path_scan import PathScanWarning
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX, scan_snapshot

sys.path.insert(0, str(Path(__file__).parent))

from deleted_rows import delete_rows
from plans import files_read, plan_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = pa.table(
    {"id": pa.array(range(10), pa.int64()), "day": [f"d{at % 3}" for at in range(10)], "price": [1.5] * 10}
)
VECTORS = {"delta.enableDeletionVectors": "true"}


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def _orders(path: Path, **options: Any) -> ds.DeltaTable:
    """A table of two files, of six and of four rows."""
    table = ds.DeltaTable.create(path, ORDERS.schema, **options)
    table.append(ORDERS.slice(0, 6))
    table.append(ORDERS.slice(6))
    return table


def test_table_reads_as_the_engine_does(spark: SparkSession, tmp_path: Path) -> None:
    table = ds.DeltaTable.create(tmp_path / "orders", ORDERS.schema, partition_by=["day"])
    table.append(ORDERS)
    frame = read_table(spark, str(tmp_path / "orders"))
    assert frame.columns == ["id", "day", "price"]
    assert _rows(frame) == sorted(tuple(row.values()) for row in ORDERS.to_pylist())
    assert count_rows(spark, str(tmp_path / "orders")) == 10


def test_older_version_and_time_read_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    table = _orders(tmp_path / "orders")
    assert read_table(spark, table.uri, version=0).collect() == []
    assert count_rows(spark, table.uri, version=1) == 6
    moment = dt.datetime.fromtimestamp(table.snapshot(1).timestamp() / 1000, dt.UTC)
    assert read_table(spark, table.uri, timestamp=moment).count() in (6, 10)
    assert read_table(spark, table.uri).count() == 10


def test_positions_tell_file_and_row_of_each_row(spark: SparkSession, tmp_path: Path) -> None:
    table = _orders(tmp_path / "orders", properties=VECTORS)
    delete_rows(tmp_path / "orders", {0: [0, 3]})
    state = table.snapshot().state
    frame = scan_snapshot(spark, table.store, state, positions=True)
    assert frame.columns == ["id", "day", "price", FILE_ORDINAL, ROW_INDEX]
    found = {(row[FILE_ORDINAL], row[ROW_INDEX]): row["id"] for row in frame.collect()}
    records = [add.deletion_vector is not None for add in state.files.adds()]
    first = records.index(True)
    ids = [row["id"] for row in table.snapshot(2).to_arrow().to_pylist()]
    assert len(ids) == 10
    assert len(found) == 8
    assert {row for file, row in found if file == first}.isdisjoint({0, 3})
    only = frame.filter(f"{FILE_ORDINAL} = {1 - first}")
    assert {row[FILE_ORDINAL] for row in only.collect()} == {1 - first}
    assert files_read(only) == 1


@pytest.mark.parametrize("wide", [False, True])
def test_deleted_rows_are_gone_whatever_spark_does_with_the_plan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    """The same rows with and without generated code, by the row reader, and by 64-bit numbers."""
    if wide:
        monkeypatch.setattr("distributary.spark.deletion_vector_filter._INT_PLACES", 0)
    table = _orders(tmp_path / "orders", properties=VECTORS)
    delete_rows(tmp_path / "orders", {0: [1, 2], 1: [0]})
    expected = sorted(table.snapshot().to_arrow().column("id").to_pylist())
    frame = read_table(spark, table.uri)
    assert [row[0] for row in _rows(frame.select("id"))] == expected
    assert count_rows(spark, table.uri) == frame.count() == len(expected) == 7
    for setting, value in (
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.parquet.enableVectorizedReader", "false"),
    ):
        before = spark.conf.get(setting)
        spark.conf.set(setting, value)
        try:
            assert [row[0] for row in _rows(read_table(spark, table.uri).select("id"))] == expected
        finally:
            spark.conf.set(setting, before)


def test_every_partition_type_reads_and_filters(spark: SparkSession, tmp_path: Path) -> None:
    """LR-004, PV-001, PV-007, PV-010: values of all types, null ones too, in a session that is not UTC."""
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "p_string": (pa.string(), ["a b%/é", None]),
        "p_byte": (pa.int8(), [-128, None]),
        "p_short": (pa.int16(), [32767, None]),
        "p_int": (pa.int32(), [-1, None]),
        "p_long": (pa.int64(), [2**62, None]),
        "p_float": (pa.float32(), [1.5, None]),
        "p_double": (pa.float64(), [1e-5, math.inf]),
        "p_boolean": (pa.bool_(), [True, None]),
        "p_decimal": (pa.decimal128(38, 10), [Decimal("-1234567890123456789.0000000001"), None]),
        "p_small": (pa.decimal128(10, 2), [Decimal("1.50"), None]),
        "p_date": (pa.date32(), [dt.date(1582, 10, 4), None]),
        "p_time": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 3, 10, 2, 30, 0, 5, dt.UTC), None]),
        "p_wall": (pa.timestamp("us"), [dt.datetime(2024, 3, 10, 2, 30), None]),
        "p_binary": (pa.binary(), [b"x\x7f", None]),
    }
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in values.items())])
    table = ds.DeltaTable.create(tmp_path / "t", schema, partition_by=list(values))
    columns = {"id": pa.array([0, 1], pa.int64())}
    table.append(pa.table({**columns, **{n: pa.array(v, k) for n, (k, v) in values.items()}}, schema))
    frame = read_table(spark, table.uri).orderBy("id")
    found = frame.toArrow().cast(schema)
    assert found.to_pylist() == table.snapshot().to_arrow().sort_by("id").to_pylist()
    for name in values:
        matching = frame.filter(f"{name} IS NOT NULL AND id = 0").select("id")
        assert [row["id"] for row in matching.collect()] == [0], name
    assert frame.filter("p_time = TIMESTAMP'2024-03-10 02:30:00.000005 UTC'").count() == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_pruned_and_filtered(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Renamed columns, nested ones too; pushed down to row groups where names are safe."""
    inner = pa.struct([("x", pa.int32()), ("y.z", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("a`b.c", pa.string()), ("n", inner), ("l", pa.list_(inner))])
    table = ds.DeltaTable.create(tmp_path / "t", schema, properties={"delta.columnMapping.mode": mode})
    rows = [
        {"id": at, "a`b.c": f"v{at}", "n": {"x": at, "y.z": "w"}, "l": [{"x": at, "y.z": None}]}
        for at in range(5)
    ]
    table.append(pa.Table.from_pylist(rows, schema))
    table.alter.rename_column("id", "key")
    table.alter.add_column("later", pa.int32())
    frame = read_table(spark, table.uri)
    assert frame.columns == ["key", "a`b.c", "n", "l", "later"]
    picked = frame.filter("n.x = 3 AND `a``b.c` > 'v1'").select("key", "n.`y.z`", "l.x", "later")
    assert [tuple(row) for row in picked.collect()] == [(3, "w", [3], None)]
    text = plan_text(picked)
    assert "Batched: true" in text
    assert "PushedFilters: [" in text
    engine = table.snapshot().to_arrow().sort_by("key").to_pylist()
    assert [row.asDict(recursive=True) for row in frame.orderBy("key").collect()] == engine


def test_widened_columns_read_under_the_new_type(spark: SparkSession, delta_tables: Any) -> None:
    table = ds.DeltaTable(delta_tables.tables / "golden__type-widening")
    frame = read_table(spark, table.uri)
    assert frame.toArrow().num_rows == table.snapshot().count()
    names = [name for name, kind in frame.dtypes if kind in ("bigint", "int", "double")]
    for name in names:
        largest = frame.selectExpr(f"max(`{name}`)").collect()[0][0]
        assert frame.filter(f"`{name}` = {largest}").count() >= 1, name


def test_table_without_files_and_table_without_data_columns(spark: SparkSession, tmp_path: Path) -> None:
    empty = ds.DeltaTable.create(tmp_path / "empty", ORDERS.schema)
    assert read_table(spark, empty.uri).filter("id > 3").collect() == []
    assert count_rows(spark, empty.uri) == 0


def test_columns_called_like_those_of_spark_keep_their_values(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("_metadata", pa.string()), ("row_index", pa.int64()), ("file_path", pa.string())])
    table = ds.DeltaTable.create(tmp_path / "t", schema, properties=VECTORS)
    table.append(pa.table([["a", "b"], pa.array([7, 8], pa.int64()), ["x", "y"]], schema=schema))
    delete_rows(tmp_path / "t", {0: [0]})
    assert _rows(read_table(spark, table.uri)) == [("b", 8, "y")]
    positions = scan_snapshot(spark, table.store, table.snapshot().state, positions=True)
    assert _rows(positions) == [("b", 8, "y", 0, 1)]


def test_large_lists_of_files_go_through_a_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_blob, "_LARGEST_MESSAGE", 0)
    table = _orders(tmp_path / "orders")
    assert read_table(spark, table.uri).filter("id = 3").count() == 1


def test_equal_reads_share_what_is_cached(spark: SparkSession, tmp_path: Path) -> None:
    table = _orders(tmp_path / "orders")
    cached = read_table(spark, table.uri).cache()
    try:
        assert cached.count() == 10
        assert "InMemoryTableScan" in plan_text(read_table(spark, table.uri))
        table.append(ORDERS.slice(0, 1))
        assert "InMemoryTableScan" not in plan_text(read_table(spark, table.uri))
    finally:
        cached.unpersist()


def test_reading_by_paths_gives_the_same_rows_and_a_warning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the classes do not load, paths go to Spark: partitions, vectors, names and positions."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", pa.struct([("x", pa.int32())]))])
    properties = {"delta.columnMapping.mode": "name", **VECTORS}
    table = ds.DeltaTable.create(tmp_path / "a b+c%é", schema, partition_by=["p"], properties=properties)
    for part in ("x y", "z%1", None):
        rows = [{"id": at, "p": part, "n": {"x": at}} for at in range(4)]
        table.append(pa.Table.from_pylist(rows, schema))
    delete_rows(tmp_path / "a b+c%é", {1: [0, 2]})
    table.alter.rename_column("id", "key")
    state = table.snapshot().state
    native = sorted(map(repr, scan_snapshot(spark, table.store, state, positions=True).collect()))

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no classes here")

    monkeypatch.setattr("distributary.spark.path_scan.relations", refuse)
    with pytest.warns(PathScanWarning, match="RuntimeError"):
        plain = scan_snapshot(spark, table.store, state, positions=True)
    assert sorted(map(repr, plain.collect())) == native
    assert len(native) == 10


def test_java_sources_are_all_compiled_and_shipped() -> None:
    folder = Path(jvm.__file__).parent / "java"
    assert {path.stem for path in folder.glob("*.java")} == set(jvm.SOURCES)
