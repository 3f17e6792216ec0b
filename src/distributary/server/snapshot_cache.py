"""Snapshots of shared tables, kept between requests and brought up to date by what was committed since.

The latest version is looked for at each request by default (a few look-ups on a local disk, a listing from
the known version on object stores), or as rarely as `staleness` seconds allow. Many requests at once share
one look: a request waits for the look under way and uses it when it began after the request came. A few
older versions are kept too, for time travel and for pages of a query whose table has moved on. Tables that
were not asked for longest are forgotten when all of them together take more memory than they may.

Safe to use from many threads; everything here blocks, so none of it belongs on an event loop.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from distributary.delta.errors import CorruptCheckpointError
from distributary.delta.log.snapshot import Snapshot, load_snapshot, refresh, without_checkpoint
from distributary.errors import DistributaryError
from distributary.server.rendered_cache import RenderedCache, RenderedRows
from distributary.server.served_table import ServedTable, SnapshotFiles
from distributary.server.table_errors import as_sharing_errors
from distributary.sharing.error_response import InvalidParameterError
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.object_store import ObjectStore, open_store

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
OpenStore = Callable[[TablePolicy], ObjectStore]
"""Opens the store of a shared table, with the provider's storage options."""

_OLDER_VERSIONS = 2
_POLICIES = 64
_MEGABYTE = 1 << 20
_WEIGH_EVERY = 1.0
# Bounds, positions and masks that are worked out of the columns of a file's action.
_DERIVED_BYTES = 150


def open_policy_store(policy: TablePolicy) -> ObjectStore:
    """The store of a table, with credentials of the environment."""
    return open_store(policy.location, None, policy.auxiliary_locations)


class CachedTable:
    """One table: its latest snapshot and a few older ones."""

    def __init__(self, store: ObjectStore, cache: RenderedCache, staleness: float) -> None:
        self.store = store
        self._cache = cache
        self._staleness = staleness
        self._lock = Lock()
        self._latest: SnapshotFiles | None = None
        self._looked = -1.0
        self._failed: tuple[float, DistributaryError] | None = None
        self._older_lock = Lock()
        self._older: OrderedDict[int, SnapshotFiles] = OrderedDict()

    def latest(self) -> SnapshotFiles:
        """The latest snapshot."""
        came = time.monotonic()
        known = self._latest
        if known is not None and self._staleness and came - self._looked <= self._staleness:
            return known
        with self._lock:
            if self._latest is not None and self._looked >= came:
                return self._latest
            if self._failed is not None and self._failed[0] >= came:
                raise self._failed[1]
            return self._look()

    def at(self, version: int) -> SnapshotFiles:
        """The snapshot of a version that is not newer than the latest one."""
        latest = self.latest()
        if version == latest.snapshot.version:
            return latest
        if version > latest.snapshot.version:
            raise InvalidParameterError(
                f"There is no version {version} yet: the latest is {latest.snapshot.version}."
            )
        with self._older_lock:
            found = self._older.get(version)
            if found is None:
                found = SnapshotFiles(self.store, load_snapshot(self.store, version), self._cache)
                self._older[version] = found
            self._older.move_to_end(version)
            while len(self._older) > _OLDER_VERSIONS:
                self._older.popitem(last=False)
            return found

    def mend(self, error: CorruptCheckpointError) -> None:
        """Go on without a checkpoint that proved unreadable while its columns were used."""
        _log.warning("%s: going on without it", error)
        with self._older_lock:
            self._older.clear()
        with self._lock:
            if self._latest is not None:
                snapshot = without_checkpoint(self.store, self._latest.snapshot)
                self._latest = SnapshotFiles(self.store, snapshot, self._cache)

    @property
    def nbytes(self) -> int:
        """About how much memory the snapshots take; rows that versions share count once."""
        with self._older_lock:
            files = [*self._older.values()]
        if self._latest is not None:
            files.append(self._latest)
        known = [one.snapshot.files for one in files if one.snapshot.files_known]
        rows = {id(block.rows): block.rows for active in known for block in active.blocks}
        derived = sum(active.num_files for active in known) * _DERIVED_BYTES
        lines = [kept for held in rows.values() for kept in [*held.kept.values()]]
        rendered = sum(kept.nbytes for kept in lines if isinstance(kept, RenderedRows))
        return derived + rendered + sum(held.nbytes for held in rows.values())

    def _look(self) -> SnapshotFiles:
        """Look for the latest version, for everybody who waits for it."""
        began = time.monotonic()
        try:
            found = self._refreshed(self._latest)
        except DistributaryError as error:
            self._failed = (began, error)
            raise
        self._latest, self._looked, self._failed = found, began, None
        return found

    def _refreshed(self, known: SnapshotFiles | None) -> SnapshotFiles:
        if known is None:
            return self._usable(load_snapshot(self.store))
        snapshot = refresh(self.store, known.snapshot)
        if snapshot is known.snapshot:
            return known
        with self._older_lock:
            if (
                snapshot.metadata.id != known.snapshot.metadata.id
                or snapshot.version < known.snapshot.version
            ):
                self._older.clear()
            else:
                self._older[known.snapshot.version] = known
        return self._usable(snapshot)

    def _usable(self, snapshot: Snapshot) -> SnapshotFiles:
        """The files of a snapshot; rebuilt without its checkpoint where that proves unreadable."""
        try:
            _ = snapshot.files
        except CorruptCheckpointError as error:
            _log.warning("%s: going on without it", error)
            snapshot = without_checkpoint(self.store, snapshot)
        return SnapshotFiles(self.store, snapshot, self._cache)


class SnapshotCache:
    """The tables that are served, by their roots."""

    def __init__(
        self,
        *,
        rendered: RenderedCache | None = None,
        open_table: OpenStore = open_policy_store,
        staleness: float = 0.0,
        max_tables: int = 256,
        max_bytes: int = 512 * _MEGABYTE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rendered = rendered or RenderedCache()
        self._open = open_table
        self._staleness = staleness
        self._max_tables = max_tables
        self._max_bytes = max_bytes
        self._now = now
        self._weighed = 0.0
        self._lock = Lock()
        self._tables: OrderedDict[tuple[str, ...], CachedTable] = OrderedDict()

    def table(self, policy: TablePolicy) -> CachedTable:
        """The table that a policy is for."""
        key = (policy.location, *policy.auxiliary_locations)
        with self._lock:
            found = self._tables.get(key)
        if found is None:
            with as_sharing_errors():
                found = CachedTable(self._open(policy), self._rendered, self._staleness)
        with self._lock:
            found = self._tables.setdefault(key, found)
            self._tables.move_to_end(key)
            while len(self._tables) > self._max_tables:
                self._tables.popitem(last=False)
        if self._now() - self._weighed >= _WEIGH_EVERY:
            self.forget_the_oldest()
        return found

    def forget_the_oldest(self) -> None:
        """Let go of tables beyond the memory that they may take; the one asked for last always stays."""
        self._weighed = self._now()
        with self._lock:
            tables = [*self._tables.items()]
        total = 0
        for number, (key, table) in enumerate(reversed(tables)):
            total += table.nbytes
            if number and total > self._max_bytes:
                with self._lock:
                    self._tables.pop(key, None)

    def answering(self, policy: TablePolicy, answer: Callable[[], Result]) -> Result:
        """Make an answer, once more where a checkpoint proves unreadable; errors are the protocol's."""
        with as_sharing_errors():
            try:
                return answer()
            except CorruptCheckpointError as error:
                self.table(policy).mend(error)
                return answer()

    def latest(self, policy: TablePolicy) -> ServedTable:
        """The latest version of a table under a policy."""
        with as_sharing_errors():
            return served(self.table(policy).latest(), policy)

    def at(self, policy: TablePolicy, version: int) -> ServedTable:
        """A version of a table under a policy."""
        with as_sharing_errors():
            return served(self.table(policy).at(version), policy)


def served(files: SnapshotFiles, policy: TablePolicy) -> ServedTable:
    """The files under a policy, which is worked out once for all recipients that have it."""
    key = policy.digest
    found = files.served.get(key)
    if found is None:
        if len(files.served) >= _POLICIES:
            files.served.clear()
        found = files.served[key] = ServedTable(files, policy)
    return found
