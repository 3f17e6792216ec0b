"""Files left out by statistics and partition values: never one that holds a wanted row."""

from __future__ import annotations

import datetime as dt
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distributary as ds
from distributary.spark import read_table
from distributary.spark.table_scan import prune_with_spark

sys.path.insert(0, str(Path(__file__).parent))

from plans import files_read, plan_text, rows_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.UTC
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("w", pa.timestamp("us")),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(20, 4)),
        ("b", pa.bool_()),
        ("n", pa.struct([("a", pa.int32()), ("deep", pa.struct([("z", pa.string())]))])),
        ("file_size", pa.int64()),
    ]
)

# The condition, and how many of the nine files may be read for it (None: not looked at).
CONDITIONS: list[tuple[str, int | None]] = [
    ("k = 15", 2),
    ("15 = k", 2),
    ("k = 1000", 1),
    ("k < 10", 2),
    ("k <= 10", 3),
    ("10 > k", 2),
    ("k > 35", 4),
    ("k >= 35", 4),
    ("k <> 15", None),
    ("NOT (k = 50)", 7),
    ("NOT (k < 50)", 4),
    ("k <=> 15", 2),
    ("NOT (k <=> 50)", 8),
    ("k IS NULL", 3),
    ("k IS NOT NULL", 8),
    ("k IN (1, 11, 99)", 3),
    ("k IN (1, NULL)", 2),
    ("k NOT IN (50, 51)", None),
    (f"k IN ({', '.join(str(at) for at in range(1000, 1400))})", 1),
    (f"k IN ({', '.join(str(at) for at in range(0, 400, 40))})", None),
    ("k = 15 OR k = 25", 3),
    ("k = 15 AND k = 25", 1),
    ("NOT (k > 5 OR k < 2)", 2),
    ("NOT (k >= 10 AND k <= 49)", None),
    ("k BETWEEN 12 AND 28", 3),
    ("day = 'a'", 3),
    ("day IS NULL", 1),
    ("day = 'a' AND k = 5", None),
    ("day = 'a' OR k = 25", None),
    ("NOT (day = 'a' OR k <> 25)", None),
    ("NOT (day = 'a' AND k = 5)", None),
    ("day > 'a' AND s LIKE 'row-2%'", None),
    ("upper(day) = 'A' OR k = 25", None),
    ("s = 'row-15'", 4),
    ("s LIKE 'row-1%'", None),
    ("s LIKE 'zzz%'", 2),
    ("s LIKE '%5'", None),
    ("s >= 'row-3'", None),
    ("s = repeat('long', 20)", None),
    ("s > repeat('long', 19)", None),
    ("s <> 'row-15'", None),
    ("startswith(s, 'long')", None),
    ("d = DATE'2024-01-16'", 2),
    ("d > DATE'2024-02-10'", None),
    ("t = TIMESTAMP'2024-01-16T00:00:00.000123Z'", None),
    ("t > TIMESTAMP'2024-01-16T00:00:00.0001Z' AND t < TIMESTAMP'2024-01-16T00:00:00.0002Z'", None),
    ("w = TIMESTAMP_NTZ'2024-01-16 00:00:00.000123'", None),
    ("x = 1.5", None),
    ("x > 100", None),
    ("x >= 4.5", None),
    ("x < 1", None),
    ("x = double('NaN')", None),
    ("x <> 1.5", None),
    ("NOT (x < 100)", None),
    ("x IN (1.5, double('NaN'))", None),
    ("f = 1.5", None),
    ("f > 100", None),
    ("x = -0.0", None),
    ("m = 15.1234", 2),
    ("m > 123456789012.5", None),
    ("b", None),
    ("NOT b", None),
    ("b = true OR k = 15", None),
    ("n.a = 15", 2),
    ("n.a IS NULL", None),
    ("n.deep.z = 'z-25'", 3),
    ("n IS NULL", None),
    ("n.deep.z LIKE 'z-1%' AND k > 12", None),
    ("cast(k AS bigint) = 15", 2),
    ("k + 1 = 16", None),
    ("length(s) = 5", None),
    ("k = 15 AND rand() >= 0", None),
    ("file_size = 3", None),
    ("_metadata.file_size > 0 AND k = 15", None),
    ("_metadata.row_index = 0", None),
    ("false", 0),
    ("k = NULL", 0),
]


def _row(id_: int, day: str | None, at: int, **other: Any) -> dict[str, Any]:
    moment = dt.datetime(2024, 1, 1) + dt.timedelta(days=at, microseconds=123)
    row = {
        "id": id_,
        "day": day,
        "k": at,
        "s": f"row-{at}",
        "d": moment.date(),
        "t": moment.replace(tzinfo=UTC),
        "w": moment,
        "x": at / 10,
        "f": at / 10,
        "m": Decimal(at) + Decimal("0.1234"),
        "b": at % 2 == 0,
        "n": {"a": at, "deep": {"z": f"z-{at}"}},
        "file_size": 3,
    }
    return {**row, **other}


def _nothing(id_: int) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), "id": id_, "day": "a"}


FILES: list[list[dict[str, Any]]] = [
    [_row(at, "a", at) for at in range(10)],
    [_row(at, "b", at) for at in range(10, 20)],
    [_row(at, "c", at, b=True) for at in range(20, 30)],
    [_row(30, None, 30, x=math.nan), _row(31, None, 31, x=math.inf, f=math.nan)],
    [_row(40, "a", 40, k=None, n=None), _row(41, "a", 41, n={"a": None, "deep": None}, x=-0.0)],
    [_row(50, "d", 50), _row(51, "d", 50)],
    [_row(60, "e", 50, s="long" * 20, m=Decimal("1234567890123.9999")), _row(61, "e", 50, s="zzz")],
    [_nothing(70), _nothing(71)],
]
WITHOUT_STATISTICS = [_row(80, "z", 15), _row(81, "z", 16, k=None)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ds.DeltaTable:
    path = tmp_path_factory.mktemp("skipping") / "t"
    properties = {"delta.dataSkippingNumIndexedCols": "0"}
    made = ds.DeltaTable.create(path, SCHEMA, partition_by=["day"], properties=properties)
    made.append(pa.Table.from_pylist(WITHOUT_STATISTICS, SCHEMA))
    made.alter.set_properties({"delta.dataSkippingNumIndexedCols": "32"})
    for rows in FILES:
        made.append(pa.Table.from_pylist(rows, SCHEMA))
    return made


@pytest.fixture(scope="module")
def wanted(spark: SparkSession) -> dict[str, set[int]]:
    """The rows that satisfy each condition, found without any file to skip."""
    from pyspark.sql import functions as sf

    rows = [row for file in [*FILES, WITHOUT_STATISTICS] for row in file]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    plain = [text for text, _ in CONDITIONS if "_metadata" not in text]
    found = frame.select("id", *(sf.expr(text).alias(f"c{at}") for at, text in enumerate(plain))).collect()
    answers = {text: {row["id"] for row in found if row[f"c{at}"]} for at, text in enumerate(plain)}
    answers["_metadata.file_size > 0 AND k = 15"] = answers["k = 15"]
    answers["_metadata.row_index = 0"] = {file[0]["id"] for file in [*FILES, WITHOUT_STATISTICS]}
    return answers


@pytest.mark.parametrize("part", range(4))
def test_conditions_find_the_same_rows_and_skip_files(
    spark: SparkSession, table: ds.DeltaTable, wanted: dict[str, set[int]], part: int
) -> None:
    """ST-003, ST-006, ST-007, ST-009, C-14: skipping loses no row, and skips what it can."""
    frame = read_table(spark, table.uri)
    for condition, files in CONDITIONS[part::4]:
        found = frame.filter(condition).select("id")
        assert {row["id"] for row in found.collect()} == wanted[condition], condition
        if files is not None:
            assert files_read(found) <= files, condition


def test_conditions_prune_for_writers_as_they_skip_for_readers(
    spark: SparkSession, table: ds.DeltaTable
) -> None:
    state = table.snapshot().state
    assert state.files.num_files == 9
    for condition, files in (
        ("k = 15", 2),
        ("day = 'a'", 3),
        ("rand() < 2", 9),
        ("false", 0),
        ("t.k < 10", 2),
    ):
        found = prune_with_spark(spark, table.store, state, condition, alias="t")
        assert found.num_files == files, condition


def test_scan_is_vectorised_and_reads_only_what_is_asked_for(
    spark: SparkSession, table: ds.DeltaTable
) -> None:
    text = plan_text(read_table(spark, table.uri).filter("k > 3 AND day = 'a'").select("s"))
    assert "Batched: true" in text
    assert "ReadSchema: struct<k:int,s:string>" in text
    assert "PushedFilters: [IsNotNull(k), GreaterThan(k,3)]" in text


def test_conditions_reach_row_groups_also_beside_floating_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Numbers whose bounds may lack NaN or tell -0.0 from 0.0 are not asked about there, the others are."""
    zeros = [-0.0] * 100 + [0.0] * 100 + [math.nan] * 100
    rows = pa.table({"id": range(300), "x": zeros, "a.b": range(300)})
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "f.parquet", row_group_size=100)
    frame = read_table(spark, ds.DeltaTable.convert(tmp_path / "t").uri)
    for condition, found, read in (
        ("id = 150", 1, 100),
        ("`a.b` = 250", 1, 100),
        ("x = 0.0", 200, 300),
        ("x > 1", 100, 300),
        ("x < 1 AND id < 50", 50, 100),
    ):
        kept = frame.filter(condition).select("id")
        assert len(kept.collect()) == found, condition
        assert rows_read(kept) == read, condition


def test_join_on_a_partition_column_prunes_partitions_while_it_runs(
    spark: SparkSession, table: ds.DeltaTable
) -> None:
    frame = read_table(spark, table.uri)
    few = spark.createDataFrame([("b", 1), ("c", 2)], "day string, wanted int").filter("wanted > 1")
    joined = frame.join(few.hint("broadcast"), "day").select("id")
    assert sorted(row["id"] for row in joined.collect()) == list(range(20, 30))
    assert "dynamicpruning" in plan_text(joined)
    assert files_read(joined) == 1
