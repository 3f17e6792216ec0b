"""Evaluation over columns; test_spark_answers.py has scalars, test_rows_against_oracle.py random rows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from distributary.errors import ExpressionFailedError, UnknownColumnError, UnsupportedExpressionError
from distributary.expressions.arrow_evaluation import evaluate, filter_mask
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import FunctionCall, col

TABLE = pa.table(
    {
        "a": pa.array([10, 0, None, -3], pa.int32()),
        "b": pa.array([2, 0, 1, None], pa.int32()),
        "s": pa.array(["Straße", " x ", None, ""]),
        "m": pa.array([Decimal("1.25"), None, Decimal("-2.50"), Decimal("0.00")], pa.decimal128(6, 2)),
        "t": pa.array([datetime(2024, 3, 31, 0, 59, tzinfo=UTC), None] * 2, pa.timestamp("us", "UTC")),
        "n": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}], pa.struct([("x", pa.int32())])),
    }
)

COLUMNS: dict[str, list[Any]] = {
    "b <> 0 AND a / b > 1": [True, False, None, None],
    "b = 0 OR a / b > 1": [True, True, None, None],
    "CASE WHEN b <> 0 THEN a DIV b ELSE -1 END": [5, -1, None, -1],
    "CASE WHEN a > 5 THEN 'big' WHEN a < 0 THEN 'negative' END": ["big", None, None, "negative"],
    "coalesce(a, 100 / nullif(b, 0))": [10.0, 0.0, 100.0, -3.0],
    "coalesce(a, b, 7)": [10, 0, 1, -3],
    "upper(s)": ["STRASSE", " X ", None, ""],
    "length(s)": [6, 3, None, 0],
    "trim(s) = ''": [False, False, None, True],
    "substring(s, -3)": ["aße", " x ", None, ""],
    "concat(s, a)": ["Straße10", " x 0", None, "-3"],
    "m * 2": [Decimal("2.50"), None, Decimal("-5.00"), Decimal("0.00")],
    "m + 1": [Decimal("2.25"), None, Decimal("-1.50"), Decimal("1.00")],
    "round(m, 1)": [Decimal("1.3"), None, Decimal("-2.5"), Decimal("0.0")],
    "floor(m)": [1, None, -3, 0],
    "a % 3": [1, 0, None, 0],
    "-a": [-10, 0, None, 3],
    "hour(t)": [1, None, 1, None],
    "date_format(t, 'yyyy-MM-dd HH:mm')": ["2024-03-31 01:59", None] * 2,
    "n.x > 1": [False, None, None, True],
    "n IS NULL": [False, False, True, False],
    "greatest(a, b)": [10, 0, 1, -3],
    "TRY_CAST(s AS INT) IS NULL": [True] * 4,
    "contains(s, 'ra')": [True, False, None, False],
    "1 = 1": [True] * 4,
    "'x'": ["x"] * 4,
}


@pytest.mark.parametrize(("text", "expected"), COLUMNS.items(), ids=list(COLUMNS))
def test_expression_over_columns_has_its_values(text: str, expected: list[Any]) -> None:
    bound = bind(parse_predicate(text), TABLE.schema, "Europe/Paris")
    assert evaluate(bound, TABLE).to_pylist() == expected
    assert evaluate(bound, TABLE.to_batches()[0]).to_pylist() == expected
    assert evaluate(bound, TABLE.slice(0, 0)).to_pylist() == []


FAILING = [
    "a / b > 1",
    "a + 2147483647 > 0",
    "a % b = 0",
    "CAST(s AS INT) = 1",
    "CAST(a * 100 AS TINYINT) = 1",
]


@pytest.mark.parametrize("text", FAILING)
def test_row_that_fails_names_the_expression(text: str) -> None:
    with pytest.raises(ExpressionFailedError, match=r"(?i)a|s"):
        evaluate(bind(parse_predicate(text), TABLE.schema), TABLE)


def test_tables_of_many_chunks_give_chunks() -> None:
    chunked = pa.concat_tables([TABLE, TABLE.slice(1, 2), TABLE.slice(0, 0)])
    bound = bind(parse_predicate("a >= 0"), TABLE.schema)
    result = evaluate(bound, chunked)
    assert isinstance(result, pa.ChunkedArray)
    assert result.to_pylist() == [True, True, None, False, True, None]
    assert filter_mask(bound, chunked).to_pylist() == [True, True, False, False, True, False]
    assert chunked.filter(filter_mask(bound, chunked)).num_rows == 3


def test_what_is_not_in_the_closed_list_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedExpressionError, match="soundex"):
        bind(FunctionCall("soundex", (col("s"),)), TABLE.schema)
    with pytest.raises(UnsupportedExpressionError, match="soundex"):
        evaluate(FunctionCall("soundex", (col("s"),)), TABLE)


def test_rows_without_the_column_are_refused() -> None:
    with pytest.raises(UnknownColumnError, match="zz"):
        evaluate(col("zz") == 1, TABLE)


def test_like_does_not_backtrack() -> None:
    """RELIABILITY G2: no regular expression of a stranger can be made to explode."""
    text = pa.table({"s": ["a" * 5000]})
    pattern = "%a" * 200 + "%b"
    assert filter_mask(bind(col("s").like(pattern), text.schema), text).to_pylist() == [False]


def test_wall_times_in_a_gap_move_on_by_its_length() -> None:
    table = pa.table(
        {"w": pa.array([datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30)], pa.timestamp("us"))}
    )
    bound = bind(parse_predicate("CAST(w AS TIMESTAMP)"), table.schema, "Europe/Paris")
    expected = [datetime(2024, 3, 31, 1, 30, tzinfo=UTC), datetime(2024, 10, 27, 0, 30, tzinfo=UTC)]
    assert evaluate(bound, table).to_pylist() == expected
