"""The statistics of all files of a snapshot, as bounds for pruning.

Statistics come as JSON texts (from commits and most checkpoints) or as the typed leaf columns of
``stats_parsed`` (from checkpoints that have them); a snapshot may mix both, so files come in segments.
Columns are addressed by logical names here and by physical names inside statistics. Nothing is decoded
before it is asked for, and then for all files at once ("Per-file Statistics" of the Delta protocol).

Guarantees: bounds are safe and inclusive (see value_bounds); what is missing, unreadable, or only
meaningful with tight bounds is null, which never prunes (ST-001, ST-007, ST-009). ``nullCounts`` is read
like ``nullCount`` (C-15).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import StructType
from distributary.delta.statistics.json_statistics import LeafPath, Texts, read_json_statistics
from distributary.delta.statistics.value_bounds import BooleanRule, BoundsRule, IntegerRule, bounds_rule
from distributary.expressions.pruning import ColumnBounds

_NUM_RECORDS: LeafPath = ("numRecords",)
_TIGHT_BOUNDS: LeafPath = ("tightBounds",)
_COUNT_RULE = IntegerRule(pa.int64())
_FLAG_RULE = BooleanRule(pa.bool_())


@dataclass(frozen=True, slots=True)
class StatisticsSegment:
    """Consecutive files of one source: their JSON texts, their typed leaf columns, or both.

    ``parsed`` maps paths inside ``stats_parsed``, e.g. ``("minValues", "a")``, to columns of one entry a
    file. INT96 columns must have been read as microseconds. Files without typed values fall back to their
    text.
    """

    num_files: int
    texts: Texts | None = None
    parsed: Mapping[LeafPath, pa.ChunkedArray] | None = None


@dataclass(frozen=True, slots=True)
class _Column:
    """A column whose statistics can be asked for: its path inside statistics and how to read it."""

    path: LeafPath
    rule: BoundsRule | None

    def leaves(self) -> dict[LeafPath, BoundsRule]:
        counts: dict[LeafPath, BoundsRule] = {
            (key, *self.path): _COUNT_RULE for key in ("nullCount", "nullCounts")
        }
        return counts | self.values()

    def values(self) -> dict[LeafPath, BoundsRule]:
        if self.rule is None:
            return {}
        return {(key, *self.path): self.rule for key in ("minValues", "maxValues")}


class FileStatistics:
    """Row counts and column bounds of many files, one entry a file."""

    def __init__(
        self, segments: Sequence[StatisticsSegment], schema: StructType, mode: ColumnMappingMode
    ) -> None:
        self._segments = tuple(segments)
        self._schema = schema
        self._mode = mode
        self._recorded: dict[LeafPath, pa.Array] = {}
        self.num_files = sum(segment.num_files for segment in segments)

    @classmethod
    def from_json(
        cls,
        texts: pa.Array | pa.ChunkedArray,
        schema: StructType,
        mode: ColumnMappingMode = ColumnMappingMode.NONE,
    ) -> FileStatistics:
        """Statistics of files that have only texts."""
        column = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
        return cls([StatisticsSegment(len(column), column)], schema, mode)

    @property
    def num_records(self) -> pa.Array:
        """Physical rows of each file, null where unknown; rows of deletion vectors still count."""
        self.prepare(())
        return self._count(_NUM_RECORDS)

    def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Bounds of a column by its logical path; None when statistics cannot have it."""
        column = self._column(path)
        if column is None:
            return None
        self.prepare([path])
        minimum, maximum = self._values(column, "minValues"), self._values(column, "maxValues")
        if column.rule is None or minimum is None or maximum is None:
            return ColumnBounds(
                minimum=None, maximum=None, null_count=self._null_count(column), exact=self._tight()
            )
        whole = pc.and_(column.rule.exact(minimum), column.rule.exact(maximum)).fill_null(False)
        return ColumnBounds(
            minimum=column.rule.minimum(minimum),
            maximum=column.rule.maximum(maximum),
            null_count=self._null_count(column),
            exact=pc.and_(self._tight(), whole),
        )

    def prepare(self, paths: Iterable[tuple[str, ...]]) -> None:
        """Decodes several columns in one pass over the texts; :meth:`bounds` then only looks up."""
        wanted: dict[LeafPath, BoundsRule] = {_NUM_RECORDS: _COUNT_RULE, _TIGHT_BOUNDS: _FLAG_RULE}
        for column in self._columns(paths):
            wanted |= column.leaves()
        self._load(wanted)

    def prepare_ranges(self, paths: Iterable[tuple[str, ...]]) -> None:
        """Decodes minima and maxima alone, which takes about half as long."""
        wanted: dict[LeafPath, BoundsRule] = {}
        for column in self._columns(paths):
            wanted |= column.values()
        self._load(wanted)

    def ranges(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Minima and maxima of a column without anything else; None when statistics cannot have them."""
        column = self._column(path)
        if column is None or column.rule is None:
            return None
        self._load(column.values())
        minimum, maximum = self._values(column, "minValues"), self._values(column, "maxValues")
        if minimum is None or maximum is None:
            return None
        return ColumnBounds(
            minimum=column.rule.minimum(minimum),
            maximum=column.rule.maximum(maximum),
            null_count=None,
            exact=False,
        )

    def _columns(self, paths: Iterable[tuple[str, ...]]) -> list[_Column]:
        return [column for path in paths if (column := self._column(path)) is not None]

    def _column(self, path: tuple[str, ...]) -> _Column | None:
        struct, names = self._schema, []
        for depth, name in enumerate(path):
            field = struct.find(name)
            if field is None:
                return None
            names.append(physical_name(field, self._mode))
            if depth == len(path) - 1:
                return (
                    None
                    if isinstance(field.data_type, StructType)
                    else _Column(tuple(names), bounds_rule(field))
                )
            if not isinstance(field.data_type, StructType):
                return None
            struct = field.data_type
        return None

    def _load(self, wanted: Mapping[LeafPath, BoundsRule]) -> None:
        missing = {path: rule for path, rule in wanted.items() if path not in self._recorded}
        if missing:
            parts = [_segment_columns(segment, missing) for segment in self._segments]
            for path, rule in missing.items():
                chunks = [chunk for part in parts for chunk in part[path].chunks]
                self._recorded[path] = pa.chunked_array(chunks, rule.recorded_type).combine_chunks()

    def _values(self, column: _Column, key: str) -> pa.Array | None:
        return self._recorded.get((key, *column.path))

    def _tight(self) -> pa.BooleanArray:
        return self._recorded[_TIGHT_BOUNDS].fill_null(True)

    def _null_count(self, column: _Column) -> pa.Array:
        """Nulls of each file; with wide bounds only "none" and "all" still mean something."""
        counts = pc.coalesce(
            self._count(("nullCount", *column.path)), self._count(("nullCounts", *column.path))
        )
        decided = pc.or_kleene(pc.equal(counts, 0), pc.equal(counts, self._count(_NUM_RECORDS)))
        meaningful = pc.or_kleene(self._tight(), decided)
        return pc.if_else(meaningful, counts, pa.scalar(None, pa.int64()))

    def _count(self, path: LeafPath) -> pa.Array:
        counts = self._recorded[path]
        return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, pa.int64()))


def _segment_columns(
    segment: StatisticsSegment, leaves: Mapping[LeafPath, BoundsRule]
) -> dict[LeafPath, pa.ChunkedArray]:
    """The recorded values of one segment: typed ones first, texts for files that have none."""
    if segment.parsed is None:
        return _text_columns(segment.texts, segment.num_files, leaves)
    typed = {path: _typed_column(segment, path, rule) for path, rule in leaves.items()}
    if segment.texts is None:
        return typed
    texts = pa.chunked_array(list(segment.texts.chunks), pa.string())
    untyped = pc.and_(pc.is_null(_typed_column(segment, _NUM_RECORDS, _COUNT_RULE)), texts.is_valid())
    if not pc.any(untyped).as_py():
        return typed
    needed = pc.if_else(untyped, texts, pa.scalar(None, pa.string()))
    spoken = _text_columns(needed, segment.num_files, leaves)
    return {path: _chunked(pc.if_else(untyped, spoken[path], typed[path])) for path in leaves}


def _text_columns(
    texts: Texts | None, num_files: int, leaves: Mapping[LeafPath, BoundsRule]
) -> dict[LeafPath, pa.ChunkedArray]:
    if texts is None:
        return {
            path: pa.chunked_array([pa.nulls(num_files, rule.recorded_type)]) for path, rule in leaves.items()
        }
    return read_json_statistics(texts, leaves)


def _typed_column(segment: StatisticsSegment, path: LeafPath, rule: BoundsRule) -> pa.ChunkedArray:
    column = None if segment.parsed is None else segment.parsed.get(path)
    if column is None:
        return pa.chunked_array([pa.nulls(segment.num_files, rule.recorded_type)])
    return rule.convert(_chunked(column))


def _chunked(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
