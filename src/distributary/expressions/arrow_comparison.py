"""Comparisons over Arrow with Spark's order of values.

NaN equals NaN and is greater than every other number, −0.0 equals 0.0, text and binary compare by bytes,
FALSE is less than TRUE. The two sides are arrays or scalars of one type; the answer is NULL where either is
NULL, except for ``<=>``.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from distributary.expressions.arrow_casts import kind_of


def compare(op: str, left: Any, right: Any) -> Any:
    """Compare two sides by one of `tree.COMPARISONS`."""
    match op:
        case "<":
            return _less(left, right)
        case ">":
            return _less(right, left)
        case "<=":
            return pc.invert(_less(right, left))
        case ">=":
            return pc.invert(_less(left, right))
        case "=":
            return _equal(left, right)
        case "<>":
            return pc.invert(_equal(left, right))
        case _:
            both = pc.and_(pc.is_null(left), pc.is_null(right))
            return pc.or_(both, pc.fill_null(_equal(left, right), False))


def _equal(left: Any, right: Any) -> Any:
    equal = pc.equal(left, right)
    if kind_of(left.type) != "float":
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Any, right: Any) -> Any:
    less = pc.less(left, right)
    if kind_of(left.type) != "float":
        return less
    return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
