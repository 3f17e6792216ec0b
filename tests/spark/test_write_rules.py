"""The rules of a table in Spark's own SQL: checked, computed, and named when broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.errors import (
    ConstraintViolationError,
    GeneratedColumnError,
    NotNullViolationError,
    SchemaMismatchError,
    UnsupportedRuleError,
)
from distributary.delta.operations.create import execute_create, plan_create
from distributary.delta.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from distributary.delta.table import DeltaTable
from distributary.spark.table_write import write_table
from distributary.storage.object_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(path: Path, *fields: StructField, **properties: str) -> str:
    store = open_store(str(path))
    named = {f"delta.constraints.{name}": text for name, text in properties.items()}
    named["delta.feature.allowColumnDefaults"] = "supported"
    execute_create(store, plan_create(store, StructType(fields), properties=named, check_rules=False))
    return str(path)


def rows_of(path: str) -> list[dict[str, object]]:
    return DeltaTable(path).snapshot().to_arrow().to_pylist()


def test_every_broken_rule_is_named_with_a_row_and_nothing_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """CN-010 to CN-012, CN-020, CN-021, CN-030: with expressions that only Spark knows."""
    path = create(
        tmp_path / "t",
        StructField("id", LONG, nullable=False),
        StructField("v", INTEGER, True, {"delta.invariants": '{"expression":{"expression":"v % 7 != 0"}}'}),
        StructField("s", STRING, True, {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
        StructField("g", STRING, True, {"delta.generationExpression": "sha2(string(id), 256)"}),
        StructField("n", StructType((StructField("a", LONG, nullable=False),))),
        StructField("l", ArrayType(StructType((StructField("b", LONG, nullable=False),)))),
        StructField("m", MapType(STRING, LONG, value_contains_null=False)),
        known="soundex(s) <=> 'A120' OR v > 0",
    )
    broken = [
        ("SELECT CAST(NULL AS LONG) AS id", NotNullViolationError, "Column id "),
        ("SELECT 1L AS id, -1 AS v", ConstraintViolationError, "CHECK constraint known .* v = -1"),
        ("SELECT 1L AS id, 7 AS v", ConstraintViolationError, "The invariant of column v"),
        ("SELECT 1L AS id, 1 AS v, 'abcd' AS s", ConstraintViolationError, r"varchar\(3\) .* s = abcd"),
        ("SELECT 1L AS id, 1 AS v, 'x' AS g", GeneratedColumnError, "g = x, id = 1"),
        (
            "SELECT 1L AS id, 1 AS v, named_struct('a', CAST(NULL AS LONG)) AS n",
            NotNullViolationError,
            r"Column n\.a ",
        ),
        (
            "SELECT 1L AS id, 1 AS v, array(named_struct('b', CAST(NULL AS LONG))) AS l",
            NotNullViolationError,
            r"Column l\.element\.b ",
        ),
        (
            "SELECT 1L AS id, 1 AS v, map('k', CAST(NULL AS LONG)) AS m",
            NotNullViolationError,
            r"Column m\.value ",
        ),
        ("SELECT 1L AS id, 3000000000L AS v", SchemaMismatchError, "cannot hold 3000000000"),
        ("SELECT 1L AS id, 'x' AS v", SchemaMismatchError, "cast the data to integer"),
        ("SELECT 1 AS v", NotNullViolationError, "Column id "),
    ]
    for query, error, text in broken:
        with pytest.raises(error, match=text):
            write_table(spark.sql(query), path)
    assert DeltaTable(path).version() == 0
    assert not list(Path(path).rglob("*.parquet"))
    write_table(spark.sql("SELECT 1L AS id, 1 AS v, 'ab   ' AS s"), path)
    (row,) = rows_of(path)
    assert (row["s"], str(row["g"])[:6]) == ("ab ", "6b86b2")


def test_values_are_cast_as_store_assignment_does_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = create(
        tmp_path / "t",
        StructField("b", BYTE),
        StructField("s", STRING),
        StructField("d", DATE),
        StructField("m", DecimalType(6, 2)),
        StructField("x", DOUBLE),
        StructField("n", StructType((StructField("a", LONG), StructField("z", INTEGER)))),
        StructField("l", ArrayType(INTEGER)),
        StructField("t", TIMESTAMP),
    )
    query = """SELECT 12L AS B, 5 AS s, timestamp'2020-01-02 03:04:05' AS d, 1.5D AS m, 7 AS x,
                      named_struct('Z', 3L, 'A', 4) AS n, array(1L, NULL) AS l, date'2020-01-01' AS t"""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        write_table(spark.sql(query), path)
        for wrong in ("SELECT 1000 AS b", "SELECT 123456.5D AS m", "SELECT array(5000000000L) AS l"):
            with pytest.raises(SchemaMismatchError, match="cannot hold"):
                write_table(spark.sql(wrong), path)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    (row,) = rows_of(path)
    assert (row["b"], row["s"], str(row["d"]), str(row["m"]), row["x"]) == (
        12,
        "5",
        "2020-01-02",
        "1.50",
        7.0,
    )
    assert (row["n"], row["l"]) == ({"a": 4, "z": 3}, [1, None])


def test_defaults_fill_missing_columns_and_char_is_padded(spark: SparkSession, tmp_path: Path) -> None:
    """CN-050 is no reason to refuse here: Spark evaluates what the closed list lacks."""
    path = create(
        tmp_path / "t",
        StructField("id", LONG),
        StructField("u", STRING, True, {"CURRENT_DEFAULT": "upper(concat('a', 'b'))"}),
        StructField("when", TIMESTAMP, True, {"CURRENT_DEFAULT": "current_timestamp()"}),
        StructField("c", STRING, True, {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}),
    )
    write_table(spark.sql("SELECT 1L AS id, 'x' AS c"), path)
    (row,) = rows_of(path)
    assert (row["u"], row["c"], row["when"] is None) == ("AB", "x   ", False)


def test_a_check_is_not_moved_below_a_limit_or_a_filter(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that are never written are never refused."""
    path = create(tmp_path / "t", StructField("id", LONG), small="id < 3")
    frame = spark.range(0, 100, 1, 4).filter("id < 3").union(spark.range(0, 100, 1, 2).limit(0))
    write_table(frame, path)
    write_table(spark.range(0, 100, 1, 4).orderBy("id").limit(2), path)
    assert sorted(str(row["id"]) for row in rows_of(path)) == ["0", "0", "1", "1", "2"]


def test_a_rule_that_spark_cannot_resolve_refuses_the_write(spark: SparkSession, tmp_path: Path) -> None:
    """CN-050."""
    path = create(tmp_path / "t", StructField("id", LONG), odd="no_such_function(id) > 0")
    with pytest.raises(UnsupportedRuleError, match="no_such_function"):
        write_table(spark.range(1), path)
