"""Rows made up to fit any schema, the same every time."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012)


def rows_for(schema: pa.Schema, count: int = 3) -> pa.Table:
    """Some rows; the last one is null wherever it may be."""
    columns = [
        pa.array([_value(field, at, count) for at in range(count)], field.type, from_pandas=False)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(field: pa.Field, at: int, count: int) -> Any:
    if field.nullable and at == count - 1:
        return None
    return _filled(field.type, at)


def _filled(kind: pa.DataType, at: int) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return {field.name: _filled(field.type, at) for field in kind}
    if types.is_map(kind):
        return [(_filled(kind.key_type, at), _filled(kind.item_type, at))]
    if types.is_list(kind):
        return [_filled(kind.value_type, at), _filled(kind.value_type, at + 1)]
    if types.is_boolean(kind):
        return at % 2 == 0
    if types.is_integer(kind):
        return at + 1
    if types.is_floating(kind):
        return at + 0.5
    if types.is_decimal(kind):
        return Decimal(at % 9 + 1).scaleb(-kind.scale)
    if types.is_date(kind):
        return DAY + datetime.timedelta(days=at)
    if types.is_timestamp(kind):
        moment = MOMENT + datetime.timedelta(hours=at)
        return moment.replace(tzinfo=datetime.UTC) if kind.tz else moment
    if types.is_null(kind):
        return None
    if types.is_binary(kind):
        return f"bytes {at}".encode()
    return f"text {at}"
