"""The three answers, case by case; random ones are in test_rows_against_oracle.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from distributary.errors import InvalidPredicateError
from distributary.expressions.binding import bind
from distributary.expressions.pruning import ColumnBounds, Decision, prune
from distributary.expressions.sql_parser import parse_predicate

NAN = float("nan")
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("m", pa.decimal128(5, 2)),
        ("p", pa.string()),
        ("n", pa.struct([("x", pa.int32())])),
    ]
)
ALL, NONE, SOME = "all", "none", "some"


class OneFile:
    """A single file with the given statistics of one column, and partition p = 'x'."""

    num_files = 1

    def __init__(
        self, path: str, low: Any, high: Any, nulls: int | None, records: int | None = 10, exact: bool = True
    ) -> None:
        self.path = tuple(path.split("."))
        data_type = pa.int32() if path == "n.x" else SCHEMA.field(path).type
        self.num_records = None if records is None else pa.array([records], pa.int64())
        self.found = ColumnBounds(
            pa.array([low], data_type), pa.array([high], data_type), pa.array([nulls], pa.int64()), exact
        )

    def partition_values(self, column: str) -> pa.Array | None:
        return pa.array(["x"]) if column == "p" else None

    def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
        return self.found if path == self.path else None


def answer(decision: Decision) -> str:
    assert not (decision.all_match[0].as_py() and not decision.may_match[0].as_py())
    return ALL if decision.all_match[0].as_py() else SOME if decision.may_match[0].as_py() else NONE


def decide(text: str, file: OneFile) -> str:
    return answer(prune(bind(parse_predicate(text), SCHEMA), file))


INTEGERS = {
    "i = 5": SOME,
    "i = 0": NONE,
    "i = 10": SOME,
    "i = 11": NONE,
    "i <> 5": SOME,
    "i <> 11": ALL,
    "i < 1": NONE,
    "i < 2": SOME,
    "i < 11": ALL,
    "i <= 10": ALL,
    "i <= 0": NONE,
    "i > 10": NONE,
    "i > 0": ALL,
    "i >= 10": SOME,
    "i >= 1": ALL,
    "11 > i": ALL,
    "0 > i": NONE,
    "NOT i = 5": SOME,
    "NOT i = 11": ALL,
    "NOT (i > 0)": NONE,
    "i IS NULL": NONE,
    "i IS NOT NULL": ALL,
    "i = NULL": NONE,
    "NOT (i = NULL)": NONE,
    "i <=> NULL": NONE,
    "i <=> 11": NONE,
    "NOT (i <=> 11)": ALL,
    "i IN (0, 11)": NONE,
    "i IN (0, 5)": SOME,
    "i NOT IN (0, 11)": ALL,
    "i NOT IN (0, NULL)": NONE,
    "i IN (0, NULL)": NONE,
    "i BETWEEN 0 AND 20": ALL,
    "i NOT BETWEEN 0 AND 20": NONE,
    "i > 3000000000": NONE,
    "i < 3000000000": ALL,
    "i = 1.5": SOME,
    "i > 10.5": NONE,
    "i < 10.5": ALL,
    "i = 5 OR i = 6": SOME,
    "i < 11 OR s = 'x'": ALL,
    "i > 11 AND s = 'x'": NONE,
    "i > 0 AND s = 'x'": SOME,
    "i + 1 > 100": SOME,
    "s = 'x'": SOME,
    "TRUE": ALL,
    "FALSE": NONE,
    "NULL": NONE,
    "CASE WHEN i > 100 THEN TRUE ELSE FALSE END": SOME,
    "(i > 11) IS NULL": NONE,
    "(i > 11) IS NOT NULL": ALL,
    "p = 'x'": ALL,
    "p = 'y'": NONE,
    "upper(p) = 'X'": ALL,
    "length(p) > 1": NONE,
    "p = 'x' AND i > 0": ALL,
    "p = 'y' OR i > 11": NONE,
    "CAST(p AS INT) = 1": SOME,
    f"i IN (0, {', '.join(map(str, range(11, 40)))})": NONE,
    f"i IN (0, {', '.join(map(str, range(10, 40)))})": SOME,
}


@pytest.mark.parametrize(("text", "expected"), INTEGERS.items(), ids=list(INTEGERS))
def test_file_of_integers_one_to_ten_without_nulls(text: str, expected: str) -> None:
    """FLT-003, ST-003, ST-007, ST-008: bounds decide, anything else may match."""
    assert decide(text, OneFile("i", 1, 10, 0)) == expected


CASES: list[tuple[OneFile, dict[str, str]]] = [
    (OneFile("i", 5, 5, 0), {"i = 5": ALL, "i <> 5": NONE, "i IN (1, 5)": ALL, "i NOT IN (1, 5)": NONE}),
    (OneFile("i", 5, 5, 0, exact=False), {"i = 5": SOME, "i <> 5": SOME, "i IN (1, 5)": SOME, "i > 5": NONE}),
    (OneFile("i", 1, 10, 3), {"i < 11": SOME, "i > 11": NONE, "NOT (i > 11)": SOME, "i IS NULL": SOME}),
    (OneFile("i", 1, 10, None), {"i < 11": SOME, "i > 11": NONE, "i IS NULL": SOME, "i IS NOT NULL": SOME}),
    (OneFile("i", None, None, 10), {"i = 1": NONE, "NOT (i = 1)": NONE, "i IS NULL": ALL, "i <=> NULL": ALL}),
    (OneFile("i", None, None, 10, records=None), {"i = 1": SOME, "i IS NULL": SOME, "i IS NOT NULL": SOME}),
    (OneFile("i", None, None, 3), {"i = 1": SOME, "NOT (i = 1)": SOME, "i IS NULL": SOME}),
    (OneFile("i", None, 10, 0), {"i > 10": NONE, "i < 0": SOME, "i <= 10": ALL}),
    (OneFile("n.x", 1, 10, 0), {"n.x > 10": NONE, "n.x > 0": SOME, "n.x IS NULL": SOME, "n IS NULL": SOME}),
    (OneFile("n.x", None, None, 10), {"n.x > 0": NONE, "n.x IS NULL": ALL}),
    (
        OneFile("f", 1.0, 2.0, 0),
        {
            "f < 1": NONE,
            "f <= 2": SOME,
            "f < 3": SOME,
            "f = 3": NONE,
            "f = 0": NONE,
            "f > 2": SOME,
            "f >= 3": SOME,
            "f <> 1": SOME,
            "NOT (f > 2)": SOME,
            "NOT (f <= 2)": SOME,
            "f > 0": ALL,
            "f >= 1": ALL,
            "NOT (f < 1)": ALL,
            "f = CAST('NaN' AS DOUBLE)": SOME,
            "f < CAST('NaN' AS DOUBLE)": SOME,
            "isnan(f)": SOME,
            "f <> 3": ALL,
            "f IN (3, 4)": NONE,
            "f IN (CAST('NaN' AS DOUBLE))": SOME,
            "f <= CAST('NaN' AS DOUBLE)": ALL,
        },
    ),
    (OneFile("f", 1.0, 1.0, 0), {"f = 1": SOME, "f IN (1)": SOME, "f <> 1": SOME}),
    (OneFile("f", 1.0, NAN, 0), {"f = 5": SOME, "f < 1": NONE, "f = 0": NONE, "f <= 5": SOME, "f > 0": ALL}),
    (OneFile("f", NAN, NAN, 0), {"f = 5": SOME, "f < 1": SOME, "f > 1": SOME}),
    (OneFile("f", 0.0, 0.0, 0), {"f = -0.0D": SOME, "f < 0": NONE, "f < -0.0D": NONE, "f >= -0.0D": ALL}),
    (OneFile("f", -0.0, -0.0, 0), {"f = 0": SOME, "f IN (0)": SOME, "f < 0": NONE}),
    (
        OneFile("s", "banana", "cherry", 0),
        {
            "s LIKE 'b%'": SOME,
            "s LIKE 'd%'": NONE,
            "s LIKE 'a%'": NONE,
            "s LIKE 'bana%'": SOME,
            "s LIKE '%x'": SOME,
            "s LIKE 'banana'": SOME,
            "s LIKE 'zebra'": NONE,
            "startswith(s, 'c')": SOME,
            "startswith(s, 'cz')": NONE,
            "NOT s LIKE 'd%'": ALL,
            "s NOT LIKE 'b%'": SOME,
            "s LIKE '%'": ALL,
            "startswith(s, '')": ALL,
            "s LIKE 'd_'": NONE,
            "s > 'é'": NONE,
            "s < 'Z'": NONE,
            "s LIKE 'b\\\\%'": NONE,
        },
    ),
    (
        OneFile("s", "ba", "bz", 0),
        {"s LIKE 'b%'": ALL, "s LIKE 'b%x'": SOME, "s LIKE 'b_'": SOME, "NOT s LIKE 'b%'": NONE},
    ),
    (
        OneFile("s", "\uffee", "\U0001f600", 0),
        {"s = '\uffff'": SOME, "s < '\uffee'": NONE, "s > '\U0001f600'": NONE},
    ),
    (OneFile("b", False, False, 0), {"b": NONE, "NOT b": ALL, "b = FALSE": ALL, "b IS TRUE": NONE}),
    (OneFile("b", False, True, 0), {"b": SOME, "NOT b": SOME, "b = TRUE": SOME}),
    (OneFile("b", True, True, 1), {"b": SOME, "NOT b": NONE, "b IS NOT FALSE": ALL}),
    (
        OneFile("m", 1, 2, 0),
        {"m = 1.5": SOME, "m = 2.001": NONE, "m < 2.001": ALL, "m > 99999": NONE, "m = 3D": NONE},
    ),
]
FLAT = [(file, text, expected) for file, table in CASES for text, expected in table.items()]


@pytest.mark.parametrize(("file", "text", "expected"), FLAT, ids=[f"{f.path} {t}" for f, t, _ in FLAT])
def test_file_is_decided_by_its_statistics(file: OneFile, text: str, expected: str) -> None:
    """FLT-003, ST-003, ST-007: NULLs, NaN, −0.0, missing and inexact bounds, prefixes, booleans, decimals."""
    assert decide(text, file) == expected


def test_timestamps_and_dates_are_pruned_in_the_given_zone() -> None:
    """ST-006: a maximum widened to the end of its millisecond keeps what it may hold."""
    from datetime import UTC, date, datetime

    low, high = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 955_999, tzinfo=UTC)
    file = OneFile("t", low, high, 0, exact=False)
    assert decide("t = '2024-01-01 00:00:00.955999'", file) == SOME
    assert decide("t > '2024-01-01 00:00:00.956'", file) == NONE
    assert decide("CAST(t AS DATE) = '2024-01-01'", file) == SOME
    assert decide("CAST(t AS DATE) > '2024-01-01'", file) == NONE
    day = OneFile("d", date(2024, 1, 1), date(2024, 1, 31), 0)
    assert decide("d < TIMESTAMP '2024-01-01 00:00:00'", day) == NONE
    assert decide("d < TIMESTAMP '2024-02-01 00:00:00'", day) == ALL
    paris = bind(parse_predicate("CAST(t AS DATE) > '2024-01-01'"), SCHEMA, "Europe/Paris")
    assert answer(prune(paris, file)) == SOME


def test_large_option_lists_agree_with_small_ones() -> None:
    options = list(range(0, 400, 4))

    class Files:
        num_files = 200
        num_records = pa.array([1] * 200, pa.int64())
        low = pa.array([None if n % 50 == 0 else n for n in range(200)], pa.int32())
        high = pa.array([None if n % 33 == 0 else n + n % 5 for n in range(200)], pa.int32())

        def partition_values(self, column: str) -> pa.Array | None:
            return None

        def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
            text = path == ("s",)
            low, high = (
                [None if v is None else f"{v:03d}" for v in side.to_pylist()]
                for side in (self.low, self.high)
            )
            bounds = (pa.array(low), pa.array(high)) if text else (self.low, self.high)
            return ColumnBounds(*bounds, pa.array([0] * 200, pa.int64()))

    one_by_one = " OR ".join(f"(i <= {option} AND i >= {option})" for option in options)
    expected = prune(bind(parse_predicate(one_by_one), SCHEMA), Files())
    integers = prune(bind(parse_predicate(f"i IN ({', '.join(map(str, options))})"), SCHEMA), Files())
    texts = ", ".join(f"'{option:03d}'" for option in options)
    strings = prune(bind(parse_predicate(f"s IN ({texts})"), SCHEMA), Files())
    assert integers.may_match.equals(expected.may_match)
    assert strings.may_match.equals(expected.may_match)
    assert integers.all_match.equals(strings.all_match)


def test_no_files_give_empty_answers_and_non_conditions_are_refused() -> None:
    class NoFiles:
        num_files = 0
        num_records = None

        def partition_values(self, column: str) -> pa.Array | None:
            return None

        def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
            return None

    decision = prune(bind(parse_predicate("i = 1 AND s LIKE 'x%' OR f IN (1, 2)"), SCHEMA), NoFiles())
    assert decision.may_match.to_pylist() == decision.all_match.to_pylist() == []
    with pytest.raises(InvalidPredicateError):
        prune(bind(parse_predicate("i + 1"), SCHEMA), NoFiles())
