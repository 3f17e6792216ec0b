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

    @classmethod
    def of(cls, bitmaps: Sequence[BitMap64 | None]) -> DeletedRows | None:
        """The deleted rows of files in their order; None where no file has any."""
        spans = [bitmap.max() + 1 if bitmap else 0 for bitmap in bitmaps]
        if not any(spans):
            return None
        *bases, end = accumulate((_rounded(span) for span in spans), initial=0)
        joined = _joined(bitmaps, bases, wide=end > _INT_PLACES)
        return cls(pa.array(bases, pa.int64()), pa.array([span - 1 for span in spans], pa.int64()), joined)

    def live(self, spark: SparkSession, base: Column, last: Column, row: Column) -> Column:
        """The filter that keeps the rows that are not in the bitmap."""
        return (row > last) | ~self._contains(spark, base, row)

    def only(self, spark: SparkSession, base: Column, last: Column, row: Column) -> Column:
        """The filter that keeps the rows that are in the bitmap."""
        return (row <= last) & self._contains(spark, base, row)

    def _contains(self, spark: SparkSession, base: Column, row: Column) -> Column:
        wide = isinstance(self.bitmap, BitMap64)
        place = (base + row) if wide else (base + row).cast("int")
        return bitmap_contains(spark, self.bitmap.serialize(), place, wide=wide)


def read_bitmaps(
    vectors: Sequence[DeletionVectorDescriptor | None], read_range: ReadRange
) -> list[BitMap64 | None]:
    """The deleted rows of each file, read several at once."""
    bitmaps: list[BitMap64 | None] = [None] * len(vectors)
    found = [(at, vector) for at, vector in enumerate(vectors) if vector is not None]
    if found:
        with ThreadPoolExecutor(_READERS) as readers:
            read = readers.map(lambda pair: read_deletion_vector(pair[1], read_range), found)
            for (at, _), bitmap in zip(found, read, strict=True):
                bitmaps[at] = bitmap
    return bitmaps


def _rounded(span: int) -> int:
    return -(-span // _CONTAINER) * _CONTAINER


def _joined(bitmaps: Sequence[BitMap64 | None], bases: Sequence[int], *, wide: bool) -> BitMap | BitMap64:
    """All bitmaps in one, each moved to its base."""
    placed = [(rows, base) for rows, base in zip(bitmaps, bases, strict=True) if rows]
    if wide:
        return BitMap64.union(*(_moved(rows, base) for rows, base in placed))
    return BitMap.union(*(_narrow(rows).shift(base) for rows, base in placed))


def _moved(rows: BitMap64, start: int) -> BitMap64:
    return BitMap64(row + start for row in rows)


def _narrow(rows: BitMap64) -> BitMap:
    """A bitmap all of whose rows are below 2^32: the one bucket of its serialised form."""
    return BitMap.deserialize(rows.serialize()[12:])
