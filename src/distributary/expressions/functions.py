"""The closed list of functions: what each takes, what it gives, and how it is computed over Arrow.

Each row follows Spark's function of that name under ANSI rules: characters are Unicode code points, TRIM
removes blanks only, ROUND is half up, FLOOR and CEIL of a double are BIGINT, days of the week start on
Sunday. Times of day are wall times: binding casts an instant to the wall time of the session's zone
first. Functions that answer differently each time are known by name only in order to be refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import ExpressionFailedError, UnsupportedExpressionError
from distributary.expressions.arrow_casts import EXACT, by_value, cast_array, kind_of
from distributary.expressions.arrow_comparison import compare
from distributary.expressions.literal_text import TIMESTAMP_NTZ, type_sql
from distributary.expressions.type_coercion import common_type

NON_DETERMINISTIC = frozenset(
    (
        *(
            "CURRENT_DATE",
            "CURRENT_TIME",
            "CURRENT_TIMESTAMP",
            "CURRENT_USER",
            "CURDATE",
            "NOW",
            "LOCALTIMESTAMP",
        ),
        *("RAND", "RANDOM", "RANDN", "UUID", "SESSION_USER", "UNIX_TIMESTAMP", "MONOTONICALLY_INCREASING_ID"),
        *("SPARK_PARTITION_ID", "INPUT_FILE_NAME", "SHUFFLE", "CURRENT_TIMEZONE", "VERSION"),
    )
)
ALIASES = {
    "ucase": "upper",
    "lcase": "lower",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "dayofmonth": "day",
    "ceiling": "ceil",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "to_date": "date",
    "to_timestamp": "timestamp",
    "to_timestamp_ntz": "timestamp_ntz",
    "dateadd": "date_add",
    "date_diff": "datediff",
}

Types = Sequence[pa.DataType]
Signature = Callable[[Types], tuple[tuple[pa.DataType, ...], pa.DataType]]
Kernel = Callable[[list[pa.Array]], pa.Array]


@dataclass(frozen=True, slots=True)
class Function:
    """One function: arity, types (given → wanted, result), kernel, which arguments must be literals."""

    arity: tuple[int, int]
    signature: Signature
    kernel: Kernel
    constants: tuple[int, ...] = ()


def fixed(parameters: Types, result: pa.DataType) -> Signature:
    """Make the signature of a function whose types never change; missing optional arguments are left out."""
    return lambda given: (tuple(parameters[: len(given)]), result)


def _numeric(given: Types) -> tuple[tuple[pa.DataType, ...], pa.DataType]:
    if kind_of(given[0]) not in ("integer", "float", "decimal", "null"):
        raise UnsupportedExpressionError(f"a number is needed, not {type_sql(given[0])}")
    return tuple(given), given[0]


def _whole(given: Types) -> tuple[tuple[pa.DataType, ...], pa.DataType]:
    _numeric(given)
    if pa.types.is_decimal(given[0]):
        return tuple(given), pa.decimal128(min(38, given[0].precision - given[0].scale + 1), 0)
    return tuple(given), pa.int64()


def _one_common(given: Types) -> tuple[tuple[pa.DataType, ...], pa.DataType]:
    result = given[0]
    for data_type in given[1:]:
        found = common_type(result, data_type)
        if found is None or "string" in {kind_of(result), kind_of(data_type)} - {kind_of(found)}:
            raise UnsupportedExpressionError(
                f"{type_sql(result)} and {type_sql(data_type)} have no common type"
            )
        result = found
    return (result,) * len(given), result


def _rounded(given: Types) -> tuple[tuple[pa.DataType, ...], pa.DataType]:
    _numeric(given)
    result = given[0]
    if pa.types.is_decimal(result):
        result = pa.decimal128(min(38, result.precision + 1), result.scale)
    return (given[0], pa.int32())[: len(given)], result


def _texts(given: Types) -> tuple[tuple[pa.DataType, ...], pa.DataType]:
    if any(pa.types.is_binary(data_type) for data_type in given):
        raise UnsupportedExpressionError("concat is supported for text, not for binary")
    return (pa.string(),) * len(given), pa.string()


def _constant(values: pa.Array) -> Any:
    return values[0].as_py()


def _change_case(name: str) -> Kernel:
    def kernel(args: list[pa.Array]) -> pa.Array:
        if pc.all(pc.string_is_ascii(args[0])).as_py() is not False:
            return getattr(pc, f"ascii_{name}")(args[0])
        return by_value(args[0], pa.string(), getattr(str, name))

    return kernel


def _substring(args: list[pa.Array]) -> pa.Array:
    rows = zip(*(arg.to_pylist() for arg in args), strict=True)
    return pa.array([None if None in row else _substring_of(*row) for row in rows], pa.string())


def _substring_of(text: str, position: int, length: int = 2**31) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _end_of(args: list[pa.Array]) -> pa.Array:
    rows = zip(args[0].to_pylist(), args[1].to_pylist(), strict=True)
    texts = [None if None in row else row[0][-row[1] :] if row[1] > 0 else "" for row in rows]
    return pa.array(texts, pa.string())


def _test_text(name: str) -> Kernel:
    tests: dict[str, Callable[[str, str], bool]] = {
        "startswith": str.startswith,
        "endswith": str.endswith,
        "contains": str.__contains__,
    }
    test = tests[name]

    def kernel(args: list[pa.Array]) -> pa.Array:
        rows = zip(args[0].to_pylist(), args[1].to_pylist(), strict=True)
        return pa.array([None if None in row else test(*row) for row in rows], pa.bool_())

    return kernel


def _part(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    return lambda args: kernel(args[0], **options).cast(pa.int32())


def _day_of_week(args: list[pa.Array]) -> pa.Array:
    return pc.day_of_week(args[0], count_from_zero=False, week_start=7).cast(pa.int32())


_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    **dict.fromkeys(("QUARTER",), "quarter"),
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    **dict.fromkeys(("WEEK",), "week"),
    **dict.fromkeys(("DAY", "DD"), "day"),
    **dict.fromkeys(("HOUR",), "hour"),
    **dict.fromkeys(("MINUTE",), "minute"),
    **dict.fromkeys(("SECOND",), "second"),
}
_DATE_UNITS = ("year", "quarter", "month", "week")


def _date_trunc(args: list[pa.Array]) -> pa.Array:
    return pc.floor_temporal(args[1], unit=truncation_unit(_constant(args[0])), week_starts_monday=True)


def _trunc(args: list[pa.Array]) -> pa.Array:
    unit = truncation_unit(_constant(args[1]))
    if unit not in _DATE_UNITS:
        raise UnsupportedExpressionError(f"trunc of a date to {unit} is not supported")
    return pc.floor_temporal(args[0], unit=unit, week_starts_monday=True).cast(pa.date32())


def truncation_unit(name: str | None) -> str:
    """Give Arrow's name of a unit of DATE_TRUNC."""
    unit = _UNITS.get((name or "").upper())
    if unit is None:
        raise UnsupportedExpressionError(f"{name!r} is not a unit that dates are truncated to here")
    return unit


_PATTERN_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
_PATTERN = re.compile(r"yyyy|MM|dd|HH|mm|ss|DDD|'[^']*'|[^A-Za-z']")


def date_pattern(pattern: str | None) -> str:
    """Translate a pattern of DATE_FORMAT to strftime's: digits of fixed width and plain signs only."""
    parts: list[str] = _PATTERN.findall(pattern or "")
    if not parts or "".join(parts) != pattern:
        raise UnsupportedExpressionError(f"date_format pattern {pattern!r} is not supported")
    return "".join(_PATTERN_PARTS.get(part, part.strip("'").replace("%", "%%")) for part in parts)


def _date_format(args: list[pa.Array]) -> pa.Array:
    pattern = date_pattern(_constant(args[1]))
    return pc.strftime(args[0].cast(pa.timestamp("s"), safe=False), format=pattern)


def _shift_days(sign: int) -> Kernel:
    def kernel(args: list[pa.Array]) -> pa.Array:
        days = pc.multiply_checked(args[1], pa.scalar(sign, pa.int32()))
        return pc.add_checked(args[0].cast(pa.int32()), days).cast(pa.date32())

    return kernel


def _datediff(args: list[pa.Array]) -> pa.Array:
    return pc.subtract_checked(args[0].cast(pa.int32()), args[1].cast(pa.int32()))


def _round(args: list[pa.Array]) -> pa.Array:
    values, digits = args[0], _constant(args[1]) if len(args) > 1 else 0
    match kind_of(values.type):
        case "decimal":
            scale = values.type.scale
            wide = values.cast(pa.decimal256(76, scale))
            wide = pc.round(wide, ndigits=min(digits, scale), round_mode="half_towards_infinity")
            return cast_array(wide, _rounded([values.type])[1])
        case "float":
            return by_value(values, values.type, lambda value: _round_float(value, digits, values.type))
        case _ if digits >= 0:
            return values
        case _:
            return by_value(values, values.type, lambda value: int(_half_up(Decimal(value), digits)))


def _half_up(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP, context=EXACT)


def _round_float(value: float, digits: int, data_type: pa.DataType) -> float:
    if not np.isfinite(value) or digits > 330:
        return value
    return float(
        _half_up(Decimal(str(np.float32(value)) if data_type == pa.float32() else repr(value)), digits)
    )


def _to_whole(rounding: Callable[[pa.Array], pa.Array]) -> Kernel:
    def kernel(args: list[pa.Array]) -> pa.Array:
        values = args[0]
        if pa.types.is_decimal(values.type):
            _, result = _whole([values.type])
            wide = rounding(values.cast(pa.decimal256(76, values.type.scale)))
            return wide.cast(pa.decimal256(76, 0)).cast(result)
        return _saturated(rounding(values)) if kind_of(values.type) == "float" else values.cast(pa.int64())

    return kernel


def _saturated(values: pa.Array) -> pa.Array:
    low, high = pa.scalar(-(2**63), pa.int64()), pa.scalar(2**63 - 1, pa.int64())
    wide = values.cast(pa.float64())
    inside = pc.and_(pc.less(wide, 2.0**63), pc.greater_equal(wide, -(2.0**63)))
    whole = pc.if_else(inside, wide, 0.0).cast(pa.int64())
    whole = pc.if_else(pc.greater_equal(wide, 2.0**63), high, whole)
    return pc.if_else(pc.less(wide, -(2.0**63)), low, whole)


def _extreme(op: str) -> Kernel:
    """Make GREATEST (``<``) or LEAST (``>``): NULL arguments are passed over."""

    def better(best: pa.Array, other: pa.Array) -> pa.Array:
        change = pc.or_(pc.is_null(best), pc.fill_null(compare(op, best, other), False))
        return pc.if_else(change, other, best)

    return lambda args: reduce(better, args)


def _boolean_to_false(args: list[pa.Array]) -> pa.Array:
    return pc.fill_null(pc.is_nan(args[0]), False)


def _pmod(args: list[pa.Array]) -> pa.Array:
    rows = zip(args[0].to_pylist(), args[1].to_pylist(), strict=True)
    return pa.array([None if None in row else _pmod_of(*row) for row in rows], args[0].type)


def _pmod_of(value: Any, divisor: Any) -> Any:
    if not divisor:
        raise ExpressionFailedError("division by zero in pmod")
    rest = abs(value) % abs(divisor) * (-1 if value < 0 else 1)
    return rest if rest >= 0 else (rest + divisor) % abs(divisor) if divisor > 0 else rest


_STRING, _INT, _DATE, _BOOL = pa.string(), pa.int32(), pa.date32(), pa.bool_()

FUNCTIONS: dict[str, Function] = {
    "upper": Function((1, 1), fixed([_STRING], _STRING), _change_case("upper")),
    "lower": Function((1, 1), fixed([_STRING], _STRING), _change_case("lower")),
    "length": Function((1, 1), fixed([_STRING], _INT), lambda args: pc.utf8_length(args[0])),
    "trim": Function((1, 1), fixed([_STRING], _STRING), lambda args: pc.utf8_trim(args[0], characters=" ")),
    "ltrim": Function((1, 1), fixed([_STRING], _STRING), lambda args: pc.utf8_ltrim(args[0], characters=" ")),
    "rtrim": Function((1, 1), fixed([_STRING], _STRING), lambda args: pc.utf8_rtrim(args[0], characters=" ")),
    "concat": Function((1, 1000), _texts, lambda args: pc.binary_join_element_wise(*args, "")),
    "substring": Function((2, 3), fixed([_STRING, _INT, _INT], _STRING), _substring),
    "left": Function(
        (2, 2), fixed([_STRING, _INT], _STRING), lambda args: _substring([args[0], _ones(args[0]), args[1]])
    ),
    "right": Function((2, 2), fixed([_STRING, _INT], _STRING), _end_of),
    "startswith": Function((2, 2), fixed([_STRING, _STRING], _BOOL), _test_text("startswith")),
    "endswith": Function((2, 2), fixed([_STRING, _STRING], _BOOL), _test_text("endswith")),
    "contains": Function((2, 2), fixed([_STRING, _STRING], _BOOL), _test_text("contains")),
    "year": Function((1, 1), fixed([_DATE], _INT), _part(pc.year)),
    "quarter": Function((1, 1), fixed([_DATE], _INT), _part(pc.quarter)),
    "month": Function((1, 1), fixed([_DATE], _INT), _part(pc.month)),
    "day": Function((1, 1), fixed([_DATE], _INT), _part(pc.day)),
    "dayofyear": Function((1, 1), fixed([_DATE], _INT), _part(pc.day_of_year)),
    "dayofweek": Function((1, 1), fixed([_DATE], _INT), _day_of_week),
    "weekofyear": Function((1, 1), fixed([_DATE], _INT), _part(pc.iso_week)),
    "hour": Function((1, 1), fixed([TIMESTAMP_NTZ], _INT), _part(pc.hour)),
    "minute": Function((1, 1), fixed([TIMESTAMP_NTZ], _INT), _part(pc.minute)),
    "second": Function((1, 1), fixed([TIMESTAMP_NTZ], _INT), _part(pc.second)),
    "date_trunc": Function((2, 2), fixed([_STRING, TIMESTAMP_NTZ], TIMESTAMP_NTZ), _date_trunc, (0,)),
    "trunc": Function((2, 2), fixed([_DATE, _STRING], _DATE), _trunc, (1,)),
    "date_format": Function((2, 2), fixed([TIMESTAMP_NTZ, _STRING], _STRING), _date_format, (1,)),
    "date_add": Function((2, 2), fixed([_DATE, _INT], _DATE), _shift_days(1)),
    "date_sub": Function((2, 2), fixed([_DATE, _INT], _DATE), _shift_days(-1)),
    "datediff": Function((2, 2), fixed([_DATE, _DATE], _INT), _datediff),
    "abs": Function((1, 1), _numeric, lambda args: pc.abs_checked(args[0])),
    "negative": Function((1, 1), _numeric, lambda args: pc.negate_checked(args[0])),
    "round": Function((1, 2), _rounded, _round, (1,)),
    "floor": Function((1, 1), _whole, _to_whole(pc.floor)),
    "ceil": Function((1, 1), _whole, _to_whole(pc.ceil)),
    "pmod": Function((2, 2), _one_common, _pmod),
    "isnan": Function((1, 1), fixed([pa.float64()], _BOOL), _boolean_to_false),
    "greatest": Function((2, 1000), _one_common, _extreme("<")),
    "least": Function((2, 1000), _one_common, _extreme(">")),
    "coalesce": Function((1, 1000), _one_common, lambda args: pc.coalesce(*args)),
    "nullif": Function((2, 2), _one_common, lambda args: args[0]),
}


def _ones(values: pa.Array) -> pa.Array:
    return pa.array(np.ones(len(values), np.int32))
