"""Clone: a new table with the contents of another one's version.

A shallow clone names the files of its source by absolute paths and copies none; it lives as
long as the source keeps them. A deep clone copies data files and deletion vectors and
stands on its own (a vector that lies outside the source's table becomes part of the log).
Either way the clone has an id and a history of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import msgspec

from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.deletion_vectors import (
    DeletionVectorDescriptor,
    dv_file_path,
    inline_descriptor,
    read_deletion_vector,
)
from distributary.delta.errors import TableExistsError
from distributary.delta.log.actions import Add
from distributary.delta.log.log_segment import list_log
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.table_scan import file_access
from distributary.errors import InvalidInputError
from distributary.storage.log_paths import resolve_path
from distributary.storage.object_store import ObjectStore

_COPIES_AT_ONCE = 8
_CHUNK = 8 * 1024 * 1024
_URI_SAFE = "/!$&'()*+,;=@~-._:"

Progress = Callable[[int], None]


class ClonePlan(msgspec.Struct, frozen=True):
    """What a clone takes over."""

    source: Snapshot
    target: str
    shallow: bool
    files: tuple[Add, ...]

    @property
    def bytes(self) -> int:
        """The size of the data files."""
        return sum(add.size for add in self.files)

    def __str__(self) -> str:
        kind = "shallow" if self.shallow else "deep"
        return (
            f"{kind} clone of {self.source.root} version {self.source.version} to {self.target}: "
            f"{len(self.files):,} files, {self.bytes:,} bytes"
        )


def plan_clone(source: Snapshot, target: ObjectStore, *, shallow: bool) -> ClonePlan:
    """Plan a clone of a snapshot."""
    if source.root == target.root:
        raise InvalidInputError(f"{source.root} cannot be cloned onto itself")
    if list_log(target).latest_version >= 0:
        raise TableExistsError(f"{target.root} is a Delta table already; clone to another place")
    return ClonePlan(source, target.root, shallow, tuple(source.files.adds()))


def execute_clone(
    source: ObjectStore, target: ObjectStore, plan: ClonePlan, progress: Progress | None = None
) -> CommitResult:
    """Make the clone; the target must not be a table yet."""
    adds = [_shallow(source, add) for add in plan.files] if plan.shallow else None
    if adds is None:
        adds = list(_deep(source, target, plan, progress))
    metadata = msgspec.structs.replace(plan.source.metadata, id=str(uuid.uuid4()))
    operation = Operation(
        "CLONE",
        {
            "source": plan.source.root,
            "sourceVersion": plan.source.version,
            "isShallow": plan.shallow,
            "properties": {},
        },
        {"sourceNumOfFiles": len(plan.files), "sourceTableSize": plan.bytes},
    )
    actions = (plan.source.protocol, metadata, *plan.source.domains.values(), *adds)
    return commit(target, None, StagedCommit(operation, actions))


def _shallow(source: ObjectStore, add: Add) -> Add:
    vector = add.deletion_vector
    return msgspec.structs.replace(
        add,
        path=absolute_uri(source, add.path),
        data_change=True,
        deletion_vector=None if vector is None else _absolute_vector(source, vector),
    )


def absolute_uri(store: ObjectStore, log_path: str) -> str:
    """The absolute URI of a file that a log names."""
    where, key = resolve_path(store, log_path)
    return f"{where.root}/{quote(key, safe=_URI_SAFE)}"


def _absolute_vector(source: ObjectStore, vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
    if vector.storage_type == "i":
        return vector
    uri = absolute_uri(source, dv_file_path(vector))
    return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=uri)


def _deep(
    source: ObjectStore, target: ObjectStore, plan: ClonePlan, progress: Progress | None
) -> Iterator[Add]:
    """Copy each data file, and each deletion vector file once."""
    vectors = {
        dv_file_path(add.deletion_vector): None
        for add in plan.files
        if add.deletion_vector is not None and add.deletion_vector.storage_type == "u"
    }
    with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
        list(pool.map(lambda path: _copy(source, target, path), vectors))
        for add, key in zip(
            plan.files, pool.map(lambda add: _copy(source, target, add.path), plan.files), strict=True
        ):
            if progress is not None:
                progress(add.size)
            yield _copied(source, add, key)


def _copy(source: ObjectStore, target: ObjectStore, log_path: str) -> str:
    """Copy one file to the same key, or to its name where it lies outside the source's root."""
    where, key = resolve_path(source, log_path)
    place = key if where.root == source.root else key.rpartition("/")[2]
    with where.open_file(key) as original, target.open_output(place) as copy:
        while chunk := original.read(_CHUNK):
            copy.write(chunk)
    return place


def _copied(source: ObjectStore, add: Add, key: str) -> Add:
    vector = add.deletion_vector
    if vector is not None and vector.storage_type == "p":
        vector = inline_descriptor(read_deletion_vector(vector, file_access(source).read_range))
    return msgspec.structs.replace(
        add, path=quote(key, safe=_URI_SAFE), data_change=True, deletion_vector=vector
    )
