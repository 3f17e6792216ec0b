"""The footer of a Parquet file, parsed in plain Python.

pyarrow shows the same facts, but its metadata objects end the whole process on some damaged
footers (the C++ exception is not passed on to Python), so nothing may be asked of them before
the footer is known to be sound. This parser (Thrift's compact protocol) only ever raises
`InvalidFooterError`. It keeps what a reader of checkpoints compares: names, types, row
counts, places of column chunks and their counts of nulls.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

MAGIC = b"PAR1"
_TAIL = 8
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 64

Fields = dict[int, Any]


class InvalidFooterError(ValueError):
    """The bytes are no Parquet footer."""


class Column(msgspec.Struct, frozen=True):
    """A leaf of the schema."""

    path: tuple[str, ...]
    physical_type: int
    repeated: bool


class Chunk(msgspec.Struct, frozen=True):
    """The values of one column in one row group."""

    path: tuple[str, ...]
    physical_type: int
    num_values: int
    start: int
    size: int
    null_count: int | None


class RowGroup(msgspec.Struct, frozen=True):
    """A slice of the rows."""

    num_rows: int
    chunks: tuple[Chunk, ...]


class ParquetFooter(msgspec.Struct, frozen=True):
    """The schema and the row groups of a file."""

    num_rows: int
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]


def footer_length(tail: bytes) -> int:
    """The length of the footer, from the last eight bytes of a file."""
    if len(tail) != _TAIL or tail[4:] != MAGIC:
        raise InvalidFooterError("it does not end as a Parquet file")
    return int.from_bytes(tail[:4], "little")


def parse_footer(data: bytes) -> ParquetFooter:
    """Parse the bytes of a footer, without its length and magic number."""
    try:
        fields, _ = _read_struct(data, 0, 0)
        groups = tuple(map(_row_group, fields[4]))
        return ParquetFooter(_integer(fields[3]), tuple(_columns(fields[2])), groups)
    except InvalidFooterError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise InvalidFooterError(f"its footer does not parse ({type(error).__name__})") from error


def _columns(elements: Sequence[Fields]) -> list[Column]:
    """The leaves of the schema, which lists its elements depth first."""
    columns: list[Column] = []
    position = 1

    def descend(children: int, path: tuple[str, ...], repeated: bool) -> None:
        nonlocal position
        for _ in range(children):
            element = elements[position]
            position += 1
            here = (*path, element[4].decode())
            inside = repeated or element[3] == _REPEATED
            if element.get(5):
                descend(element[5], here, inside)
            else:
                columns.append(Column(here, element[1], inside))

    descend(elements[0][5], (), repeated=False)
    if position != len(elements):
        raise InvalidFooterError("its schema has elements outside the tree")
    return columns


def _row_group(fields: Fields) -> RowGroup:
    return RowGroup(_integer(fields[3]), tuple(map(_chunk, fields[1])))


def _chunk(fields: Fields) -> Chunk:
    if 1 in fields:
        raise InvalidFooterError("a column chunk is said to be in another file")
    meta = fields[3]
    data, dictionary = _integer(meta[9]), _integer(meta.get(11, 0))
    nulls = meta.get(12, {}).get(3)
    return Chunk(
        path=tuple(name.decode() for name in meta[3]),
        physical_type=meta[1],
        num_values=_integer(meta[5]),
        start=min(data, dictionary) if dictionary else data,
        size=_integer(meta[7]),
        null_count=None if nulls is None else _integer(nulls),
    )


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise InvalidFooterError("its footer has something else where a number belongs")
    return value


def _read_struct(data: bytes, at: int, depth: int) -> tuple[Fields, int]:
    if depth > _DEEPEST:
        raise InvalidFooterError("its footer is nested too deeply")
    fields: Fields = {}
    number = 0
    while header := data[at]:
        at += 1
        if header >> 4:
            number += header >> 4
        else:
            number, at = _read_integer(data, at)
        kind = header & 15
        if kind <= _FALSE:
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _read_value(data, at, kind, depth)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_I16, _I32, _I64):
        return _read_integer(data, at)
    if kind == _BINARY:
        length, at = _read_length(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _read_list(data, at, depth + 1)
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind in (_BYTE, _TRUE, _FALSE):
        return data[at], at + 1
    raise InvalidFooterError(f"its footer has a value of the unknown kind {kind}")


def _read_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    header = data[at]
    at += 1
    size, kind = header >> 4, header & 15
    if size == 15:
        size, at = _read_unsigned(data, at)
    if size > len(data) - at:
        raise InvalidFooterError("a list of its footer is longer than the footer")
    items: list[Any] = []
    for _ in range(size):
        item, at = _read_value(data, at, kind, depth)
        items.append(item)
    return items, at


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    length, at = _read_unsigned(data, at)
    if length > len(data) - at:
        raise InvalidFooterError("a text of its footer is longer than the footer")
    return length, at


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise InvalidFooterError("a number of its footer is too long")
