"""Restore: making an older version the newest again.

A restore is an ordinary commit: it adds the files that the older version had and the current
one lacks, removes those that only the current one has, and brings back the older metadata.
The protocol never goes down. Files that were vacuumed cannot come back; planning looks for
them first.
"""

from __future__ import annotations

import datetime
from functools import partial

import msgspec

from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.deletion_vectors import dv_file_path
from distributary.delta.errors import DataFileError
from distributary.delta.log.actions import Add, Metadata, Remove
from distributary.delta.log.reconciliation import file_key
from distributary.delta.log.snapshot import Snapshot
from distributary.errors import ObjectNotFoundError
from distributary.storage.log_paths import canonical_path, resolve_path
from distributary.storage.object_store import ObjectStore

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"


class RestorePlan(msgspec.Struct, frozen=True):
    """What a restore changes, and which of the files that it needs are gone."""

    current: Snapshot
    target: Snapshot
    adds: tuple[Add, ...]
    removes: tuple[Remove, ...]
    metadata: Metadata | None
    missing: tuple[str, ...]

    def __str__(self) -> str:
        schema = ", and the metadata" if self.metadata is not None else ""
        lost = f"; {len(self.missing):,} files are gone" if self.missing else ""
        return (
            f"{self.current.root}: version {self.target.version} on top of {self.current.version} brings "
            f"back {len(self.adds):,} files, removes {len(self.removes):,}{schema}{lost}"
        )


def plan_restore(store: ObjectStore, current: Snapshot, target: Snapshot, *, now: int) -> RestorePlan:
    """Compare two versions; `now` in milliseconds becomes the time of removal."""
    canonical = partial(canonical_path, store.root)
    present = {file_key(add, canonical): add for add in current.files.adds()}
    wanted = {file_key(add, canonical): add for add in target.files.adds()}
    adds = [
        msgspec.structs.replace(add, data_change=True) for key, add in wanted.items() if key not in present
    ]
    removes = [removal(add, now) for key, add in present.items() if key not in wanted]
    return RestorePlan(
        current=current,
        target=target,
        adds=tuple(adds),
        removes=tuple(removes),
        metadata=_metadata(current.metadata, target.metadata),
        missing=tuple(add.path for add in adds if not _is_there(store, add)),
    )


def execute_restore(
    store: ObjectStore,
    plan: RestorePlan,
    *,
    ignore_missing_files: bool = False,
    timestamp: datetime.datetime | str | None = None,
) -> CommitResult:
    """Commit a plan; refused while files are gone, unless they may be left out."""
    if plan.missing and not ignore_missing_files:
        raise DataFileError(
            f"version {plan.target.version} of {store.root} cannot be restored: {len(plan.missing)} of its "
            f"files are gone, {plan.missing[0]} for one. Restore a newer version, or leave missing files out."
        )
    gone = set(plan.missing)
    adds = [add for add in plan.adds if add.path not in gone]
    actions: list[StagedAction] = [*adds, *plan.removes]
    if plan.metadata is not None:
        actions.append(plan.metadata)
    operation = Operation(
        "RESTORE",
        {"version": plan.target.version, "timestamp": str(timestamp) if timestamp is not None else None},
        {
            "numRestoredFiles": len(adds),
            "numRemovedFiles": len(plan.removes),
            "restoredFilesSize": sum(add.size for add in adds),
            "removedFilesSize": sum(remove.size or 0 for remove in plan.removes),
        },
    )
    staged = StagedCommit(operation, tuple(actions), read_whole_table=True, isolation="Serializable")
    return commit(store, plan.current, staged)


def removal(add: Add, now: int, *, data_change: bool = True) -> Remove:
    """The tombstone of an active file (LW-014)."""
    return Remove(
        path=add.path,
        data_change=data_change,
        deletion_timestamp=now,
        extended_file_metadata=True,
        partition_values=add.partition_values or {},
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def _metadata(current: Metadata, target: Metadata) -> Metadata | None:
    """The older metadata where it differs; ids of columns are never given out twice."""
    if current == target:
        return None
    configuration = dict(target.properties)
    highest = max(int(found.properties.get(MAX_COLUMN_ID, 0)) for found in (current, target))
    if highest:
        configuration[MAX_COLUMN_ID] = str(highest)
    return msgspec.structs.replace(target, configuration=configuration)


def _is_there(store: ObjectStore, add: Add) -> bool:
    vector = add.deletion_vector
    paths = [add.path] if vector is None or vector.storage_type == "i" else [add.path, dv_file_path(vector)]
    try:
        for path in paths:
            where, key = resolve_path(store, path)
            where.head(key)
    except ObjectNotFoundError:
        return False
    return True
