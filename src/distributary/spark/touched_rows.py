"""The rows that a change touches: which rows of which files, found on the executors and brought back small.

A frame with positions (the ordinal of a row's file, the number of the row in it) is gathered by Spark's own
aggregates into bitmaps of 32,768 rows each, so that the driver gets one bit a row where many rows are
touched and no Python runs beside the JVM. The bitmaps are put together per file as the sets of which
deletion vectors are made.
"""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.spark.rule_violation import violation_in
from distributary.spark.table_scan import FILE_ORDINAL, ROW_INDEX

_BUCKET_BITS: Final = 15
_POSITION_MASK: Final = (1 << _BUCKET_BITS) - 1
_BUCKET: Final = "bucket"
_BITMAP: Final = "bitmap"
_MATCHES: Final = "matches"
_MATCHED: Final = "matched"


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """The touched rows of each file, by the file's ordinal.

    `matches` is how often a row was matched, `matched` how many rows were: fewer where some row was matched
    twice. `counts` says how often each of some conditions holds.
    """

    by_file: Mapping[int, BitMap64]
    matches: int
    matched: int
    counts: Mapping[str, int]


def collect_touched(
    frame: DataFrame,
    touched: Column | None = None,
    *,
    matched: Column | None = None,
    counts: Mapping[str, Column] | None = None,
) -> TouchedRows:
    """The rows of a frame with positions for which `touched` holds (all by default); runs one job.

    `matched` says which rows of the frame are to be counted as matches, where that is more than is touched.
    """
    row = sf.col(ROW_INDEX)
    place = row.bitwiseAND(sf.lit(_POSITION_MASK))
    hit = place if touched is None else sf.when(touched, place)
    matches = (
        {_MATCHES: sf.count(hit)}
        if matched is None
        else {
            _MATCHES: sf.count_if(matched),
            _MATCHED: sf.bitmap_count(sf.bitmap_construct_agg(sf.when(matched, place))),
        }
    )
    # An aggregate over objects beside the bitmaps makes Spark hash the groups instead of sorting every row;
    # this one collects nothing.
    hashed = sf.collect_list(sf.lit(None).cast("int"))
    conditions = dict(counts or {})
    gathered = frame.groupBy(FILE_ORDINAL, sf.shiftright(row, _BUCKET_BITS).alias(_BUCKET)).agg(
        sf.bitmap_construct_agg(hit).alias(_BITMAP),
        hashed.alias("nothing"),
        *(value.alias(name) for name, value in matches.items()),
        *(sf.count_if(condition).alias(name) for name, condition in conditions.items()),
    )
    return _touched(_collected(gathered.drop("nothing")), list(conditions))


def count_touched(frame: DataFrame) -> dict[int, int]:
    """How many rows of each file, by its ordinal, a frame with positions has; runs one job."""
    counted = _collected(frame.groupBy(FILE_ORDINAL).count())
    return dict(sorted(zip(*(column.to_pylist() for column in counted.columns), strict=True)))


def _collected(frame: DataFrame) -> pa.Table:
    """Run the job; a value that does not fit its column is raised as the engine's error."""
    try:
        return frame.toArrow()
    except Exception as error:
        violation = violation_in(error)
        if violation is not None:
            raise violation from error
        raise


def _touched(gathered: pa.Table, counted: Sequence[str]) -> TouchedRows:
    totals = {name: _sum(gathered, name) for name in counted}
    parts: dict[int, list[Any]] = {}
    columns = [gathered.column(name).to_pylist() for name in (FILE_ORDINAL, _BUCKET, _BITMAP)]
    for ordinal, bucket, bits in zip(*columns, strict=True):
        rows = bucket_rows(bucket, bits)
        if len(rows):
            parts.setdefault(ordinal, []).append(rows)
    by_file = {ordinal: _bitmap(parts[ordinal]) for ordinal in sorted(parts)}
    matches = _sum(gathered, _MATCHES)
    matched = _sum(gathered, _MATCHED) if _MATCHED in gathered.column_names else matches
    return TouchedRows(by_file, matches, matched, totals)


def bucket_rows(bucket: int, bits: bytes) -> Any:
    """The row numbers of one bitmap of Spark, whose first bit is the lowest of the first byte."""
    places = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    return places.astype(np.uint64) + np.uint64(bucket << _BUCKET_BITS)


def _bitmap(parts: Sequence[Any]) -> BitMap64:
    rows = np.concatenate(parts)
    return BitMap64(array.array("Q", rows.tobytes()))


def _sum(table: pa.Table, name: str) -> int:
    return int(table.column(name).to_numpy().sum())
