"""What a change does to files: deletion vectors, removals, new files, change files, and their one commit.

A file of which some rows go gets another deletion vector: its remove (with the old vector) and its add (with
the new one) stand in one commit (beyond.md B4). Vectors lie in files of their own; the statistics of such a
file keep its number of physical rows, and its bounds are no longer tight. A file of which every row goes is
removed. When it is certain that nothing was committed, what was written for it is removed.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from pyroaring import BitMap64

from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.deletion_vectors import (
    DeletionVectorDescriptor,
    dv_file_path,
    file_descriptor,
    write_deletion_vector_file,
)
from distributary.delta.errors import (
    CommitConflictError,
    TableRuleError,
    TooManyAttemptsError,
    UnsupportedFeatureError,
)
from distributary.delta.log.actions import Add, AddCdcFile, Remove
from distributary.delta.log.reconciliation import FileKey
from distributary.delta.operations.restore import removal
from distributary.delta.statistics.json_statistics import parse_file_statistics
from distributary.errors import StorageError
from distributary.expressions.tree import Expression
from distributary.spark.changed_table import ChangedTable
from distributary.storage.log_paths import canonical_path, resolve_path

_VECTORS_A_FILE: Final = 1_000
_TIGHT: Final = re.compile(r'"tightBounds"\s*:\s*(true|false)')


class ChangeMetrics(msgspec.Struct, frozen=True):
    """What a change did, by the names of Delta's history; where nothing changed, nothing was committed."""

    operation: str
    version: int
    committed: bool = True
    metrics: Mapping[str, int] = {}

    def __getitem__(self, name: str) -> int:
        """One of the metrics, 0 where it was not counted."""
        return self.metrics.get(name, 0)

    @property
    def rows_updated(self) -> int:
        """How many rows were updated."""
        return self["numUpdatedRows"] + self["numTargetRowsUpdated"]

    @property
    def rows_deleted(self) -> int:
        """How many rows were deleted."""
        return self["numDeletedRows"] + self["numTargetRowsDeleted"]

    @property
    def rows_inserted(self) -> int:
        """How many rows were inserted."""
        return self["numTargetRowsInserted"]

    @property
    def rows_affected(self) -> int:
        """How many rows were updated, deleted or inserted."""
        return self.rows_updated + self.rows_deleted + self.rows_inserted


class ReadSet(msgspec.Struct, frozen=True):
    """What a change rests on: predicates over the table, or all of it, and the files that were read."""

    predicates: tuple[Expression, ...] = ()
    whole_table: bool = False
    files: frozenset[FileKey] = frozenset()


class FileChanges(msgspec.Struct, frozen=True):
    """The file actions of a change: what is marked or removed, what is new, and what the feed gets."""

    marked: tuple[Add, ...] = ()
    removes: tuple[Remove, ...] = ()
    written: tuple[Add, ...] = ()
    change_files: tuple[AddCdcFile, ...] = ()

    def joined(self, other: FileChanges) -> FileChanges:
        """Both."""
        return FileChanges(
            (*self.marked, *other.marked),
            (*self.removes, *other.removes),
            (*self.written, *other.written),
            (*self.change_files, *other.change_files),
        )

    @property
    def actions(self) -> tuple[StagedAction, ...]:
        """All of them."""
        return (*self.removes, *self.marked, *self.written, *self.change_files)

    def vector_counts(self, what: str) -> dict[str, int]:
        """How many deletion vectors came, went and changed; `what` is what the metrics begin with."""
        had = {remove.path for remove in self.removes if remove.deletion_vector is not None}
        marked = {add.path for add in self.marked}
        return {
            f"{what}DeletionVectorsAdded": len(marked),
            f"{what}DeletionVectorsRemoved": len(had),
            f"{what}DeletionVectorsUpdated": len(had & marked),
        }

    @property
    def removed_files(self) -> tuple[Remove, ...]:
        """The files that are gone, not only marked."""
        marked = {add.path for add in self.marked}
        return tuple(remove for remove in self.removes if remove.path not in marked)


def removed(adds: Iterable[Add]) -> tuple[Remove, ...]:
    """The tombstones of files that leave the table now."""
    now = time.time_ns() // 1_000_000
    return tuple(removal(add, now) for add in adds)


def mark_deleted(table: ChangedTable, touched: Sequence[BitMap64]) -> FileChanges:
    """Delete rows by deletion vectors; rows are given for each file of the table, never all of one."""
    adds = table.files.adds()
    vectors = write_vectors(
        table, [table.deleted(add) | rows for add, rows in zip(adds, touched, strict=True)]
    )
    marked = tuple(
        msgspec.structs.replace(
            add, deletion_vector=vector, stats=loosened(add, table.physical_records(add)), data_change=True
        )
        for add, vector in zip(adds, vectors, strict=True)
    )
    return FileChanges(marked=marked, removes=removed(adds))


def write_vectors(table: ChangedTable, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
    """Write deletion vectors into new files, some in each; gives where each is."""
    descriptors: list[DeletionVectorDescriptor] = []
    for group in _groups(vectors):
        identity = uuid.uuid4()
        content, offsets = write_deletion_vector_file(group)
        made = [file_descriptor(rows, identity, at) for rows, at in zip(group, offsets, strict=True)]
        table.store.put_if_absent(dv_file_path(made[0]), content)
        descriptors.extend(made)
    return descriptors


def _groups(vectors: Sequence[BitMap64]) -> Iterator[Sequence[BitMap64]]:
    return (vectors[at : at + _VECTORS_A_FILE] for at in range(0, len(vectors), _VECTORS_A_FILE))


def loosened(add: Add, records: int) -> str:
    """The statistics of a file with deleted rows; the text is kept as it is, so that no digit is lost."""
    if parse_file_statistics(add.stats) is None or add.stats is None:
        return f'{{"numRecords":{records},"tightBounds":false}}'
    if _TIGHT.search(add.stats):
        return _TIGHT.sub('"tightBounds":false', add.stats)
    start = add.stats.index("{") + 1
    rest = add.stats[start:].lstrip()
    comma = "" if rest.startswith("}") else ","
    return f'{{"tightBounds":false{comma}{rest}'


def files_read(table: ChangedTable) -> frozenset[FileKey]:
    """The keys of the files that were looked into."""
    canonical = partial(canonical_path, table.store.root)
    paths = table.files.column("path").to_pylist()
    vectors = table.files.deletion_vectors()
    return frozenset(
        (canonical(path), None if vector is None else vector.unique_id)
        for path, vector in zip(paths, vectors, strict=True)
    )


def commit_change(
    table: ChangedTable,
    operation: Operation,
    changes: FileChanges,
    reads: ReadSet,
    beside: Sequence[StagedAction] = (),
) -> ChangeMetrics:
    """Commit what a change wrote; it is removed where it is certain that nothing was committed."""
    numbers = {name: int(value) for name, value in operation.metrics.items()}
    if not changes.actions and not beside:
        return ChangeMetrics(operation.name, table.snapshot.version, False, numbers)
    staged = StagedCommit(
        operation,
        (*beside, *changes.actions),
        read_predicates=reads.predicates,
        read_whole_table=reads.whole_table,
        read_files=reads.files,
    )
    try:
        result = commit(table.store, table.snapshot, staged, on_phase=table.on_phase)
    except (CommitConflictError, TooManyAttemptsError, TableRuleError, UnsupportedFeatureError):
        discard(table, changes)
        raise
    return ChangeMetrics(operation.name, result.version, True, numbers)


def discard(table: ChangedTable, changes: FileChanges) -> None:
    """Remove files that were written and not committed, as far as the store allows."""
    new = [action.path for action in (*changes.written, *changes.change_files)]
    vectors = {dv_file_path(add.deletion_vector) for add in changes.marked if add.deletion_vector is not None}
    for path in (*new, *vectors):
        with contextlib.suppress(StorageError):
            place, key = resolve_path(table.store, path)
            place.delete(key)
