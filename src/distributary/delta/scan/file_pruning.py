"""Which files of a snapshot can hold rows that a predicate wants.

Pruning goes in steps, cheap before dear: partition values first, which are exact; then
statistics, read and parsed only for the files that are left and the columns that the
predicate names, and for many files minima and maxima before everything else. A file is
dropped only when no row of it can match (ST-007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.delta.statistics.file_statistics import FileStatistics, StatisticsSegment
from distributary.expressions.pruning import ColumnBounds, Decision, prune
from distributary.expressions.tree import Expression, columns_of

LeafPath = tuple[str, ...]

# With more files than this, those whose ranges cannot match are sorted out before the rest is read.
_MANY_FILES = 10_000


class PrunedFiles:
    """The files that may hold wanted rows, and of which it is known that every row is wanted."""

    def __init__(
        self,
        files: FileSelection,
        all_match: pa.BooleanArray,
        read_statistics: Callable[[FileSelection], FileStatistics],
    ) -> None:
        self.files = files
        self.all_match = all_match
        self._read_statistics = read_statistics

    @cached_property
    def statistics(self) -> FileStatistics:
        """The statistics of the files, read when they are asked for."""
        return self._read_statistics(self.files)

    def num_records(self) -> pa.Array:
        """The physical rows of each file, null where the log does not say."""
        return self.statistics.num_records

    def live_records(self) -> pa.Array:
        """The rows of each file that are not deleted, null where the log does not say."""
        deleted = self.files.column("deletionVector", "cardinality").combine_chunks()
        return pc.subtract(self.num_records(), pc.fill_null(deleted, 0))


class FilePruner:
    """Prunes files of one table."""

    def __init__(self, schema: StructType, partitioning: Sequence[str], mode: ColumnMappingMode) -> None:
        self._schema = schema
        self._partitioning = frozenset(partitioning)
        self._mode = mode

    def prune(self, files: FileSelection, predicate: Expression | None) -> PrunedFiles:
        """Keep the files that may match a bound predicate."""
        if predicate is None:
            return PrunedFiles(files, _repeat(True, files.num_files), self.statistics)
        columns = {path for path in columns_of(predicate) if path}
        stored = {path for path in columns if path[0] not in self._partitioning}
        if not stored:
            return self._decided(files, prune(predicate, self._bounds(files, None)))
        if len(stored) < len(columns):
            files = files.filter(prune(predicate, self._bounds(files, None)).may_match)
        if files.num_files > _MANY_FILES:
            ranges = ColumnRanges(self.statistics(files), stored)
            files = files.filter(prune(predicate, self._bounds(files, ranges)).may_match)
        statistics = self.statistics(files)
        statistics.prepare(stored)
        return self._decided(files, prune(predicate, self._bounds(files, statistics)))

    def _decided(self, files: FileSelection, decision: Decision) -> PrunedFiles:
        matches = pc.filter(pa.array(decision.all_match), pa.array(decision.may_match))
        return PrunedFiles(files.filter(decision.may_match), matches, self.statistics)

    def num_records(self, files: FileSelection, texts: pa.ChunkedArray) -> pa.Array:
        """The physical rows of each file, where the texts of its statistics have been read already."""
        segments: list[StatisticsSegment] = []
        start = 0
        for block in files.blocks:
            segments.append(statistics_segment(block, texts.slice(start, block.num_files)))
            start += block.num_files
        return FileStatistics(segments, self._schema, self._mode).num_records

    def _bounds(
        self, files: FileSelection, statistics: FileStatistics | ColumnRanges | None
    ) -> SelectionBounds:
        return SelectionBounds(files, self._schema, self._partitioning, self._mode, statistics)

    def statistics(self, files: FileSelection) -> FileStatistics:
        """The statistics of files, read when they are asked for."""
        return FileStatistics([statistics_segment(block) for block in files.blocks], self._schema, self._mode)


class ColumnRanges:
    """The minima and maxima of some columns; the rest of the statistics counts as unknown."""

    num_records: pa.Array | None = None

    def __init__(self, statistics: FileStatistics, columns: Iterable[LeafPath]) -> None:
        statistics.prepare_ranges(columns)
        self.bounds = statistics.ranges


class SelectionBounds:
    """`FileBounds` over selected files: partition values, and statistics where they are given."""

    def __init__(
        self,
        files: FileSelection,
        schema: StructType,
        partitioning: frozenset[str],
        mode: ColumnMappingMode,
        statistics: FileStatistics | ColumnRanges | None,
    ) -> None:
        self._files = files
        self._schema = schema
        self._partitioning = partitioning
        self._mode = mode
        self._statistics = statistics
        self.num_files = files.num_files

    @cached_property
    def num_records(self) -> pa.Array | None:
        """The physical rows of each file."""
        return None if self._statistics is None else self._statistics.num_records

    def partition_values(self, column: str) -> pa.Array | None:
        """The values of a partition column."""
        if column not in self._partitioning:
            return None
        field = self._schema.field(column)
        texts = self._files.partition_values(physical_name(field, self._mode))
        return parse_partition_column(texts, field.data_type, column=column)

    def bounds(self, path: LeafPath) -> ColumnBounds | None:
        """The bounds of a data column."""
        if self._statistics is None or path[0] in self._partitioning:
            return None
        return self._statistics.bounds(path)


class _ParsedStatistics(Mapping[LeafPath, pa.ChunkedArray]):
    """The leaves of `stats_parsed` of one block, read when asked for."""

    def __init__(self, block: FileBlock) -> None:
        self._block = block

    def __getitem__(self, path: LeafPath) -> pa.ChunkedArray:
        leaf = ("stats_parsed", *path)
        if not self._block.rows.has("add", leaf):
            raise KeyError(path)
        return self._block.column(leaf)

    def __iter__(self) -> Iterator[LeafPath]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _StatisticsTexts:
    """The statistics of one block as texts, read as they are taken and not kept."""

    def __init__(self, block: FileBlock) -> None:
        self._block = block

    @property
    def chunks(self) -> Iterator[pa.Array]:
        """Some texts at a time."""
        return (chunk for part in self._block.stream(("stats",)) for chunk in part.chunks)


def statistics_segment(block: FileBlock, texts: pa.ChunkedArray | None = None) -> StatisticsSegment:
    """Typed statistics where every file has them, otherwise the texts (and what is typed)."""
    parsed = None
    if block.rows.has("add", ("stats_parsed", "numRecords")):
        parsed = _ParsedStatistics(block)
        if parsed["numRecords",].null_count == 0:
            return StatisticsSegment(block.num_files, None, parsed)
    return StatisticsSegment(block.num_files, _StatisticsTexts(block) if texts is None else texts, parsed)


def _repeat(value: bool, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), count)
