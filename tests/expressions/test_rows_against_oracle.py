"""Random files, statistics and predicates against a slow Python oracle.

The oracle below shares no code with the package: it evaluates the unbound tree row by row with Python values.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.expressions import tree
from distributary.expressions.arrow_evaluation import evaluate, filter_mask
from distributary.expressions.binding import bind
from distributary.expressions.pruning import ColumnBounds, prune
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import col, lit

NAN, INF = float("nan"), float("inf")
TIMESTAMP = pa.timestamp("us", "UTC")
TYPES: dict[str, pa.DataType] = {
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float64(),
    "g": pa.float32(),
    "s": pa.string(),
    "d": pa.date32(),
    "t": TIMESTAMP,
    "m": pa.decimal128(10, 2),
    "b": pa.bool_(),
    "p": pa.int32(),
    "q": pa.float64(),
}
SCHEMA = pa.schema([*TYPES.items(), ("n", pa.struct([("x", pa.int32())]))])
PARTITIONS = ("p", "q")
START = datetime(2024, 1, 1, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "i": [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1],
    "l": [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1],
    "f": [-INF, -1.5, -0.0, 0.0, 1.0, 1.5, INF, NAN, NAN, NAN],
    "g": [-1.5, -0.0, 0.0, 0.5, 2.0, INF, NAN, NAN, NAN],
    "s": ["", "a", "ab", "abc", "b", "b%", "ab_c", "é", "z", "\U0001f600", "\uffee", "a\nb"],
    "d": [date(1582, 10, 4), date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2), date(9999, 12, 31)],
    "t": [START + timedelta(microseconds=us) for us in (-1, 0, 1, 999, 1000, 1001, 86_400_000_000)],
    "m": [Decimal(text) for text in ("-1.50", "0.00", "0.01", "1.50", "2.00", "99999999.99")],
    "b": [False, True],
    "p": [0, 1, 2],
    "q": [-0.0, 1.5, NAN],
    "x": [-1, 0, 1, 2],
}
LITERALS: dict[str, list[Any]] = {
    **VALUES,
    "i": [*VALUES["i"], 3_000_000_000, -(2**40), Decimal("1.5"), Decimal("2.0"), 1.5, 2.0, NAN, None, "1"],
    "l": [*VALUES["l"], Decimal("1.5"), 2.0**53, Decimal(2**70), NAN, None],
    "f": [*VALUES["f"][:8], 0, 1, Decimal("1.5"), None],
    "g": [*VALUES["g"][:7], 2, 0.1, Decimal("0.5"), None],
    "s": [*VALUES["s"], "aa", None],
    "d": [*VALUES["d"], "2024-01-01", START, START + timedelta(seconds=1), None],
    "t": [*VALUES["t"], date(2024, 1, 1), None],
    "m": [*VALUES["m"], 2, Decimal("1.505"), Decimal("1.5"), Decimal("123456789012.345"), 1.5, NAN, None],
    "b": [False, True, None],
    "p": [0, 1, 7, None, Decimal("1.5")],
    "q": [0, 1.5, NAN, None],
    "x": [-1, 0, 1, 2, 5, None],
}
PATTERNS = [
    "",
    "%",
    "a%",
    "ab%",
    "_",
    "a_",
    "%b",
    "a%c",
    "ab\\_c",
    "b\\%",
    "b\\%%",
    "abc",
    "é%",
    "\U0001f600%",
    "a_b",
]
PREFIXES = ["", "a", "ab", "b", "é", "z", "\U0001f600", "\uffee"]


def column(name: str) -> tree.Column:
    return col("n", "x") if name == "x" else col(name)


operators = st.sampled_from(tree.COMPARISONS)
PAIRS = [("i", "l"), ("f", "g"), ("i", "x"), ("f", "q"), ("d", "t"), ("i", "m")]
Focus = tuple[str, ...]
focuses = st.sampled_from(
    [*((name,) for name in VALUES), *PAIRS, ("f",), ("g",), ("s",), ("s", "x"), ("b", "f")]
)


@st.composite
def leaves(draw: st.DrawFn, focus: Focus) -> tree.Expression:
    name = draw(st.sampled_from(focus))
    literal = st.sampled_from(LITERALS[name]).map(lit)
    match draw(
        st.sampled_from(["compare", "compare", "flip", "in", "null", "between", "special", "special"])
    ):
        case "in":
            return tree.In(column(name), tuple(draw(st.lists(literal, min_size=1, max_size=20))))
        case "null":
            return tree.IsNull(column(name))
        case "between":
            return column(name).between(draw(literal), draw(literal))
        case "special" if name == "s" and draw(st.booleans()):
            return tree.StartsWith(col("s"), draw(st.sampled_from(PREFIXES)))
        case "special" if name == "s":
            return tree.Like(col("s"), draw(st.sampled_from(PATTERNS)))
        case "special" if name == "b":
            return col("b")
        case "special" if focus in PAIRS:
            return tree.Comparison(draw(operators), column(focus[0]), column(focus[1]))
        case "flip":
            return tree.Comparison(draw(operators), draw(literal), column(name))
        case _:
            return tree.Comparison(draw(operators), column(name), draw(literal))


def predicates(focus: Focus) -> st.SearchStrategy[tree.Expression]:
    return st.recursive(
        leaves(focus),
        lambda inner: st.one_of(
            inner.map(tree.Not),
            st.lists(inner, min_size=2, max_size=3).map(tree.all_of),
            st.lists(inner, min_size=2, max_size=3).map(tree.any_of),
            inner.map(tree.IsNull),
            st.tuples(inner, st.sampled_from([True, False, None])).map(
                lambda pair: pair[0].null_safe_equals(pair[1])
            ),
        ),
        max_leaves=3,
    )


@st.composite
def data_files(draw: st.DrawFn, focus: Focus) -> list[dict[str, Any]]:
    """Some rows with values in the columns of the focus only; one value of each partition column."""
    file: list[dict[str, Any]] = []
    fixed = {name: draw(st.sampled_from([None, *VALUES[name]])) for name in PARTITIONS if name in focus}
    for _ in range(draw(st.integers(1, 3))):
        row = (
            dict.fromkeys(VALUES)
            | {name: draw(st.sampled_from([None, *VALUES[name]])) for name in focus}
            | fixed
        )
        x = row.pop("x")
        file.append(row | {"n": draw(st.sampled_from([None, {"x": x}, {"x": x}])) if "x" in focus else None})
    return file


cases = focuses.flatmap(
    lambda focus: st.tuples(st.lists(data_files(focus), min_size=1, max_size=3), predicates(focus))
)


def oracle(node: Any, row: dict[str, Any]) -> Any:
    match node:
        case tree.Column():
            value: Any = row
            for part in node.path:
                value = None if value is None else value[part]
            return value
        case tree.Literal():
            return node.value
        case tree.Not():
            inner = oracle(node.operand, row)
            return None if inner is None else not inner
        case tree.And() | tree.Or():
            decisive = isinstance(node, tree.Or)
            results = [oracle(operand, row) for operand in node.operands]
            return decisive if decisive in results else None if None in results else not decisive
        case tree.IsNull():
            return oracle(node.operand, row) is None
        case tree.In():
            # Spark compares all options in one type: one double makes all comparisons of doubles.
            value, options = oracle(node.operand, row), [oracle(option, row) for option in node.options]
            floats = any(isinstance(side, float) for side in options) or single_float(node)
            results = [compared("=", value, option, floats) for option in options]
            return True if True in results else None if None in results else False
        case tree.Like():
            text = oracle(node.operand, row)
            return None if text is None else like(text, node.pattern)
        case tree.StartsWith():
            text = oracle(node.operand, row)
            return None if text is None else text.startswith(node.prefix)
        case tree.Comparison():
            return compared(node.op, oracle(node.left, row), oracle(node.right, row), single_float(node))
        case _:
            raise AssertionError(node)


def single_float(node: tree.Expression) -> bool:
    return any(isinstance(side, tree.Column) and side.path[0] in "fgq" for side in node.children)


def compared(op: str, left: Any, right: Any, floats: bool) -> bool | None:
    if op == "<=>":
        return left is right if left is None or right is None else compared("=", left, right, floats)
    if left is None or right is None:
        return None
    a, b = (ordered(side, other, floats) for side, other in ((left, right), (right, left)))
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def ordered(value: Any, other: Any, floats: bool) -> Any:
    if isinstance(value, str) and isinstance(other, date):
        value = date.fromisoformat(value)
    elif isinstance(value, str) and isinstance(other, int):
        value = int(value)
    if type(value) is date and isinstance(other, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float) or (
        isinstance(value, int | Decimal) and (floats or isinstance(other, float))
    ):
        value = float(value)
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[place:], pattern[1:]) for place in range(len(text) + 1))
    if pattern[0] == "\\":
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


class RandomBounds:
    """Statistics as writers really make them: missing, truncated, widened, without NaN."""

    def __init__(self, files: list[list[dict[str, Any]]], draw: Any) -> None:
        self.files, self.draw = files, draw
        self.num_files = len(files)
        counts = [draw(st.sampled_from([len(file), len(file), None])) for file in files]
        self.num_records = draw(st.sampled_from([None, *[pa.array(counts, pa.int64())] * 4]))
        self.known: dict[Any, ColumnBounds | None] = {}

    def partition_values(self, column: str) -> pa.Array | None:
        if column not in PARTITIONS:
            return None
        return pa.array([file[0][column] for file in self.files], TYPES[column])

    def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
        if path not in self.known:
            self.known[path] = self.made(path)
        return self.known[path]

    def made(self, path: tuple[str, ...]) -> ColumnBounds | None:
        choice = self.draw(st.sampled_from(["exact", "exact", "exact", "wide", "none"]))
        if choice == "none" or path == ("n",):
            return None
        data_type = TYPES.get(path[-1], pa.int32())
        limits = [self.limits(path, file, choice == "wide") for file in self.files]
        low, high = (pa.array([limit[side] for limit in limits], data_type) for side in (0, 1))
        nulls = pa.array([limit[2] for limit in limits], pa.int64())
        exact: Any = choice == "exact"
        if self.draw(st.booleans()):
            exact = pa.array([exact] * len(limits))
        keep = self.draw(st.sampled_from(["all", "all", "low", "high", "counts"]))
        return ColumnBounds(
            low if keep in ("all", "low") else None,
            high if keep in ("all", "high") else None,
            nulls if keep in ("all", "counts") else None,
            exact,
        )

    def limits(self, path: tuple[str, ...], file: list[dict[str, Any]], wide: bool) -> tuple[Any, Any, Any]:
        values = [oracle(tree.Column(path), row) for row in file]
        nulls = sum(value is None for value in values)
        if len(path) > 1 and self.draw(st.booleans()):
            nulls = sum(row["n"] is not None and row["n"]["x"] is None for row in file)
        if self.draw(st.integers(0, 5)) == 0:
            nulls = None
        plain = [value for value in values if value is not None and value == value]
        if not plain or self.draw(st.integers(0, 5)) == 0:
            return None, None, nulls
        low, high = min(plain), max(plain)
        if (
            path[-1] in "fgq"
            and len(plain) < len([v for v in values if v is not None])
            and self.draw(st.booleans())
        ):
            high = NAN
        return (*(widened(low, high) if wide else (low, high)), nulls)


def widened(low: Any, high: Any) -> tuple[Any, Any]:
    """What statistics do to a value that they do not keep whole."""
    match low:
        case str():
            return low[:1], high if len(high) < 2 else high[:1] + "\U0010ffff"
        case datetime():
            floor = low.replace(microsecond=low.microsecond // 1000 * 1000)
            return floor, high.replace(microsecond=high.microsecond // 1000 * 1000 + 999)
        case bool() | date():
            return low, high
        case int():
            return max(low - 1, -(2**31)) if low > -(2**31) else low, high + 1 if high < 2**31 - 1 else high
        case Decimal():
            return low - 1, high if high > 1000 else high + 1
        case _:
            return low - 1.0, high + 1.0


def table_of(file: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(file, schema=SCHEMA)


@settings(max_examples=300)
@given(cases)
def test_random_rows_evaluated_as_the_oracle_does(
    case: tuple[list[list[dict[str, Any]]], tree.Expression],
) -> None:
    """FLT-005, FLT-006: every operator, constants on either side, with Spark's NULL and NaN."""
    files, predicate = case
    table = [row for file in files for row in file]
    bound = bind(predicate, SCHEMA)
    expected = [oracle(predicate, row) for row in table]
    assert evaluate(bound, table_of(table)).to_pylist() == expected
    assert filter_mask(bound, table_of(table)).to_pylist() == [result is True for result in expected]


@settings(max_examples=150)
@given(focuses.flatmap(predicates))
def test_random_predicates_survive_their_own_sql(predicate: tree.Expression) -> None:
    text = str(predicate)
    assert str(parse_predicate(text)) == text
    assert bind(parse_predicate(text), SCHEMA).equals(bind(predicate, SCHEMA))


@settings(max_examples=600)
@given(cases, st.data())
def test_random_files_pruned_keep_every_file_with_a_matching_row(
    case: tuple[list[list[dict[str, Any]]], tree.Expression], data: st.DataObject
) -> None:
    """FLT-002, FLT-003, ST-003, ST-006, ST-007: pruned ⊇ true; statistics missing, wide or cut."""
    files, predicate = case
    decision = prune(bind(predicate, SCHEMA), RandomBounds(files, data.draw))
    for place, file in enumerate(files):
        for shown in (file, file[1:]):
            truths = [oracle(predicate, row) for row in shown]
            assert decision.may_match[place].as_py() or True not in truths
            assert not decision.all_match[place].as_py() or not shown or set(truths) == {True}


@settings(max_examples=100)
@given(
    st.sampled_from([("p",), ("q",), ("p", "q")]).flatmap(
        lambda focus: st.tuples(st.lists(data_files(focus), min_size=1, max_size=3), predicates(focus))
    )
)
def test_random_partition_predicates_are_decided_exactly(
    case: tuple[list[list[dict[str, Any]]], tree.Expression],
) -> None:
    """A condition on partition values alone leaves nothing unknown."""
    files, predicate = case

    class NoStatistics:
        num_files = len(files)
        num_records = None

        def partition_values(self, column: str) -> pa.Array | None:
            return (
                pa.array([file[0][column] for file in files], TYPES[column]) if column in PARTITIONS else None
            )

        def bounds(self, path: tuple[str, ...]) -> None:
            return None

    decision = prune(bind(predicate, SCHEMA), NoStatistics())
    expected = [oracle(predicate, file[0]) is True for file in files]
    assert decision.may_match.to_pylist() == decision.all_match.to_pylist() == expected
