"""What a recorded minimum and maximum say about the values of a column, for each Delta type.

Statistics are written as JSON and lose something on the way: timestamps are cut to milliseconds, long
strings to a prefix, decimals may have passed through a double, a file may hold an older, narrower type
than the column has now. A rule here turns recorded values into bounds of the column's own Arrow type
that are safe: ``minimum <= every value <= maximum`` (C-14, ST-003, ST-006). Whatever cannot be read as
such becomes null, which means unknown and never prunes (ST-007).

Decisions where writers differ:

- NaN is no bound; ``"Infinity"`` and ``"-Infinity"`` are.
- A maximum of a timestamp reaches to the end of its millisecond. Without a zone it is unknown.
- A string of 32 characters or more may be a cut prefix. As a minimum that is still a bound; as a
  maximum only when it ends with a tie-breaker (U+007F, U+FFFD, U+FFFF, U+10FFFF) that writers append.
- A decimal of more than 15 digits is widened by the error of a double.
- A double column that was once float: old texts are the short form of a float, so both readings count.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from types import UnionType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    PrimitiveType,
    StructField,
)
from distributary.delta.schema.schema_evolution import type_changes

STRING_PREFIX_LENGTH = 32
"""Length from which a string may be a prefix that its writer cut."""

_TIE_BREAKERS = ("\x7f", "\ufffd", "\uffff", "\U0010ffff")
_UNREADABLE = (pa.ArrowException, OverflowError, TypeError, ValueError)
_MILLISECOND_REST = 999
_MAX_INT64 = 2**63 - 1
_EXACT_IN_DOUBLE = 1e15
_DOUBLE_ERROR = 2.0**-50


class BoundsRule:
    """How recorded values of one column are read and widened; this base keeps them as they are."""

    recorded_type: pa.DataType
    json_type: UnionType
    families: ClassVar[tuple[Callable[[pa.DataType], bool], ...]]

    def __init__(self, recorded_type: pa.DataType) -> None:
        self.recorded_type = recorded_type

    def read(self, values: list[Any]) -> pa.Array:
        """Recorded values from decoded JSON; null where a value is none of this type."""
        try:
            return self.read_all(values)
        except _UNREADABLE:
            return pa.array([self._read_one_safely(value) for value in values], self.recorded_type)

    def read_all(self, values: list[Any]) -> pa.Array:
        """The quick way: raises when any value does not fit."""
        return pa.array(values, self.recorded_type)

    def read_one(self, value: Any) -> Any:
        """The careful way: None, or an error, when a value does not fit."""
        return value

    def convert(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Recorded values from a typed column of ``stats_parsed``, perhaps of an older type."""
        if not any(accepts(column.type) for accepts in self.families):
            return pa.chunked_array([pa.nulls(len(column), self.recorded_type)])
        try:
            return self.cast(column)
        except _UNREADABLE:
            return pa.chunked_array([pa.nulls(len(column), self.recorded_type)])

    def cast(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """A typed column of an accepted family as the recorded type."""
        return column.cast(self.recorded_type)

    def minimum(self, recorded: pa.Array) -> pa.Array:
        """Lower bounds, of the column's type."""
        return recorded

    def maximum(self, recorded: pa.Array) -> pa.Array:
        """Upper bounds, of the column's type."""
        return recorded

    def exact(self, recorded: pa.Array) -> pa.BooleanArray:
        """Whether a recorded value surely is a value that occurs."""
        return recorded.is_valid()

    def _read_one_safely(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            return pa.scalar(self.read_one(value), self.recorded_type).as_py()
        except _UNREADABLE:
            return None


class BooleanRule(BoundsRule):
    """Booleans; rarely recorded."""

    json_type = bool | str | None
    families = (pa.types.is_boolean,)


class IntegerRule(BoundsRule):
    """Integers of any width, also read where a column was widened to a longer one."""

    json_type = int | str | None
    families = (pa.types.is_integer,)

    def __init__(self, column_type: pa.DataType) -> None:
        super().__init__(pa.int64())
        self._column_type = column_type

    def minimum(self, recorded: pa.Array) -> pa.Array:
        limit = 1 << (self._column_type.bit_width - 1)
        fits = pc.and_(pc.greater_equal(recorded, -limit), pc.less_equal(recorded, limit - 1))
        return pc.if_else(fits, recorded, pa.scalar(None, pa.int64())).cast(self._column_type)

    maximum = minimum


class FloatRule(BoundsRule):
    """Float and double; a double column that was float is bounded by both readings of a text."""

    json_type = float | str | None
    families = (pa.types.is_floating, pa.types.is_integer)

    def __init__(self, column_type: pa.DataType, was_float: bool) -> None:
        super().__init__(pa.float64())
        self._column_type = column_type
        self._was_float = was_float

    def read_one(self, value: Any) -> float:
        return float(value)

    def minimum(self, recorded: pa.Array) -> pa.Array:
        return self._bound(recorded, np.minimum)

    def maximum(self, recorded: pa.Array) -> pa.Array:
        return self._bound(recorded, np.maximum)

    def _bound(self, recorded: pa.Array, outward: np.ufunc) -> pa.Array:
        values = _floats(recorded)
        with np.errstate(over="ignore", invalid="ignore"):
            short = values.astype(np.float32)
        valid = ~np.isnan(values)
        if pa.types.is_float32(self._column_type):
            return _arrow(short, valid & (np.isinf(short) == np.isinf(values)), self._column_type)
        if self._was_float:
            values = outward(values, np.where(np.isinf(short), values, short))
        return _arrow(values, valid, self._column_type)


class DecimalRule(BoundsRule):
    """Decimals, JSON numbers; exact up to 15 digits, beyond that widened by the error of a double."""

    json_type = float | str | None
    families = (pa.types.is_decimal, pa.types.is_integer, pa.types.is_floating)

    def __init__(self, data_type: DecimalType) -> None:
        super().__init__(pa.float64())
        self._precision, self._scale = data_type.precision, data_type.scale

    def read_one(self, value: Any) -> float:
        return float(value)

    def cast(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column.cast(pa.float64(), safe=False)

    def minimum(self, recorded: pa.Array) -> pa.Array:
        return self._bound(recorded, -1)

    def maximum(self, recorded: pa.Array) -> pa.Array:
        return self._bound(recorded, 1)

    def exact(self, recorded: pa.Array) -> pa.BooleanArray:
        unscaled = self._unscaled(recorded)
        return _arrow_bits(np.abs(unscaled) < _EXACT_IN_DOUBLE)

    def _unscaled(self, recorded: pa.Array) -> npt.NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            return _floats(recorded) * 10.0**self._scale

    def _bound(self, recorded: pa.Array, outward: int) -> pa.Array:
        """The double error is far below half a unit while a value has at most 15 digits."""
        unscaled = self._unscaled(recorded)
        with np.errstate(invalid="ignore"):
            widened = np.rint(unscaled + outward * np.abs(unscaled) * _DOUBLE_ERROR)
            bound = np.where(np.abs(unscaled) < _EXACT_IN_DOUBLE, np.rint(unscaled), widened)
            valid = np.abs(bound) < 10.0**self._precision
        return _decimals(np.where(valid, bound, 0.0), valid, pa.decimal128(self._precision, self._scale))


class StringRule(BoundsRule):
    """Strings, compared by their UTF-8 bytes; long ones may be cut."""

    json_type = str | None
    families = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_dictionary,
    )

    def maximum(self, recorded: pa.Array) -> pa.Array:
        whole = self.exact(recorded)
        if whole.true_count == len(recorded) - recorded.null_count:
            return recorded
        raised = pc.is_in(pc.utf8_slice_codeunits(recorded, -1), pa.array(_TIE_BREAKERS))
        return pc.if_else(pc.or_(whole, raised), recorded, pa.scalar(None, pa.string()))

    def exact(self, recorded: pa.Array) -> pa.BooleanArray:
        return pc.less(pc.utf8_length(recorded), STRING_PREFIX_LENGTH).fill_null(False)


class DateRule(BoundsRule):
    """Dates, written ``yyyy-MM-dd``."""

    json_type = str | None
    families = (pa.types.is_date32,)

    def read_all(self, values: list[Any]) -> pa.Array:
        return pa.array(values, pa.string()).cast(self.recorded_type)

    def read_one(self, value: Any) -> dt.date | None:
        return dt.date.fromisoformat(value) if len(value) == 10 else None


class TimestampRule(BoundsRule):
    """Instants (with a zone) or wall clock times (without), written with milliseconds."""

    json_type = str | None
    families = (pa.types.is_timestamp,)

    def read_all(self, values: list[Any]) -> pa.Array:
        return pa.array(values, pa.string()).cast(self.recorded_type)

    def read_one(self, value: Any) -> dt.datetime | None:
        time = dt.datetime.fromisoformat(value)
        return None if time.tzinfo is None else time

    def cast(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Microseconds, rounded down; a column without zone (INT96) holds UTC instants all the same."""
        if pa.types.is_date32(column.type):
            return column.cast(self.recorded_type)
        return pa.chunked_array([self._microseconds(chunk) for chunk in column.chunks], self.recorded_type)

    def maximum(self, recorded: pa.Array) -> pa.Array:
        numbers = recorded.cast(pa.int64())
        room = pc.if_else(pc.greater(numbers, _MAX_INT64 - _MILLISECOND_REST), 0, _MILLISECOND_REST)
        return pc.add(numbers, room).cast(self.recorded_type)

    def exact(self, recorded: pa.Array) -> pa.BooleanArray:
        return _arrow_bits(np.zeros(len(recorded), np.bool_))

    def _microseconds(self, column: pa.Array) -> pa.Array:
        numbers = column.cast(pa.int64())
        if column.type.unit == "ns":
            floored = np.floor_divide(numbers.fill_null(0).to_numpy(zero_copy_only=False), 1000)
            return _arrow(floored, _flags(numbers.is_valid()), self.recorded_type)
        factor = {"us": 1, "ms": 1000, "s": 1_000_000}[column.type.unit]
        return pc.multiply_checked(numbers, factor).cast(self.recorded_type)


class WallClockRule(TimestampRule):
    """Timestamps without zone; also dates, where a date column was widened."""

    families = (pa.types.is_timestamp, pa.types.is_date32)

    def read_one(self, value: Any) -> dt.datetime | None:
        time = dt.datetime.fromisoformat(value)
        return time.replace(tzinfo=None) if time.utcoffset() in (None, dt.timedelta(0)) else None


def bounds_rule(field: StructField) -> BoundsRule | None:
    """The rule for a column; None for types that have no minimum and maximum."""
    data_type = field.data_type
    if isinstance(data_type, DecimalType):
        return DecimalRule(data_type)
    if not isinstance(data_type, PrimitiveType):
        return None
    if data_type in INTEGER_BITS:
        return IntegerRule(arrow_type(data_type))
    if data_type in (FLOAT, DOUBLE):
        was_float = any(change.from_type == FLOAT for change in type_changes(field))
        return FloatRule(arrow_type(data_type), was_float)
    plain = _PLAIN_RULES.get(data_type)
    return plain(arrow_type(data_type)) if plain else None


_PLAIN_RULES: dict[PrimitiveType, type[BoundsRule]] = {
    BOOLEAN: BooleanRule,
    STRING: StringRule,
    DATE: DateRule,
    TIMESTAMP: TimestampRule,
    TIMESTAMP_NTZ: WallClockRule,
}


def _floats(recorded: pa.Array) -> npt.NDArray[np.float64]:
    """Values with NaN for null."""
    return recorded.fill_null(math.nan).to_numpy(zero_copy_only=False)


def _flags(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    return mask.to_numpy(zero_copy_only=False)


def _arrow(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_], data_type: pa.DataType) -> pa.Array:
    """An array over the bytes of NumPy values; pa.array() would import pandas where it is installed."""
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return pa.Array.from_buffers(data_type, len(valid), [bitmap, data])


def _arrow_bits(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    data = pa.py_buffer(np.packbits(values, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, data])


def _decimals(unscaled: npt.NDArray[np.float64], valid: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Decimals of whole unscaled numbers: two's complement in two little-endian 64-bit words."""
    size = np.abs(unscaled)
    high = np.floor(size / 2.0**64)
    words = np.empty((len(unscaled), 2), np.uint64)
    words[:, 0] = (size - high * 2.0**64).astype(np.uint64)
    words[:, 1] = high.astype(np.uint64)
    negative = unscaled < 0
    words[negative] = ~words[negative]
    words[negative, 0] += np.uint64(1)
    words[negative & (words[:, 0] == 0), 1] += np.uint64(1)
    return _arrow(words, valid, kind)
