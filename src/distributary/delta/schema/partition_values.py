"""Partition values: the texts that `partitionValues` of a log entry holds, as typed values and back.

Implements "Partition Value Serialization" (S4, appendix; obligations PV-001 to PV-010). A value is null
when it is absent, JSON null or the empty string, for every type, strings included. Reading accepts what any
engine has written: the texts of the protocol, ISO 8601 timestamps with offsets, one to nine fraction digits
(finer than microseconds are cut off, as Spark does), Java's `1.0E-5`, `NaN` and `Infinity`, and the text of
a narrower type in a column that was widened since (`1` in a double or decimal column, a date in a timestamp
column). A text that does not fit is an :class:`InvalidPartitionValueError`, never a null and never a
rounded value.

Dates are proleptic Gregorian and are computed in whole days and microseconds, so years that Python's
`datetime` lacks work in Arrow columns. A timestamp without zone is UTC unless the caller names another
zone. Binary is one character per byte (U+0000 to U+00FF); a text with other characters is taken as its
UTF-8 bytes, which is how Spark writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.errors import InvalidPartitionValueError
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    PrimitiveType,
    StructType,
)

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_EPOCH_DATE: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    _DATE.pattern
    + r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
    + r" ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)?)?"
)
_NON_FINITE: Final = {
    "nan": "nan",
    "infinity": "inf",
    "+infinity": "inf",
    "-infinity": "-inf",
    "inf": "inf",
    "-inf": "-inf",
}


def parse_partition_value(
    text: str | None, data_type: DataType, *, column: str = "", zone: tzinfo = UTC
) -> Any:
    """The value of a partition text as a Python object; None for null."""
    if not text:
        return None
    raw = _parse(text, data_type, column, zone)
    try:
        return _to_python(raw, data_type)
    except OverflowError:
        raise _misfit(
            text, data_type, column, "Python has no such date; read it as an Arrow column"
        ) from None


def parse_partition_column(
    values: pa.Array | pa.ChunkedArray, data_type: DataType, *, column: str = "", zone: tzinfo = UTC
) -> pa.Array:
    """The typed Arrow array of many partition texts; each distinct text is parsed once."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    target = arrow_type(data_type)
    if data_type == STRING:
        return _texts_without_empty(values).cast(target)
    encoded: Any = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts: list[str | None] = encoded.dictionary.to_pylist()
    raws = [_parse(text, data_type, column, zone) if text else None for text in texts]
    return _raw_array(raws, data_type, target).take(encoded.indices)


def format_partition_value(value: Any, data_type: DataType, *, column: str = "") -> str | None:
    """The text of a value for `partitionValues`; None for null, for `""` and for no bytes.

    Takes Python objects or Arrow scalars; a datetime without zone is UTC. The protocol's own forms are
    written: `yyyy-MM-dd HH:mm:ss[.ffffff]` in UTC for timestamps.
    """
    raw = _from_scalar(value) if isinstance(value, pa.Scalar) else value
    if raw is None:
        return None
    formatter = _FORMATTERS.get(data_type) if isinstance(data_type, PrimitiveType) else None
    try:
        if isinstance(data_type, DecimalType):
            return format(_fit_decimal(Decimal(raw), data_type), "f")
        if formatter is not None:
            return formatter(raw, data_type) or None
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise _misfit(value, data_type, column, str(error)) from error
    raise _misfit(value, data_type, column, "columns of this type cannot partition a table")


def format_partition_values(values: Mapping[str, Any], columns: StructType) -> dict[str, str | None]:
    """The `partitionValues` of a new file: one entry for each partition column, none when there are none."""
    return {
        field.name: format_partition_value(values[field.name], field.data_type, column=field.name)
        for field in columns.fields
    }


def _parse(text: str, data_type: DataType, column: str, zone: tzinfo) -> Any:
    """The value in storage form: days for dates, microseconds for timestamps."""
    try:
        if isinstance(data_type, DecimalType):
            return _parse_decimal(text, data_type)
        if data_type == TIMESTAMP:
            return _parse_timestamp(text, zone)
        parser = _PARSERS.get(data_type) if isinstance(data_type, PrimitiveType) else None
        if parser is not None:
            return parser(text, data_type)
    except (ValueError, DecimalException, OverflowError) as error:
        raise _misfit(text, data_type, column, str(error)) from error
    raise _misfit(text, data_type, column, "columns of this type cannot partition a table")


def _parse_string(text: str, _: DataType) -> str:
    return text


def _parse_binary(text: str, _: DataType) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _parse_boolean(text: str, _: DataType) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise ValueError("expected true or false")
    return lower == "true"


def _parse_integer(text: str, data_type: DataType) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("expected a whole number")
    return _fit_integer(int(text), data_type)


def _fit_integer(value: int, data_type: DataType) -> int:
    limit = 1 << (INTEGER_BITS[data_type] - 1)  # pyright: ignore[reportArgumentType]
    if not -limit <= value < limit:
        raise ValueError(f"must be {-limit} to {limit - 1}")
    return value


def _parse_float(text: str, data_type: DataType) -> float:
    word = _NON_FINITE.get(text.lower())
    if word is not None:
        return float(word)
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("expected a number, NaN, Infinity or -Infinity")
    value = float(text)
    if abs(_stored(value, data_type)) == float("inf"):
        raise ValueError(f"too large for a {data_type}")
    return value


def _stored(value: float, data_type: DataType) -> float:
    """The double that a float or double column really holds for a value."""
    return pa.scalar(value, pa.float32()).as_py() if data_type == FLOAT else value


def _parse_decimal(text: str, data_type: DecimalType) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("expected a decimal number")
    return _fit_decimal(Decimal(text), data_type)


_EXACT: Final = Context(prec=MAX_DECIMAL_PRECISION, traps=[Inexact, InvalidOperation])


def _fit_decimal(value: Decimal, data_type: DecimalType) -> Decimal:
    try:
        fitted = value.quantize(Decimal((0, (1,), -data_type.scale)), context=_EXACT)
    except DecimalException:
        raise ValueError("has more digits than the type") from None
    if len(fitted.as_tuple().digits) > data_type.precision or not fitted.is_finite():
        raise ValueError("has more digits than the type")
    return fitted


def _parse_date(text: str, _: DataType) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("expected yyyy-MM-dd")
    days = days_from_civil(int(match[1]), int(match[2]), int(match[3]))
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError("outside the range of dates")
    return days


def _parse_timestamp_ntz(text: str, _: DataType) -> int:
    micros, offset = _parse_instant(text)
    if offset:
        raise ValueError("a timestamp_ntz has no offset")
    return _fit_micros(micros)


def _parse_timestamp(text: str, zone: tzinfo) -> int:
    micros, offset = _parse_instant(text)
    if offset is not None:
        return _fit_micros(micros - offset)
    return _fit_micros(micros if zone is UTC else _to_utc(micros, zone))


def _parse_instant(text: str) -> tuple[int, int | None]:
    """Wall-clock microseconds, and the offset from UTC in microseconds when the text has one."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("expected yyyy-MM-dd HH:mm:ss[.ffffff] or ISO 8601")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("no such time of day")
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    clock = (hours * 3600 + minutes * 60 + seconds) * _SECOND + micros
    wall = days_from_civil(int(year), int(month), int(day)) * _DAY + clock
    return wall, None if offset is None else _parse_offset(offset)


def _parse_offset(text: str) -> int:
    if text in ("Z", "UTC"):
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 18 or minutes > 59 or seconds > 59:
        raise ValueError("no such offset from UTC")
    magnitude = (hours * 3600 + minutes * 60 + seconds) * _SECOND
    return -magnitude if text[0] == "-" else magnitude


def _to_utc(micros: int, zone: tzinfo) -> int:
    wall = _EPOCH + timedelta(microseconds=micros)
    offset = wall.replace(tzinfo=zone).utcoffset() or timedelta()
    return micros - offset // timedelta(microseconds=1)


def _fit_micros(micros: int) -> int:
    if not -(1 << 63) <= micros < 1 << 63:
        raise ValueError("outside the range of timestamps")
    return micros


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a proleptic Gregorian date of any year."""
    if not 1 <= month <= 12 or not 1 <= day <= _days_in_month(year, month):
        raise ValueError("no such day")
    # Years that begin in March put the leap day last, so months need no table.
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01, the inverse of :func:`days_from_civil`."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    return year_of_era + era * 400 + (month <= 2), month, day


def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


_PARSERS: Final[Mapping[PrimitiveType, Callable[[str, DataType], Any]]] = {
    STRING: _parse_string,
    BINARY: _parse_binary,
    BOOLEAN: _parse_boolean,
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    FLOAT: _parse_float,
    DOUBLE: _parse_float,
    DATE: _parse_date,
    TIMESTAMP_NTZ: _parse_timestamp_ntz,
}


def _to_python(raw: Any, data_type: DataType) -> Any:
    if data_type == DATE:
        return _EPOCH_DATE + timedelta(days=raw)
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        wall = _EPOCH + timedelta(microseconds=raw)
        return wall.replace(tzinfo=UTC) if data_type == TIMESTAMP else wall
    return _stored(raw, data_type) if data_type == FLOAT else raw


def _raw_array(raws: list[Any], data_type: DataType, target: pa.DataType) -> pa.Array:
    if data_type == DATE:
        return pa.array(raws, pa.int32()).cast(target)
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return pa.array(raws, pa.int64()).cast(target)
    return pa.array(raws, target)


def _texts_without_empty(values: Any) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    empty = pc.call_function("equal", [values, pa.scalar("", values.type)])
    if not empty.true_count:
        return values
    return pc.call_function("if_else", [empty, pa.scalar(None, values.type), values])


def _from_scalar(scalar: Any) -> Any:
    """Storage form of an Arrow scalar: integers for dates and timestamps, so that no year is out of range."""
    if pa.types.is_date(scalar.type):
        return scalar.cast(pa.date32()).value if scalar.is_valid else None
    if pa.types.is_timestamp(scalar.type):
        return scalar.cast(pa.timestamp("us", scalar.type.tz)).value if scalar.is_valid else None
    return scalar.as_py()


def _format_string(value: Any, _: DataType) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return value


def _format_binary(value: Any, _: DataType) -> str:
    return bytes(value).decode("latin-1")


def _format_boolean(value: Any, _: DataType) -> str:
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return "true" if value else "false"


def _format_integer(value: Any, data_type: DataType) -> str:
    if isinstance(value, bool) or int(value) != value:
        raise TypeError("expected a whole number")
    return str(_fit_integer(int(value), data_type))


def _format_float(value: Any, data_type: DataType) -> str:
    """Java's text of a float or double: `1.0`, `1.0E-5`, `NaN`."""
    number = _stored(float(value), data_type)
    if number != number or abs(number) == float("inf"):
        if abs(float(value)) < float("inf"):
            raise ValueError(f"too large for a {data_type}")
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    shortest = pa.scalar(number, arrow_type(data_type)).cast(pa.string()).as_py()
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    if not number:
        return "-0.0" if sign else "0.0"
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    minus = "-" if sign else ""
    if not -3 < point <= 7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    whole = text[:point].ljust(point, "0") if point > 0 else "0"
    return (
        f"{minus}{whole}.{text[max(point, 0) :].rjust(len(digits) - point if point < 0 else 0, '0') or '0'}"
    )


def _format_date(value: Any, _: DataType) -> str:
    if isinstance(value, datetime) or not isinstance(value, date | int):
        raise TypeError("expected a date")
    return _date_text(value if isinstance(value, int) else (value - _EPOCH_DATE).days)


def _date_text(days: int) -> str:
    year, month, day = civil_from_days(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _format_timestamp(value: Any, data_type: DataType) -> str:
    days, clock = divmod(_micros(value, data_type), _DAY)
    seconds, micros = divmod(clock, _SECOND)
    fraction = f".{micros:06d}".rstrip("0").rstrip(".")
    return f"{_date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _micros(value: Any, data_type: DataType) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return _fit_micros(value)
    if not isinstance(value, datetime):
        raise TypeError("expected a datetime")
    if value.tzinfo is None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    if data_type == TIMESTAMP_NTZ:
        raise TypeError("a timestamp_ntz has no zone")
    return (value - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)


_FORMATTERS: Final[Mapping[PrimitiveType, Callable[[Any, DataType], str]]] = {
    STRING: _format_string,
    BINARY: _format_binary,
    BOOLEAN: _format_boolean,
    **dict.fromkeys(INTEGER_BITS, _format_integer),
    FLOAT: _format_float,
    DOUBLE: _format_float,
    DATE: _format_date,
    TIMESTAMP: _format_timestamp,
    TIMESTAMP_NTZ: _format_timestamp,
}


def _misfit(value: object, data_type: DataType, column: str, why: str) -> InvalidPartitionValueError:
    where = f" of column {column}" if column else ""
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:79] + "…"
    return InvalidPartitionValueError(f"Partition value {shown}{where} is no {data_type}: {why}.")
