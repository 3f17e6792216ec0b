"""Names and types of a tree against a schema: the only place where literals are coerced.

`bind` answers a tree in which

* every column is named as the schema names it (an exact match wins, else the one match that ignores case)
  and carries its type;
* both sides of a comparison, the operand and options of IN, the branches of CASE and the arguments of
  functions have one type, by Spark's ANSI rules (`type_coercion`);
* what is constant is a literal.

A literal moves to the type of the column it meets whenever that is exact (``3`` beside a TINYINT or a
DOUBLE, ``'2024-01-01'`` beside a DATE, ``1.50`` beside a DECIMAL(10,2)); otherwise the column is widened
by a cast, so ``int_column > 3000000000`` or ``int_column = 1.5`` compares as it does in mathematics. Text
that is not a value of the column's type is an error, as in ANSI SQL. The time zone gives the instant of a
timestamp that names no zone, the wall time of an instant, and midnight of a date.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from distributary.errors import (
    ExpressionFailedError,
    InvalidPredicateError,
    UnknownColumnError,
    UnsupportedExpressionError,
)
from distributary.expressions import tree
from distributary.expressions.arrow_casts import cast_array, is_castable, kind_of
from distributary.expressions.arrow_evaluation import evaluate, like_pattern
from distributary.expressions.functions import FUNCTIONS, date_pattern, truncation_unit
from distributary.expressions.literal_text import TIMESTAMP, decimal_type, type_sql
from distributary.expressions.temporal_text import zone_name
from distributary.expressions.tree import Cast, Expression, Literal
from distributary.expressions.type_coercion import as_decimal, canonical_type, common_type, decimal_result

_MOVES = frozenset(
    (
        *(("integer", "decimal"), ("integer", "float"), ("decimal", "integer"), ("decimal", "decimal")),
        *(
            ("decimal", "float"),
            ("float", "float"),
            ("date", "ntz"),
            ("date", "timestamp"),
            ("ntz", "timestamp"),
        ),
    )
)
# Not made of a Python list: for that pyarrow imports pandas, which takes every command a second.
_ONE_ROW = pa.record_batch([pa.nulls(1, pa.bool_())], names=[""])


def bind(expression: Expression, schema: pa.Schema, time_zone: str = "UTC") -> Expression:
    """Resolve a predicate (or, for generated columns, any expression) against a schema."""
    try:
        zone = zone_name(time_zone)
    except ValueError as error:
        raise InvalidPredicateError(f"{error}: use UTC, an offset such as +02:00, or Area/City") from error
    return _Binder(schema, zone).bound(expression)[0]


def type_of(bound: Expression) -> pa.DataType:
    """Give the type of a bound tree."""
    match bound:
        case tree.Column(type=data_type) if data_type is not None:
            return data_type
        case tree.Literal(type=data_type) | tree.Cast(type=data_type):
            return data_type
        case tree.Arithmetic():
            return _arithmetic_type(bound.op, type_of(bound.left), type_of(bound.right))
        case tree.Case():
            return type_of(bound.branches[0][1])
        case tree.FunctionCall():
            return FUNCTIONS[bound.name].signature([type_of(arg) for arg in bound.args])[1]
        case tree.Column():
            raise UnknownColumnError(f"{bound} has not been bound to a schema")
        case _:
            return pa.bool_()


@dataclass(frozen=True, slots=True)
class _Binder:
    schema: pa.Schema
    zone: str

    def bound(self, node: Expression) -> tuple[Expression, pa.DataType]:
        found = self.simplified(self.resolved(node))
        return found, type_of(found)

    def simplified(self, node: Expression) -> Expression:
        """Fold a node whose children are all literals; one that fails waits for a row to fail on."""
        if not node.children or not all(isinstance(child, Literal) for child in node.children):
            return node
        try:
            return self.folded(node)
        except InvalidPredicateError:
            return node

    def resolved(self, node: Expression) -> Expression:
        match node:
            case tree.Column():
                return self.column(node)
            case tree.Literal():
                return _canonical_literal(node)
            case tree.Comparison():
                left, right = self.alike(node.left, node.right, node)
                return tree.Comparison(node.op, left, right)
            case tree.And():
                return tree.all_of(self.condition(operand) for operand in node.operands)
            case tree.Or():
                return tree.any_of(_gathered([self.condition(operand) for operand in node.operands]))
            case tree.Not():
                return tree.Not(self.condition(node.operand))
            case tree.IsNull():
                return tree.IsNull(self.bound(node.operand)[0])
            case tree.In():
                return self.in_list(node)
            case tree.Like():
                like_pattern(node.pattern, node.escape)
                return replace(node, operand=self.as_type(node.operand, pa.string()))
            case tree.StartsWith():
                return replace(node, operand=self.as_type(node.operand, pa.string()))
            case tree.Case():
                return self.case(node)
            case tree.Cast():
                return self.explicit_cast(node)
            case tree.Arithmetic():
                return self.arithmetic(node)
            case tree.FunctionCall():
                return self.call(node)
            case _:
                raise UnsupportedExpressionError(f"{node} is not an expression that is known here")

    def column(self, node: tree.Column) -> tree.Column:
        fields, path = list(self.schema), list[str]()
        field: Any = None
        for depth, name in enumerate(node.path):
            if depth and not pa.types.is_struct(field.type):
                raise UnknownColumnError(
                    f"{node}: {'.'.join(path)} is a {field.type}, it has no field {name!r}"
                )
            field = _field_named(fields if depth == 0 else list(field.type), name, node)
            path.append(field.name)
        return tree.Column(tuple(path), canonical_type(field.type))

    def condition(self, node: Expression) -> Expression:
        found, data_type = self.bound(node)
        if kind_of(data_type) not in ("boolean", "null"):
            raise InvalidPredicateError(f"{node} is a {type_sql(data_type)}, not a condition")
        return self.cast(found, pa.bool_())

    def alike(self, left: Expression, right: Expression, whole: Expression) -> tuple[Expression, Expression]:
        """Bring the two sides of a comparison to one type."""
        left, right = self.bound(left)[0], self.bound(right)[0]
        left, right = self.read_text(left, type_of(right)), self.read_text(right, type_of(left))
        left_type, right_type = type_of(left), type_of(right)
        if isinstance(right, Literal) and (moved := self.moved(right, left_type)) is not None:
            return left, moved
        if isinstance(left, Literal) and (moved := self.moved(left, right_type)) is not None:
            return moved, right
        meeting = common_type(left_type, right_type)
        if meeting == pa.null():
            meeting = pa.bool_()
        if meeting is None or kind_of(meeting) == "nested":
            raise InvalidPredicateError(
                f"{whole}: {type_sql(left_type)} and {type_sql(right_type)} cannot be compared"
            )
        return self.cast(left, meeting), self.cast(right, meeting)

    def read_text(self, node: Expression, beside: pa.DataType) -> Expression:
        """Read a string literal as what it is compared with."""
        text = isinstance(node, Literal) and isinstance(node.value, str)
        to = common_type(pa.string(), beside) if text and kind_of(beside) != "null" else None
        if to is None or to == pa.string():
            return node
        try:
            return self.cast(node, to)
        except InvalidPredicateError as error:
            raise InvalidPredicateError(
                f"{node} is not a {type_sql(to)}, which it is compared with"
            ) from error

    def moved(self, literal: Literal, to: pa.DataType) -> Literal | None:
        """Give the literal in another type where its value stays the same; None where it would not."""
        value: Any = literal.value
        kinds = (kind_of(literal.type), kind_of(to))
        if literal.type == to or (value is None and common_type(literal.type, to) is not None):
            return Literal(value, to) if kinds[1] not in ("nested", "null") else None
        if kinds == ("integer", "integer"):
            return (
                Literal(value, to) if -(2 ** (to.bit_width - 1)) <= value < 2 ** (to.bit_width - 1) else None
            )
        if kinds not in _MOVES or (to == pa.float32() and kinds[0] != "integer"):
            return None
        if to == pa.float64():
            return Literal(float(str(value)), to)
        return self.moved_exactly(literal, to)

    def moved_exactly(self, literal: Literal, to: pa.DataType) -> Literal | None:
        try:
            there = cast_array(pa.array([literal.value], literal.type), to, zone=self.zone)
            back = cast_array(there, literal.type, zone=self.zone)
        except ExpressionFailedError:
            return None
        return Literal(there[0].as_py(), to) if back[0].as_py() == literal.value else None

    def in_list(self, node: tree.In) -> Expression:
        operand, operand_type = self.bound(node.operand)
        options = [self.read_text(self.bound(option)[0], operand_type) for option in node.options]
        literals = [option for option in options if isinstance(option, Literal)]
        if len(literals) < len(options):
            equal = [tree.Comparison("=", node.operand, option) for option in node.options]
            return self.resolved(tree.any_of(equal)) if len(equal) > 1 else self.resolved(equal[0])
        moved = [self.moved(literal, operand_type) for literal in literals]
        kept = tuple(literal for literal in moved if literal is not None)
        if len(kept) == len(options):
            return tree.In(operand, kept)
        meeting: pa.DataType | None = operand_type
        for data_type in {literal.type for literal in literals}:
            meeting = None if meeting is None else common_type(meeting, data_type)
        if meeting is None or kind_of(meeting) in ("nested", "null"):
            raise InvalidPredicateError(
                f"{node}: the options cannot be compared with a {type_sql(operand_type)}"
            )
        return tree.In(
            self.cast(operand, meeting), tuple(self.cast(literal, meeting) for literal in literals)
        )

    def case(self, node: tree.Case) -> Expression:
        values = [self.bound(value) for _, value in node.branches]
        if node.otherwise is not None:
            values.append(self.bound(node.otherwise))
        _, meeting = FUNCTIONS["coalesce"].signature([data_type for _, data_type in values])
        cast = [self.cast(value, meeting) for value, _ in values]
        conditions = [self.condition(condition) for condition, _ in node.branches]
        otherwise = cast[-1] if node.otherwise is not None else None
        return tree.Case(tuple(zip(conditions, cast, strict=False)), otherwise)

    def explicit_cast(self, node: tree.Cast) -> Expression:
        operand, source = self.bound(node.operand)
        if not is_castable(source, node.type):
            raise UnsupportedExpressionError(
                f"{node}: {type_sql(source)} cannot be cast to {type_sql(node.type)} here"
            )
        return self.cast(operand, node.type, lenient=node.lenient)

    def arithmetic(self, node: tree.Arithmetic) -> Expression:
        (left, left_type), (right, right_type) = self.bound(node.left), self.bound(node.right)
        kinds = {kind_of(left_type), kind_of(right_type)}
        known = (
            {"integer", "decimal", "null"} if node.op == "DIV" else {"integer", "decimal", "float", "null"}
        )
        if not kinds <= known:
            raise UnsupportedExpressionError(
                f"{node}: {type_sql(left_type)} {node.op} {type_sql(right_type)}"
            )
        if "float" in kinds or (node.op == "/" and "decimal" not in kinds):
            single = left_type == right_type == pa.float32() and node.op != "/"
            types = (pa.float32() if single else pa.float64(),) * 2
        elif "decimal" in kinds:
            types = (_decimal_of(node.left, left_type), _decimal_of(node.right, right_type))
        else:
            meeting = common_type(left_type, right_type)
            types = (pa.int32() if meeting == pa.null() else meeting,) * 2
        return tree.Arithmetic(node.op, self.cast(left, types[0]), self.cast(right, types[1]))

    def call(self, node: tree.FunctionCall) -> Expression:
        function = FUNCTIONS.get(node.name)
        if function is None or not function.arity[0] <= len(node.args) <= function.arity[1]:
            raise UnsupportedExpressionError(
                f"{node}: {node.name} with {len(node.args)} arguments is not known here"
            )
        if node.name == "nullif":
            equal = tree.Comparison("=", *node.args)
            return self.resolved(tree.Case(((equal, tree.NULL),), node.args[0]))
        bound = [self.bound(arg) for arg in node.args]
        try:
            wanted, _ = function.signature([data_type for _, data_type in bound])
        except UnsupportedExpressionError as error:
            raise UnsupportedExpressionError(f"{node}: {error}") from error
        args = tuple(self.cast(arg, to) for (arg, _), to in zip(bound, wanted, strict=True))
        self.check_constants(node, args, function.constants)
        called = self.simplified(tree.FunctionCall(node.name, args))
        if node.name == "round" and pa.types.is_decimal(wanted[0]):
            return self.cast(called, _rounded_type(wanted[0], args))
        return self.cast(called, TIMESTAMP) if node.name == "date_trunc" else called

    def check_constants(
        self, node: tree.FunctionCall, args: tuple[Expression, ...], places: tuple[int, ...]
    ) -> None:
        values = [arg.value if isinstance(arg, Literal) else None for arg in args]
        if any(values[place] is None for place in places if place < len(args)):
            raise UnsupportedExpressionError(f"{node}: argument {places[0] + 1} must be a constant")
        if node.name in ("date_trunc", "trunc"):
            truncation_unit(values[places[0]])
        if node.name == "date_format":
            date_pattern(values[1])

    def as_type(self, node: Expression, to: pa.DataType) -> Expression:
        return self.cast(self.bound(node)[0], to)

    def cast(self, node: Expression, to: pa.DataType, *, lenient: bool = False) -> Expression:
        """Cast a bound node, folding literals and dropping casts that change nothing."""
        source = type_of(node)
        if source == to:
            return node
        if not is_castable(source, to):
            raise UnsupportedExpressionError(
                f"{node} is a {type_sql(source)} where a {type_sql(to)} is needed"
            )
        zoned = "timestamp" in (kind_of(source), kind_of(to))
        made = Cast(node, to, lenient, self.zone if zoned else None)
        return self.folded(made) if isinstance(node, Literal) else made

    def folded(self, node: Expression) -> Literal:
        """Compute a node that reads no column."""
        try:
            value = evaluate(node, _ONE_ROW)
        except ExpressionFailedError as error:
            raise InvalidPredicateError(str(error)) from error
        return Literal(value[0].as_py(), value.type)


def _gathered(operands: list[Expression]) -> list[Expression]:
    """Turn ``x = 1 OR x = 2 OR …`` into ``x IN (1, 2, …)``, which is the same and quicker.

    The list stands where its first member stood, so that guards still come before what they guard.
    """
    places: dict[tuple[Any, ...], int] = {}
    gathered: list[list[Expression]] = []
    for operand in operands:
        equal = isinstance(operand, tree.Comparison) and operand.op == "="
        if not equal or not isinstance(operand.children[1], Literal):
            gathered.append([operand])
            continue
        place = places.setdefault(operand.children[0].key(), len(gathered))
        if place == len(gathered):
            gathered.append([])
        gathered[place].append(operand)
    return [group[0] if len(group) == 1 else _one_list(group) for group in gathered]


def _one_list(equalities: list[Expression]) -> Expression:
    return tree.In(equalities[0].children[0], tuple(equality.children[1] for equality in equalities))


def _field_named(fields: list[Any], name: str, node: tree.Column) -> Any:
    exact = [field for field in fields if field.name == name]
    found = exact or [field for field in fields if field.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    names = ", ".join(field.name for field in (found or fields)[:20])
    if found:
        raise UnknownColumnError(f"{node} may mean several columns ({names}): write the name exactly")
    raise UnknownColumnError(f"there is no column {node}; there are {names or 'no columns'}")


def _canonical_literal(literal: Literal) -> Literal:
    to = canonical_type(literal.type)
    if to == literal.type:
        return literal
    return Literal(pa.scalar(literal.value, literal.type).cast(to).as_py(), to)


def _decimal_of(node: Expression, data_type: pa.DataType) -> pa.DataType:
    """Give the decimal that an operand becomes beside a decimal; a literal takes the digits it has."""
    if isinstance(node, Literal) and isinstance(node.value, int):
        return decimal_type(Decimal(node.value))
    return pa.decimal128(1, 0) if pa.types.is_null(data_type) else as_decimal(data_type)


def _rounded_type(data_type: pa.DataType, args: tuple[Expression, ...]) -> pa.DataType:
    """Give the decimal that ROUND answers: as many places as asked for, and a digit for the carry."""
    digits: int = getattr(args[1], "value", 0) if len(args) > 1 else 0
    whole = data_type.precision - data_type.scale + 1
    if digits < 0:
        return pa.decimal128(min(38, max(whole, 1 - digits)), 0)
    scale = min(digits, data_type.scale)
    return pa.decimal128(min(38, whole + scale), scale)


def _arithmetic_type(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if op == "DIV":
        return pa.int64()
    return decimal_result(op, left, right) if pa.types.is_decimal(left) else left
