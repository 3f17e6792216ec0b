"""Care for the log after a commit: checksum, checkpoint when due, clean-up.

None of this is needed for the commit to hold, so nothing here makes it fail: an error is
logged and a later commit tries again. A checkpoint is due every `delta.checkpointInterval`
versions (CK-001), after the version's entry is written (CK-002); expired log files are
removed after a checkpoint, when it can stand in for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.log.checksum import write_checksum
from distributary.delta.log.cleanup import execute_cleanup, prepare_cleanup
from distributary.delta.log.snapshot import Snapshot
from distributary.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)


def care_for_log(store: ObjectStore, snapshot: Snapshot, now: int) -> None:
    """Write what a new version calls for; `now` is in milliseconds."""
    _attempt("checksum", snapshot, lambda: write_checksum(store, snapshot))
    if is_checkpoint_due(snapshot):
        written = _attempt("checkpoint", snapshot, lambda: write_checkpoint(store, snapshot, now=now))
        if written:
            _attempt("clean-up", snapshot, lambda: clean_up(store, snapshot, now))


def is_checkpoint_due(snapshot: Snapshot) -> bool:
    """Whether a version is one that gets a checkpoint."""
    return snapshot.version > 0 and snapshot.version % snapshot.properties.checkpoint_interval == 0


def clean_up(store: ObjectStore, snapshot: Snapshot, now: int) -> int:
    """Remove the log files that the retention no longer asks for; gives how many."""
    return execute_cleanup(store, prepare_cleanup(store, snapshot.properties, now))


def _attempt(what: str, snapshot: Snapshot, care: Callable[[], object]) -> bool:
    try:
        care()
    except Exception as error:  # whatever it is: the commit has happened, and must not be denied
        _log.warning("%s of version %s of %s: %s", what, snapshot.version, snapshot.root, error)
        return False
    return True
