"""Z-order: rows in the order of a curve that keeps close in many columns what is close in each.

A column's values are replaced by numbers of ranges that hold about as many rows each, found from a sample,
so that skewed and clustered values spread evenly; the bits of these numbers, the highest of each column
first, make one number by which rows are divided into files and sorted. Nulls come first.

The ranges are looked up by `java.util.Arrays.binarySearch`, called through Catalyst's own expressions, so
that no Python runs beside the JVM and executors need no class of ours. Rows are moved once: the sample also
tells where the files begin.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from distributary.delta.schema.data_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from distributary.errors import InvalidInputError
from distributary.spark.range_lookup import RangeKind, place_in

SAMPLE_ROWS: Final = 100_000
_MOST_BITS: Final = 62
_BITS_A_COLUMN: Final = 10
_Z: Final = "__distributary_z"


class CurveColumn(msgspec.Struct, frozen=True):
    """A column of the curve: its value as a number or text that sorts like it."""

    value: Column
    kind: RangeKind

    @classmethod
    def of(cls, column: Column, data_type: DataType, name: str) -> CurveColumn:
        """The column of a value of a type; refused where values have no order to cluster by."""
        if data_type in INTEGER_BITS:
            return cls(column.cast("long"), RangeKind.LONG)
        if data_type in (FLOAT, DOUBLE) or isinstance(data_type, DecimalType):
            return cls(column.cast("double"), RangeKind.DOUBLE)
        if data_type == STRING:
            return cls(column, RangeKind.TEXT)
        if data_type == DATE:
            return cls(F.unix_date(column).cast("long"), RangeKind.LONG)
        if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            return cls(F.unix_micros(column.cast("timestamp")), RangeKind.LONG)
        if data_type == BOOLEAN:
            return cls(column.cast("int").cast("long"), RangeKind.LONG)
        raise InvalidInputError(f"rows cannot be ordered by {name}: it is {data_type}")


class _Ranges(msgspec.Struct, frozen=True):
    """The ranges of each column, and how many bits number them."""

    bits: int
    bounds: tuple[tuple[Any, ...], ...]


def z_ordered(rows: DataFrame, columns: Sequence[CurveColumn], num_files: int, num_rows: int) -> DataFrame:
    """The rows divided into so many parts, each a stretch of the curve, sorted along it."""
    sample = _sample(rows, columns, num_rows)
    ranges = _ranges(sample, len(columns))
    placed = rows.withColumn(_Z, _z_value(rows, columns, ranges))
    if num_files > 1:
        bounds = _quantiles(sorted(_z_of(sampled, ranges) for sampled in sample), num_files)
        placed = _divided(placed, bounds, num_files)
    else:
        placed = placed.coalesce(1)
    return placed.sortWithinPartitions(_Z).drop(_Z)


def _divided(placed: DataFrame, bounds: Sequence[int], num_files: int) -> DataFrame:
    part = place_in(placed.sparkSession, F.col(_Z), RangeKind.LONG, bounds)
    if hasattr(placed, "repartitionById"):
        return placed.repartitionById(num_files, part.cast("int"))
    return placed.repartitionByRange(num_files, F.col(_Z))


def _sample(rows: DataFrame, columns: Sequence[CurveColumn], num_rows: int) -> list[tuple[Any, ...]]:
    """The values of the columns in a part of the rows that the driver can hold."""
    fraction = min(1.0, SAMPLE_ROWS / max(num_rows, 1))
    values = rows.select(*[column.value.alias(f"c{at}") for at, column in enumerate(columns)])
    taken = values if fraction >= 1.0 else values.sample(fraction=fraction, seed=17)
    found = taken.limit(2 * SAMPLE_ROWS).toArrow()
    return list(zip(*[column.to_pylist() for column in found.columns], strict=True))


def _ranges(sample: Sequence[tuple[Any, ...]], num_columns: int) -> _Ranges:
    bits = max(min(_BITS_A_COLUMN, _MOST_BITS // num_columns), 1)
    columns = ([row[at] for row in sample if row[at] is not None] for at in range(num_columns))
    return _Ranges(bits, tuple(tuple(_quantiles(sorted(values), (1 << bits) - 1)) for values in columns))


def _quantiles(ordered: Sequence[Any], parts: int) -> list[Any]:
    """Values that divide ordered ones into so many parts, each value once."""
    if not ordered:
        return []
    places = np.unique((np.arange(1, parts) * len(ordered)) // parts)
    found: list[Any] = []
    for at in places.tolist():
        value = ordered[min(at, len(ordered) - 1)]
        if not found or value != found[-1]:
            found.append(value)
    return found


def _z_value(rows: DataFrame, columns: Sequence[CurveColumn], ranges: _Ranges) -> Column:
    """The number of a row on the curve, as Spark computes it."""
    spark = rows.sparkSession
    numbers = [
        F.when(column.value.isNull(), F.lit(0)).otherwise(
            place_in(spark, column.value, column.kind, bounds) + F.lit(1)
        )
        for column, bounds in zip(columns, ranges.bounds, strict=True)
    ]
    numbered = F.lit(0).cast("long")
    for at, number in enumerate(numbers):
        for bit in range(ranges.bits):
            one = F.shiftright(number.cast("long"), bit).bitwiseAND(F.lit(1).cast("long"))
            numbered = numbered.bitwiseOR(F.shiftleft(one, _place(bit, at, len(columns))))
    return numbered


def _z_of(values: Sequence[Any], ranges: _Ranges) -> int:
    """The same for a row of the sample."""
    number = 0
    for at, (value, bounds) in enumerate(zip(values, ranges.bounds, strict=True)):
        found = 0 if value is None else bisect.bisect_left(bounds, value) + 1
        for bit in range(ranges.bits):
            number |= (found >> bit & 1) << _place(bit, at, len(values))
    return number


def _place(bit: int, column: int, num_columns: int) -> int:
    """Where a bit of a column stands: the first column's are the higher ones among equals."""
    return bit * num_columns + (num_columns - 1 - column)
