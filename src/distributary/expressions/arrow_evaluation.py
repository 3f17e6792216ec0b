"""Exact evaluation of bound trees over Arrow, with Spark's ANSI semantics.

* Logic has three values: NULL AND FALSE is FALSE, NOT NULL is NULL.
* NaN equals NaN and is greater than every other number; −0.0 equals 0.0.
* Text and binary compare by bytes; LIKE runs on an automaton, never backtracking.
* Integer overflow, division by zero and a cast that cannot be raise `ExpressionFailedError`. AND, OR,
  CASE and COALESCE do not evaluate an operand on rows that an earlier one has decided, so guards such as
  ``b <> 0 AND a / b > 1`` work.
* The list of what can be evaluated is closed: anything else raises `UnsupportedExpressionError`.

Trees come from `binding.bind`: both sides of every comparison and operation have the same type there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import (
    ExpressionFailedError,
    InvalidPredicateError,
    UnknownColumnError,
    UnsupportedExpressionError,
)
from distributary.expressions import tree
from distributary.expressions.arrow_casts import cast_array, kind_of, wide_decimal
from distributary.expressions.arrow_comparison import compare
from distributary.expressions.functions import FUNCTIONS
from distributary.expressions.literal_text import type_sql
from distributary.expressions.type_coercion import decimal_result


def evaluate(expression: tree.Expression, batch: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Compute a bound tree for every row: an array for a batch, a chunked array for a table."""
    batch = _narrowed(expression, batch)
    if isinstance(batch, pa.Table):
        chunks = [_evaluate(expression, part) for part in batch.to_batches()]
        return (
            pa.chunked_array(chunks) if chunks else pa.chunked_array([_evaluate(expression, _no_rows(batch))])
        )
    return _evaluate(expression, batch)


def filter_mask(expression: tree.Expression, batch: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Tell for every row whether the predicate is true; NULL counts as false."""
    truth = evaluate(expression, batch)
    if kind_of(truth.type) not in ("boolean", "null"):
        raise InvalidPredicateError(f"{expression} is a {type_sql(truth.type)}, not a condition")
    return pc.fill_null(truth.cast(pa.bool_()), False)


def like_pattern(pattern: str, escape: str) -> list[str]:
    """Split a LIKE pattern into the wildcards ``%``, ``_`` and plain characters, written as ``=c``."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            parts.append(character if character in "%_" else "=" + character)
            continue
        escaped = next(characters, "")
        if escaped not in ("%", "_", escape):
            raise InvalidPredicateError(
                f"LIKE pattern {pattern[:60]!r}: {escape!r} must stand before %, _ or itself; write it twice"
            )
        parts.append("=" + escaped)
    return parts


def _narrowed(expression: tree.Expression, batch: Any) -> Any:
    """Leave out the columns that the tree does not read, so that filtering rows stays cheap."""
    wanted = {path[0] for path in tree.columns_of(expression)}
    names = [name for name in batch.schema.names if name in wanted]
    return batch.select(names) if names and len(names) == len(wanted) else batch


def _no_rows(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in table.schema], schema=table.schema
    )


def _evaluate(node: tree.Expression, batch: pa.RecordBatch) -> pa.Array:
    rule = _RULES.get(type(node))
    if rule is None:
        raise UnsupportedExpressionError(f"{node} cannot be evaluated here")
    try:
        return rule(node, batch)
    except (pa.ArrowException, ValueError) as error:
        raise ExpressionFailedError(f"{node}: {error}") from error


def _column(node: tree.Column, batch: pa.RecordBatch) -> pa.Array:
    position = batch.schema.get_field_index(node.path[0])
    if position < 0:
        raise UnknownColumnError(f"column {node} is not in the rows that {batch.schema.names} name")
    values = batch.column(position)
    for name in node.path[1:]:
        values = pc.struct_field(values, name)
    if node.type is None or values.type == node.type:
        return values
    return values.cast(node.type)


def _literal(node: tree.Literal, batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(node.value, node.type), batch.num_rows)


def _comparison(node: tree.Comparison, batch: pa.RecordBatch) -> pa.Array:
    if isinstance(node.right, tree.Literal):
        return compare(node.op, _evaluate(node.left, batch), pa.scalar(node.right.value, node.right.type))
    if isinstance(node.left, tree.Literal):
        return compare(node.op, pa.scalar(node.left.value, node.left.type), _evaluate(node.right, batch))
    return compare(node.op, _evaluate(node.left, batch), _evaluate(node.right, batch))


def _and(node: tree.And, batch: pa.RecordBatch) -> pa.Array:
    return _connective(node.operands, batch, pc.and_kleene, decided=False)


def _or(node: tree.Or, batch: pa.RecordBatch) -> pa.Array:
    return _connective(node.operands, batch, pc.or_kleene, decided=True)


def _connective(
    operands: tuple[tree.Expression, ...], batch: pa.RecordBatch, join: Callable[..., Any], *, decided: bool
) -> pa.Array:
    result = _evaluate(operands[0], batch)
    for operand in operands[1:]:
        try:
            result = join(result, _evaluate(operand, batch))
        except ExpressionFailedError:
            undecided = pc.fill_null(pc.not_equal(result, decided), True)
            result = join(result, _evaluate_where(operand, batch, undecided))
    return result


def _evaluate_where(node: tree.Expression, batch: pa.RecordBatch, mask: pa.Array) -> pa.Array:
    """Evaluate on some rows only; the others are NULL."""
    values = _evaluate(node, batch.filter(mask))
    places = np.cumsum(mask.to_numpy(zero_copy_only=False)) - 1
    return values.take(pc.if_else(mask, pa.array(places), pa.scalar(None, pa.int64())))


def _case(node: tree.Case, batch: pa.RecordBatch) -> pa.Array:
    open_rows = pa.repeat(True, batch.num_rows)
    chosen: list[tuple[pa.Array, pa.Array]] = []
    for condition, value in node.branches:
        holds = pc.fill_null(_evaluate_where(condition, batch, open_rows), False)
        chosen.append((holds, _evaluate_where(value, batch, holds)))
        open_rows = pc.and_not(open_rows, holds)
    if node.otherwise is not None:
        chosen.append((open_rows, _evaluate_where(node.otherwise, batch, open_rows)))
    nothing = pa.nulls(batch.num_rows, chosen[0][1].type)
    return reduce(lambda rest, branch: pc.if_else(branch[0], branch[1], rest), chosen, nothing)


def _in(node: tree.In, batch: pa.RecordBatch) -> pa.Array:
    values = _evaluate(node.operand, batch)
    if not all(isinstance(option, tree.Literal) for option in node.options):
        raise UnsupportedExpressionError(f"{node}: the options of IN must be constants")
    options = pa.array([getattr(option, "value", None) for option in node.options], values.type)
    found = pc.is_in(_without_negative_zero(values), _without_negative_zero(options.drop_null()))
    missing = pc.is_null(values)
    if options.null_count:
        missing = pc.or_(missing, pc.invert(found))
    return pc.if_else(missing, pa.scalar(None, pa.bool_()), found)


def _without_negative_zero(values: pa.Array) -> pa.Array:
    return pc.add(values, pa.scalar(0.0, values.type)) if kind_of(values.type) == "float" else values


def _like(node: tree.Like, batch: pa.RecordBatch) -> pa.Array:
    parts = like_pattern(node.pattern, node.escape)
    pattern = "".join(part if part in "%_" else re.sub(r"([\\%_])", r"\\\1", part[1:]) for part in parts)
    return pc.match_like(_evaluate(node.operand, batch), pattern)


def _cast(node: tree.Cast, batch: pa.RecordBatch) -> pa.Array:
    values = _evaluate(node.operand, batch)
    return cast_array(values, node.type, lenient=node.lenient, zone=node.time_zone or "UTC")


def _call(node: tree.FunctionCall, batch: pa.RecordBatch) -> pa.Array:
    if node.name == "coalesce":
        return _coalesce(node.args, batch)
    function = FUNCTIONS.get(node.name)
    if function is None or node.name == "nullif":
        raise UnsupportedExpressionError(
            f"{node} cannot be evaluated here: {node.name} is not in the closed list"
        )
    args = [_evaluate(arg, batch) for arg in node.args]
    if not batch.num_rows:
        return pa.array([], function.signature([arg.type for arg in args])[1])
    return function.kernel(args)


def _coalesce(args: tuple[tree.Expression, ...], batch: pa.RecordBatch) -> pa.Array:
    result = _evaluate(args[0], batch)
    for arg in args[1:]:
        result = pc.coalesce(result, _evaluate_where(arg, batch, pc.is_null(result)))
    return result


def _arithmetic(node: tree.Arithmetic, batch: pa.RecordBatch) -> pa.Array:
    left, right = _evaluate(node.left, batch), _evaluate(node.right, batch)
    if node.op in ("/", "%", "DIV") and _has_zero(left, right):
        raise ExpressionFailedError(f"{node}: division by zero; guard it with CASE or nullif(divisor, 0)")
    if pa.types.is_decimal(left.type):
        return _decimal_arithmetic(node.op, left, right)
    match node.op:
        case "+" | "-" | "*":
            return _CHECKED[node.op](left, right)
        case "/":
            return pc.divide(left, right)
        case "DIV":
            return pc.divide_checked(left.cast(pa.int64()), right.cast(pa.int64()))
        case _:
            return _remainder(left, right)


_CHECKED: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def _has_zero(left: pa.Array, right: pa.Array) -> bool:
    zero = pa.scalar(Decimal(0) if pa.types.is_decimal(right.type) else 0, right.type)
    return bool(pc.any(pc.and_(left.is_valid(), pc.equal(right, zero))).as_py())


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compute the remainder with the sign of the dividend, as C and Java do."""
    valid = pc.and_(left.is_valid(), right.is_valid())
    numbers = (pc.fill_null(side, 1).to_numpy(zero_copy_only=False) for side in (left, right))
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = pa.array(np.fmod(*numbers), left.type)
    return pc.if_else(valid, rest, pa.scalar(None, left.type))


def _decimal_arithmetic(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    result = decimal_result(op, left.type, right.type)
    if op in ("+", "-"):
        scale = max(left.type.scale, right.type.scale)
        wide = [wide_decimal(side, scale).cast(pa.decimal256(75, scale)) for side in (left, right)]
        return cast_array(_CHECKED[op](*wide), result)
    if op == "*" and left.type.precision + right.type.precision < 76:
        wide = [side.cast(pa.decimal256(side.type.precision, side.type.scale)) for side in (left, right)]
        return cast_array(pc.multiply_checked(*wide), result)
    rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
    values = [None if None in row else _decimal_step(op, row[0], row[1], result.scale) for row in rows]
    return pa.array(values, pa.int64() if op == "DIV" else result)


def _decimal_step(op: str, left: Decimal, right: Decimal, scale: int) -> Any:
    if op != "*" and not right:
        return None
    with localcontext(prec=160, rounding=ROUND_HALF_UP) as context:
        if op == "DIV":
            return int((left / right).to_integral_value(rounding=ROUND_DOWN))
        exact = left * right if op == "*" else left / right if op == "/" else context.remainder(left, right)
        return exact.quantize(Decimal(1).scaleb(-scale))


_RULES: dict[type[tree.Expression], Callable[[Any, pa.RecordBatch], pa.Array]] = {
    tree.Column: _column,
    tree.Literal: _literal,
    tree.Comparison: _comparison,
    tree.Arithmetic: _arithmetic,
    tree.And: _and,
    tree.Or: _or,
    tree.Not: lambda node, batch: pc.invert(_evaluate(node.operand, batch)),
    tree.IsNull: lambda node, batch: pc.is_null(_evaluate(node.operand, batch)),
    tree.In: _in,
    tree.Like: _like,
    tree.StartsWith: lambda node, batch: pc.starts_with(_evaluate(node.operand, batch), node.prefix),
    tree.Case: _case,
    tree.Cast: _cast,
    tree.FunctionCall: _call,
}
