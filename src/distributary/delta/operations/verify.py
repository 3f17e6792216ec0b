"""Verifying a table as fsck does: does everything that the log promises hold?

`verify_table` reads and changes nothing. It looks at the whole log (S4 "Delta Log Entries", "Checkpoints",
"Last Checkpoint File", "Action Reconciliation") and at the files of the latest version: that they are there
and as long as the log says; with ``deep`` also at what is inside them. What it finds is a value.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.delta.errors import CorruptCheckpointError, DeltaError
from distributary.delta.log.log_segment import arrange
from distributary.delta.log.snapshot import Snapshot, load_snapshot, without_checkpoint
from distributary.delta.operations.verification_report import Findings, VerificationReport
from distributary.delta.operations.verify_data_files import check_data_files
from distributary.delta.operations.verify_footers import check_footers
from distributary.delta.operations.verify_log import (
    check_compactions,
    check_gaps,
    check_last_checkpoint,
    check_parts,
    list_log_files,
)
from distributary.delta.operations.verify_replay import check_replay
from distributary.storage.object_store import ObjectStore

_EXPLAINED_BY = {
    "CORRUPT_LOG": ("CORRUPT_COMMIT",),
    "LOG_GAP": ("LOG_GAP",),
    "CORRUPT_CHECKPOINT": ("CORRUPT_CHECKPOINT", "SIDECAR_MISSING"),
    "INVALID_SCHEMA": ("CORRUPT_COMMIT",),
}


def verify_table(
    store: ObjectStore, *, deep: bool = False, on_step: Callable[[str], None] | None = None
) -> VerificationReport:
    """Check a table's log and files; `on_step` is told what goes on."""
    tell = on_step or (lambda _text: None)
    findings = Findings()
    paths = list_log_files(store)
    listing = arrange(paths)
    check_gaps(listing, findings)
    check_parts(paths, findings)
    check_last_checkpoint(store, listing, findings)
    check_compactions(store, paths, findings)
    tell("replaying the log…")
    check_replay(store, listing, findings)
    snapshot = _latest(store, findings)
    if snapshot is not None:
        tell(f"looking for {snapshot.files.num_files:,} data files…")
        files = check_data_files(store, snapshot, findings)
        if deep:
            tell(f"opening {files.num_files:,} data files…")
            check_footers(store, snapshot, files, findings)
    return findings.report(store.root)


def _latest(store: ObjectStore, findings: Findings) -> Snapshot | None:
    """The latest version; where it cannot be read, that is a finding unless another explains it."""
    try:
        snapshot = load_snapshot(store)
        try:
            snapshot.files.column("path")
        except CorruptCheckpointError:
            snapshot = without_checkpoint(store, snapshot)
        _ = snapshot.schema
    except DeltaError as error:
        if not findings.has(*_EXPLAINED_BY.get(error.code, ())):
            findings.add("TABLE_UNREADABLE", store.root, str(error))
        return None
    return snapshot
