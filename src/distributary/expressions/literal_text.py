"""Literals, names and types as Spark SQL writes them.

What Spark calls the types (``BIGINT`` is int64, ``TIMESTAMP`` is microseconds in UTC), which type a
literal has by the way it is written (``1`` is INT, ``1.5`` is DECIMAL(2,1), ``1.5D`` is DOUBLE), and
the text of values: `sql_parser` reads back every text that this module writes, as the same value
of the same type.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from distributary.errors import InvalidPredicateError

TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
RESERVED_WORDS = frozenset(
    (
        "ALL",
        "AND",
        "ANY",
        "BETWEEN",
        "CASE",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_USER",
        "DISTINCT",
        "DIV",
        "ELSE",
        "END",
        "ESCAPE",
        "FALSE",
        "FROM",
        "ILIKE",
        "IN",
        "INTERVAL",
        "IS",
        "LIKE",
        "LOCALTIMESTAMP",
        "NOT",
        "NULL",
        "OR",
        "RLIKE",
        "SELECT",
        "SOME",
        "THEN",
        "TRUE",
        "WHEN",
        "WHERE",
    )
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


def natural_type(value: object) -> pa.DataType:
    """Give the type that Spark gives to a literal of this Python value."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return _integer_type(value)
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case bytes():
            return pa.binary()
        case Decimal() if value.is_finite():
            return decimal_type(value)
        case datetime():
            return TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP
        case date():
            return pa.date32()
        case _:
            raise InvalidPredicateError(f"a {type(value).__name__} cannot be a literal: {value!r}")


def decimal_type(value: Decimal) -> pa.DataType:
    """Give the narrowest decimal type that holds the value with the scale it is written in."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > 38:
        raise InvalidPredicateError(f"{str(value)[:60]} has more than 38 digits")
    return pa.decimal128(precision, scale)


def type_sql(data_type: pa.DataType) -> str:
    """Name an Arrow type as Spark SQL does."""
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    return _SQL_NAMES.get(data_type) or str(data_type).upper()


_SQL_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    pa.null(): "VOID",
}


def type_from_sql(name: str, arguments: tuple[int, ...] = ()) -> pa.DataType | None:
    """Find the Arrow type of a Spark SQL type name; None when there is no such scalar type."""
    name = name.upper()
    if name in ("DECIMAL", "DEC", "NUMERIC"):
        precision, scale = (*arguments, *(10, 0)[len(arguments) :])[:2]
        fits = len(arguments) <= 2 and 1 <= precision <= 38 and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if fits else None
    return None if arguments else _TYPES_BY_NAME.get(name)


_TYPES_BY_NAME: dict[str, pa.DataType] = {name: data_type for data_type, name in _SQL_NAMES.items()} | {
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "TIMESTAMP_LTZ": TIMESTAMP,
}


def name_sql(name: str) -> str:
    """Write a column name, in backquotes where it needs them."""
    plain = _PLAIN_NAME.match(name) and name.upper() not in RESERVED_WORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def string_sql(text: str) -> str:
    """Write a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal_sql(value: Any, data_type: pa.DataType) -> str:
    """Write a literal so that it reads back with the same value and type."""
    match value:
        case None:
            return "NULL" if pa.types.is_null(data_type) else f"CAST(NULL AS {type_sql(data_type)})"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _integer_sql(value, data_type)
        case float():
            return _float_sql(value, data_type)
        case str():
            return string_sql(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            return _timestamp_sql(value)
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}BD"
        case _:
            return str(value)


def _integer_sql(value: int, data_type: pa.DataType) -> str:
    suffix = {pa.int8(): "Y", pa.int16(): "S", pa.int64(): "L"}.get(data_type, "")
    return f"{value}{suffix}"


def _float_sql(value: float, data_type: pa.DataType) -> str:
    suffix, name = ("F", "FLOAT") if data_type == pa.float32() else ("D", "DOUBLE")
    if value != value or abs(value) == float("inf"):
        text = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{text}' AS {name})"
    return f"{value!r}{suffix}"


def _timestamp_sql(value: datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
    return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"


def _integer_type(value: int) -> pa.DataType:
    if -(2**31) <= value < 2**31:
        return pa.int32()
    return pa.int64() if -(2**63) <= value < 2**63 else decimal_type(Decimal(value))
