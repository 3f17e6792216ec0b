"""Text as values of a table's types: what CSV files hold, and what JSON writes as strings.

The forms are those that the command line writes: numbers, `true` and `false`, ISO 8601 dates and timestamps
(UTC where a timestamp has no zone), base64 for binary, JSON for nested values. A text that is not exactly a
value of its type (a fraction in a whole number, a digit too many in a decimal) is refused, never rounded.
Whole columns are converted at once; the row at fault is looked for only when that fails.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    DataType,
    DecimalType,
)

_WHOLE_NUMBER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INFINITY = r"(?i)^[+-]?inf(inity)?$"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_DAY_ALONE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_SHOWN = 60


class UnreadableValueError(Exception):
    """A value that is none of its type, and which one of the values it is; never leaves the command line."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def typed_text(texts: pa.Array, data_type: DataType) -> pa.Array:
    """The values that texts stand for; an empty text is null except where the type is text itself."""
    if data_type in (STRING, VARIANT):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    known = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    convert = _converter(data_type)
    try:
        return convert(known)
    except (pa.ArrowException, ValueError):
        at = _first_at_fault(known, convert)
        raise UnreadableValueError(at, f"{shown(texts[at].as_py())} is no {data_type}") from None


def shown(value: object) -> str:
    """A value as it may stand in a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _converter(data_type: DataType) -> Callable[[pa.Array], pa.Array]:
    wanted = arrow_type(data_type)
    if data_type in INTEGER_BITS:
        return lambda texts: _without_plus(_matching(texts, _WHOLE_NUMBER)).cast(wanted)
    if isinstance(data_type, DecimalType):
        return lambda texts: _without_plus(_matching(texts, _NUMBER)).cast(wanted)
    if data_type in (FLOAT, DOUBLE):
        return lambda texts: _floats(texts, wanted)
    if data_type == TIMESTAMP:
        return lambda texts: _zoned(texts).cast(wanted)
    if data_type == BINARY:
        return lambda texts: pa.array([_bytes(text) for text in texts.to_pylist()], wanted)
    if data_type in (BOOLEAN, DATE, TIMESTAMP_NTZ):
        return lambda texts: texts.cast(wanted)
    return _nothing_but_null


def _matching(texts: pa.Array, form: str) -> pa.Array:
    if pc.any(pc.invert(pc.match_substring_regex(texts, form))).as_py():
        raise ValueError
    return texts


def _without_plus(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^\+", "")


def _floats(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    numbers = _without_plus(texts).cast(wanted)
    overflown = pc.and_(pc.is_inf(numbers), pc.invert(pc.match_substring_regex(texts, _INFINITY)))
    if pc.any(overflown).as_py():
        raise ValueError
    return numbers


def _zoned(texts: pa.Array) -> pa.Array:
    """Timestamps with their zone, UTC where none is written; Arrow wants a time of day before it."""
    days = pc.match_substring_regex(texts, _DAY_ALONE)
    timed = pc.if_else(days, pc.binary_join_element_wise(texts, "T00:00:00Z", ""), texts)
    zoned = pc.match_substring_regex(timed, _ZONE)
    return pc.if_else(zoned, timed, pc.binary_join_element_wise(timed, "Z", ""))


def _bytes(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError from error


def _nothing_but_null(texts: pa.Array) -> pa.Array:
    if texts.null_count < len(texts):
        raise ValueError
    return pa.nulls(len(texts))


def _first_at_fault(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> int:
    """Halve the range until one text is left that cannot be converted."""
    start, length = 0, len(texts)
    while length > 1:
        half = length // 2
        if _converts(texts.slice(start, half), convert):
            start, length = start + half, length - half
        else:
            length = half
    return start


def _converts(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> bool:
    try:
        convert(texts)
    except (pa.ArrowException, ValueError):
        return False
    return True
