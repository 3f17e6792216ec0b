from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InvalidPredicateError
from distributary.expressions import tree
from distributary.expressions.binding import bind
from distributary.expressions.json_predicates import parse_json_predicate, to_json_predicate
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, Literal, col

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("t", pa.timestamp("us", "UTC")),
        ("m", pa.decimal128(10, 2)),
    ]
)


def column(name: str, value_type: str) -> dict[str, Any]:
    return {"op": "column", "name": name, "valueType": value_type}


def literal(value: str, value_type: str) -> dict[str, Any]:
    return {"op": "literal", "value": value, "valueType": value_type}


def op(name: str, *children: Any) -> dict[str, Any]:
    return {"op": name, "children": list(children)}


READ: list[tuple[dict[str, Any], Expression]] = [
    (op("equal", column("i", "int"), literal("5", "int")), col("i") == 5),
    (op("lessThan", literal("5", "long"), column("l", "long")), Literal(5, pa.int64()) < col("l")),
    (
        op("greaterThanOrEqual", column("d", "date"), literal("2024-01-02", "date")),
        col("d") >= date(2024, 1, 2),
    ),
    (
        op("lessThanOrEqual", column("t", "timestamp"), literal("2024-01-02T03:04:05.678Z", "timestamp")),
        col("t") <= datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC),
    ),
    (op("greaterThan", column("g", "double"), literal("-1.5e3", "double")), col("g") > -1500.0),
    (op("equal", column("f", "float"), literal("0.5", "float")), col("f") == Literal(0.5, pa.float32())),
    (op("equal", column("s", "string"), literal("it's \u2603", "string")), col("s") == "it's \u2603"),
    (op("not", op("isNull", column("s", "string"))), col("s").is_not_null()),
    (
        op(
            "and", op("isNull", column("i", "int")), column("flag", "bool"), op("not", column("flag", "bool"))
        ),
        col("i").is_null() & col("flag") & ~col("flag"),
    ),
    (
        op("or", op("or", column("flag", "bool"), column("a.b", "bool")), column("flag", "bool")),
        col("flag") | tree.Column(("a.b",)) | col("flag"),
    ),
]


@pytest.mark.parametrize(("hint", "expected"), READ)
def test_hint_gives_its_tree(hint: dict[str, Any], expected: Expression) -> None:
    for text in (json.dumps(hint), json.dumps(hint, indent=2, ensure_ascii=False)):
        assert parse_json_predicate(text).equals(expected)


REFUSED: list[Any] = [
    "",
    "null",
    "[]",
    '"x"',
    "{",
    '{"op":"and"}',
    '{"op":"and","children":[]}',
    '{"op":"equal","children":[],"op":"and"}',
    '{"op":1}',
    "{'op':'and'}",
    '{"op":"column","name":"x","valueType":"bool"} x',
    column("i", "int"),
    column("", "bool"),
    literal("true", "bool"),
    op("and", column("flag", "bool")),
    op("not", column("flag", "bool"), column("flag", "bool")),
    op("xor", column("flag", "bool"), column("flag", "bool")),
    op("in", column("i", "int"), literal("1", "int")),
    op("isNull", literal("1", "int")),
    op("equal", column("i", "int"), literal("1", "long")),
    op("equal", column("i", "int"), column("flag", "decimal")),
    op("equal", column("i", "int"), literal("9999999999", "int")),
    op("equal", column("i", "int"), literal("1_0", "int")),
    op("equal", column("i", "int"), {"op": "literal", "value": 1, "valueType": "int"}),
    op("equal", column("d", "date"), literal("2024-02-30", "date")),
    op("equal", column("t", "timestamp"), literal("yesterday", "timestamp")),
    op("equal", column("g", "double"), literal("1.5.5", "double")),
    '{"op":"column","name":"\\ud800","valueType":"bool"}',
]


@pytest.mark.parametrize("hint", REFUSED)
def test_malformed_hint_is_one_known_error(hint: Any) -> None:
    with pytest.raises(InvalidPredicateError):
        parse_json_predicate(hint if isinstance(hint, str) else json.dumps(hint))


def nested(kind: str, depth: int) -> str:
    leaf = json.dumps(column("flag", "bool"))
    start = f'{{"op":"{kind}","children":[{leaf},' if kind != "not" else '{"op":"not","children":['
    return start * depth + leaf + "]}" * depth


def test_chains_of_or_are_flattened_before_depth_counts() -> None:
    """RELIABILITY G2: clients send IN as chains of or."""
    chain = parse_json_predicate(nested("or", 4000))
    assert len(chain.children) == 4001
    assert str(parse_json_predicate(nested("not", 99))).startswith("NOT (NOT")


@pytest.mark.parametrize(
    "text",
    [
        nested("or", 5001),
        nested("not", 100),
        nested("not", 20_000),
        "[" * 500_000,
        '{"op":' * 100_000,
        '"' + "a" * (1 << 20) + '"',
    ],
    ids=["too many ops", "too deep", "much too deep", "arrays", "objects", "too long"],
)
def test_hostile_hint_is_refused_cleanly(text: str) -> None:
    """RELIABILITY G2."""
    with pytest.raises(InvalidPredicateError):
        parse_json_predicate(text)


@given(st.text(max_size=80) | st.text('{}[]",:opandchilre \\u0', max_size=80))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with suppress(InvalidPredicateError):
        parse_json_predicate(text)


characters = st.characters(exclude_categories=["Cs"])
leaf_values: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1).map(lambda value: Literal(value, pa.int64())),
    "s": st.text(characters),
    "d": st.dates(),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(
        lambda value: Literal(value, pa.float32())
    ),
    "g": st.floats(allow_nan=False, allow_infinity=False),
    "t": st.datetimes(timezones=st.just(UTC)),
    "flag": st.booleans(),
}
comparisons = st.sampled_from(list(leaf_values)).flatmap(
    lambda name: st.builds(
        lambda operator, value, flip: (
            tree.Comparison(operator, tree.lit(value), col(name))
            if flip
            else tree.Comparison(operator, col(name), tree.lit(value))
        ),
        st.sampled_from(["=", "<", "<=", ">", ">="]),
        leaf_values[name],
        st.booleans(),
    )
)
hints = st.recursive(
    comparisons | st.just(col("flag")),
    lambda inner: st.one_of(
        inner.map(tree.Not),
        st.lists(inner, min_size=2, max_size=3).map(tree.all_of),
        st.lists(inner, min_size=2, max_size=3).map(tree.any_of),
    ),
    max_leaves=6,
)


@given(hints)
def test_any_hint_round_trips(expression: Expression) -> None:
    text = to_json_predicate(expression)
    assert text is not None
    assert parse_json_predicate(text).equals(expression)


WRITTEN = {
    "i <> 5": "NOT (i = 5)",
    "i IN (1, 2)": "(i = 1) OR (i = 2)",
    "i <=> 5": "(i = 5) AND (i IS NOT NULL)",
    "i <=> NULL": "i IS NULL",
    "s LIKE 'ab%'": "(s >= 'ab') AND (s < 'ac')",
    "startswith(s, 'x')": "(s >= 'x') AND (s < 'y')",
    "s LIKE 'ab'": "s = 'ab'",
    "m = 1.5 AND i = 1": "i = 1",
    "s LIKE '%x' AND flag": "flag",
    "g = 1": "g = 1.0D",
    "t >= '2024-01-01'": "t >= TIMESTAMP '2024-01-01 00:00:00Z'",
}


@pytest.mark.parametrize(("sql", "expected"), WRITTEN.items())
def test_what_the_grammar_lacks_is_written_by_what_it_has(sql: str, expected: str) -> None:
    text = to_json_predicate(bind(parse_predicate(sql), SCHEMA))
    assert text is not None
    assert str(parse_json_predicate(text)) == expected


@pytest.mark.parametrize(
    "sql",
    ["m = 1.5", "m = 1.5 OR i = 1", "NOT (m = 1.5 AND i = 1)", "s LIKE '%x'", "upper(s) = 'A'", "i = 1.5"],
)
def test_what_cannot_be_said_is_not_said(sql: str) -> None:
    """A weaker hint may stand for a conjunction only, never below OR or NOT."""
    assert to_json_predicate(bind(parse_predicate(sql), SCHEMA)) is None


def test_untyped_null_checks_need_a_bound_column() -> None:
    assert to_json_predicate(col("i").is_null()) is None
    assert to_json_predicate(bind(col("I").is_null(), SCHEMA)) is not None
