"""Three answers per file over statistics and partition values: all rows match, no row matches, unknown.

The meaning of things, before any code:

*Answers.* A predicate is TRUE, FALSE or NULL for a row, and a row matches when it is TRUE. For every node
and every file we keep three marks: may some row be TRUE, may some row be FALSE, may some row be NULL. A
mark is cleared only by proof. ``may_match`` of a file is "may be TRUE" of the root; ``all_match`` is "may
be neither FALSE nor NULL". Dropping a file needs a cleared mark, so *unknown never prunes*.

*NOT* swaps "may be TRUE" and "may be FALSE" and keeps "may be NULL". That is exact: unlike with a single
"might match" flag, nothing is inverted that was only a guess. AND may be TRUE only if every operand may,
FALSE if any operand may, NULL if any may be NULL and every one may be TRUE or NULL; OR is its mirror.

*NULL.* A comparison with NULL is NULL, so it matches nothing. A column may be NULL unless its null count
is 0, may have values unless its null count equals the number of records. For fields inside structs a null
count of 0 proves nothing, because writers differ in whether a NULL struct counts as a NULL of its fields.

*Missing statistics.* A missing bound, count, column or file's statistics is "may be anything". Bounds
hold for every value in the file but need not occur in it (truncated text, timestamps cut to milliseconds,
rows that a deletion vector hides): each conclusion below is of the form "all values lie in [minimum,
maximum], hence", which stays true for any subset of the rows. Inexact bounds (``exact`` false) moreover
never prove equality.

*NaN* equals itself and is greater than all numbers, and writers leave it out of both bounds. So a float
column with bounds [a, b] holds numbers in [a, b] *and perhaps NaN*, always: ``<``, ``<=``, ``=`` with a
number may drop files by either bound, ``>``, ``>=`` and ``<>`` never drop one that has a value, and their
negations follow from the marks. A bound that is NaN itself is a missing bound. −0.0 equals 0.0 in every
comparison made here.

*Partition values* are exact: a condition over partition columns alone is evaluated, whatever it says.
*Casts* that never fail and keep order (`arrow_casts.is_monotone`) are applied to the bounds; any other
expression over data columns is unknown.

Text is compared by its UTF-8 bytes, which is the order of code points.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import DistributaryError, InvalidPredicateError
from distributary.expressions import tree
from distributary.expressions.arrow_casts import cast_array, is_monotone, kind_of
from distributary.expressions.arrow_evaluation import evaluate, like_pattern
from distributary.expressions.binding import type_of

Marks = npt.NDArray[np.bool_]
_FEW_OPTIONS = 16


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Bounds of one column, one entry per file; NULL entries are unknown, bounds are inclusive."""

    minimum: pa.Array | None
    maximum: pa.Array | None
    null_count: pa.Array | None
    exact: bool | pa.Array = True


class FileBounds(Protocol):
    """What is known of the files of a snapshot, by logical names."""

    @property
    def num_files(self) -> int:
        """How many files there are."""
        ...

    @property
    def num_records(self) -> pa.Array | None:
        """The number of records of each file (int64), NULL where unknown."""
        ...

    def partition_values(self, column: str) -> pa.Array | None:
        """Give the typed values of a partition column; None when it is not one."""
        ...

    def bounds(self, path: tuple[str, ...]) -> ColumnBounds | None:
        """Give the statistics of a data column; None when there are none."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """For each file: may a row match (False drops the file), and do all rows match."""

    may_match: pa.BooleanArray
    all_match: pa.BooleanArray


@dataclass(frozen=True, slots=True)
class _Truth:
    """The three marks of a condition."""

    true: Marks
    false: Marks
    null: Marks


@dataclass(frozen=True, slots=True)
class _Range:
    """What a value may be: NULL, NaN, or a number or text between two bounds (None or NULL: unbounded)."""

    low: Any
    high: Any
    null: Marks
    value: Marks
    nan: Marks
    exact: Marks


def prune(bound: tree.Expression, files: FileBounds) -> Decision:
    """Decide each file by a bound predicate."""
    data_type = type_of(bound)
    if kind_of(data_type) not in ("boolean", "null"):
        raise InvalidPredicateError(f"{bound} is a {data_type}, not a condition")
    truth = _Pruner(files, files.num_files).truth(bound)
    return Decision(pa.array(truth.true), pa.array(~truth.false & ~truth.null))


@dataclass(frozen=True, slots=True)
class _Pruner:
    files: FileBounds
    count: int

    def truth(self, node: tree.Expression) -> _Truth:
        if not isinstance(node, tree.Literal) and (exact := self.of_partitions(node)) is not None:
            return exact
        match node:
            case tree.And():
                return reduce(_and, (self.truth(operand) for operand in node.operands))
            case tree.Or():
                return _not(reduce(_and, (_not(self.truth(operand)) for operand in node.operands)))
            case tree.Not():
                return _not(self.truth(node.operand))
            case tree.IsNull():
                value = self.range(node.operand)
                return _Truth(value.null, value.value | value.nan, self.none)
            case tree.Comparison():
                return self.comparison(node)
            case tree.In():
                return self.in_list(node)
            case tree.StartsWith():
                return self.prefix(node.operand, node.prefix, only=True)
            case tree.Like():
                return self.like(node)
            case tree.Literal() | tree.Column() | tree.Cast():
                return self.of_boolean(self.range(node))
            case _:
                return _Truth(self.all, self.all, self.all)

    @property
    def all(self) -> Marks:
        return np.ones(self.count, np.bool_)

    @property
    def none(self) -> Marks:
        return np.zeros(self.count, np.bool_)

    def of_partitions(self, node: tree.Expression) -> _Truth | None:
        """Evaluate a condition that reads partition columns only."""
        values: dict[str, pa.Array] = {}
        for path in tree.columns_of(node):
            column = self.files.partition_values(path[0]) if len(path) == 1 else None
            if column is None:
                return None
            values[path[0]] = column
        if not values:
            return None
        try:
            result = evaluate(node, pa.RecordBatch.from_pydict(values)).cast(pa.bool_())
        except DistributaryError:
            return _Truth(self.all, self.all, self.all)
        return _Truth(
            self.marks(result, False),
            self.marks(pc.invert(result), False),
            self.marks(result.is_null(), False),
        )

    def range(self, node: tree.Expression) -> _Range:
        match node:
            case tree.Literal():
                return self.of_literal(node)
            case tree.Column():
                return self.of_column(node)
            case tree.Cast() if is_monotone(type_of(node.operand), node.type, node.time_zone):
                return self.of_cast(node)
            case _ if kind_of(type_of(node)) == "boolean":
                truth = self.truth(node)
                return replace(
                    self.anything(node), null=truth.null, value=truth.true | truth.false, nan=self.none
                )
            case _:
                return self.anything(node)

    def anything(self, node: tree.Expression) -> _Range:
        nan = self.all if kind_of(type_of(node)) == "float" else self.none
        return _Range(None, None, self.all, self.all, nan, self.none)

    def of_literal(self, node: tree.Literal) -> _Range:
        if node.value is None:
            return _Range(None, None, self.all, self.none, self.none, self.none)
        if node.value != node.value:
            return _Range(None, None, self.none, self.none, self.all, self.none)
        value = pa.scalar(node.value, node.type)
        return _Range(value, value, self.none, self.all, self.none, self.all)

    def of_column(self, node: tree.Column) -> _Range:
        values = self.files.partition_values(node.path[0]) if len(node.path) == 1 else None
        if values is not None:
            return self.of_values(_typed(values, node.type))
        found = self.files.bounds(node.path)
        if found is None:
            return self.anything(node)
        nulls, records = found.null_count, self.files.num_records
        null, value = self.all, self.all
        if nulls is not None and len(node.path) == 1:
            null = self.marks(pc.not_equal(nulls, 0), True)
        if nulls is not None and records is not None:
            value = self.marks(pc.not_equal(nulls, records), True)
        nan = value if kind_of(type_of(node)) == "float" else self.none
        low, high = (_bound(side, node.type) for side in (found.minimum, found.maximum))
        return _Range(low, high, null, value, nan, self.marks(found.exact, False))

    def of_values(self, values: pa.Array | None) -> _Range:
        if values is None:
            return _Range(None, None, self.all, self.all, self.all, self.none)
        null = self.marks(values.is_null(), False)
        nan = self.marks(pc.is_nan(values), False) if kind_of(values.type) == "float" else self.none
        known = _bound(values, values.type)
        return _Range(known, known, null, ~null & ~nan, nan, self.all)

    def of_cast(self, node: tree.Cast) -> _Range:
        inner = self.range(node.operand)
        low, high = (_moved(side, node) for side in (inner.low, inner.high))
        return replace(inner, low=low, high=high)

    def of_boolean(self, value: _Range) -> _Truth:
        true = value.value & self.marks(True if value.high is None else value.high, True)
        false = value.value & ~self.marks(False if value.low is None else value.low, False)
        return _Truth(true, false, value.null)

    def comparison(self, node: tree.Comparison) -> _Truth:
        left, right = self.range(node.left), self.range(node.right)
        match node.op:
            case "<":
                return self.less(left, right)
            case ">":
                return self.less(right, left)
            case "<=":
                return _not(self.less(right, left))
            case ">=":
                return _not(self.less(left, right))
            case "=":
                return self.equal(left, right)
            case "<>":
                return _not(self.equal(left, right))
            case _:
                return self.null_safe_equal(left, right)

    def less(self, left: _Range, right: _Range) -> _Truth:
        both = left.value & right.value
        true = both & self.possible(pc.less, left.low, right.high) | left.value & right.nan
        false = both & self.possible(pc.greater_equal, left.high, right.low) | left.nan & (
            right.value | right.nan
        )
        return _Truth(true, false, _null_of(left, right))

    def equal(self, left: _Range, right: _Range) -> _Truth:
        both = left.value & right.value
        overlap = self.possible(pc.less_equal, left.low, right.high) & self.possible(
            pc.less_equal, right.low, left.high
        )
        one_point = left.exact & right.exact & ~self.possible(pc.not_equal, left.low, left.high)
        one_point &= ~self.possible(pc.not_equal, right.low, right.high)
        one_point &= ~self.possible(pc.not_equal, left.low, right.low)
        true = both & overlap | left.nan & right.nan
        false = both & ~one_point | left.nan & right.value | left.value & right.nan
        return _Truth(true, false, _null_of(left, right))

    def null_safe_equal(self, left: _Range, right: _Range) -> _Truth:
        equal = self.equal(left, right)
        some_left, some_right = left.value | left.nan, right.value | right.nan
        true = equal.true | left.null & right.null
        false = equal.false | left.null & some_right | some_left & right.null
        return _Truth(true, false, self.none)

    def in_list(self, node: tree.In) -> _Truth:
        value = self.range(node.operand)
        options = [option.value for option in node.options if isinstance(option, tree.Literal)]
        numbers = [option for option in options if option is not None and option == option]
        has_nan = any(option is not None and option != option for option in options)
        if len(options) < len(node.options):
            return _Truth(self.all, self.all, self.all)
        data_type = type_of(node.operand)
        true, false = value.nan & has_nan, value.nan & (not has_nan) | value.value
        if numbers:
            true = true | value.value & self.any_inside(sorted(numbers), value, data_type)
            one_point = value.exact & ~self.possible(pc.not_equal, value.low, value.high)
            if isinstance(value.low, pa.Array):
                within = pc.is_in(value.low, pa.array(numbers, data_type))
                false = false & ~(one_point & self.marks(within, False)) | value.nan & (not has_nan)
        if None in options:
            return _Truth(true, self.none, value.null | false)
        return _Truth(true, false, value.null)

    def any_inside(self, options: list[Any], value: _Range, data_type: pa.DataType) -> Marks:
        """Tell whether a sorted option lies within the bounds."""
        first, last = (pa.scalar(option, data_type) for option in (options[0], options[-1]))
        near = self.possible(pc.less_equal, value.low, last) & self.possible(
            pc.greater_equal, value.high, first
        )
        if len(options) <= _FEW_OPTIONS:
            points = (pa.scalar(option, data_type) for option in options)
            return reduce(np.logical_or, (self.around(point, value) for point in points))
        if isinstance(value.low, pa.Array) and isinstance(value.high, pa.Array):
            places = np.flatnonzero(near)
            near[places] = _any_between(options, value.low.take(places), value.high.take(places))
        return near

    def around(self, point: pa.Scalar, value: _Range) -> Marks:
        return self.possible(pc.less_equal, value.low, point) & self.possible(
            pc.greater_equal, value.high, point
        )

    def like(self, node: tree.Like) -> _Truth:
        parts = like_pattern(node.pattern, node.escape)
        plain = next((place for place, part in enumerate(parts) if part in "%_"), len(parts))
        prefix = "".join(part[1:] for part in parts[:plain])
        if plain == len(parts):
            return self.equal(self.range(node.operand), self.of_literal(tree.Literal(prefix, pa.string())))
        return self.prefix(node.operand, prefix, only=set(parts[plain:]) == {"%"})

    def prefix(self, operand: tree.Expression, prefix: str, *, only: bool) -> _Truth:
        """Decide by a prefix; only: every text with it matches."""
        value = self.range(operand)
        first = prefix.encode("utf-8", "surrogatepass")
        if not first:
            return _Truth(value.value, self.none if only else value.value, value.null)
        after = pa.scalar(first[:-1] + bytes([first[-1] + 1]), pa.binary())
        low, high = (None if side is None else side.cast(pa.binary()) for side in (value.low, value.high))
        start = pa.scalar(first, pa.binary())
        true = self.possible(pc.less, low, after) & self.possible(pc.greater_equal, high, start)
        false = self.possible(pc.less, low, start) | self.possible(pc.greater_equal, high, after)
        return _Truth(value.value & true, value.value & false if only else value.value, value.null)

    def possible(self, test: Any, left: Any, right: Any) -> Marks:
        """Mark the files for which a test of two bounds is true or cannot be made."""
        return self.all if left is None or right is None else self.marks(test(left, right), True)

    def marks(self, values: Any, unknown: bool) -> Marks:
        """Spread booleans (an array, a scalar or a bool) over the files."""
        if isinstance(values, pa.Scalar):
            values = values.as_py()
        if values is None or isinstance(values, bool):
            return np.full(self.count, unknown if values is None else values)
        return pc.fill_null(values, unknown).to_numpy(zero_copy_only=False)


def _and(left: _Truth, right: _Truth) -> _Truth:
    null = (left.null | right.null) & (left.true | left.null) & (right.true | right.null)
    return _Truth(left.true & right.true, left.false | right.false, null)


def _not(truth: _Truth) -> _Truth:
    return _Truth(truth.false, truth.true, truth.null)


def _null_of(left: _Range, right: _Range) -> Marks:
    return left.null | right.null


def _typed(values: pa.Array, data_type: pa.DataType | None) -> pa.Array | None:
    if data_type is None or values.type == data_type:
        return values
    try:
        return values.cast(data_type)
    except pa.ArrowException:
        return None


def _bound(values: pa.Array | None, data_type: pa.DataType | None) -> pa.Array | None:
    """Give bounds in the type of their column, with NaN as a missing bound; None when that cannot be."""
    typed = None if values is None else _typed(values, data_type)
    if typed is None or kind_of(typed.type) != "float":
        return typed
    return pc.if_else(pc.is_nan(typed), pa.scalar(None, typed.type), typed)


def _moved(bound: Any, node: tree.Cast) -> Any:
    if not isinstance(bound, pa.Array):
        return None
    try:
        return cast_array(bound, node.type, zone=node.time_zone or "UTC")
    except DistributaryError:
        return None


def _any_between(options: list[Any], low: pa.Array, high: pa.Array) -> Marks:
    """Tell for each pair of bounds (NULL: unbounded) whether a sorted option lies between them."""
    if (lows := _as_numbers(low)) is not None and (highs := _as_numbers(high)) is not None:
        numbers = _as_numbers(pa.array(options, low.type))
        places = np.where(low.is_null(), 0, np.searchsorted(numbers, lows))
        last = np.minimum(places, len(options) - 1)
        return (places < len(options)) & (np.asarray(high.is_null()) | (numbers[last] <= highs))
    places = [0 if value is None else bisect_left(options, value) for value in low.to_pylist()]
    pairs = zip(places, high.to_pylist(), strict=True)
    found = [place < len(options) and (top is None or options[place] <= top) for place, top in pairs]
    return np.array(found, np.bool_)


def _as_numbers(values: pa.Array) -> Any:
    """Give values of fixed width as numpy numbers (0 for NULL); None for other types."""
    match kind_of(values.type):
        case "integer" | "float":
            return pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
        case "date":
            return pc.fill_null(values.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        case "timestamp" | "ntz":
            return pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        case _:
            return None
