"""Typed statistics as the JSON text of ``add.stats``, for many files at once.

The way back from ``stats_parsed``: some tables keep only that in their checkpoints, while readers of the
log, sharing recipients and other engines expect the text (S4 "Per-file Statistics"). Numbers and decimals
keep every digit, timestamps their microseconds where they have any beyond milliseconds. What is null is
left out; a file without any statistic has no text.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_CONTROL = "[\\x00-\\x1f]"


def render_statistics(statistics: pa.StructArray) -> pa.StringArray:
    """The text of each file's statistics, null where there are none."""
    return _object(statistics).cast(pa.string())


def _object(structs: pa.StructArray) -> pa.Array:
    """JSON objects without null members; null where nothing is left."""
    members = [
        _member(field.name, text)
        for at, field in enumerate(structs.type.fields)
        if (text := _json(pc.struct_field(structs, [at]))) is not None
    ]
    if not members:
        return pa.nulls(len(structs), pa.string())
    joined = pc.binary_join_element_wise(*members, "")
    objects = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), objects)


def _member(name: str, texts: pa.Array) -> pa.Array:
    """A comma, the name and the value; nothing where the value is null."""
    key = msgspec.json.encode(name).decode()
    return pc.binary_join_element_wise(f",{key}:", texts, "").fill_null("")


def _json(values: pa.Array) -> pa.Array | None:
    """The JSON text of each value; None for a type that statistics do not have."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _object(values)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_text(values)
    if pa.types.is_date(kind):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        return _quoted(_timestamp_text(values))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _string_text(values.cast(pa.string()))
    return None


def _float_text(values: pa.Array) -> pa.Array:
    """The shortest text that gives the same number; what JSON has no number for stands in quotes."""
    texts = values.cast(pa.string())
    if not pc.any(pc.invert(pc.is_finite(values))).as_py():
        return texts
    texts = pc.if_else(pc.is_nan(values), '"NaN"', texts)
    texts = pc.if_else(pc.equal(values, float("inf")), '"Infinity"', texts)
    return pc.if_else(pc.equal(values, float("-inf")), '"-Infinity"', texts)


def _timestamp_text(values: pa.Array) -> pa.Array:
    """ISO 8601 with milliseconds, or microseconds where they are needed; `Z` for instants."""
    zone = "" if values.type.tz is None else "Z"
    wall = values.cast(pa.timestamp("us"), safe=False)
    whole = pc.equal(pc.subtract(wall.cast(pa.int64()), _floored(wall)), 0)
    milliseconds = pc.floor_temporal(wall, unit="millisecond").cast(pa.timestamp("ms"), safe=False)
    texts = pc.if_else(whole, milliseconds.cast(pa.string()), wall.cast(pa.string()))
    return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), zone, "")


def _floored(wall: pa.Array) -> pa.Array:
    return pc.floor_temporal(wall, unit="millisecond").cast(pa.int64())


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _string_text(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        encode = msgspec.json.encode
        return pa.array(
            [None if text is None else encode(text).decode() for text in texts.to_pylist()], pa.string()
        )
    return _quoted(pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"'))
