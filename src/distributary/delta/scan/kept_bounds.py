"""The bounds of all files of a snapshot, decoded once and kept for every later question.

A server asks the same snapshot many questions. `KeptBounds` answers each from typed columns: partition
values and statistics are decoded the first time a column is asked for, for all files, and kept with the
rows they came from. Rows of a checkpoint are shared by the snapshots that follow it, so that after a
refresh only what was committed since is decoded (see `FilePruner` for a single question).

Safe to use from many threads: a column may at worst be decoded twice.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.delta.log.checkpoint_rows import FileRows, Mask
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.file_pruning import statistics_segment
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import StructField, StructType
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.delta.statistics.file_statistics import FileStatistics
from distributary.expressions.pruning import ColumnBounds, Decision, prune
from distributary.expressions.tree import Expression

LeafPath = tuple[str, ...]
_KEY = "bounds"
Positions = np.ndarray[Any, np.dtype[np.int64]]


class KeptRows:
    """Typed columns of all adds among some rows, whichever of them a version still has."""

    def __init__(self, rows: FileRows, schema: StructType, mode: ColumnMappingMode) -> None:
        self.block = FileBlock(rows, rows.present("add"))
        self.statistics = FileStatistics([statistics_segment(self.block)], schema, mode)
        self._mode = mode
        self._partitions: dict[str, pa.Array] = {}

    def partition_values(self, field: StructField) -> pa.Array:
        """The values of a partition column."""
        known = self._partitions.get(field.name)
        if known is None:
            texts = FileSelection([self.block]).partition_values(physical_name(field, self._mode))
            known = parse_partition_column(texts, field.data_type, column=field.name)
            self._partitions[field.name] = known
        return known

    def positions(self, block: FileBlock) -> Positions | None:
        """Where the files of a block are among these adds; None where it has all of them."""
        chosen, present = block.selection, self.block.selection
        if chosen is None or chosen is present:
            return None
        among: Mask = chosen if present is None else chosen[present]
        return None if among.all() else np.flatnonzero(among)


def kept_rows(rows: FileRows, snapshot: Snapshot) -> KeptRows:
    """The typed columns of rows as the schema of a snapshot sees them, made anew when it has changed."""
    meaning = f"{snapshot.mapping_mode.value} {snapshot.metadata.schema_string}"
    known: tuple[str, KeptRows] | None = rows.kept.get(_KEY)
    if known is None or known[0] != meaning:
        known = rows.kept[_KEY] = (meaning, KeptRows(rows, snapshot.schema, snapshot.mapping_mode))
    return known[1]


class KeptBounds:
    """`FileBounds` over all files of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        files = snapshot.files
        self._schema = snapshot.schema
        self._partitioning = frozenset(snapshot.metadata.partitioning)
        self._parts = [(kept_rows(block.rows, snapshot), block) for block in files.blocks]
        self._places = [kept.positions(block) for kept, block in self._parts]
        self._partitions: dict[str, pa.Array] = {}
        self._bounds: dict[LeafPath, ColumnBounds | None] = {}
        self.num_files = files.num_files

    def decide(self, predicate: Expression) -> Decision:
        """Which files may hold rows that a bound predicate wants."""
        return prune(predicate, self)

    @cached_property
    def num_records(self) -> pa.Array:
        """The physical rows of each file, null where the log does not say."""
        return self._joined([kept.statistics.num_records for kept, _ in self._parts], pa.int64())

    @cached_property
    def live_records(self) -> pa.Array:
        """The rows of each file that are not deleted, null where the log does not say."""
        leaf = ("deletionVector", "cardinality")
        deleted = [block.column(leaf).combine_chunks() for _, block in self._parts]
        if all(part.null_count == len(part) for part in deleted):
            return self.num_records
        return pc.subtract(self.num_records, pc.fill_null(pa.concat_arrays(deleted), 0))

    def partition_values(self, column: str) -> pa.Array | None:
        """The values of a partition column."""
        if column not in self._partitioning:
            return None
        known = self._partitions.get(column)
        if known is None:
            field = self._schema.field(column)
            parts = [kept.partition_values(field) for kept, _ in self._parts]
            empty = parse_partition_column(pa.array([], pa.string()), field.data_type, column=column)
            known = self._partitions[column] = self._joined(parts, empty.type)
        return known

    def bounds(self, path: LeafPath) -> ColumnBounds | None:
        """The bounds of a data column."""
        if path[0] in self._partitioning:
            return None
        if path not in self._bounds:
            self._bounds[path] = self._found(path)
        return self._bounds[path]

    def _found(self, path: LeafPath) -> ColumnBounds | None:
        parts = [kept.statistics.bounds(path) for kept, _ in self._parts]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) or not found:
            return None
        exact = [_flags(part.exact, kept) for part, (kept, _) in zip(found, self._parts, strict=True)]
        return ColumnBounds(
            minimum=self._optional([part.minimum for part in found]),
            maximum=self._optional([part.maximum for part in found]),
            null_count=self._optional([part.null_count for part in found]),
            exact=self._joined(exact, pa.bool_()),
        )

    def _optional(self, parts: list[pa.Array | None]) -> pa.Array | None:
        given = [part for part in parts if part is not None]
        return self._joined(given, given[0].type) if given and len(given) == len(parts) else None

    def _joined(self, parts: list[pa.Array], data_type: pa.DataType) -> pa.Array:
        """One entry a file of the snapshot, from one entry an add of each part."""
        chosen = [
            part if places is None else part.take(pa.array(places))
            for part, places in zip(parts, self._places, strict=True)
        ]
        if len(chosen) == 1:
            return chosen[0]
        return pa.concat_arrays(chosen) if chosen else pa.array([], data_type)


def _flags(exact: bool | pa.Array, kept: KeptRows) -> pa.Array:
    return pa.repeat(pa.scalar(exact), kept.block.num_files) if isinstance(exact, bool) else exact
