"""The file list of a snapshot as bytes: Arrow's own buffers, one column after the other.

The driver's JVM reads them in place (FileColumn.java). Each column is its kind, precision and scale,
then validity, offsets and data, each with its length; all numbers are little-endian.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_KINDS = {
    pa.bool_(): 0,
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 3,
    pa.date32(): 3,
    pa.int64(): 4,
    pa.timestamp("us"): 4,
    pa.timestamp("us", "UTC"): 4,
    pa.float32(): 5,
    pa.float64(): 6,
    pa.string(): 7,
    pa.binary(): 8,
}
_STRING, _BINARY, _DECIMAL, _NOTHING = 7, 8, 9, 10
# Above this a file is quicker than py4j, which sends bytes as base64 text.
_LARGEST_MESSAGE = 1 << 20


def encode_columns(num_files: int, columns: Sequence[pa.Array | pa.ChunkedArray | None]) -> bytes:
    """The bytes of columns of so many values each; None for a column without any value."""
    parts: list[Any] = [struct.pack("<i", num_files)]
    for column in columns:
        parts.extend(_column(column))
    return b"".join(parts)


def hand_over(blob: bytes) -> bytearray | str:
    """What to give to the JVM: the bytes themselves, or the name of a file that it reads and deletes."""
    if len(blob) <= _LARGEST_MESSAGE:
        return bytearray(blob)
    with tempfile.NamedTemporaryFile(prefix="distributary-files-", delete=False) as file:
        file.write(blob)
    return file.name


def _column(column: pa.Array | pa.ChunkedArray | None) -> list[Any]:
    if column is None:
        return [struct.pack("<biiiii", _NOTHING, 0, 0, 0, 0, 0)]
    array = _one_array(column)
    kind, precision, scale = _kind(array.type)
    validity, *rest = array.buffers()
    offsets, data = rest if kind in (_STRING, _BINARY) else (None, rest[0])
    parts: list[Any] = [struct.pack("<bii", kind, precision, scale)]
    for buffer in (validity if array.null_count else None, offsets, data):
        content = b"" if buffer is None else memoryview(buffer)
        parts.extend((struct.pack("<i", len(content)), content))
    return parts


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column in one piece that starts at its buffers' start."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _kind(data_type: pa.DataType) -> tuple[int, int, int]:
    if pa.types.is_decimal128(data_type):
        return _DECIMAL, data_type.precision, data_type.scale
    return _KINDS[data_type], 0, 0
