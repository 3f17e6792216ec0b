"""TableSnapshot: a Delta table at one version, and the frames that its rows can be had as.

It never changes, whatever is committed meanwhile. A checkpoint that proves unreadable while
a snapshot is used is left aside and the same version is rebuilt from the rest of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from distributary.delta.errors import CorruptCheckpointError
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.history import timeline
from distributary.delta.log.snapshot import Snapshot, without_checkpoint
from distributary.delta.scan.change_data_feed import ChangeScan
from distributary.delta.scan.file_listing import list_files
from distributary.delta.scan.table_scan import ScanSettings, TableScan
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.delta.table_properties import TableProperties
from distributary.expressions.tree import Expression
from distributary.frames import RowSource
from distributary.storage.object_store import ObjectStore

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Predicate = str | Expression
# Told of a state whose checkpoint failed, and of the one that replaces it.
Mended = Callable[[Snapshot, Snapshot], None]


class TableSnapshot:
    """A Delta table at one version."""

    def __init__(
        self, store: ObjectStore, state: Snapshot, settings: ScanSettings, on_mended: Mended | None = None
    ) -> None:
        self._store = store
        self._state = state
        self._settings = settings
        self._on_mended = on_mended

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
            lambda state: TableScan(state, self._store, predicate=predicate, settings=self._settings).count()
        )

    def to_record_batches(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches, read as they are taken; in no particular order."""
        return self.rows(columns, predicate, limit).to_record_batches()

    def to_record_batch_reader(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as a reader that other libraries can stream from."""
        return self.rows(columns, predicate, limit).to_record_batch_reader()

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows as an Arrow table."""
        return self.rows(columns, predicate, limit).to_arrow()

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.rows(columns, predicate, limit).to_pandas()

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
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
            damaged, self._state = self._state, without_checkpoint(self._store, self._state)
            if self._on_mended is not None:
                self._on_mended(damaged, self._state)
            return operation(self._state)

    def __repr__(self) -> str:
        return f"TableSnapshot({self._store.root!r}, version={self.version})"


class TableRows(RowSource):
    """Rows of a snapshot, to be read as any frame."""

    def __init__(
        self, snapshot: TableSnapshot, scan: Callable[[Snapshot], TableScan], limit: int | None
    ) -> None:
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
        self.scan = scan
        self.starting_version = starting_version
        self.ending_version = ending_version

    @property
    def arrow_schema(self) -> pa.Schema:
        """The table's columns and those of the change feed."""
        return self.scan.arrow_schema

    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        """The changed rows as batches, version by version."""
        return self.scan.batches()
