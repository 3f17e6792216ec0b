"""The statistics that the file index of the JVM asks for, when the filters of a query first need them.

Decoding the statistics of many files is dear, and most queries look at few columns. So the index asks by
column, over py4j's callback, and only for the files that are still in question. A failure costs speed and
not rows: the index then knows nothing and keeps the files.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from distributary.delta.log.active_files import FileSelection
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import StructType
from distributary.delta.statistics.file_statistics import FileStatistics
from distributary.spark.index_blob import encode_columns, hand_over

_log = logging.getLogger(__name__)

# As in FileStatistics.java: between the names of a path, and between paths.
_INSIDE, _NEXT = "\x1f", "\x1e"


class SkippingStatistics:
    """The statistics of some files by column, to be called from the JVM."""

    def __init__(
        self, files: FileSelection, schema: StructType, partitioning: tuple[str, ...], mode: ColumnMappingMode
    ) -> None:
        self._files = files
        self._pruner = FilePruner(schema, partitioning, mode)

    def apply(self, paths: str, wanted: bytes | None) -> bytearray | str:
        """Number of records, then minimum, maximum, null count and exactness of each path."""
        columns = [tuple(path.split(_INSIDE)) for path in paths.split(_NEXT)]
        try:
            found = self._columns(columns, None if wanted is None else self._mask(wanted))
        except Exception:  # nothing that fails here may fail a query
            _log.warning("statistics could not be read, no file is skipped by them", exc_info=True)
            found = [None] * (1 + 4 * len(columns))
        return hand_over(encode_columns(self._files.num_files, found))

    def _mask(self, wanted: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        bits = np.frombuffer(bytes(wanted), np.uint8)
        return np.unpackbits(bits, bitorder="little")[: self._files.num_files].astype(np.bool_)

    def _columns(self, paths: list[tuple[str, ...]], mask: Any) -> list[pa.Array | None]:
        files = self._files if mask is None else self._files.filter(mask)
        statistics = self._pruner.statistics(files)
        statistics.prepare(paths)
        found = [statistics.num_records]
        for path in paths:
            found.extend(_bounds(statistics, path, files.num_files))
        return found if mask is None else [_spread(column, mask) for column in found]

    class Java:
        """What py4j takes this for."""

        implements: ClassVar = ["java.util.function.BiFunction"]


def _bounds(statistics: FileStatistics, path: tuple[str, ...], count: int) -> list[pa.Array | None]:
    bounds = statistics.bounds(path)
    if bounds is None:
        return [None] * 4
    exact = pa.repeat(pa.scalar(bounds.exact), count) if isinstance(bounds.exact, bool) else bounds.exact
    return [bounds.minimum, bounds.maximum, bounds.null_count, exact]


def _spread(column: pa.Array | None, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array | None:
    """A column of the wanted files as one of all files, null for the others."""
    if column is None:
        return None
    places = np.cumsum(mask) - 1
    return column.take(pa.array(places, mask=~mask))
