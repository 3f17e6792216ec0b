"""What of a predicate a server can be told, as `predicateHints` and `jsonPredicateHints`.

Hints only save files: the rows are filtered by the client itself, exactly (CL-005). The SQL hints keep to
the grammar that every server knows (FLT-005, FLT-006): one column, one constant. The JSON hint says more
(``or``, ``not``, IN, prefixes). What neither can say is left out, and told by `explain()`.

Hints need the types of the columns. Before anything is known of a table they are guessed from the constants
that columns are compared with, which spares a question; the answer tells whether the guess was right.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from distributary.expressions import tree
from distributary.expressions.binding import bind
from distributary.expressions.json_predicates import to_json_predicate
from distributary.expressions.literal_text import name_sql
from distributary.expressions.tree import Expression

_OPERATORS = frozenset(("=", ">", "<", ">=", "<=", "<>"))
_GUESSED = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    datetime.date: pa.date32(),
}


class PredicateHints(msgspec.Struct, frozen=True):
    """The hints of one predicate, and what could not be said."""

    sql: tuple[str, ...] = ()
    json: str | None = None
    unsaid: tuple[tuple[str, str], ...] = ()


def predicate_hints(predicate: Expression | None) -> PredicateHints:
    """The hints of a bound predicate."""
    if predicate is None:
        return PredicateHints()
    parts = predicate.operands if isinstance(predicate, tree.And) else (predicate,)
    sql = {str(part): _sql_hint(part) for part in parts}
    unsaid = [
        (str(part), _reason(part))
        for part in parts
        if sql[str(part)] is None and to_json_predicate(part) is None
    ]
    said = tuple(text for text in sql.values() if text is not None)
    return PredicateHints(said, to_json_predicate(predicate), tuple(unsaid))


def guessed_hints(predicate: Expression) -> PredicateHints | None:
    """The hints of a predicate by the types of its constants; None where those do not tell."""
    types: dict[str, pa.DataType] = {}
    for node, _ in tree.walk(predicate):
        match node:
            case (
                tree.Comparison(left=tree.Column(path=(name,)), right=tree.Literal(value=value))
                | tree.Comparison(left=tree.Literal(value=value), right=tree.Column(path=(name,)))
            ):
                kind = _GUESSED.get(type(value))
                if kind is None or types.setdefault(name, kind) != kind:
                    return None
            case _:
                continue
    if tree.columns_of(predicate) != {(name,) for name in types}:
        return None
    return predicate_hints(bind(predicate, pa.schema(list(types.items()))))


def say_the_same(guessed: PredicateHints, right: PredicateHints) -> bool:
    """Whether a guess leads to the same files; whole numbers are told apart by their range only."""
    return guessed.sql == right.sql and _any_range(guessed.json) == _any_range(right.json)


def _any_range(hint: str | None) -> str:
    return (hint or "").replace('"valueType":"int"', '"valueType":"long"')


def _sql_hint(node: Expression) -> str | None:
    match node:
        case tree.IsNull(operand=tree.Column(path=(name,))):
            return f"{name_sql(name)} IS NULL"
        case tree.Not(operand=tree.IsNull(operand=tree.Column(path=(name,)))):
            return f"{name_sql(name)} IS NOT NULL"
        case tree.Comparison(op=op, left=left, right=right) if op in _OPERATORS:
            sides = [_side(left), _side(right)]
            constants = sum(isinstance(side, tree.Literal) for side in (left, right))
            return None if None in sides or constants != 1 else f"{sides[0]} {op} {sides[1]}"
        case _:
            return None


def _side(node: Expression) -> str | None:
    match node:
        case tree.Column(path=(name,)):
            return name_sql(name)
        case tree.Literal(value=value):
            return _constant(value)
        case _:
            return None


def _constant(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float() if abs(value) < float("inf"):
            return repr(value)
        case str() if "'" not in value and "\\" not in value:
            return f"'{value}'"
        case datetime.datetime():
            return None
        case datetime.date():
            return f"'{value.isoformat()}'"
        case _:
            return None


def _reason(node: Expression) -> str:
    if not tree.columns_of(node):
        return "it names no column"
    if any(len(path) > 1 for path in tree.columns_of(node)):
        return "hints cannot name a field inside a struct"
    if any(
        isinstance(found, tree.FunctionCall | tree.Cast | tree.Arithmetic) for found, _ in tree.walk(node)
    ):
        return "hints cannot compute; compare the column itself with a constant"
    return "hints have no words for it"
