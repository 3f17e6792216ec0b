from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from distributary.errors import InvalidPredicateError
from distributary.expressions.tree import And, Column, Not, Or, all_of, any_of, col, columns_of, lit, walk


def test_operators_build_the_tree_that_sql_prints() -> None:
    tree = (col("a.b") >= 3) & (col("c").isin([1, 2]) | ~(col("d") == "x")) & col("e").between(1, 2)
    assert str(tree) == "(a.b >= 3) AND ((c IN (1, 2)) OR (NOT (d = 'x'))) AND (e >= 1) AND (e <= 2)"
    assert str(col("s").startswith("p") | col("s").is_not_null()) == "startswith(s, 'p') OR (s IS NOT NULL)"


def test_names_are_split_at_dots_unless_quoted() -> None:
    assert col("a.b").path == col("a", "b").path == ("a", "b")
    assert col("`a.b`.`c``d`").path == ("a.b", "c`d")
    assert str(Column(("a.b", "order", "select"))) == "`a.b`.order.`select`"
    for wrong in ("", "a..b", ".a", "a.", "`a"):
        with pytest.raises(InvalidPredicateError):
            col(wrong)


def test_equal_trees_are_equal_keys_and_different_trees_are_not() -> None:
    seen = {col("a") == 1: "int", col("a") == 1.0: "float", col("a") == True: "bool"}  # noqa: E712
    assert seen[col("a") == 1] == "int"
    assert seen[col("a") == 1.0] == "float"
    assert len(seen) == 3
    assert lit(float("nan")).equals(lit(float("nan")))
    assert not lit(0.0).equals(lit(-0.0))
    paris = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert lit(paris).equals(lit(datetime(2024, 1, 1, tzinfo=UTC)))


def test_python_and_or_not_on_trees_are_refused_with_advice() -> None:
    with pytest.raises(InvalidPredicateError, match="combine predicates with &"):
        bool(col("a") == 1)
    with pytest.raises(InvalidPredicateError, match="combine predicates with &"):
        (col("a") > 1) and (col("b") > 1)  # type: ignore[unused-ignore]
    with pytest.raises(InvalidPredicateError):
        1 < col("a") < 3  # noqa: B015


def test_and_or_are_flat_and_chains_have_depth_two() -> None:
    chain = any_of([col("a") == number for number in range(50)]) | (col("b") | col("c"))
    assert isinstance(chain, Or)
    assert len(chain.operands) == 52
    assert max(depth for _, depth in walk(chain)) == 3
    assert str(all_of([])) == "TRUE"
    assert str(any_of([])) == "FALSE"
    assert isinstance((col("a") & col("b")) & (col("c") & col("d")), And)


def test_literals_have_the_types_that_spark_gives() -> None:
    types = {
        1: pa.int32(),
        2**31: pa.int64(),
        2**63: pa.decimal128(19, 0),
        1.5: pa.float64(),
        "a": pa.string(),
        b"a": pa.binary(),
        Decimal("0.05"): pa.decimal128(2, 2),
        Decimal("1E+3"): pa.decimal128(4, 0),
        date(2024, 1, 1): pa.date32(),
        datetime(2024, 1, 1): pa.timestamp("us"),
    }
    for value, data_type in types.items():
        assert lit(value).type == data_type
    assert lit(True).type == pa.bool_()
    for wrong in (object(), Decimal("NaN"), Decimal(10**40), [1]):
        with pytest.raises(InvalidPredicateError):
            lit(wrong)


def test_columns_of_gives_every_path_once() -> None:
    assert columns_of(Not(col("a.b") == col("c")) & col("c").is_null()) == {("a", "b"), ("c",)}
