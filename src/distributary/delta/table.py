"""DeltaTable and TableSnapshot: the façade that joins the log and the scan.

A `DeltaTable` is a place; a `TableSnapshot` is its state at one version and never changes,
whatever is committed meanwhile. A checkpoint that proves unreadable while a snapshot is
used is left aside and the same version is rebuilt from the rest of the log.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from distributary.delta.errors import CorruptCheckpointError, TableNotFoundError, VersionNotFoundError
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.history import HistoryEntry, history, timeline
from distributary.delta.log.snapshot import Snapshot, load_snapshot, refresh, without_checkpoint
from distributary.delta.scan.change_data_feed import ChangeScan
from distributary.delta.scan.file_listing import list_files
from distributary.delta.scan.table_scan import ScanSettings, TableScan
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.delta.table_properties import TableProperties
from distributary.errors import InvalidInputError
from distributary.expressions.tree import Expression
from distributary.frames import RowSource
from distributary.storage.object_store import ObjectStore, open_store

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Moment = datetime.datetime | str
Predicate = str | Expression


class DeltaTable:
    """A Delta table at a path or URI."""

    def __init__(
        self,
        uri: str | Path,
        storage_options: Mapping[str, str] | None = None,
        *,
        allowed_roots: Sequence[str] = (),
        settings: ScanSettings | None = None,
    ) -> None:
        self.store: ObjectStore = open_store(str(uri), storage_options, allowed_roots)
        self._settings = settings or ScanSettings()
        self._latest: Snapshot | None = None

    @classmethod
    def exists(cls, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a Delta table at a path or URI."""
        try:
            cls(uri, storage_options).version()
        except TableNotFoundError:
            return False
        return True

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.store.root

    def version(self) -> int:
        """The latest version."""
        return self._refreshed().version

    def snapshot(self, version: int | None = None, timestamp: Moment | None = None) -> TableSnapshot:
        """The table at a version, or as it was at a time; the latest by default.

        A time is an aware datetime or ISO 8601 text; one without a zone is UTC.
        """
        if version is not None and timestamp is not None:
            raise InvalidInputError("give a version or a timestamp, not both")
        if timestamp is not None:
            version = self._timeline_version(timestamp)
        state = self._refreshed() if version is None else self._at(version)
        return TableSnapshot(self.store, state, self._settings)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The commits that the log still has, newest first."""
        return history(self.store, self._refreshed(), limit)

    def changes(
        self,
        starting_version: int | None = None,
        ending_version: int | None = None,
        *,
        starting_timestamp: Moment | None = None,
        ending_timestamp: Moment | None = None,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> TableChanges:
        """The rows that changed between two versions or times, both included."""
        start = self._starting(starting_version, starting_timestamp)
        end = self._ending(ending_version, ending_timestamp)
        scan = ChangeScan(
            self.store, start, end, columns=columns, predicate=predicate, settings=self._settings
        )
        return TableChanges(scan, start, end.version)

    def _refreshed(self) -> Snapshot:
        known = self._latest
        self._latest = load_snapshot(self.store) if known is None else refresh(self.store, known)
        return self._latest

    def _at(self, version: int) -> Snapshot:
        known = self._latest
        return known if known is not None and known.version == version else load_snapshot(self.store, version)

    def _timeline_version(self, moment: Moment) -> int:
        return timeline(self.store, self._refreshed()).version_at(milliseconds(moment))

    def _starting(self, version: int | None, moment: Moment | None) -> int:
        if (version is None) == (moment is None):
            raise InvalidInputError("changes need a starting_version or a starting_timestamp (one of them)")
        if moment is None:
            assert version is not None
            return version
        found = timeline(self.store, self._refreshed()).first_version_from(milliseconds(moment))
        if found is None:
            raise VersionNotFoundError(f"nothing was committed to {self.uri} at or after {moment}")
        return found

    def _ending(self, version: int | None, moment: Moment | None) -> Snapshot:
        if version is not None and moment is not None:
            raise InvalidInputError("give an ending_version or an ending_timestamp, not both")
        if moment is not None:
            version = self._timeline_version(moment)
        return self._refreshed() if version is None else self._at(version)

    def __repr__(self) -> str:
        return f"DeltaTable({self.uri!r})"


class TableSnapshot:
    """A Delta table at one version."""

    def __init__(self, store: ObjectStore, state: Snapshot, settings: ScanSettings) -> None:
        self._store = store
        self._state = state
        self._settings = settings

    @property
    def version(self) -> int:
        """Which version this is."""
        return self._state.version

    @property
    def state(self) -> Snapshot:
        """The state of the log at this version."""
        return self._state

    @property
    def schema(self) -> StructType:
        """The columns as Delta describes them."""
        return self._state.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow describes them."""
        return arrow_schema(self._state.schema)

    @property
    def metadata(self) -> Metadata:
        """Id, name, description, partition columns and configuration."""
        return self._state.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol versions and features that the table needs."""
        return self._state.protocol

    @property
    def properties(self) -> TableProperties:
        """The table's properties with their types and defaults."""
        return self._state.properties

    def timestamp(self) -> int:
        """When this version was committed, in milliseconds since the epoch."""
        return timeline(self._store, self._state).time_of(self.version)

    def num_files(self) -> int:
        """How many data files make up this version."""
        return self.resilient(lambda state: state.files.num_files)

    def files(self, predicate: Predicate | None = None) -> pa.Table:
        """The data files that may hold rows satisfying a predicate, one row each."""
        return self.resilient(
            lambda state: list_files(TableScan(state, self._store, predicate=predicate), state)
        )

    def rows(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> TableRows:
        """The rows that satisfy a predicate, to be read as any frame."""


        def scan(state: Snapshot) -> TableScan:
            return TableScan(
                state, self._store, columns=columns, predicate=predicate, settings=self._settings
            )

        return TableRows(self, scan, limit)

    def count(self, predicate: Predicate | None = None) -> int:
        """How many rows satisfy a predicate."""
        return self.resilient(
            lambda state: TableScan(
                state, self._store, predicate=predicate, settings=self._settings
            ).count()
        )

    def to_record_batches(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches, read as they are taken; in no particular order."""
        return self.rows(columns, predicate, limit).to_record_batches()

    def to_record_batch_reader(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows as a reader that other libraries can stream from."""
        return self.rows(columns, predicate, limit).to_record_batch_reader()

    def to_arrow(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> pa.Table:
        """The rows as an Arrow table."""
        return self.rows(columns, predicate, limit).to_arrow()

    def to_pandas(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.rows(columns, predicate, limit).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """The rows as a Polars DataFrame."""
        return self.rows(columns, predicate, limit).to_polars()

    def to_duckdb(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation."""
        return self.rows(columns, predicate, limit).to_duckdb(connection)

    def resilient(self, operation: Callable[[Snapshot], Result]) -> Result:
        """Do something with the state; where its checkpoint proves unreadable, once more without it."""
        try:
            return operation(self._state)
        except CorruptCheckpointError as error:
            _log.warning("%s: going on without it", error)
            self._state = without_checkpoint(self._store, self._state)
            return operation(self._state)

    def __repr__(self) -> str:
        return f"TableSnapshot({self._store.root!r}, version={self.version})"


class TableRows(RowSource):
    """Rows of a snapshot, to be read as any frame."""

    def __init__(self, snapshot: TableSnapshot, scan: Callable[[Snapshot], TableScan], limit: int | None) -> None:
        self._snapshot = snapshot
        self._scan = scan
        self._limit = limit

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._scan(self._snapshot.state).arrow_schema

    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches, in no particular order; read as they are taken."""
        return self._snapshot.resilient(lambda state: self._scan(state).batches(self._limit))


class TableChanges(RowSource):
    """The rows that changed over a range of versions."""

    def __init__(self, scan: ChangeScan, starting_version: int, ending_version: int) -> None:
        self._scan = scan
        self.starting_version = starting_version
        self.ending_version = ending_version

    @property
    def arrow_schema(self) -> pa.Schema:
        """The table's columns and those of the change feed."""
        return self._scan.arrow_schema

    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        """The changed rows as batches, version by version."""
        return self._scan.batches()


def milliseconds(moment: Moment) -> int:
    """A time in milliseconds since the epoch; without a zone it is UTC."""
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment)
        except ValueError as error:
            raise InvalidInputError(
                f"{moment!r} is no time: write ISO 8601, such as 2024-01-31T12:00:00Z"
            ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)
