"""Variant values: Parquet's binary encoding of semi-structured data, as JSON text.

A variant column is a struct of ``metadata`` (a dictionary of field names) and ``value`` (self-describing
bytes), perhaps with ``typed_value``, where a writer shredded what many rows have in common into typed
columns. This implements version 1 of the "Variant Binary Encoding" and "Variant Shredding" documents of
Parquet, which the Delta features ``variantType`` and ``variantShredding`` refer to. The text is that of
Spark's ``to_json``: fields in stored order, times with a space, binary as base64, NaN as a string.

Guarantees: any bytes give a text or a DataFileError. Nesting, the bytes that a value may visit, and the
length of its text are bounded, so that offsets that point to one place again and again cannot blow up.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.errors import DataFileError

MAX_DEPTH = 128
MAX_TEXT = 128 << 20

_VERSION = 1
_DAY = 86_400
_OBJECT, _ARRAY, _SHORT_STRING = 2, 3, 1


def variant_to_json(column: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """The JSON text of each variant, null where the column is null."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [variant_to_json(chunk) for chunk in column.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    if not pa.types.is_struct(storage.type) or storage.type.get_field_index("metadata") < 0:
        raise DataFileError(f"a variant column must be a struct of metadata and value, not {storage.type}")
    metadata = [_dictionary(data) for data in _child(storage, "metadata").to_pylist()]
    texts = _group_texts(storage, metadata, depth=0)
    present = storage.is_valid().to_pylist()
    return pa.array(
        [(text or "null") if there else None for text, there in zip(texts, present, strict=True)], pa.string()
    )


class _Reader:
    """Walks the bytes of one value; each byte may be visited once in all."""

    def __init__(self, data: bytes, names: Sequence[str] | None) -> None:
        self._data = data
        self._names = names
        self._unvisited = len(data)
        self._room = MAX_TEXT

    def text(self, position: int = 0, depth: int = 0) -> str:
        """JSON text of the value at a position."""
        if depth > MAX_DEPTH:
            raise DataFileError(f"a variant is nested deeper than {MAX_DEPTH} levels")
        header = self._take(position, 1)[0]
        kind, detail = header & 3, header >> 2
        if kind == _OBJECT:
            return _json_object(self._fields(position, detail, depth))
        if kind == _ARRAY:
            return "[" + ",".join(self._elements(position, detail, depth)) + "]"
        if kind == _SHORT_STRING:
            return self._within_room(_string_text(self._take(position + 1, detail)))
        return self._within_room(self._primitive(position + 1, detail))

    def fields(self) -> dict[str, str] | None:
        """The fields of the outermost object; None when it is no object."""
        header = self._take(0, 1)[0]
        return dict(self._fields(0, header >> 2, 0)) if header & 3 == _OBJECT else None

    def _fields(self, position: int, detail: int, depth: int) -> Iterator[tuple[str, str]]:
        width, id_width = (detail & 3) + 1, (detail >> 2 & 3) + 1
        count, position = self._count(position + 1, large=detail >> 4 & 1)
        ids = self._integers(position, count, id_width)
        position += count * id_width
        offsets = self._integers(position, count + 1, width)
        start = position + (count + 1) * width
        for index, offset in zip(ids, offsets[:-1], strict=True):
            yield self._name(index), self.text(start + offset, depth + 1)

    def _elements(self, position: int, detail: int, depth: int) -> Iterator[str]:
        width = (detail & 3) + 1
        count, position = self._count(position + 1, large=detail >> 2 & 1)
        offsets = self._integers(position, count + 1, width)
        start = position + (count + 1) * width
        for offset in offsets[:-1]:
            yield self.text(start + offset, depth + 1)

    def _primitive(self, position: int, kind: int) -> str:
        if kind in _FIXED_PRIMITIVES:
            size, text = _FIXED_PRIMITIVES[kind]
            return text(self._take(position, size))
        if kind in _SIZED_PRIMITIVES:
            size = int.from_bytes(self._take(position, 4), "little")
            return _SIZED_PRIMITIVES[kind](self._take(position + 4, size))
        raise DataFileError(f"a variant has a value of the unknown primitive type {kind}")

    def _name(self, index: int) -> str:
        if self._names is None or index >= len(self._names):
            raise DataFileError(f"a variant names field {index}, which its metadata does not have")
        return self._within_room(self._names[index])

    def _count(self, position: int, *, large: int) -> tuple[int, int]:
        size = 4 if large else 1
        return int.from_bytes(self._take(position, size), "little"), position + size

    def _integers(self, position: int, count: int, width: int) -> list[int]:
        return _little_endian(self._take(position, count * width), width)

    def _take(self, position: int, size: int) -> bytes:
        self._unvisited -= size
        if position + size > len(self._data) or self._unvisited < 0:
            raise DataFileError("a variant ends early, or its parts overlap")
        return self._data[position : position + size]

    def _within_room(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            raise DataFileError(f"a variant's text would be longer than {MAX_TEXT} characters")
        return text


def _group_texts(
    group: pa.StructArray, names: Sequence[Sequence[str] | None], depth: int
) -> list[str | None]:
    """Texts of a group of value and typed_value, None where both are absent."""
    values = _child(group, "value").to_pylist()
    if group.type.get_field_index("typed_value") < 0:
        return [
            None if data is None else _Reader(data, name).text()
            for data, name in zip(values, names, strict=True)
        ]
    if depth > MAX_DEPTH:
        raise DataFileError(f"a variant is shredded deeper than {MAX_DEPTH} levels")
    typed = _child(group, "typed_value")
    if pa.types.is_struct(typed.type):
        return _object_texts(values, typed, names, depth)
    texts = _list_texts(typed, names, depth) if _is_list(typed.type) else _typed_texts(typed)
    return [
        text if text is not None or data is None else _Reader(data, name).text()
        for text, data, name in zip(texts, values, names, strict=True)
    ]


def _object_texts(
    values: list[bytes | None], typed: pa.StructArray, names: Sequence[Sequence[str] | None], depth: int
) -> list[str | None]:
    """Objects whose known fields are columns; what else an object has is in its value."""
    columns = {field.name: _group_texts(_child(typed, field.name), names, depth + 1) for field in typed.type}
    present = typed.is_valid().to_pylist()
    texts: list[str | None] = []
    for row, (data, name, shredded) in enumerate(zip(values, names, present, strict=True)):
        if not shredded:
            texts.append(None if data is None else _Reader(data, name).text())
            continue
        rest = {} if data is None else _Reader(data, name).fields()
        if rest is None:
            raise DataFileError("a shredded variant is an object in its columns, but not in its value")
        found = {key: text for key, column in columns.items() if (text := column[row]) is not None}
        texts.append(_json_object(_in_order(rest | found)))
    return texts


def _in_order(fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """Fields in the order of the encoding, by the bytes of their names."""
    return sorted(fields.items(), key=lambda item: item[0].encode())


def _json_object(fields: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in fields) + "}"


def _list_texts(typed: pa.Array, names: Sequence[Sequence[str] | None], depth: int) -> list[str | None]:
    lengths = pc.list_value_length(typed).fill_null(0).to_pylist()
    inner = [name for name, length in zip(names, lengths, strict=True) for _ in range(length)]
    elements = iter(_group_texts(typed.flatten(), inner, depth + 1))
    texts: list[str | None] = []
    for present, length in zip(typed.is_valid().to_pylist(), lengths, strict=True):
        parts = [next(elements) or "null" for _ in range(length)]
        texts.append("[" + ",".join(parts) + "]" if present else None)
    return texts


def _typed_texts(typed: pa.Array) -> list[str | None]:
    """Texts of a column of primitive values."""
    for accepts, prepare, text in _TYPED_PRIMITIVES:
        if accepts(typed.type):
            return [None if value is None else text(value) for value in prepare(typed).to_pylist()]
    raise DataFileError(f"a variant is shredded into a column of type {typed.type}, which is not known")


def _child(group: pa.StructArray, name: str) -> pa.Array:
    """A child with the nulls of its parent; nulls when the group does not have it."""
    if not pa.types.is_struct(group.type):
        raise DataFileError(f"a shredded variant has {group.type} where a struct should be")
    index = group.type.get_field_index(name)
    return pc.struct_field(group, [index]) if index >= 0 else pa.nulls(len(group), pa.binary())


def _is_list(data_type: pa.DataType) -> bool:
    return pa.types.is_list(data_type) or pa.types.is_large_list(data_type)


@lru_cache(maxsize=256)
def _dictionary(data: bytes | None) -> tuple[str, ...] | None:
    """The field names that a value's metadata lists."""
    if data is None:
        return None
    width = (data[0] >> 6) + 1 if data else 1
    count = int.from_bytes(data[1 : 1 + width], "little")
    start = 1 + width * (count + 2)
    if not data or data[0] & 15 != _VERSION or len(data) < start:
        raise DataFileError("the metadata of a variant is cut, or not of version 1")
    offsets = _little_endian(data[1 + width : start], width)
    bounds = list(pairwise(offsets))
    if start + offsets[-1] > len(data) or any(low > high for low, high in bounds):
        raise DataFileError("the names in the metadata of a variant leave it")
    return tuple(_decoded(data[start + low : start + high]) for low, high in bounds)


def _little_endian(data: bytes, width: int) -> list[int]:
    wide = np.zeros((len(data) // width, 4), np.uint8)
    wide[:, :width] = np.frombuffer(data, np.uint8).reshape(-1, width)
    return cast("list[int]", wide.view("<u4").ravel().tolist())


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataFileError("a variant has a string that is not UTF-8") from error


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _string_text(data: bytes) -> str:
    return _quoted(_decoded(data))


def _binary_text(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _uuid_text(data: bytes) -> str:
    return f'"{UUID(bytes=data)}"'


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _integer_text(data: bytes) -> str:
    return str(_integer(data))


def _decimal_text(data: bytes) -> str:
    if data[0] > 38:
        raise DataFileError(f"a variant has a decimal of scale {data[0]}")
    return _plain_decimal(Decimal(f"{_integer(data[1:])}E-{data[0]}"))


def _plain_decimal(value: Decimal) -> str:
    """Without exponent and without trailing zeros of the fraction."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _floating_text(value: float | np.float32) -> str:
    """Java's form: decimal between 0.001 and 10,000,000, else with an exponent; others as strings."""
    if not np.isfinite(value):
        return '"NaN"' if np.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    digits, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    return f"{digits}E{int(exponent)}"


def _double_text(data: bytes) -> str:
    return _floating_text(struct.unpack("<d", data)[0])


def _float_text(data: bytes) -> str:
    return _floating_text(np.frombuffer(data, "<f4")[0])


def _date(days: int) -> str:
    text = str(np.datetime64(days, "D"))
    return text if text[0] == "-" or len(text) == 10 else f"+{text}"


def _date_text(days: int) -> str:
    return f'"{_date(days)}"'


def _clock(units: int, per_second: int) -> str:
    seconds, fraction = divmod(units, per_second)
    digits = f"{fraction:0{len(str(per_second)) - 1}d}".rstrip("0")
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{clock}.{digits}" if digits else clock


def _time_text(units: int, per_second: int) -> str:
    return f'"{_clock(units % (_DAY * per_second), per_second)}"'


def _timestamp_text(units: int, per_second: int, zone: str) -> str:
    days, rest = divmod(units, _DAY * per_second)
    return f'"{_date(days)} {_clock(rest, per_second)}{zone}"'


_MICRO, _NANO, _UTC = 10**6, 10**9, "+00:00"

_FIXED_PRIMITIVES: dict[int, tuple[int, Callable[[bytes], str]]] = {
    0: (0, lambda _: "null"),
    1: (0, lambda _: "true"),
    2: (0, lambda _: "false"),
    3: (1, _integer_text),
    4: (2, _integer_text),
    5: (4, _integer_text),
    6: (8, _integer_text),
    7: (8, _double_text),
    8: (5, _decimal_text),
    9: (9, _decimal_text),
    10: (17, _decimal_text),
    11: (4, lambda data: _date_text(_integer(data))),
    12: (8, lambda data: _timestamp_text(_integer(data), _MICRO, _UTC)),
    13: (8, lambda data: _timestamp_text(_integer(data), _MICRO, "")),
    14: (4, _float_text),
    17: (8, lambda data: _time_text(_integer(data), _MICRO)),
    18: (8, lambda data: _timestamp_text(_integer(data), _NANO, _UTC)),
    19: (8, lambda data: _timestamp_text(_integer(data), _NANO, "")),
    20: (16, _uuid_text),
}
_SIZED_PRIMITIVES: dict[int, Callable[[bytes], str]] = {15: _binary_text, 16: _string_text}


def _numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64())


def _same(column: pa.Array) -> pa.Array:
    return column


def _timestamps(unit: str, per_second: int, zoned: bool) -> tuple[Any, Any, Any]:
    def accepts(data_type: Any) -> bool:
        is_it = pa.types.is_timestamp(data_type) and data_type.unit == unit
        return is_it and (data_type.tz is not None) == zoned

    return accepts, _numbers, lambda units: _timestamp_text(units, per_second, _UTC if zoned else "")


_TYPED_PRIMITIVES: list[tuple[Any, Callable[[pa.Array], pa.Array], Callable[[Any], str]]] = [
    (pa.types.is_boolean, _same, lambda value: "true" if value else "false"),
    (pa.types.is_integer, _same, str),
    (pa.types.is_float32, _same, lambda value: _floating_text(np.float32(value))),
    (pa.types.is_float64, _same, _floating_text),
    (pa.types.is_decimal, _same, _plain_decimal),
    (pa.types.is_date32, lambda column: column.cast(pa.int32()), _date_text),
    (
        lambda kind: pa.types.is_time64(kind) and kind.unit == "us",
        _numbers,
        lambda units: _time_text(units, _MICRO),
    ),
    _timestamps("us", _MICRO, True),
    _timestamps("us", _MICRO, False),
    _timestamps("ns", _NANO, True),
    _timestamps("ns", _NANO, False),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _same, _quoted),
    (lambda kind: pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16, _same, _uuid_text),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _same, _binary_text),
]
