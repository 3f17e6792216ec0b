"""The footer of a Parquet file, parsed in plain Python.

pyarrow shows the same facts, but its metadata objects end the whole process on some damaged
footers: the C++ exceptions of `RowGroupMetaData.column` and `ColumnChunkMetaData.statistics`
are not passed on to Python. So column chunks and statistics of files that others may have
damaged are taken from here; reading columns and the row counts of pyarrow are safe. This
parser (Thrift's compact protocol) only ever raises `InvalidFooterError`.

No checksum covers a footer, but it says most things twice; `ParquetFooter.problem` compares.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

MAGIC = b"PAR1"
_TAIL = 8
# Most footers fit in this many bytes, so that one request brings them.
_FOOTER_GUESS = 65_536
_REQUIRED, _REPEATED = 0, 2
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_DEEPEST = 64
_BYTE_ARRAY, _FIXED_BYTES = 6, 7
# How bounds of a physical type are stored; those of INT96 mean nothing.
_NUMBERS = {1: struct.Struct("<i"), 2: struct.Struct("<q"), 4: struct.Struct("<f"), 5: struct.Struct("<d")}

Fields = dict[int, Any]
Bound = int | float | bytes


class InvalidFooterError(ValueError):
    """The bytes are no Parquet footer."""


class Column(msgspec.Struct, frozen=True):
    """A leaf of the schema; `levels` has the definition level that each part of its path reaches."""

    path: tuple[str, ...]
    physical_type: int
    repeated: bool
    levels: tuple[int, ...] = ()


class ColumnStatistics(msgspec.Struct, frozen=True):
    """What is said of the values of a column chunk, by the names that pyarrow has for it.

    Bounds are decoded when they are asked for.
    """

    column: str
    physical_type: int
    num_values: int
    null_count: int | None
    stored_minimum: bytes | None
    stored_maximum: bytes | None

    @property
    def has_null_count(self) -> bool:
        """Whether nulls were counted."""
        return self.null_count is not None

    @property
    def has_min_max(self) -> bool:
        """Whether there are bounds whose order is known."""
        return self.min_raw is not None and self.max_raw is not None

    @property
    def min_raw(self) -> Bound | None:
        """The smallest value in the form of the physical type."""
        return self._bound(self.stored_minimum)

    @property
    def max_raw(self) -> Bound | None:
        """The greatest value in the form of the physical type."""
        return self._bound(self.stored_maximum)

    def _bound(self, stored: bytes | None) -> Bound | None:
        if stored is None or self.physical_type in (_BYTE_ARRAY, _FIXED_BYTES):
            return stored
        number = _NUMBERS.get(self.physical_type)
        if number is None or not stored:
            return None
        if len(stored) != number.size:
            raise InvalidFooterError(f"a bound of column {self.column!r} has {len(stored)} bytes")
        return number.unpack(stored)[0]


class Chunk(msgspec.Struct, frozen=True):
    """The values of one column in one row group."""

    path: tuple[str, ...]
    physical_type: int
    num_values: int
    start: int
    size: int
    uncompressed_size: int
    has_dictionary_page: bool
    statistics: ColumnStatistics | None
    definition_levels: tuple[int, ...] | None = None

    @property
    def null_count(self) -> int | None:
        """The nulls, where statistics count them."""
        return None if self.statistics is None else self.statistics.null_count


class RowGroup(msgspec.Struct, frozen=True):
    """A slice of the rows."""

    num_rows: int
    chunks: tuple[Chunk, ...]


class ParquetFooter(msgspec.Struct, frozen=True, dict=True):
    """The schema and the row groups of a file."""

    num_rows: int
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]

    @cached_property
    def positions(self) -> dict[tuple[str, ...], int]:
        """Where in each row group the leaves stand."""
        return {column.path: at for at, column in enumerate(self.columns)}

    def problem(self) -> str | None:
        """What does not hold together, in words; `None` where all does."""
        if sum(group.num_rows for group in self.groups) != self.num_rows:
            return "its row counts do not add up"
        if len(self.positions) != len(self.columns):
            return "it has two columns of one name"
        return next(filter(None, map(self._group_problem, self.groups)), None)

    def _group_problem(self, group: RowGroup) -> str | None:
        if len(group.chunks) != len(self.columns):
            return "a row group has other columns than the schema"
        for column, chunk in zip(self.columns, group.chunks, strict=True):
            if chunk.path != column.path or chunk.physical_type != column.physical_type:
                return f"its schema and its column chunks disagree about {'.'.join(column.path)!r}"
            if not column.repeated and chunk.num_values != group.num_rows:
                return f"column {'.'.join(column.path)!r} has another number of values than its row group"
        return None


def footer_length(tail: bytes) -> int:
    """The length of the footer, from the last eight bytes of a file."""
    if len(tail) != _TAIL or tail[4:] != MAGIC:
        raise InvalidFooterError("it does not end as a Parquet file")
    return int.from_bytes(tail[:4], "little")


def read_footer(file: pa.NativeFile) -> bytes:
    """The bytes of a file's footer, without its length and magic number."""
    size = file.size()
    guess = min(size, _FOOTER_GUESS)
    tail = file.read_at(guess, size - guess)
    length = footer_length(tail[-_TAIL:])
    if length + _TAIL > size:
        raise InvalidFooterError("its footer is longer than the file")
    if length + _TAIL > guess:
        return file.read_at(length, size - _TAIL - length)
    return tail[-_TAIL - length : -_TAIL]


def sound_footer(file: pa.NativeFile) -> ParquetFooter:
    """The footer of a file, where it holds together."""
    footer = parse_footer(read_footer(file))
    problem = footer.problem()
    if problem is not None:
        raise InvalidFooterError(problem)
    return footer


def parse_footer(data: bytes) -> ParquetFooter:
    """Parse the bytes of a footer, without its length and magic number."""
    try:
        fields, _ = _read_struct(data, 0, 0)
        orders = [1 in order for order in fields[7]] if 7 in fields else None
        groups = tuple([_row_group(group, orders) for group in fields[4]])
        return ParquetFooter(_integer(fields[3]), tuple(_columns(fields[2])), groups)
    except InvalidFooterError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise InvalidFooterError(f"its footer does not parse ({type(error).__name__})") from error


def _columns(elements: Sequence[Fields]) -> list[Column]:
    """The leaves of the schema, which lists its elements depth first."""
    columns: list[Column] = []
    position = 1

    def descend(children: int, path: tuple[str, ...], levels: tuple[int, ...], repeated: bool) -> None:
        nonlocal position
        for _ in range(children):
            element = elements[position]
            position += 1
            here = (*path, element[4].decode())
            reached = (*levels, (levels[-1] if levels else 0) + (element[3] != _REQUIRED))
            inside = repeated or element[3] == _REPEATED
            if element.get(5):
                descend(element[5], here, reached, inside)
            else:
                columns.append(Column(here, element[1], inside, reached))

    descend(elements[0][5], (), (), repeated=False)
    if position != len(elements):
        raise InvalidFooterError("its schema has elements outside the tree")
    return columns


def _row_group(fields: Fields, orders: Sequence[bool] | None) -> RowGroup:
    """A row group; `orders` says for which columns the file declares the usual order of values."""
    chunks = [_chunk(chunk, None if orders is None else orders[at]) for at, chunk in enumerate(fields[1])]
    return RowGroup(_integer(fields[3]), tuple(chunks))


def _chunk(fields: Fields, ordered: bool | None) -> Chunk:
    if 1 in fields:
        raise InvalidFooterError("a column chunk is said to be in another file")
    meta = fields[3]
    path = tuple([name.decode() for name in meta[3]])
    data, dictionary = _integer(meta[9]), _integer(meta.get(11, 0))
    kind, count = _integer(meta[1]), _integer(meta[5])
    return Chunk(
        path=path,
        physical_type=kind,
        num_values=count,
        start=min(data, dictionary) if data and dictionary else data or dictionary,
        size=_integer(meta[7]),
        uncompressed_size=_integer(meta[6]),
        has_dictionary_page=dictionary > 0,
        statistics=_statistics(meta[12], ".".join(path), kind, count, ordered) if 12 in meta else None,
        definition_levels=_histogram(meta.get(16)),
    )


def _histogram(size_statistics: Any) -> tuple[int, ...] | None:
    """How many values have each definition level, where the writer counted them."""
    counts = size_statistics.get(3) if isinstance(size_statistics, dict) else None
    return None if counts is None else tuple([_integer(count) for count in counts])


def _statistics(fields: Fields, column: str, kind: int, count: int, ordered: bool | None) -> ColumnStatistics:
    """Statistics; where the file declares no order at all, the old bounds count, of numbers only."""
    nulls = fields.get(3)
    minimum: Any = None
    maximum: Any = None
    if ordered:
        minimum, maximum = fields.get(6), fields.get(5)
    elif ordered is None and kind in _NUMBERS:
        minimum, maximum = fields.get(2), fields.get(1)
    if not isinstance(minimum, bytes | None) or not isinstance(maximum, bytes | None):
        raise InvalidFooterError("its footer has something else where a bound belongs")
    filled = count - _integer(nulls or 0)
    return ColumnStatistics(column, kind, filled, nulls, minimum, maximum)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise InvalidFooterError("its footer has something else where a number belongs")
    return value


def _read_struct(data: bytes, at: int, depth: int) -> tuple[Fields, int]:
    """Read fields up to the end mark; numbers and texts are read in place, since calls cost most."""
    if depth > _DEEPEST:
        raise InvalidFooterError("its footer is nested too deeply")
    fields: Fields = {}
    number = 0
    while header := data[at]:
        at += 1
        kind = header & 15
        if header > kind:
            number += header >> 4
        else:
            number, at = _read_integer(data, at)
        if kind == _STRUCT:
            fields[number], at = _read_struct(data, at, depth + 1)
        elif _I16 <= kind <= _I64:
            value = data[at]
            at += 1
            if value > 127:
                value, at = _read_rest(data, at, value)
            fields[number] = (value >> 1) ^ -(value & 1)
        elif kind <= _FALSE:
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _read_value(data, at, kind, depth)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _BINARY:
        length, at = _read_unsigned(data, at)
        if length > len(data) - at:
            raise InvalidFooterError("a text of its footer is longer than the footer")
        return data[at : at + length], at + length
    if kind in (_LIST, _SET):
        return _read_list(data, at, depth + 1)
    if kind in (_I16, _I32, _I64):
        return _read_integer(data, at)
    if kind == _STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in (_BYTE, _TRUE, _FALSE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == _UUID:
        return data[at : at + 16], at + 16
    raise InvalidFooterError(f"its footer has a value of the unknown kind {kind}")


def _read_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _read_unsigned(data, at)
    if size > len(data) - at:
        raise InvalidFooterError("a list of its footer is longer than the footer")
    items: list[Any] = []
    if kind == _STRUCT:
        for _ in range(size):
            item, at = _read_struct(data, at, depth + 1)
            items.append(item)
        return items, at
    for _ in range(size):
        item, at = _read_value(data, at, kind, depth)
        items.append(item)
    return items, at


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    return (byte, at + 1) if byte < 128 else _read_rest(data, at + 1, byte)


def _read_rest(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The number whose first byte says that there are more."""
    value, shift = first & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise InvalidFooterError("a number of its footer is too long")
