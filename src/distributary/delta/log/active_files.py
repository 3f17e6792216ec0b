"""The active files of a version as Arrow columns.

Files come from checkpoint rows that no later commit touched, and from the adds of commits.
`FileSelection` gives their columns, aligned with each other; narrowing it is cheap, and
columns that were not asked for are never read. `ActiveFiles` adds replay: `apply` returns
a new value, the old one keeps showing its own version (LR-053).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.log.actions import Add
from distributary.delta.log.checkpoint_footer import Leaf
from distributary.delta.log.checkpoint_rows import FileRows, Mask, ParquetRows, TableRows
from distributary.delta.log.file_columns import adds_to_table, map_values
from distributary.delta.log.reconciliation import FileActions, FileKey, active_adds
from distributary.storage.log_paths import canonical_path, canonical_paths


class FileBlock(NamedTuple):
    """Rows of file actions from one place, and which of them count (`None` for all)."""

    rows: FileRows
    selection: Mask | None

    @property
    def num_files(self) -> int:
        """How many rows count."""
        return self.rows.num_rows if self.selection is None else int(self.selection.sum())

    def column(self, leaf: Leaf) -> pa.ChunkedArray:
        """A leaf of the rows that count."""
        return self.rows.column("add", leaf, self.selection)

    def stream(self, leaf: Leaf) -> Iterator[pa.ChunkedArray]:
        """The same part by part, for leaves too large to hold."""
        return self.rows.stream("add", leaf, self.selection)

    def parts(self, at_least: int) -> Iterator[FileBlock]:
        """The block in parts of so many files or more, none of which shares a row group with another."""
        counted = np.ones(self.rows.num_rows, np.bool_) if self.selection is None else self.selection
        start = files = 0
        for low, high in pairwise(self.rows.row_groups):
            files += int(counted[low:high].sum())
            if files and (files >= at_least or high == self.rows.num_rows):
                selection = np.zeros(self.rows.num_rows, np.bool_)
                selection[start:high] = counted[start:high]
                yield FileBlock(self.rows, selection)
                start, files = high, 0

    def narrow(self, keep: Mask) -> FileBlock:
        """The block with only those of its files for which `keep` is true."""
        if keep.all():
            return self
        selection = np.ones(self.rows.num_rows, np.bool_) if self.selection is None else self.selection.copy()
        selection[selection] = keep
        return FileBlock(self.rows, selection)


class FileSelection:
    """Some files of a version; every column has one entry a file, in the same order."""

    def __init__(self, blocks: Sequence[FileBlock]) -> None:
        self._blocks = tuple(block for block in blocks if block.num_files)

    @cached_property
    def num_files(self) -> int:
        """How many files are selected."""
        return sum(block.num_files for block in self._blocks)

    def column(self, *leaf: str) -> pa.ChunkedArray:
        """A leaf of the add action, e.g. `column("deletionVector", "cardinality")`."""
        return _concatenate([block.column(leaf) for block in self._blocks], leaf)

    def partition_values(self, physical_name: str) -> pa.ChunkedArray:
        """The text of a partition column, as the log has it."""
        return map_values(self.column("partitionValues"), physical_name)

    def filter(self, keep: pa.BooleanArray | pa.ChunkedArray | Mask) -> FileSelection:
        """The files for which `keep` is true."""
        mask = keep if isinstance(keep, np.ndarray) else keep.to_numpy(zero_copy_only=False)
        narrowed: list[FileBlock] = []
        start = 0
        for block in self._blocks:
            narrowed.append(block.narrow(mask[start : start + block.num_files]))
            start += block.num_files
        return FileSelection(narrowed)

    def parts(self, at_least: int) -> Iterator[FileSelection]:
        """The files in parts, so that columns of any length can be read in bounded memory."""
        return (FileSelection([part]) for block in self._blocks for part in block.parts(at_least))

    @property
    def blocks(self) -> tuple[FileBlock, ...]:
        """The blocks, for readers of statistics that differ by place."""
        return self._blocks

    def has_deletion_vectors(self) -> bool:
        """Whether any file has deleted rows."""
        return self.column("deletionVector", "storageType").null_count < self.num_files

    def deletion_vectors(self) -> list[DeletionVectorDescriptor | None]:
        """The deletion vector of each file."""
        if not self.has_deletion_vectors():
            return [None] * self.num_files
        names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
        columns = [self.column("deletionVector", name).to_pylist() for name in names]
        return [
            None
            if kind is None
            else DeletionVectorDescriptor(
                storage_type=kind,
                path_or_inline_dv=text,
                offset=offset,
                size_in_bytes=size,
                cardinality=count,
            )
            for kind, text, offset, size, count in zip(*columns, strict=True)
        ]

    def adds(self) -> list[Add]:
        """The add actions as structs."""
        leaves = ("path", "size", "modificationTime", "dataChange", "stats", "baseRowId",
                  "defaultRowCommitVersion", "clusteringProvider")  # fmt: skip
        columns = {name: self.column(name).to_pylist() for name in leaves}
        maps = {
            name: self.column(name).to_pylist(maps_as_pydicts="strict")
            for name in ("partitionValues", "tags")
        }
        vectors = self.deletion_vectors()
        return [
            Add(
                path=columns["path"][at],
                partition_values=maps["partitionValues"][at] or {},
                size=columns["size"][at],
                modification_time=columns["modificationTime"][at] or 0,
                data_change=bool(columns["dataChange"][at]),
                stats=columns["stats"][at],
                tags=maps["tags"][at],
                deletion_vector=vectors[at],
                base_row_id=columns["baseRowId"][at],
                default_row_commit_version=columns["defaultRowCommitVersion"][at],
                clustering_provider=columns["clusteringProvider"][at],
            )
            for at in range(self.num_files)
        ]


class ActiveFiles(FileSelection):
    """All files of a version, with the last action that commits gave for each file key."""

    def __init__(self, root: str, checkpoint: Sequence[FileBlock], actions: FileActions) -> None:
        self._root = root
        self._checkpoint = tuple(checkpoint)
        self.actions = actions
        adds = active_adds(actions)
        recent = [FileBlock(TableRows(adds_to_table(adds)), None)] if adds else []
        super().__init__([*checkpoint, *recent])

    @classmethod
    def from_checkpoint(cls, root: str, rows: Sequence[FileRows]) -> ActiveFiles:
        """The files of a checkpoint, before any later commit."""
        return cls(root, [FileBlock(part, part.present("add")) for part in rows], {})

    def apply(self, actions: FileActions) -> ActiveFiles:
        """The files after later commits, given the last action for each file they touch."""
        if not actions:
            return self
        keys = _by_path(actions)
        blocks = [block.narrow(_untouched(block, keys, self._root)) for block in self._checkpoint]
        return ActiveFiles(self._root, blocks, {**self.actions, **actions})

    @property
    def checkpoint_rows(self) -> tuple[ParquetRows, ...]:
        """The Parquet files of the checkpoint, for its tombstones."""
        return tuple(block.rows for block in self._checkpoint if isinstance(block.rows, ParquetRows))


def _by_path(actions: FileActions) -> dict[str, set[str | None]]:
    keys: dict[str, set[str | None]] = {}
    for path, vector in actions:
        keys.setdefault(path, set()).add(vector)
    return keys


def _untouched(block: FileBlock, keys: Mapping[str, set[str | None]], root: str) -> Mask:
    """Which files of a block no key names; paths are compared first, vectors only for those found."""
    keep = np.ones(block.num_files, np.bool_)
    paths = canonical_paths(root, block.column(("path",)))
    found = pc.is_in(paths, value_set=pa.array(list(keys), pa.string()))
    touched = np.flatnonzero(found.to_numpy())
    if len(touched) == 0:
        return keep
    hit = np.zeros(block.num_files, np.bool_)
    hit[touched] = True
    selected = FileSelection([block.narrow(hit)])
    for at, path, vector in zip(
        touched, paths.take(pa.array(touched)).to_pylist(), selected.deletion_vectors(), strict=True
    ):
        keep[at] = (None if vector is None else vector.unique_id) not in keys[path]
    return keep


def _concatenate(columns: Sequence[pa.ChunkedArray], leaf: Leaf) -> pa.ChunkedArray:
    if not columns:
        return TableRows(adds_to_table(())).column("add", leaf)
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pa.chunked_array(chunks, columns[0].type)


def key_of(root: str, path: str, vector: DeletionVectorDescriptor | None) -> FileKey:
    """The replay key of a file named by a log path."""
    return canonical_path(root, path), None if vector is None else vector.unique_id
