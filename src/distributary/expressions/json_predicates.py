"""jsonPredicateHints ↔ tree (the sharing protocol's JSON predicates, ``beyond.md`` A11).

A hint is a JSON text of one op: ``and``, ``or``, ``not``, ``isNull``, five comparisons, or a boolean
column; leaves are columns and literals with a ``valueType``, and values are always strings. Reading keeps
within 1 MiB, 10,000 ops and a depth of 100 after flattening ``and`` and ``or`` (clients write IN as a
chain of ``or``), without recursion, and raises `InvalidPredicateError` for anything else; the caller
decides to ignore such a hint.

Writing gives None for what the grammar cannot say. In a conjunction the parts that it cannot say are left
out: the hint then asks for more files than needed, never for fewer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from distributary.errors import InvalidPredicateError
from distributary.expressions import tree
from distributary.expressions.arrow_evaluation import like_pattern
from distributary.expressions.literal_text import TIMESTAMP
from distributary.expressions.rule_runner import Rule, run_rule
from distributary.expressions.temporal_text import parse_timestamp
from distributary.expressions.tree import Expression

MAX_TEXT = 1 << 20
MAX_DEPTH = 100
MAX_OPS = 10_000

_COMPARISONS = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_OPS = {sql: name for name, sql in _COMPARISONS.items()}
_VALUE_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": TIMESTAMP,
}
_TYPE_NAMES = {data_type: name for name, data_type in _VALUE_TYPES.items()}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BLANKS = re.compile(r"[ \t\r\n]*")
_OTHER = re.compile(r"true|false|null|-?[0-9][0-9.eE+-]*")

Json = dict[str, Any]


def parse_json_predicate(text: str) -> Expression:
    """Parse one hint; a text that cannot be used raises `InvalidPredicateError`."""
    if len(text) > MAX_TEXT or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise InvalidPredicateError(f"a JSON predicate may have at most {MAX_TEXT} bytes; this one is longer")
    root: Expression = run_rule(_Builder(MAX_OPS).condition(run_rule(_Reader(text).whole())))
    if any(depth > MAX_DEPTH for _, depth in tree.walk(root)):
        raise InvalidPredicateError(f"a JSON predicate may be nested {MAX_DEPTH} deep; this one is deeper")
    return root


def to_json_predicate(expression: Expression) -> str | None:
    """Write a hint that keeps every row that the expression keeps; None when there is nothing to say."""
    operands = expression.operands if isinstance(expression, tree.And) else (expression,)
    said = [op for op in (_written(operand) for operand in operands) if op is not None]
    if not said:
        return None
    return json.dumps(said[0] if len(said) == 1 else {"op": "and", "children": said}, separators=(",", ":"))


@dataclass
class _Reader:
    """JSON text → values, by rules instead of recursion."""

    text: str
    position: int = 0

    def whole(self) -> Rule:
        value = yield self.value()
        if self.next_sign() != "":
            raise self.refuse("is not expected after the predicate")
        return value

    def value(self) -> Rule:
        sign = self.next_sign()
        if sign == "{":
            return (yield self.members())
        if sign == "[":
            return (yield self.elements())
        if sign == '"':
            return self.string()
        match = _OTHER.match(self.text, self.position)
        if match is None:
            raise self.refuse("is not JSON")
        self.position = match.end()
        return None

    def members(self) -> Rule:
        found: Json = {}
        self.position += 1
        while self.next_sign() != "}":
            if found:
                self.take(",")
            name = self.string()
            self.take(":")
            if name in found:
                raise self.refuse(f"follows a second {name!r}")
            found[name] = yield self.value()
        self.position += 1
        return found

    def elements(self) -> Rule:
        found: list[Any] = []
        self.position += 1
        while self.next_sign() != "]":
            if found:
                self.take(",")
            found.append((yield self.value()))
        self.position += 1
        return found

    def string(self) -> str:
        if self.next_sign() != '"':
            raise self.refuse("is not a string")
        try:
            text, self.position = json.decoder.scanstring(self.text, self.position + 1, True)  # type: ignore[attr-defined]
            text.encode()
        except (ValueError, UnicodeError) as error:
            raise self.refuse("is not a string of JSON") from error
        return str(text)

    def take(self, sign: str) -> None:
        if self.next_sign() != sign:
            raise self.refuse(f"stands where {sign} must")
        self.position += 1

    def next_sign(self) -> str:
        self.position = _BLANKS.match(self.text, self.position).end()  # type: ignore[union-attr]
        return self.text[self.position : self.position + 1]

    def refuse(self, why: str) -> InvalidPredicateError:
        part = self.text[self.position : self.position + 40] or "the end"
        return InvalidPredicateError(f"{part!r} (character {self.position + 1} of the JSON predicate) {why}")


@dataclass
class _Builder:
    """JSON values → tree."""

    budget: int

    def condition(self, value: Any) -> Rule:
        op, node = self.opened(value)
        if op in ("and", "or"):
            operands: list[Expression] = []
            for child in _children(node, 2, None):
                operands.append((yield self.condition(child)))
            return tree.all_of(operands) if op == "and" else tree.any_of(operands)
        if op == "not":
            return tree.Not((yield self.condition(_children(node, 1, 1)[0])))
        if op == "isNull":
            return tree.IsNull(self.column(_children(node, 1, 1)[0])[0])
        if op in _COMPARISONS:
            return self.comparison(op, _children(node, 2, 2))
        if op == "column" and _value_type(node) == "bool":
            return _column(node)
        raise InvalidPredicateError(f"JSON predicate: op {op[:40]!r} is not a condition")

    def comparison(self, op: str, children: list[Any]) -> Expression:
        (left, left_type), (right, right_type) = (self.leaf(child) for child in children)
        if left_type != right_type:
            raise InvalidPredicateError(f"JSON predicate: {op} compares {left_type} with {right_type}")
        return tree.Comparison(_COMPARISONS[op], left, right)

    def leaf(self, value: Any) -> tuple[Expression, str]:
        op, node = self.opened(value)
        value_type = _value_type(node)
        if op == "column":
            return _column(node), value_type
        if op == "literal":
            return _literal(node, value_type), value_type
        raise InvalidPredicateError(f"JSON predicate: op {op[:40]!r} is neither a column nor a literal")

    def column(self, value: Any) -> tuple[Expression, str]:
        node, value_type = self.leaf(value)
        if not isinstance(node, tree.Column):
            raise InvalidPredicateError("JSON predicate: isNull takes a column")
        return node, value_type

    def opened(self, value: Any) -> tuple[str, Json]:
        self.budget -= 1
        if self.budget < 0:
            raise InvalidPredicateError(f"a JSON predicate may have {MAX_OPS} ops; this one has more")
        if not isinstance(value, dict) or not isinstance(value.get("op"), str):
            raise InvalidPredicateError('JSON predicate: an object with an "op" is missing')
        return value["op"], value


def _children(node: Json, least: int, most: int | None) -> list[Any]:
    children = node.get("children")
    if not isinstance(children, list) or len(children) < least or (most is not None and len(children) > most):
        raise InvalidPredicateError(f"JSON predicate: {node['op']} has a wrong number of children")
    return children


def _value_type(node: Json) -> str:
    found = node.get("valueType")
    if not isinstance(found, str) or found not in _VALUE_TYPES:
        raise InvalidPredicateError(f"JSON predicate: valueType {str(found)[:40]!r} is not known")
    return found


def _column(node: Json) -> tree.Column:
    name = node.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidPredicateError("JSON predicate: a column has no name")
    return tree.Column((name,))


def _literal(node: Json, value_type: str) -> tree.Literal:
    text, data_type = node.get("value"), _VALUE_TYPES[value_type]
    if isinstance(text, str):
        try:
            return tree.Literal(pa.scalar(_READERS[value_type](text), data_type).as_py(), data_type)
        except (ValueError, OverflowError, pa.ArrowException):
            pass
    raise InvalidPredicateError(f"JSON predicate: {str(text)[:40]!r} is not a {value_type}")


def _matching(pattern: re.Pattern[str], convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if not pattern.fullmatch(text):
            raise ValueError(text)
        return convert(text)

    return read


def _read_timestamp(text: str) -> datetime:
    moment = parse_timestamp(text)
    if moment is None:
        raise ValueError(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _matching(re.compile("true|false", re.IGNORECASE), lambda text: text.lower() == "true"),
    "int": _matching(_INTEGER, int),
    "long": _matching(_INTEGER, int),
    "string": str,
    "date": _matching(_DATE, date.fromisoformat),
    "float": _matching(_FLOAT, float),
    "double": _matching(_FLOAT, float),
    "timestamp": _read_timestamp,
}


def _written(node: Expression) -> Json | None:
    match node:
        case tree.And() | tree.Or():
            return _joined(
                "and" if isinstance(node, tree.And) else "or", [_written(child) for child in node.operands]
            )
        case tree.Not():
            return _joined("not", [_written(node.operand)])
        case tree.IsNull():
            return _joined("isNull", [_written_column(node.operand, None)])
        case tree.Comparison():
            return _written_comparison(node)
        case tree.In():
            equal = [tree.Comparison("=", node.operand, option) for option in node.options]
            return _written(tree.any_of(equal))
        case tree.StartsWith():
            return _written_prefix(node.operand, node.prefix)
        case tree.Like():
            return _written_like(node)
        case tree.Column(type=data_type) if data_type in (None, pa.bool_()):
            return _written_column(node, pa.bool_())
        case _:
            return None


def _joined(op: str, children: list[Json | None]) -> Json | None:
    return None if None in children else {"op": op, "children": children}


def _written_comparison(node: tree.Comparison) -> Json | None:
    if node.op == "<>":
        return _joined("not", [_written(tree.Comparison("=", node.left, node.right))])
    if node.op == "<=>":
        return _written_null_safe(node.left, node.right)
    types = [
        side.type
        for side in (node.left, node.right)
        if isinstance(side, tree.Column | tree.Literal) and side.type
    ]
    if not types or any(data_type != types[0] for data_type in types):
        return None
    sides = [_written_leaf(side, types[0]) for side in (node.left, node.right)]
    return _joined(_OPS[node.op], sides)


def _written_null_safe(left: Expression, right: Expression) -> Json | None:
    if isinstance(left, tree.Literal):
        left, right = right, left
    if not isinstance(right, tree.Literal):
        return None
    if right.value is None:
        return _written(tree.IsNull(left))
    typed = left if not isinstance(left, tree.Column) else tree.Column(left.path, left.type or right.type)
    return _written(tree.And((tree.Comparison("=", left, right), tree.Not(tree.IsNull(typed)))))


def _written_leaf(node: Expression, data_type: pa.DataType) -> Json | None:
    if isinstance(node, tree.Column):
        return _written_column(node, data_type)
    name = _TYPE_NAMES.get(data_type)
    text = _value_text(node.value) if isinstance(node, tree.Literal) else None
    return None if name is None or text is None else {"op": "literal", "value": text, "valueType": name}


def _written_column(node: Expression, data_type: pa.DataType | None) -> Json | None:
    if not isinstance(node, tree.Column) or len(node.path) != 1:
        return None
    name = _TYPE_NAMES.get(node.type if data_type is None else data_type)
    return None if name is None else {"op": "column", "name": node.path[0], "valueType": name}


def _value_text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value) if abs(value) < float("inf") else None
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case int() | str():
            return str(value)
        case _:
            return None


def _written_like(node: tree.Like) -> Json | None:
    parts = like_pattern(node.pattern, node.escape)
    prefix = "".join(part[1:] for part in parts if part not in "%_")
    if "_" in parts or ("%" in parts and parts.index("%") < len(prefix)):
        return None
    if "%" not in parts:
        return _written(tree.Comparison("=", node.operand, tree.lit(prefix)))
    return _written_prefix(node.operand, prefix)


def _written_prefix(operand: Expression, prefix: str) -> Json | None:
    """Write a prefix as the range up to its successor, where these are neighbours in any encoding."""
    if not prefix or ord(prefix[-1]) >= 0xD7FF:
        return None
    after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return _written(tree.And((operand >= prefix, operand < after)))
