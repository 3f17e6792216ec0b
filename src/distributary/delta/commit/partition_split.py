"""Rows divided by their partition values, and the directories that the parts go to.

Implements the writer's half of "Partition Value Serialization" (S4; PV-001 to PV-009, LW-007). Each part
has one text or null for every partition column; the empty string is null (PV-001), so both go together.

Directories are Hive's, as Spark writes them: ``column=value``, characters that a path cannot have as
``%XX``, null as ``__HIVE_DEFAULT_PARTITION__``. They are for people: the values that count are those in the
log. A name that is too long for a file system is replaced by a short random one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.delta.schema.data_types import StructField
from distributary.delta.schema.partition_values import format_partition_value

PartitionTexts = tuple[str | None, ...]

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset(map(chr, range(0x20))) | frozenset("\x7f\"#%'*/:=?\\{[]^")
_LONGEST_NAME = 240  # bytes; file systems allow 255
_RANDOM_NAMES = 26 * 26
_COUNTABLE = 1 << 20


def split_by_partition(
    rows: pa.RecordBatch, columns: Sequence[StructField]
) -> Iterator[tuple[PartitionTexts, pa.RecordBatch]]:
    """The rows of each partition, in their order; columns whose values the log keeps may be left out."""
    if not columns or not rows.num_rows:
        yield (), rows
        return
    codes, texts = _partition_codes(rows, columns)
    if len(texts) == 1:
        yield texts[0], rows
        return
    short = codes.astype(np.uint16) if len(texts) <= 1 << 16 else codes  # short ones are sorted by radix
    order = np.argsort(short, kind="stable")
    ordered = rows.drop_columns([field.name for field in columns]).take(_indices(order))
    sorted_codes = codes[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(sorted_codes)) + 1, [len(codes)]))
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        yield texts[int(sorted_codes[start])], ordered.slice(start, end - start)


def partition_directory(names: Sequence[str], texts: PartitionTexts) -> str:
    """The directory of a partition, with a slash at its end; none for a table without partitions."""
    segments = [
        f"{_escaped(name)}={HIVE_NULL if text is None else _escaped(text)}"
        for name, text in zip(names, texts, strict=True)
    ]
    if any(len(segment.encode()) > _LONGEST_NAME for segment in segments):
        segments = [random_directory()]
    return "".join(f"{segment}/" for segment in segments)


def random_directory() -> str:
    """One of a few hundred short names, which spread objects over a store's shards."""
    first, second = divmod(secrets.randbelow(_RANDOM_NAMES), 26)
    return chr(ord("a") + first) + chr(ord("a") + second)


def log_path(key: str) -> str:
    """The URI reference by which a log names a file of the table."""
    return quote(key, safe="/=")


def _partition_codes(
    rows: pa.RecordBatch, columns: Sequence[StructField]
) -> tuple[npt.NDArray[np.int64], list[PartitionTexts]]:
    """A number for each row, and the partition that each number stands for."""
    codes = np.zeros(rows.num_rows, np.int64)
    texts: list[PartitionTexts] = [()]
    for field in columns:
        column_codes, column_texts = _column_codes(rows.column(field.name), field)
        codes = codes * len(column_texts) + column_codes
        found, codes = _renumbered(codes, len(texts) * len(column_texts))
        pairs = (divmod(int(code), len(column_texts)) for code in found)
        texts = [(*texts[before], column_texts[here]) for before, here in pairs]
    return codes, texts


def _renumbered(
    codes: npt.NDArray[np.int64], limit: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The codes that occur, all of them below the limit, and each row's place among them."""
    if limit > _COUNTABLE:
        found, places = np.unique(codes, return_inverse=True)
        return found, places
    occurs = np.bincount(codes, minlength=limit) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _column_codes(values: pa.Array, field: StructField) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    encoded = values.dictionary_encode(null_encoding="encode")
    texts = [
        format_partition_value(value, field.data_type, column=field.name) for value in encoded.dictionary
    ]
    known: dict[str | None, int] = {}
    numbers = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    return numbers[encoded.indices.to_numpy(zero_copy_only=False)], list(known)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _indices(order: npt.NDArray[np.int64]) -> pa.Array:
    """An Arrow array over NumPy's own memory; pa.array() would import pandas where it is installed."""
    return pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
