"""A merge in plain Python: what the rows of a table and its change feed are afterwards.

Rows are (id, v, p). Conditions and values are texts of a small catalogue that Spark and this model read
alike, each with its meaning as a function of the two rows; None is SQL's NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, Any, Any]
Test = Callable[[Any, Any], bool | None]
Make = Callable[[Any, Any], Any]


class RepeatedError(Exception):
    """A row of the table is matched twice where that matters."""


def _both(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: None if a is None or b is None else make(a, b)


CONDITIONS: dict[str, Test] = {
    "t.id = s.id": lambda t, s: _both(lambda a, b: a == b)(t[0], s[0]),
    "t.id = s.id and t.v > 1": lambda t, s: _and(
        _both(lambda a, b: a == b)(t[0], s[0]), _both(lambda a, b: a > b)(t[1], 1)
    ),
    "t.id <=> s.id and s.v < 3": lambda t, s: _and(t[0] == s[0], _both(lambda a, b: a < b)(s[1], 3)),
    "t.p = s.p and t.v = s.v": lambda t, s: _and(
        _both(lambda a, b: a == b)(t[2], s[2]), _both(lambda a, b: a == b)(t[1], s[1])
    ),
}
PAIR_TESTS: dict[str, Test] = {
    "s.v > t.v": lambda t, s: _both(lambda a, b: a > b)(s[1], t[1]),
    "s.p = 'a'": lambda t, s: _both(lambda a, b: a == b)(s[2], "a"),
    "t.v is null": lambda t, s: t[1] is None,
}
SOURCE_TESTS: dict[str, Test] = {
    "s.v > 1": lambda t, s: _both(lambda a, b: a > b)(s[1], 1),
    "s.id is not null": lambda t, s: s[0] is not None,
}
TARGET_TESTS: dict[str, Test] = {
    "t.v > 1": lambda t, s: _both(lambda a, b: a > b)(t[1], 1),
    "p = 'b'": lambda t, s: _both(lambda a, b: a == b)(t[2], "b"),
}
VALUES: dict[str, Make] = {
    "s.v": lambda t, s: s[1],
    "t.v + s.v": lambda t, s: _both(lambda a, b: a + b)(t[1], s[1]),
    "s.id": lambda t, s: s[0],
    "coalesce(t.v, 0) - 1": lambda t, s: (t[1] or 0) - 1,
    "7": lambda t, s: 7,
}
COLUMNS = ("id", "v", "p")


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


@dataclass(frozen=True)
class ModelClause:
    """A clause by the texts of its condition and its values."""

    kind: str
    action: str
    condition: str | None = None
    values: tuple[tuple[str, str], ...] = ()

    def applies(self, target: Any, source: Any) -> bool:
        tests = {**PAIR_TESTS, **SOURCE_TESTS, **TARGET_TESTS}
        return self.condition is None or tests[self.condition](target, source) is True

    def made(self, target: Any, source: Any) -> Row:
        if self.action.endswith("_all"):
            return tuple(source)  # type: ignore[return-value]
        start = dict(zip(COLUMNS, target or (None, None, None), strict=True))
        new = {name: VALUES[text](target, source) for name, text in self.values}
        return tuple({**start, **new}[name] for name in COLUMNS)  # type: ignore[return-value]


@dataclass
class Outcome:
    """Rows after a merge, and the changes that led to them."""

    rows: list[Row] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    updated: int = 0
    deleted: int = 0
    inserted: int = 0


def merge_model(
    target: Sequence[Row], source: Sequence[Row], condition: str, clauses: Sequence[ModelClause]
) -> Outcome:
    """What a merge must do."""
    test = CONDITIONS[condition]
    by_kind = {
        kind: [clause for clause in clauses if clause.kind == kind]
        for kind in ("matched", "not_matched", "not_matched_by_source")
    }
    matched = by_kind["matched"]
    only_delete = [clause.action for clause in matched] == ["delete"] and matched[0].condition is None
    outcome = Outcome()
    for row in target:
        partners = [other for other in source if test(row, other) is True]
        if len(partners) > 1 and matched and not only_delete:
            raise RepeatedError
        asked = matched if partners else by_kind["not_matched_by_source"]
        _act(outcome, row, partners[0] if partners else None, asked)
    for other in source:
        if not any(test(row, other) is True for row in target):
            clause = next((c for c in by_kind["not_matched"] if c.applies(None, other)), None)
            if clause is not None:
                outcome.rows.append(clause.made(None, other))
                outcome.changes.append(("insert", *outcome.rows[-1]))
                outcome.inserted += 1
    return outcome


def _act(outcome: Outcome, row: Row, partner: Any, asked: Sequence[ModelClause]) -> None:
    clause = next((clause for clause in asked if clause.applies(row, partner)), None)
    if clause is None:
        outcome.rows.append(row)
    elif clause.action == "delete":
        outcome.deleted += 1
        outcome.changes.append(("delete", *row))
    else:
        new = clause.made(row, partner)
        outcome.rows.append(new)
        outcome.updated += 1
        outcome.changes += [("update_preimage", *row), ("update_postimage", *new)]
