"""Analyze: statistics for files that lack them.

Adding a path again replaces what the log says of it (LW-017), so statistics can be given to
files long after they were written. No row changes: the adds are marked `dataChange=false`.
A file that another writer removes meanwhile is a conflict, never brought back to life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import pyarrow as pa

from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.errors import DataFileError
from distributary.delta.log.actions import Add
from distributary.delta.log.reconciliation import file_key
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.arrow_reader import FileAccess
from distributary.delta.scan.table_scan import file_access
from distributary.delta.statistics.collection import IndexedColumn, indexed_columns
from distributary.delta.statistics.existing_file import statistics_of
from distributary.delta.statistics.json_statistics import parse_file_statistics
from distributary.errors import ObjectNotFoundError
from distributary.storage.log_paths import canonical_path
from distributary.storage.object_store import ObjectStore

_FILES_AT_ONCE = 4

Progress = Callable[[int], None]


class AnalyzePlan(msgspec.Struct, frozen=True):
    """The files that get statistics, and the columns that they cover."""

    snapshot: Snapshot
    files: tuple[Add, ...]
    columns: tuple[IndexedColumn, ...]

    def __str__(self) -> str:
        return (
            f"{self.snapshot.root}: statistics of {len(self.columns)} columns for {len(self.files):,} of "
            f"{self.snapshot.files.num_files:,} files"
        )


def plan_analyze(snapshot: Snapshot, *, every_file: bool = False) -> AnalyzePlan:
    """Find the files without statistics, or take every file."""
    columns = indexed_columns(
        snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode, snapshot.properties
    )
    files = snapshot.files.adds()
    chosen = files if every_file else [add for add in files if parse_file_statistics(add.stats) is None]
    return AnalyzePlan(snapshot, tuple(chosen), columns)


def execute_analyze(
    store: ObjectStore, plan: AnalyzePlan, progress: Progress | None = None
) -> CommitResult | None:
    """Read the files, and commit their statistics; nothing is committed where no file was chosen."""
    adds = list(_analyzed(store, plan, progress))
    if not adds:
        return None
    canonical = partial(canonical_path, store.root)
    staged = StagedCommit(
        Operation("COMPUTE STATS", {}, {"numFiles": len(adds)}),
        tuple(adds),
        read_files=frozenset(file_key(add, canonical) for add in adds),
    )
    return commit(store, plan.snapshot, staged)


def _analyzed(store: ObjectStore, plan: AnalyzePlan, progress: Progress | None) -> Iterator[Add]:
    access = file_access(store)
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        for add in pool.map(lambda add: _with_statistics(access, add, plan.columns), plan.files):
            if progress is not None:
                progress(1)
            yield add


def _with_statistics(access: FileAccess, add: Add, columns: tuple[IndexedColumn, ...]) -> Add:
    try:
        file = access.open_file(add.path, add.size)
        text = statistics_of(file, columns, pre_buffer=access.remote)
    except (ObjectNotFoundError, pa.ArrowException, OSError, ValueError) as error:
        raise DataFileError(f"data file {add.path} cannot be read: {error}") from error
    if add.deletion_vector is not None:
        text = _loosened(text)
    return msgspec.structs.replace(add, stats=text, data_change=False)


def _loosened(text: str) -> str:
    """Statistics of a file with deleted rows: bounds hold, but no row need have their value."""
    return msgspec.json.encode({**msgspec.json.decode(text), "tightBounds": False}).decode()
