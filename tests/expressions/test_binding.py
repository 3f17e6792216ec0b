from __future__ import annotations

import pyarrow as pa
import pytest

from distributary.errors import InvalidPredicateError, UnknownColumnError, UnsupportedExpressionError
from distributary.expressions.arrow_evaluation import evaluate, filter_mask
from distributary.expressions.binding import bind, type_of
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Literal, col

SCHEMA = pa.schema(
    [
        ("tiny", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("m", pa.decimal128(5, 2)),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("Mixed", pa.int32()),
        ("st", pa.struct([("Inner", pa.struct([("x", pa.int32())])), ("x", pa.int32()), ("X", pa.int32())])),
        ("arr", pa.list_(pa.int32())),
    ]
)

BOUND = {
    "mixed = 1": "Mixed = 1",
    "ST.inner.X = 1": "st.Inner.x = 1",
    "st.x = 1": "st.x = 1",
    "st.X = 1": "st.X = 1",
    "tiny = 5": "tiny = 5Y",
    "tiny = 500": "CAST(tiny AS INT) = 500",
    "i > 3000000000": "CAST(i AS BIGINT) > 3000000000L",
    "i = 1.0": "i = 1",
    "i = 1.5": "CAST(i AS DECIMAL(11,1)) = 1.5BD",
    "l < 99999999999999999999": "CAST(l AS DECIMAL(20,0)) < 99999999999999999999BD",
    "l = 1e0": "CAST(l AS DOUBLE) = 1.0D",
    "g = 1": "g = 1.0D",
    "g = 1.5": "g = 1.5D",
    "f = 2": "f = 2.0F",
    "f = 16777217": "CAST(f AS DOUBLE) = 16777217.0D",
    "f = 0.1": "CAST(f AS DOUBLE) = 0.1D",
    "m = 1.5": "m = 1.50BD",
    "m = 7": "m = 7.00BD",
    "m = 1.505": "CAST(m AS DECIMAL(6,3)) = 1.505BD",
    "m > 123456": "CAST(m AS DECIMAL(12,2)) > 123456.00BD",
    "i = '7'": "i = 7",
    "m = '1.5'": "CAST(m AS DOUBLE) = 1.5D",
    "s = 5": "CAST(s AS BIGINT) = 5L",
    "d >= '2024-01-02'": "d >= DATE '2024-01-02'",
    "d < TIMESTAMP '2024-01-02 01:00:00'": "CAST(d AS TIMESTAMP) < TIMESTAMP '2024-01-02 00:00:00Z'",
    "t >= '2024-01-02'": "t >= TIMESTAMP '2024-01-01 23:00:00Z'",
    "t >= '2024-01-02T00:00:00Z'": "t >= TIMESTAMP '2024-01-02 00:00:00Z'",
    "t = DATE '2024-07-01'": "t = TIMESTAMP '2024-06-30 22:00:00Z'",
    "n >= '2024-01-02'": "n >= TIMESTAMP_NTZ '2024-01-02 00:00:00'",
    "n = t": "CAST(n AS TIMESTAMP) = t",
    "y = 'ab'": "y = X'6162'",
    "b = 'true'": "b = TRUE",
    "i = NULL": "i = CAST(NULL AS INT)",
    "i IN (1, 2.0, '3')": "i IN (1, 2, 3)",
    "i IN (1, 1.5)": "CAST(i AS DECIMAL(11,1)) IN (1.0BD, 1.5BD)",
    "i = 1 OR b OR i = 2": "(i IN (1, 2)) OR b",
    "i IN (l, 1)": "(CAST(i AS BIGINT) = l) OR (i = 1)",
    "1 + 1 = i": "2 = i",
    "i + 1 > l": "CAST(i + 1 AS BIGINT) > l",
    "hour(t) = 1": "hour(CAST(t AS TIMESTAMP_NTZ)) = 1",
    "year('2024-05-05') = i": "2024 = i",
    "arr IS NULL": "arr IS NULL",
}


@pytest.mark.parametrize(("text", "expected"), BOUND.items(), ids=list(BOUND))
def test_names_and_literals_are_bound_as_spark_binds_them(text: str, expected: str) -> None:
    """FLT-006: a constant meets a column in one type, in the zone Europe/Paris."""
    assert str(bind(parse_predicate(text), SCHEMA, "Europe/Paris")) == expected


REFUSED: dict[str, type[Exception]] = {
    "nothing = 1": UnknownColumnError,
    "st.nothing = 1": UnknownColumnError,
    "i.x = 1": UnknownColumnError,
    "i = 'abc'": InvalidPredicateError,
    "i = '1.5'": InvalidPredicateError,
    "d = 'yesterday'": InvalidPredicateError,
    "b = 1": InvalidPredicateError,
    "d = 1": InvalidPredicateError,
    "st = 1": InvalidPredicateError,
    "arr = arr": InvalidPredicateError,
    "i AND b": InvalidPredicateError,
    "NOT i": InvalidPredicateError,
    "s LIKE 'x\\\\y'": InvalidPredicateError,
    "s + 1 = 2": UnsupportedExpressionError,
    "d + 1 = d": UnsupportedExpressionError,
    "CAST(b AS DATE) IS NULL": UnsupportedExpressionError,
    "date_format(d, 'EEE') = 'Mon'": UnsupportedExpressionError,
    "date_trunc(s, t) = t": UnsupportedExpressionError,
    "upper(arr) = 'x'": UnsupportedExpressionError,
    "coalesce(s, i) = 1": UnsupportedExpressionError,
}


@pytest.mark.parametrize(("text", "error"), REFUSED.items(), ids=list(REFUSED))
def test_what_does_not_fit_the_schema_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        bind(parse_predicate(text), SCHEMA)


def test_ambiguous_names_are_refused_and_exact_names_win() -> None:
    schema = pa.schema([("a", pa.int32()), ("A", pa.int32())])
    assert str(bind(col("A") == 1, schema)) == "A = 1"
    twice = pa.schema([("Ab", pa.int32()), ("aB", pa.int32())])
    with pytest.raises(UnknownColumnError, match="several"):
        bind(col("ab") == 1, twice)


def test_unknown_time_zone_is_refused() -> None:
    with pytest.raises(InvalidPredicateError, match="Mars"):
        bind(col("i") == 1, SCHEMA, "Mars/Olympus")
    assert (
        str(bind(parse_predicate("t = '2024-01-01'"), SCHEMA, "+2")) == "t = TIMESTAMP '2023-12-31 22:00:00Z'"
    )


def test_arrow_variants_of_a_type_are_one_type() -> None:
    table = pa.table(
        {
            "big": pa.array(["a", "b"], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "words": pa.array(["a", "b"]).dictionary_encode(),
            "ns": pa.array([0, 1000], pa.timestamp("ns", "Europe/Paris")),
            "u": pa.array([1, 255], pa.uint8()),
        }
    )
    for text in (
        "big = 'a'",
        "view LIKE 'a%'",
        "words IN ('a')",
        "ns < '1970-01-01 00:00:00.000001'",
        "u = 1",
    ):
        bound = bind(parse_predicate(text), table.schema)
        assert filter_mask(bound, table).to_pylist() == [True, False], text


def test_non_conditions_bind_for_generated_columns_but_do_not_filter() -> None:
    bound = bind(parse_predicate("i + 1"), SCHEMA)
    assert type_of(bound) == pa.int32()
    with pytest.raises(InvalidPredicateError, match="not a condition"):
        filter_mask(bound, pa.table({"i": pa.array([1], pa.int32())}))


def test_constants_that_fail_wait_for_a_row() -> None:
    guarded = bind(parse_predicate("CASE WHEN i = 0 THEN 1 / 0 ELSE 2 END = 2"), SCHEMA)
    assert not isinstance(guarded, Literal)
    assert evaluate(guarded, pa.table({"i": pa.array([1], pa.int32())})).to_pylist() == [True]
