"""Vacuum: deleting the files that no version within the retention needs.

Implements S4's retention (RET-001 to RET-004). Kept are: every file of the current version,
every file whose tombstone is younger than the retention, the deletion vectors of both,
everything younger than the retention (a writer may be about to commit it), the log, and
hidden files and directories other than partition directories and `_change_data`. Planning
only looks; a plan prints itself, and deleting is a step of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, dv_file_path
from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.log_path import LOG_DIRECTORY
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.column_mapping import physical_name
from distributary.errors import InvalidInputError, StorageError
from distributary.storage.log_paths import canonical_path, canonical_paths
from distributary.storage.object_store import ObjectMeta, ObjectStore

CHANGE_DIRECTORY = "_change_data"
_DELETIONS_AT_ONCE = 16

Progress = Callable[[int], None]


class VacuumPlan(msgspec.Struct, frozen=True):
    """The files that may go, and what the decision rests on."""

    root: str
    version: int
    retention: datetime.timedelta
    files: tuple[str, ...]
    bytes: int
    kept: int

    def __str__(self) -> str:
        size = f"{self.bytes:,} bytes"
        return (
            f"{self.root}: {len(self.files):,} files ({size}) are not needed by any version of the last "
            f"{_in_words(self.retention)}; {self.kept:,} files stay"
        )


class VacuumResult(msgspec.Struct, frozen=True):
    """What a vacuum did."""

    deleted: int
    bytes: int
    failed: tuple[str, ...] = ()


def plan_vacuum(
    store: ObjectStore,
    snapshot: Snapshot,
    *,
    now: int,
    retention: datetime.timedelta | None = None,
    force: bool = False,
    listing: Iterable[ObjectMeta] | None = None,
) -> VacuumPlan:
    """Find the files that no version within the retention needs; `now` is in milliseconds.

    `listing` has every file of the table where another has listed them already.
    """
    _check_protocol(snapshot)
    agreed = snapshot.properties.deleted_file_retention
    kept_for = agreed if retention is None else retention
    _check_retention(kept_for, agreed, force, snapshot.root)
    horizon = now - int(kept_for.total_seconds() * 1000)
    needed = needed_files(snapshot, horizon)
    partitions = _partition_prefixes(snapshot)
    old, total, kept = list[str](), 0, 0
    for meta in store.list_all() if listing is None else listing:
        if not _belongs_to_table(meta.path, partitions):
            continue
        if meta.path in needed or meta.last_modified >= horizon:
            kept += 1
        else:
            old.append(meta.path)
            total += meta.size
    return VacuumPlan(snapshot.root, snapshot.version, kept_for, tuple(old), total, kept)


def execute_vacuum(store: ObjectStore, plan: VacuumPlan, progress: Progress | None = None) -> VacuumResult:
    """Delete the files of a plan; one that cannot be deleted is named and does not stop the others."""
    failed: list[str] = []
    with ThreadPoolExecutor(_DELETIONS_AT_ONCE if store.is_remote else 1) as pool:
        for path, deleted in zip(
            plan.files, pool.map(lambda path: _delete(store, path), plan.files), strict=True
        ):
            if not deleted:
                failed.append(path)
            if progress is not None:
                progress(1)
    return VacuumResult(len(plan.files) - len(failed), plan.bytes, tuple(failed))


def _delete(store: ObjectStore, path: str) -> bool:
    try:
        store.delete(path)
    except StorageError:
        return False
    return True


def needed_files(snapshot: Snapshot, horizon: int) -> set[str]:
    """The keys below the root of all files that versions since `horizon` may read."""
    root = snapshot.root
    needed: set[str] = set(canonical_paths(root, snapshot.files.column("path")).to_pylist())
    needed.update(_vector_paths(root, _vectors(snapshot.files)))
    for remove in snapshot.tombstones():
        if (remove.deletion_timestamp or 0) > horizon:
            needed.add(canonical_path(root, remove.path))
            if remove.deletion_vector is not None:
                needed.update(_vector_paths(root, [remove.deletion_vector]))
    return needed


def _vectors(files: FileSelection) -> Iterator[DeletionVectorDescriptor]:
    return (vector for vector in files.deletion_vectors() if vector is not None)


def _vector_paths(root: str, vectors: Iterable[DeletionVectorDescriptor]) -> Iterator[str]:
    return (canonical_path(root, dv_file_path(vector)) for vector in vectors if vector.storage_type != "i")


def _belongs_to_table(path: str, partitions: tuple[str, ...]) -> bool:
    """Whether vacuum may judge a file: not the log's, and not hidden (RET-004)."""
    first, *rest = path.split("/")
    if first == LOG_DIRECTORY:
        return False
    names = rest if first == CHANGE_DIRECTORY and rest else [first, *rest]
    return not any(_is_hidden(name, partitions) for name in names)


def _is_hidden(name: str, partitions: tuple[str, ...]) -> bool:
    return name.startswith(("_", ".")) and not name.startswith(partitions or ("\0",))


def _partition_prefixes(snapshot: Snapshot) -> tuple[str, ...]:
    mode = snapshot.mapping_mode
    fields = [snapshot.schema.field(name) for name in snapshot.metadata.partitioning]
    return tuple(f"{name}=" for field in fields for name in (field.name, physical_name(field, mode)))


def _check_protocol(snapshot: Snapshot) -> None:
    """Deleting files is writing: refuse tables whose rules about it are not known."""
    snapshot.check_writable()


def _check_retention(
    retention: datetime.timedelta, agreed: datetime.timedelta, force: bool, root: str
) -> None:
    if retention < datetime.timedelta(0):
        raise InvalidInputError(f"a retention must not be negative, not {retention}")
    if retention < agreed and not force:
        raise InvalidInputError(
            f"a retention of {_in_words(retention)} is shorter than the {_in_words(agreed)} that {root} "
            "promises its readers and writers; running ones may lose their files. Force it only if you know "
            "that there are none."
        )


def _in_words(time: datetime.timedelta) -> str:
    """A length of time as people say it: whole days or hours where it is that."""
    hours, rest = divmod(time, datetime.timedelta(hours=1))
    if rest:
        return str(time)
    return f"{hours // 24} days" if hours % 24 == 0 and hours else f"{hours} hours"
