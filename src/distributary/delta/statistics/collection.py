"""The statistics of a data file that is being written.

Implements the writer's half of "Per-file Statistics" (S4; obligations ST-002 to ST-006; beyond.md B13).
Minima, maxima and null counts come from the Parquet footer, which the encoder fills anyway; what a footer
does not tell is looked at while rows pass by: whether a column holds NaN, and how many arrays and maps are
null. Columns are named by their physical names.

Guarantees: ``minimum <= every value <= maximum`` for each reader that we know of, or no bound at all.

- Strings are cut to 32 characters; a maximum that was cut, or could be taken for one that was, ends with a
  tie-breaker that sorts after what was cut off (UTF-8 byte order). Where none does, it is left out.
- Timestamps have milliseconds: a minimum is rounded down, a maximum up.
- A column with NaN has no bounds, since engines disagree on where NaN sorts; infinite bounds are left out,
  since JSON has no number for them. Zero is written as -0.0 below and 0.0 above.
- A float is written with all digits of its double value, so that it stays right when the column is widened.
- Dates and times outside the years 1 to 9999 are left out.
- Decimals are JSON numbers with every digit. Booleans, binary, arrays and maps have null counts only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.delta.parquet_footer import ParquetFooter
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from distributary.delta.schema.partition_values import civil_from_days
from distributary.delta.statistics.value_bounds import STRING_PREFIX_LENGTH
from distributary.delta.table_properties import TableProperties

ColumnPath = tuple[str, ...]

_TIE_BREAKERS: Final = ("\x7f", "\ufffd", "\U0010ffff")
_LONGEST_MAXIMUM: Final = 2 * STRING_PREFIX_LENGTH
_DAY_MILLISECONDS: Final = 86_400_000


class IndexedColumn(msgspec.Struct, frozen=True):
    """A leaf column that gets statistics: its physical path and its type; arrays and maps are leaves."""

    path: ColumnPath
    data_type: DataType


def indexed_columns(
    schema: StructType,
    partitioning: Collection[str],
    mode: ColumnMappingMode,
    properties: TableProperties,
    required: Collection[ColumnPath] = (),
) -> tuple[IndexedColumn, ...]:
    """The columns that get statistics: as the table's properties say, and those that are required.

    ``delta.dataSkippingStatsColumns`` names columns (a struct stands for all of its leaves), otherwise the
    first ``delta.dataSkippingNumIndexedCols`` leaves are taken; partition columns never count.
    """
    data = (field for field in schema.fields if field.name not in partitioning)
    leaves = list(_leaves(data, (), (), mode))
    named = properties.data_skipping_stats_columns
    if named is not None:
        wanted = [tuple(name.lower() for name in path) for path in named]
        chosen = [any(_is_below(logical, path) for path in wanted) for logical, _ in leaves]
    else:
        limit = properties.data_skipping_num_indexed_cols
        chosen = [limit < 0 or at < limit for at in range(len(leaves))]
    return tuple(
        leaf for (_, leaf), take in zip(leaves, chosen, strict=True) if take or leaf.path in required
    )


class StatisticsCollector:
    """Gathers the statistics of one file: rows as they are written, then the footer."""

    def __init__(self, columns: Sequence[IndexedColumn]) -> None:
        self._columns = columns
        self._floats = [column for column in columns if column.data_type in (FLOAT, DOUBLE)]
        self._repeated = [column for column in columns if isinstance(column.data_type, ArrayType | MapType)]
        self._with_nan: set[ColumnPath] = set()
        self._null_counts: dict[ColumnPath, int] = {column.path: 0 for column in self._repeated}

    def observe(self, rows: pa.RecordBatch) -> None:
        """Look at rows, in their physical columns, for what the footer will not tell."""
        for column in self._floats:
            if column.path not in self._with_nan and _has_nan(_values(rows, column.path)):
                self._with_nan.add(column.path)
        for column in self._repeated:
            self._null_counts[column.path] += _values(rows, column.path).null_count

    def observe_footer(self, footer: ParquetFooter) -> bool:
        """Take from the footer what rows would tell; false where it does not say enough.

        parquet-java sorts NaN above all numbers, so that a chunk with one has it as its maximum, and counts
        definition levels, which tell null lists from empty ones. For files that it wrote only.
        """
        for column in self._floats:
            chunks = _ColumnChunks(footer, footer.positions[column.path])
            if chunks.may_hold_nan():
                self._with_nan.add(column.path)
        for column in self._repeated:
            count = _null_lists(footer, column.path)
            if count is None:
                return False
            self._null_counts[column.path] = count
        return True

    def statistics(
        self, footer: pq.FileMetaData | ParquetFooter, file_schema: pa.Schema | None = None
    ) -> str:
        """The text of ``add.stats``, from the footer that pyarrow just wrote or that was parsed.

        A parsed footer knows where its columns stand; pyarrow's needs the schema of the file.
        """
        if file_schema is None:
            assert isinstance(footer, ParquetFooter)
            positions: Mapping[ColumnPath, int] = footer.positions
        else:
            positions = leaf_positions(file_schema)
        minima: dict[str, Any] = {}
        maxima: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for column in self._columns:
            if column.path in self._null_counts:
                _put(nulls, column.path, self._null_counts[column.path])
                continue
            chunks = _ColumnChunks(footer, positions[column.path])
            _put(nulls, column.path, chunks.null_count())
            bounds = None if column.path in self._with_nan else chunks.bounds(column.data_type)
            if bounds is not None:
                _put(minima, column.path, lower_bound(bounds[0], column.data_type))
                _put(maxima, column.path, upper_bound(bounds[1], column.data_type))
        statistics = {
            "numRecords": footer.num_rows,
            "minValues": minima,
            "maxValues": maxima,
            "nullCount": nulls,
            "tightBounds": True,
        }
        return msgspec.json.encode(statistics).decode()


def leaf_positions(file_schema: pa.Schema) -> dict[ColumnPath, int]:
    """Where in a footer each leaf column stands that is in no array or map."""
    positions: dict[ColumnPath, int] = {}
    _place(list(file_schema), (), 0, positions)
    return positions


def lower_bound(value: Any, data_type: DataType) -> Any:
    """What ``minValues`` says for a smallest value in storage form; None where nothing can be said."""
    if data_type == STRING:
        return None if (text := _text(value)) is None else text[:STRING_PREFIX_LENGTH]
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return _instant(value // 1000, data_type)
    if data_type in (FLOAT, DOUBLE):
        return _finite(-0.0 if value == 0 else value)
    return _plain(value, data_type)


def upper_bound(value: Any, data_type: DataType) -> Any:
    """What ``maxValues`` says for a greatest value in storage form; None where nothing can be said."""
    if data_type == STRING:
        return None if (text := _text(value)) is None else _raised(text)
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return _instant(-(-value // 1000), data_type)
    if data_type in (FLOAT, DOUBLE):
        return _finite(0.0 if value == 0 else value)
    return _plain(value, data_type)


class _ColumnChunks:
    """One leaf column in all row groups of a file."""

    def __init__(self, footer: pq.FileMetaData | ParquetFooter, position: int) -> None:
        self._statistics: list[Any]
        if isinstance(footer, ParquetFooter):
            self._statistics = [group.chunks[position].statistics for group in footer.groups]
        else:
            chunks = [footer.row_group(at).column(position) for at in range(footer.num_row_groups)]
            self._statistics = [chunk.statistics for chunk in chunks]

    def null_count(self) -> int | None:
        if any(part is None or not part.has_null_count for part in self._statistics):
            return None
        return sum(part.null_count for part in self._statistics)

    def may_hold_nan(self) -> bool:
        """Whether a bound of floats is NaN, or missing where there are values."""
        if any(part is None for part in self._statistics):
            return True
        filled = [part for part in self._statistics if part.num_values]
        return any(
            not part.has_min_max or math.isnan(part.min_raw) or math.isnan(part.max_raw) for part in filled
        )

    def bounds(self, data_type: DataType) -> tuple[Any, Any] | None:
        """The smallest and the greatest value; None where there is none or a row group does not tell."""
        if not _has_bounds(data_type) or any(part is None for part in self._statistics):
            return None
        filled = [part for part in self._statistics if part.num_values]
        if not filled or not all(part.has_min_max for part in filled):
            return None
        minima = (_stored(part.min_raw, data_type) for part in filled)
        maxima = (_stored(part.max_raw, data_type) for part in filled)
        return min(minima), max(maxima)


def _null_lists(footer: ParquetFooter, path: ColumnPath) -> int | None:
    """How many lists or maps at a path are null, by the definition levels of their first leaf."""
    depth = len(path)
    at, leaf = next((at, leaf) for at, leaf in enumerate(footer.columns) if leaf.path[:depth] == path)
    level = leaf.levels[depth - 1]
    if not level:
        return 0
    counts = [group.chunks[at].definition_levels for group in footer.groups]
    if any(count is None or len(count) <= level for count in counts):
        return None
    return sum(sum(count[:level]) for count in counts if count is not None)


def _leaves(
    fields: Iterator[StructField] | Sequence[StructField],
    logical: ColumnPath,
    physical: ColumnPath,
    mode: ColumnMappingMode,
) -> Iterator[tuple[ColumnPath, IndexedColumn]]:
    """The leaves below some fields, each with its logical path in lower case."""
    for field in fields:
        here, path = (*logical, field.name.lower()), (*physical, physical_name(field, mode))
        if isinstance(field.data_type, StructType):
            yield from _leaves(field.data_type.fields, here, path, mode)
        elif field.data_type != VOID:
            yield here, IndexedColumn(path, field.data_type)


def _is_below(path: ColumnPath, ancestor: ColumnPath) -> bool:
    return path[: len(ancestor)] == ancestor


def _place(
    fields: Sequence[pa.Field], path: ColumnPath, start: int, positions: dict[ColumnPath, int] | None
) -> int:
    """Number the leaves of some fields from ``start``; returns the number after the last."""
    for field in fields:
        here = (*path, field.name)
        if pa.types.is_struct(field.type):
            start = _place(field.type.fields, here, start, positions)
        elif pa.types.is_nested(field.type):
            start = _place(_parts(field.type), here, start, None)
        else:
            if positions is not None:
                positions[here] = start
            start += 1
    return start


def _parts(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field]


def _values(rows: pa.RecordBatch, path: ColumnPath) -> pa.Array:
    """The values at a path; null where a struct on the way is null."""
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _has_nan(values: pa.Array) -> bool:
    return bool(pc.any(pc.is_nan(values)).as_py())


def _put(tree: dict[str, Any], path: ColumnPath, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _has_bounds(data_type: DataType) -> bool:
    return (
        isinstance(data_type, DecimalType)
        or data_type in INTEGER_BITS
        or data_type in (FLOAT, DOUBLE, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)
    )


def _stored(raw: Any, data_type: DataType) -> Any:
    """A footer's value in a form that compares as the column does."""
    if isinstance(data_type, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _raised(text: str) -> str | None:
    """An upper bound of a text with about as many characters as statistics keep."""
    if len(text) < STRING_PREFIX_LENGTH:
        return text
    for end in range(STRING_PREFIX_LENGTH, _LONGEST_MAXIMUM):
        cut = text[end : end + 1]
        breaker = next((breaker for breaker in _TIE_BREAKERS if cut < breaker), None)
        if breaker is not None:
            return text[:end] + breaker
    return None


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _plain(value: Any, data_type: DataType) -> Any:
    if isinstance(data_type, DecimalType):
        return msgspec.Raw(_decimal_text(value, data_type.scale).encode())
    return _date_text(value) if data_type == DATE else value


def _decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _date_text(days: int) -> str | None:
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}" if 1 <= year <= 9999 else None


def _instant(milliseconds: int, data_type: DataType) -> str | None:
    days, rest = divmod(milliseconds, _DAY_MILLISECONDS)
    date = _date_text(days)
    if date is None:
        return None
    seconds, fraction = divmod(rest, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"
    return f"{date}T{clock}{'Z' if data_type == TIMESTAMP else ''}"


def clustering_columns(domain_configuration: str | None) -> frozenset[ColumnPath]:
    """The physical paths in the ``delta.clustering`` domain, which must have statistics (beyond.md B11)."""
    if domain_configuration is None:
        return frozenset()
    try:
        found: Mapping[str, Any] = msgspec.json.decode(domain_configuration, type=dict[str, Any])
        paths = msgspec.convert(found.get("clusteringColumns", []), list[list[str]])
    except msgspec.MsgspecError:
        return frozenset()
    return frozenset(tuple(path) for path in paths)
