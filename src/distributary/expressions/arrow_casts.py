"""CAST over Arrow arrays, by Spark's ANSI rules.

A value that does not fit its new type fails the cast (`ExpressionFailedError`), or is NULL in a lenient
one (TRY_CAST). Numbers cut towards zero on their way to integers and round half up on their way to fewer
decimal places; text is trimmed and then read as Spark reads it; wall times and instants meet in the given
time zone.

The widening casts that binding adds by itself (integer to longer integer, to double, to decimal; decimal
to wider decimal; float to double; date to timestamp) never fail and keep the order of values:
`is_monotone`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import ExpressionFailedError, UnsupportedExpressionError
from distributary.expressions.literal_text import TIMESTAMP, TIMESTAMP_NTZ, type_sql
from distributary.expressions.temporal_text import (
    in_utc,
    parse_date,
    parse_timestamp,
    parse_wall_time,
    time_zone,
)

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")
_NUMBER_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
_FLOAT_WORDS = {
    **dict.fromkeys(("inf", "infinity", "+inf", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_BOOLEAN_WORDS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}

Rule = Callable[[pa.Array, pa.DataType, str], pa.Array]


def kind_of(data_type: pa.DataType) -> str:
    """Give the family of a type: the unit in which rules of casting and comparing are written."""
    for kind, test in _KINDS:
        if test(data_type):
            return kind
    return "nested"


def cast_array(values: pa.Array, to: pa.DataType, *, lenient: bool = False, zone: str = "UTC") -> pa.Array:
    """Cast every value; what does not fit raises, or is NULL when lenient."""
    if values.type == to:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), to)
    rule = _RULES.get((kind_of(values.type), kind_of(to)))
    if rule is None:
        raise UnsupportedExpressionError(f"{type_sql(values.type)} cannot be cast to {type_sql(to)} here")
    try:
        return rule(values, to, zone)
    except (ValueError, OverflowError, pa.ArrowException, ExpressionFailedError) as error:
        if lenient:
            return _one_by_one(values, to, zone)
        raise ExpressionFailedError(
            f"a value cannot be cast from {type_sql(values.type)} to {type_sql(to)}: {error};"
            " TRY_CAST gives NULL instead"
        ) from error


def is_castable(source: pa.DataType, to: pa.DataType) -> bool:
    """Tell whether there is a rule for this cast at all."""
    return source == to or pa.types.is_null(source) or (kind_of(source), kind_of(to)) in _RULES


def is_monotone(source: pa.DataType, to: pa.DataType, zone: str | None) -> bool:
    """Tell whether a cast never fails and keeps order: a <= b implies cast(a) <= cast(b)."""
    match (kind_of(source), kind_of(to)):
        case ("integer", "integer") | ("float", "float"):
            return to.bit_width >= source.bit_width
        case ("integer" | "decimal", "float") | ("date", "ntz" | "timestamp") | ("ntz", "date"):
            return True
        case ("integer", "decimal"):
            return to.precision - to.scale >= {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width]
        case ("decimal", "decimal"):
            return to.scale >= source.scale and to.precision - to.scale >= source.precision - source.scale
        case ("timestamp" | "ntz", "ntz" | "timestamp") | ("timestamp", "date"):
            return (zone or "UTC") == "UTC"
        case _:
            return False


def by_value(values: pa.Array, to: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    """Apply a Python function to each distinct value; NULL stays NULL."""
    encoded = values.dictionary_encode()
    converted = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], to)
    return converted.take(encoded.indices)


def to_wall_time(values: pa.Array, zone: str) -> pa.Array:
    """Turn instants into the wall time of a zone."""
    if zone == "UTC":
        return values.cast(pa.int64()).cast(TIMESTAMP_NTZ)
    return pc.local_timestamp(values.cast(pa.timestamp("us", zone)))


def to_instant(values: pa.Array, zone: str) -> pa.Array:
    """Turn wall times of a zone into instants; see `temporal_text.in_utc` for gaps and overlaps."""
    if zone == "UTC":
        return values.cast(pa.int64()).cast(TIMESTAMP)
    try:
        return pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="raise").cast(TIMESTAMP)
    except pa.ArrowInvalid:
        return by_value(values, TIMESTAMP, lambda moment: in_utc(moment, time_zone(zone)))


def java_float(value: float, digits: str) -> str:
    """Write a floating-point number as Java does; digits is its shortest decimal form."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, figures, exponent = Decimal(digits).as_tuple()
    text = "".join(map(str, figures)).lstrip("0") or "0"
    power = len(text) + int(exponent) - 1
    text = text.rstrip("0") or "0"
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    if -3 <= power < 7:
        whole = text[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        part = text[power + 1 :] if power >= 0 else "0" * (-power - 1) + text
        return f"{minus}{whole}.{part or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{power}"


def timestamp_text(moment: datetime) -> str:
    """Write a wall time as CAST(… AS STRING) does, without trailing zeros."""
    text = f"{moment:%H:%M:%S}" + (f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else "")
    return f"{moment.date().isoformat()} {text}"


def quantized(value: Decimal, scale: int) -> Decimal:
    """Round half up to a number of decimal places."""
    return value.quantize(Decimal(1).scaleb(-scale), context=EXACT)


def wide_decimal(values: pa.Array, scale: int) -> pa.Array:
    """Turn integers or decimals into 76-digit decimals of a scale, rounding half up."""
    if not pa.types.is_decimal(values.type):
        values = values.cast(pa.decimal128(20, 0))
    source = values.cast(pa.decimal256(76, values.type.scale))
    if scale < values.type.scale:
        source = pc.round(source, ndigits=scale, round_mode="half_towards_infinity")
    return source.cast(pa.decimal256(76, scale))


def _one_by_one(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    def lenient(value: Any) -> Any:
        try:
            return cast_array(pa.array([value], values.type), to, zone=zone)[0].as_py()
        except ExpressionFailedError:
            return None

    return by_value(values, to, lenient)


def _plain(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return values.cast(to)


def _rounding(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return values.cast(to, safe=False)


def _float_to_integer(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    numbers = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    top = 2.0 ** (to.bit_width - 1)
    limit = top if to.bit_width == 64 else top - 1
    if not bool(np.all((np.floor(numbers) <= limit) & (np.ceil(numbers) >= -top))):
        raise ExpressionFailedError("out of range")
    whole = pc.trunc(values.cast(pa.float64()))
    return pc.if_else(pc.greater_equal(whole, top), pa.scalar(int(top) - 1, to), whole.cast(to, safe=False))


def _to_decimal(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return wide_decimal(values, to.scale).cast(to)


def _float_to_decimal(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    single = values.type == pa.float32()

    def convert(value: float) -> Decimal:
        if not np.isfinite(value):
            raise ExpressionFailedError(f"{value} is not a decimal")
        return quantized(Decimal(str(np.float32(value)) if single else repr(value)), to.scale)

    return by_value(values, to, convert)


def _decimal_to_integer(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    whole = pc.trunc(values.cast(pa.decimal256(76, values.type.scale)))
    return whole.cast(pa.decimal256(76, 0)).cast(pa.decimal128(38, 0)).cast(to)


def _to_boolean(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    zero = pa.scalar(Decimal(0) if pa.types.is_decimal(values.type) else 0, values.type)
    return pc.not_equal(values, zero)


def _boolean_to_number(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return cast_array(values.cast(pa.int8()), to)


def _through_text(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return values.cast(pa.string()).cast(to)


def _to_text(write: Callable[[Any], str], values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return by_value(values, to, write)


def _float_to_text(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    if values.type == pa.float32():
        return by_value(values, to, lambda value: java_float(value, str(np.float32(value))))
    return by_value(values, to, lambda value: java_float(value, repr(value)))


def _instant_to_text(values: pa.Array, to: pa.DataType, zone: str) -> pa.Array:
    return by_value(to_wall_time(values, zone), to, timestamp_text)


def _from_text(
    read: Callable[[str, pa.DataType, str], Any], values: pa.Array, to: pa.DataType, zone: str
) -> pa.Array:
    def convert(text: str) -> Any:
        value = read(text, to, zone)
        if value is None:
            raise ExpressionFailedError(f"{text[:60]!r} is not a {type_sql(to)}")
        return value

    return by_value(values, to, convert)


def _read_integer(text: str, to: pa.DataType, zone: str) -> int | None:
    text = text.strip()
    whole = _INTEGER_TEXT.fullmatch(text) and "." not in text and len(text) < 30
    return int(text) if whole else None


def _read_float(text: str, to: pa.DataType, zone: str) -> float | None:
    text = text.strip().lower()
    if text in _FLOAT_WORDS:
        return _FLOAT_WORDS[text]
    text = text.rstrip("df") if text[-1:] in ("d", "f") else text
    return float(text) if _NUMBER_TEXT.fullmatch(text) else None


def _read_decimal(text: str, to: pa.DataType, zone: str) -> Decimal | None:
    if not _NUMBER_TEXT.fullmatch(text.strip()):
        return None
    try:
        return quantized(Decimal(text.strip()), to.scale)
    except InvalidOperation:
        return None


def _read_instant(text: str, to: pa.DataType, zone: str) -> datetime | None:
    moment = parse_timestamp(text)
    return in_utc(moment, time_zone(zone)) if moment is not None and moment.tzinfo is None else moment


_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("integer", pa.types.is_signed_integer),
    ("float", lambda data_type: data_type in (pa.float32(), pa.float64())),
    ("string", pa.types.is_string),
    ("decimal", pa.types.is_decimal),
    ("date", pa.types.is_date32),
    ("timestamp", lambda data_type: data_type == TIMESTAMP),
    ("ntz", lambda data_type: data_type == TIMESTAMP_NTZ),
    ("boolean", pa.types.is_boolean),
    ("binary", pa.types.is_binary),
    ("null", pa.types.is_null),
)

_RULES: dict[tuple[str, str], Rule] = {
    ("integer", "integer"): _plain,
    ("integer", "float"): _rounding,
    ("integer", "decimal"): _to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "string"): _plain,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _rounding,
    ("float", "decimal"): _float_to_decimal,
    ("float", "boolean"): _to_boolean,
    ("float", "string"): _float_to_text,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "float"): _through_text,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "string"): partial(_to_text, lambda value: f"{value:f}"),
    ("boolean", "integer"): _plain,
    ("boolean", "float"): _boolean_to_number,
    ("boolean", "decimal"): _boolean_to_number,
    ("boolean", "string"): partial(_to_text, lambda value: "true" if value else "false"),
    ("string", "integer"): partial(_from_text, _read_integer),
    ("string", "float"): partial(_from_text, _read_float),
    ("string", "decimal"): partial(_from_text, _read_decimal),
    ("string", "boolean"): partial(_from_text, lambda text, _, __: _BOOLEAN_WORDS.get(text.strip().lower())),
    ("string", "date"): partial(_from_text, lambda text, _, __: parse_date(text)),
    ("string", "timestamp"): partial(_from_text, _read_instant),
    ("string", "ntz"): partial(_from_text, lambda text, _, __: parse_wall_time(text)),
    ("string", "binary"): _plain,
    ("binary", "string"): _plain,
    ("date", "string"): partial(_to_text, lambda value: value.isoformat()),
    ("date", "ntz"): _plain,
    ("date", "timestamp"): lambda values, _, zone: to_instant(values.cast(TIMESTAMP_NTZ), zone),
    ("timestamp", "date"): lambda values, _, zone: to_wall_time(values, zone).cast(pa.date32()),
    ("timestamp", "ntz"): lambda values, _, zone: to_wall_time(values, zone),
    ("timestamp", "string"): _instant_to_text,
    ("ntz", "date"): _plain,
    ("ntz", "timestamp"): lambda values, _, zone: to_instant(values, zone),
    ("ntz", "string"): partial(_to_text, timestamp_text),
}
