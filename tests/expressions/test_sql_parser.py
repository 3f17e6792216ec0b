from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError, InvalidPredicateError
from distributary.expressions import tree
from distributary.expressions.literal_text import TIMESTAMP
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, Literal, col, lit

READ: dict[str, Expression] = {
    "a = 123": col("a") == 123,
    "'foo' < a": tree.Comparison("<", lit("foo"), col("a")),
    "123 <= a": tree.Comparison("<=", lit(123), col("a")),
    "a <> 1": col("a") != 1,
    "a != 1": col("a") != 1,
    "a == 1": col("a") == 1,
    "a <=> NULL": col("a").null_safe_equals(None),
    "a IS NULL": col("a").is_null(),
    "a is not null": col("a").is_not_null(),
    'a = "double"': col("a") == "double",
    "a = 'it''s'": col("a") == "it's",
    r"a = 'it\'s'": col("a") == "it's",
    r"a LIKE 'x\%'": col("a").like("x\\%"),
    "a LIKE 'x!%' ESCAPE '!'": col("a").like("x!%", "!"),
    "a NOT LIKE 'x%'": ~col("a").like("x%"),
    "`odd name`.`x``y` > 1": col("odd name", "x`y") > 1,
    "a.b.c > -1": col("a.b.c") > -1,
    "date >= '2024-01-01'": col("date") >= "2024-01-01",
    "DATE '2024-01-01' <= d": tree.Comparison("<=", lit(date(2024, 1, 1)), col("d")),
    "t > TIMESTAMP '2024-01-01 00:00:00Z'": col("t") > datetime(2024, 1, 1, tzinfo=UTC),
    "t > TIMESTAMP '2024-01-01'": col("t") > lit("2024-01-01").cast(TIMESTAMP),
    "t > TIMESTAMP_NTZ '2024-01-01 01:02:03.5'": col("t") > datetime(2024, 1, 1, 1, 2, 3, 500_000),
    "d = CAST('2024-01-01' AS DATE)": col("d") == lit("2024-01-01").cast(pa.date32()),
    "d = date('2024-01-01')": col("d") == lit("2024-01-01").cast(pa.date32()),
    "a::bigint = 1": col("a").cast(pa.int64()) == 1,
    "a = 1.50": col("a") == Decimal("1.50"),
    "a = 1e3": col("a") == 1000.0,
    "a = 10L": col("a") == Literal(10, pa.int64()),
    "a = 1.5F": col("a") == Literal(1.5, pa.float32()),
    "a = X'1F'": col("a") == b"\x1f",
    "a IN (1, -2, 3)": col("a").isin([1, -2, 3]),
    "a NOT IN ('x')": ~col("a").isin(["x"]),
    "a BETWEEN 1 AND 2 AND b": (col("a") >= 1) & (col("a") <= 2) & col("b"),
    "NOT a = 1 OR b AND c": ~(col("a") == 1) | (col("b") & col("c")),
    "a IS TRUE": col("a").null_safe_equals(True),
    "a IS DISTINCT FROM b": ~col("a").null_safe_equals(col("b")),
    "a = 1 -- why\n AND /* because */ b": (col("a") == 1) & col("b"),
    "a + 2 * 3 = 7": col("a") + tree.Arithmetic("*", lit(2), lit(3)) == 7,
    "isnotnull(a)": col("a").is_not_null(),
    "CASE a WHEN 1 THEN b END": tree.Case(((col("a") == 1, col("b")),)),
    "startswith(a, 'x')": col("a").startswith("x"),
    "naïve = 'ü'": col("naïve") == "ü",
}


@pytest.mark.parametrize(("text", "expected"), READ.items(), ids=list(READ))
def test_predicate_text_gives_its_tree_and_prints_back(text: str, expected: Expression) -> None:
    """FLT-001, FLT-005, FLT-006: S0's operators, constants on either side, and what users write beyond."""
    found = parse_predicate(text)
    assert found.equals(expected), str(found)
    assert parse_predicate(str(found)).equals(expected)


REFUSED = {
    "a IN (SELECT 1)": "SELECT",
    "EXISTS (SELECT 1)": "SELECT",
    "(SELECT 1) = a": "SELECT",
    "sum(a) > 1": "sum",
    "count(*) > 1": r"\*",
    "row_number() OVER (ORDER BY a) = 1": "OVER",
    "a = ?": r"\?",
    "a = :name": ":name",
    "a = ${x}": "x",
    "a[0] = 1": r"\[0\]",
    "a RLIKE 'x'": "RLIKE",
    "a ILIKE 'x'": "ILIKE",
    "a = current_date()": "not deterministic",
    "a < current_timestamp": "not deterministic",
    "rand() < 0.5": "not deterministic",
    "a = INTERVAL 1 DAY": "INTERVAL",
    "a = 1; DROP TABLE x": "; DROP",
    "a =": "the end",
    "": "the end",
    "a = 'open": "'open",
    "a IN ()": r"\)",
    "(a = 1": "the end",
    "a = 1)": r"\)",
    "a b": "b",
    "a = DATE '2024-02-30'": "is not a DATE",
    "CAST(a AS array<int>) = 1": "array",
    "CAST(a AS DECIMAL(50,2)) = 1": "DECIMAL",
    "a LIKE b": "pattern",
    "a LIKE 'x' ESCAPE 'xx'": "one character",
    "year() = 1": "arguments",
    "a = 300Y": "300Y",
    "a = 1e999": "1e999",
    r"a = '\uD800'": "not a character",
    "a = X'0G'": "hexadecimal",
    "a. = 1": "field",
    "a = '\ud800'": "surrogate",
}


@pytest.mark.parametrize(("text", "shown"), REFUSED.items(), ids=[repr(text) for text in REFUSED])
def test_text_outside_the_grammar_is_refused_showing_the_part(text: str, shown: str) -> None:
    """FLT-004: what cannot be parsed is one known error, so that a caller can skip the hint."""
    with pytest.raises(InvalidPredicateError, match=f"(?i){shown}"):
        parse_predicate(text)


HOSTILE = {
    "a long chain of or": " OR ".join(f"a = {number}" for number in range(100_000))[: 1 << 20],
    "a megabyte and one": "a" * ((1 << 20) + 1),
    "parentheses": "(" * 200_000 + "a",
    "negations": "NOT " * 100_000 + "a",
    "signs": "- " * 50_000 + "a",
    "sums": "a" + "+1" * 4000 + "= 1",
    "calls": "upper(" * 5000 + "a",
    "cases": "CASE WHEN a THEN " * 5000,
    "casts": "a" + "::int" * 1000,
    "quotes": "'" * 99_999,
    "comments": "/*" * 100_000,
    "digits": "a = " + "9" * 100_000,
    "options": "a IN (" + ",".join(["1"] * 20_000) + ")",
    "backquotes": "`" * 99_999,
    "deep logic": "NOT (a AND " * 60 + "b" + ")" * 60,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_text_is_refused_cleanly(text: str) -> None:
    """RELIABILITY G2: size, depth and number of parts have limits; nothing recurses."""
    with pytest.raises(InvalidPredicateError):
        parse_predicate(text)


def test_long_chains_within_the_budget_are_read_flat() -> None:
    nested = "(" * 1500 + "a = 0" + "".join(f" OR a = {number})" for number in range(1500))
    chain = parse_predicate(nested)
    assert isinstance(chain, tree.Or)
    assert len(chain.operands) == 1501
    right = "a OR (" * 2000 + "b" + ")" * 2000
    assert len(parse_predicate(right).children) == 2001


@given(st.text(max_size=60) | st.text("aAbB01. '\"`()=<>!,%-+*/\\\nxXeEnNoOtTrR", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        found = parse_predicate(text)
    except InvalidPredicateError:
        return
    assert parse_predicate(str(found)).equals(found)


literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(UTC)),
)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), literals)
def test_any_name_and_literal_survive_their_sql(name: str, value: object) -> None:
    """S0's literals and beyond round-trip with value and type."""
    try:
        predicate = tree.Column((name,)) == value
    except DistributaryError:
        return
    found = parse_predicate(str(predicate))
    assert found.equals(predicate)
