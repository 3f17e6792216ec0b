"""A local copy of a shared table: a Delta table of its own that says of what, and up to which version.

Every commit of a copy carries the shared table's id and the shared version as an application transaction: a
version is there once or not at all, whenever a run was interrupted. A table without that mark is not touched.

A copy has the shared table's columns, partitioning, properties and reader features, and an id of its own.
What belongs to the log of the original alone (row ids, times of its commits, its checkpoints, who may commit,
clustering, being append-only) is left out: the copy's log is another one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Final

import msgspec

from distributary.client.copied_files import data_path, local_add
from distributary.client.errors import SyncTargetError
from distributary.delta.commit.protocol_upgrade import required_protocol
from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import TableNotFoundError
from distributary.delta.log.actions import Add, Metadata, Protocol, Remove, SetTransaction
from distributary.delta.log.protocol_support import check_can_read, features_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations.restore import removal
from distributary.delta.schema.data_types import parse_schema
from distributary.delta.table_features import FEATURES
from distributary.storage.log_paths import canonical_path
from distributary.storage.object_store import ObjectStore

_OF_THE_LOG: Final = frozenset(
    {
        "rowTracking",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "v2Checkpoint",
        "checkpointProtection",
        "vacuumProtocolCheck",
        "catalogManaged",
        "catalogOwned",
        "catalogOwned-preview",
        "coordinatedCommits-preview",
        "clustering",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
    }
)
_PROPERTIES_OF_THE_LOG: Final = (
    "delta.appendOnly",
    "delta.enableRowTracking",
    "delta.rowTracking",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestamp",
    "delta.checkpointPolicy",
    "delta.coordinatedCommits",
    "delta.enableIcebergCompat",
    "delta.universalFormat",
    "delta.feature.",
)


class TableState(msgspec.Struct, frozen=True):
    """Protocol and metadata of the shared table at a version."""

    protocol: Protocol
    metadata: Metadata


class FileChange(msgspec.Struct, frozen=True):
    """Files that come and go in one version, as the log of the copy has them."""

    adds: tuple[Add, ...] = ()
    removes: tuple[Remove, ...] = ()


class LocalCopy:
    """The copy of a shared table at a place; it may not be there yet."""

    def __init__(self, store: ObjectStore, table: str) -> None:
        self.store = store
        self._table = table
        try:
            self.snapshot: Snapshot | None = load_snapshot(store)
        except TableNotFoundError:
            self.snapshot = None

    @cached_property
    def present(self) -> dict[str, Add]:
        """The files of the copy by their canonical paths; kept up to date by `commit`."""
        if self.snapshot is None:
            return {}
        canonical = partial(canonical_path, self.store.root)
        return {canonical(add.path): add for add in self.snapshot.files.adds()}

    def shared_version(self, table_id: str) -> int | None:
        """Up to which version of the shared table the copy goes; None where there is no copy yet."""
        if self.snapshot is None:
            return None
        mark = self.snapshot.transactions.get(table_id)
        if mark is None:
            raise SyncTargetError(
                f"{self.store.root} is a Delta table, but not a copy of {self._table}: it is left as it is. "
                "Sync to another place"
            )
        return mark.version

    def difference(self, wanted: Mapping[str, Add]) -> FileChange:
        """What is to be done so that the copy has these files, given by their places, and no others."""
        now = _now()
        adds = [add for path, add in wanted.items() if not _same(self.present.get(path), add)]
        removes = [
            removal(add, now) for path, add in self.present.items() if not _same(wanted.get(path), add)
        ]
        return FileChange(tuple(adds), tuple(removes))

    def change(self, adds: list[Add], removed_ids: list[str]) -> FileChange | None:
        """The files of one version's actions; None where they do not fit the files of the copy.

        They do not where the shared table rearranged its files in between, which servers do not tell.
        """
        gone = {data_path(key) for key in removed_ids}
        come = {add.path: add for add in map(local_add, adds)}
        present = self.present
        if any(path not in present for path in gone) or any(
            path in present and path not in gone and not _same(present[path], add)
            for path, add in come.items()
        ):
            return None
        kept = {path for path, add in come.items() if _same(present.get(path), add)}
        now = _now()
        return FileChange(
            tuple(add for path, add in come.items() if path not in kept),
            tuple(removal(present[path], now) for path in sorted(gone - kept)),
        )

    def commit(
        self, table_id: str, shared_version: int, state: TableState, change: FileChange, how: str
    ) -> int:
        """Commit one version of the shared table; gives the copy's version."""
        actions = (
            *self._new_state(state),
            SetTransaction(table_id, shared_version, _now()),
            *change.removes,
            *change.adds,
        )
        operation = Operation(
            "SYNC",
            {"table": self._table, "sharedVersion": shared_version, "by": how},
            {
                "numAddedFiles": len(change.adds),
                "numRemovedFiles": len(change.removes),
                "numAddedBytes": sum(add.size for add in change.adds),
            },
        )
        staged = StagedCommit(
            operation, actions, read_whole_table=True, isolation="Serializable", copies_files=True
        )
        present = self.present
        result = commit(self.store, self.snapshot, staged)
        self.snapshot = result.snapshot
        for remove in change.removes:
            present.pop(remove.path, None)
        present.update({add.path: add for add in change.adds})
        return result.version

    def _new_state(self, state: TableState) -> list[StagedAction]:
        """Protocol and metadata, where they are not those of the copy."""
        check_can_read(state.protocol, self._table)
        known = self.snapshot
        metadata = _local_metadata(state.metadata, None if known is None else known.metadata)
        schema = parse_schema(metadata.schema_string or "{}")
        features = (features_of(state.protocol) & FEATURES.keys()) - _OF_THE_LOG
        protocol = required_protocol(None if known is None else known.protocol, metadata, schema, features)
        found: list[StagedAction] = []
        if known is None or protocol != known.protocol:
            found.append(protocol)
        if known is None or metadata != known.metadata:
            found.append(metadata)
        return found


def _local_metadata(shared: Metadata, known: Metadata | None) -> Metadata:
    """The shared table's metadata with the copy's own id."""
    kept = {
        name: value
        for name, value in shared.properties.items()
        if not name.startswith(_PROPERTIES_OF_THE_LOG)
    }
    return msgspec.structs.replace(
        shared,
        id=str(uuid.uuid4()) if known is None else known.id,
        partition_columns=list(shared.partitioning),
        configuration=kept,
    )


def _same(one: Add | None, other: Add) -> bool:
    return one is not None and one.deletion_vector == other.deletion_vector


def _now() -> int:
    return int(time.time() * 1000)
