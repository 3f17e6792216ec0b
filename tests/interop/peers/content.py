"""The content of an Arrow table, whatever engine it came from: one JSON text a row, in sorted order.

Equal content means equal rows, however they are ordered, chunked, encoded (views, dictionaries, large
offsets) or named inside lists and maps.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pyarrow as pa


def content(table: pa.Table) -> list[str]:
    """The rows as sorted JSON texts, each an object of column name to value."""
    columns = {name: _values(table.column(name)) for name in table.column_names}
    return sorted(
        json.dumps({name: values[at] for name, values in columns.items()}, sort_keys=True)
        for at in range(table.num_rows)
    )


def difference(found: list[str], expected: list[str]) -> str:
    """Some rows of two contents that only one of them has."""
    extra, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    samples = f"extra: {list(extra)[:3]}\nmissing: {list(missing)[:3]}"
    return f"{len(found)} rows, expected {len(expected)}\n{samples}"


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _values(column.storage)
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if pa.types.is_map(kind):
        keys, items = _values(column.keys), _values(column.items)
        pairs = [list(pair) for pair in zip(keys, items, strict=True)]
        return _nested(column, lambda i, j: sorted(pairs[i:j], key=repr))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _values(column.values)
        return _nested(column, lambda i, j: values[i:j])
    if pa.types.is_struct(kind):
        parts = {kind.field(at).name: _values(part) for at, part in enumerate(column.flatten())}
        valid = column.is_valid().to_pylist()
        rows = range(len(column))
        return [{n: v[at] for n, v in parts.items()} if valid[at] else None for at in rows]
    return _plain(column)


def _nested(column: Any, slice_of: Any) -> list[Any]:
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    return [slice_of(offsets[at], offsets[at + 1]) if valid[at] else None for at in range(len(column))]


def _plain(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        ticks = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        return [None if tick is None else f"{tick}us{zone}" for tick in ticks]
    if pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else f"{day}d" for day in days]
    if pa.types.is_floating(kind):
        return [_number(value) for value in column.cast(pa.float64()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    return [value.hex() if isinstance(value, bytes) else value for value in column.to_pylist()]


def _number(value: float | None) -> Any:
    return value if value is None or math.isfinite(value) else str(value)
