"""Which type two values meet in: Spark's ANSI rules, in one place.

Integers meet in the longer one, an integer and a floating-point number in DOUBLE, decimals in one that
holds both, dates and times in the finer one, and text takes the type of what it is compared with (BIGINT
for integers, DOUBLE for other numbers). Where Spark would bound a decimal at 38 digits and lose places,
comparisons here keep all of them (decimal256), so they are exact.
"""

from __future__ import annotations

import pyarrow as pa

from distributary.expressions.arrow_casts import kind_of
from distributary.expressions.literal_text import TIMESTAMP, TIMESTAMP_NTZ

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_TIMES = {"date": pa.date32(), "ntz": TIMESTAMP_NTZ, "timestamp": TIMESTAMP}


def canonical_type(data_type: pa.DataType) -> pa.DataType:
    """Give the type that values of an Arrow type are computed in: one per SQL type."""
    if pa.types.is_dictionary(data_type):
        return canonical_type(data_type.value_type)
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if _is_binary(data_type):
        return pa.binary()
    if pa.types.is_unsigned_integer(data_type):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(data_type.bit_width, pa.decimal128(20, 0))
    if pa.types.is_timestamp(data_type):
        return TIMESTAMP_NTZ if data_type.tz is None else TIMESTAMP
    if pa.types.is_date64(data_type):
        return pa.date32()
    return pa.float32() if pa.types.is_float16(data_type) else data_type


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Find the type that both sides of a comparison are cast to; None when there is none."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    kinds = {kind_of(left), kind_of(right)}
    if kinds <= {"integer"}:
        return max(left, right, key=lambda data_type: data_type.bit_width)
    if kinds <= {"integer", "decimal"}:
        return _common_decimal(as_decimal(left), as_decimal(right))
    if kinds <= {"integer", "decimal", "float"}:
        return pa.float64()
    if kinds <= _TIMES.keys():
        return TIMESTAMP if "timestamp" in kinds else TIMESTAMP_NTZ
    if "string" in kinds and len(kinds) == 2:
        return _beside_text(right if kind_of(left) == "string" else left)
    return None


def as_decimal(data_type: pa.DataType) -> pa.DataType:
    """Give the decimal type that holds every value of an integer type; a decimal stays itself."""
    return data_type if pa.types.is_decimal(data_type) else pa.decimal128(_DIGITS[data_type.bit_width], 0)


def decimal_result(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Give the type of an arithmetic operation on decimals, by Spark's precision rules."""
    (p1, s1), (p2, s2) = (left.precision, left.scale), (right.precision, right.scale)
    if op in ("+", "-"):
        scale, whole = max(s1, s2), max(p1 - s1, p2 - s2) + 1
    elif op == "*":
        scale, whole = s1 + s2, p1 + p2 + 1 - s1 - s2
    elif op == "/":
        scale, whole = max(6, s1 + p2 + 1), p1 - s1 + s2
    else:
        scale, whole = max(s1, s2), min(p1 - s1, p2 - s2)
    if whole + scale <= 38:
        return pa.decimal128(max(whole + scale, 1), scale)
    return pa.decimal128(38, max(38 - whole, min(scale, 6)))


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def _beside_text(other: pa.DataType) -> pa.DataType | None:
    match kind_of(other):
        case "integer":
            return pa.int64()
        case "float" | "decimal":
            return pa.float64()
        case "nested":
            return None
        case _:
            return other


def _is_binary(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(data_type) for test in tests)
