"""The source of a merge, held still: read several times, it must give the same rows each time.

Rows of files or literal rows are kept for the time of the merge, so that they are computed once; anything
whose rows might differ from one reading to the next is cut off from where it came from, so that a part that
gets lost fails the merge instead of being computed anew with other values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.spark.resolved_columns import is_literal, is_repeatable

# Up to this size a source is sent to every task rather than that the table's rows are moved.
_SMALL: Final = 32 * 1024 * 1024
_NEVER: Final = "-1"


@contextmanager
def held_source(source: DataFrame) -> Iterator[DataFrame]:
    """The same rows as often as they are asked for."""
    if not is_repeatable(source):
        yield source.localCheckpoint(eager=True)
    elif is_literal(source):
        yield source
    else:
        held = source.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield held
        finally:
            held.unpersist()


def summary(source: DataFrame, values: Sequence[Column]) -> tuple[int, list[tuple[Any, Any]]]:
    """How many rows a source has, and the least and greatest of some values; runs one job."""
    bounds = [bound for value in values for bound in (sf.min(value), sf.max(value))]
    table = source.agg(sf.count(sf.lit(1)), *bounds).toArrow()
    row = [table.column(at)[0] for at in range(table.num_columns)]
    pairs = [(row[at], row[at + 1]) for at in range(1, len(row), 2)]
    return int(row[0].as_py()), pairs


def small_or_not(source: DataFrame, num_rows: int) -> DataFrame:
    """The source with the hint to send it to every task, where it is small and the session lets that be."""
    if source.sparkSession.conf.get("spark.sql.autoBroadcastJoinThreshold") == _NEVER:
        return source
    width: Any = source._jdf.schema().defaultSize()  # pyright: ignore
    return sf.broadcast(source) if num_rows * int(width) <= _SMALL else source
