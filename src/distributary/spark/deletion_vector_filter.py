"""Deletion vectors on Spark: one bitmap for all files of a scan, asked row by row.

The rows of a table's files that have deletion vectors are numbered through: each such file has a base, and
base plus the row's number inside the file is its place in one Roaring bitmap. The bitmap is broadcast, and
a filter of Catalyst's own parts (``Invoke``) asks it, so that executors need no class of ours.

A file has its base and the number of its last deleted row as constant columns; rows after that one are
never looked up, so a place can never be mistaken for one of the next file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
from pyroaring import BitMap, BitMap64
from pyspark.sql import Column, SparkSession

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, ReadRange, read_deletion_vector
from distributary.spark.jvm import bitmap_contains

# Bases are multiples of the size of a Roaring container, so that bitmaps are put together container-wise.
_CONTAINER = 1 << 16
_INT_PLACES = 1 << 31
_READERS = min(32, 4 * (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The deleted rows of all files: base and last deleted row of each (-1 without any), and one bitmap."""

    bases: pa.Array
    lasts: pa.Array
    bitmap: BitMap | BitMap64

    def live(self, spark: SparkSession, base: Column, last: Column, row: Column) -> Column:
        """The filter that keeps the rows that are not deleted."""
        wide = isinstance(self.bitmap, BitMap64)
        place = (base + row) if wide else (base + row).cast("int")
        return (row > last) | ~bitmap_contains(spark, self.bitmap.serialize(), place, wide=wide)


def read_deleted_rows(
    vectors: Sequence[DeletionVectorDescriptor | None], read_range: ReadRange
) -> DeletedRows | None:
    """The deleted rows of files in the order of their deletion vectors; None where no file has any."""
    found = [at for at, vector in enumerate(vectors) if vector is not None]
    if not found:
        return None
    with ThreadPoolExecutor(_READERS) as readers:
        bitmaps = list(readers.map(lambda at: _read(vectors[at], read_range), found))
    lasts, bases = [-1] * len(vectors), [0] * len(vectors)
    spans = [bitmap.max() + 1 if len(bitmap) else 0 for bitmap in bitmaps]
    starts = list(accumulate((_rounded(span) for span in spans), initial=0))
    for at, span, start in zip(found, spans, starts, strict=False):
        lasts[at], bases[at] = span - 1, start
    joined = _joined(bitmaps, starts, wide=starts[-1] > _INT_PLACES)
    return DeletedRows(pa.array(bases, pa.int64()), pa.array(lasts, pa.int64()), joined)


def _read(vector: DeletionVectorDescriptor | None, read_range: ReadRange) -> BitMap64:
    assert vector is not None
    return read_deletion_vector(vector, read_range)


def _rounded(span: int) -> int:
    return -(-span // _CONTAINER) * _CONTAINER


def _joined(bitmaps: Sequence[BitMap64], starts: Sequence[int], *, wide: bool) -> BitMap | BitMap64:
    """All bitmaps in one, each moved to its base."""
    if wide:
        return BitMap64.union(
            BitMap64(), *(_moved(rows, start) for rows, start in zip(bitmaps, starts, strict=False))
        )
    moved = (_narrow(rows).shift(start) for rows, start in zip(bitmaps, starts, strict=False) if len(rows))
    return BitMap.union(BitMap(), *moved)


def _moved(rows: BitMap64, start: int) -> BitMap64:
    return BitMap64(row + start for row in rows)


def _narrow(rows: BitMap64) -> BitMap:
    """A bitmap all of whose rows are below 2^32: the one bucket of its serialised form."""
    return BitMap.deserialize(rows.serialize()[12:])
