"""DeltaTable: a Delta table at a place, to be read, written and cared for.

The façade that joins the log, the scan and the operations. A `DeltaTable` is a place; what it
holds at one version is a `TableSnapshot`.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from distributary.delta.commit.data_file_writer import WriterSettings
from distributary.delta.errors import CorruptCheckpointError, TableNotFoundError, VersionNotFoundError
from distributary.delta.log.checkpoint_writer import CheckpointInfo, CheckpointKind, write_checkpoint
from distributary.delta.log.history import HistoryEntry, history, timeline
from distributary.delta.log.snapshot import Snapshot, load_snapshot, refresh, without_checkpoint
from distributary.delta.operations.alter_table import TableAlteration
from distributary.delta.operations.analyze import execute_analyze, plan_analyze
from distributary.delta.operations.append import Transaction, WriteResult, append
from distributary.delta.operations.clone import execute_clone, plan_clone
from distributary.delta.operations.convert import execute_convert, plan_convert
from distributary.delta.operations.create import ExistsMode, SchemaLike, execute_create, plan_create
from distributary.delta.operations.overwrite import overwrite
from distributary.delta.operations.restore import execute_restore, plan_restore
from distributary.delta.operations.row_stream import Rows
from distributary.delta.operations.vacuum import VacuumPlan, VacuumResult, execute_vacuum, plan_vacuum
from distributary.delta.scan.change_data_feed import ChangeScan
from distributary.delta.scan.table_scan import ScanSettings
from distributary.delta.schema.data_types import DataType
from distributary.delta.table_snapshot import Predicate, TableChanges, TableSnapshot
from distributary.errors import InvalidInputError
from distributary.expressions.tree import Expression
from distributary.storage.object_store import ObjectStore, open_store

__all__ = ["DeltaTable", "TableChanges", "TableSnapshot", "milliseconds"]

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Moment = datetime.datetime | str
Progress = Callable[[int], None]


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

    @classmethod
    def create(
        cls,
        uri: str | Path,
        schema: SchemaLike,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
        mode: ExistsMode = "error",
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create an empty table with the columns of an Arrow or Delta schema.

        Where there is a table already, mode `error` raises and `ignore` opens it as it is.
        """
        table = cls(uri, storage_options)
        plan = plan_create(
            table.store,
            schema,
            partition_by=partition_by,
            properties=properties,
            name=name,
            description=description,
        )
        table._latest = execute_create(table.store, plan, mode).snapshot
        return table

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
        return TableSnapshot(self.store, state, self._settings, self._remember_mended)

    def append(
        self,
        data: Rows,
        *,
        merge_schema: bool = False,
        txn: Transaction | None = None,
        settings: WriterSettings | None = None,
    ) -> WriteResult:
        """Add rows: an Arrow table, batches, a reader, or a frame of pandas, Polars or DuckDB.

        `merge_schema` lets new columns in. `txn` is an application's id and the number of this write; the
        same number is written once.
        """
        result = self._resilient(
            lambda latest: append(
                self.store, latest, data, merge_schema=merge_schema, txn=txn, settings=settings
            ),
            data,
        )
        self._latest = result.snapshot
        return result

    def overwrite(
        self,
        data: Rows,
        *,
        replace_where: str | Expression | None = None,
        dynamic: bool = False,
        overwrite_schema: bool = False,
        merge_schema: bool = False,
        partition_by: Sequence[str] | None = None,
        txn: Transaction | None = None,
        settings: WriterSettings | None = None,
    ) -> WriteResult:
        """Replace all rows, those of the partitions that `replace_where` names, or (`dynamic`) those of the
        partitions that the new rows are in.
        """
        result = self._resilient(
            lambda latest: overwrite(
                self.store,
                latest,
                data,
                replace_where=replace_where,
                dynamic=dynamic,
                overwrite_schema=overwrite_schema,
                merge_schema=merge_schema,
                partition_by=partition_by,
                txn=txn,
                settings=settings,
            ),
            data,
        )
        self._latest = result.snapshot
        return result

    @property
    def alter(self) -> TableAlteration:
        """Changes of columns, properties, constraints and features."""
        return TableAlteration(self.store, self._refreshed)

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

    def vacuum(
        self,
        retention: datetime.timedelta | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> VacuumPlan | VacuumResult:
        """Delete the files that no version within the retention needs; with `dry_run` only plan it."""
        plan = self._resilient(
            lambda latest: plan_vacuum(self.store, latest, now=_now(), retention=retention, force=force)
        )
        return plan if dry_run else execute_vacuum(self.store, plan, progress)

    def restore(
        self,
        version: int | None = None,
        timestamp: Moment | None = None,
        *,
        ignore_missing_files: bool = False,
    ) -> int:
        """Make an older version the newest again; gives the new version."""
        if (version is None) == (timestamp is None):
            raise InvalidInputError("restore needs a version or a timestamp (one of them)")
        wanted = self.snapshot(version, timestamp)
        plan = self._resilient(
            lambda latest: wanted.resilient(
                lambda target: plan_restore(self.store, latest, target, now=_now())
            )
        )
        return execute_restore(
            self.store, plan, ignore_missing_files=ignore_missing_files, timestamp=timestamp
        ).version

    def checkpoint(self, kind: CheckpointKind = "auto", parts: int | None = None) -> CheckpointInfo:
        """Write a checkpoint of the latest version."""
        return write_checkpoint(self.store, self._refreshed(), kind=kind, parts=parts)

    def analyze(self, *, every_file: bool = False, progress: Progress | None = None) -> int | None:
        """Add statistics to files that lack them; gives the new version, if there is one."""
        plan = self._resilient(lambda latest: plan_analyze(latest, every_file=every_file))
        result = execute_analyze(self.store, plan, progress)
        return None if result is None else result.version

    def clone(
        self,
        target: str | Path,
        *,
        shallow: bool = False,
        version: int | None = None,
        timestamp: Moment | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> DeltaTable:
        """Make a new table with the contents of a version; a shallow one shares the files."""
        allowed = (self.uri,) if shallow else ()
        copy = DeltaTable(target, storage_options, allowed_roots=allowed, settings=self._settings)
        plan = self.snapshot(version, timestamp).resilient(
            lambda source: plan_clone(source, copy.store, shallow=shallow)
        )
        execute_clone(self.store, copy.store, plan, progress)
        return copy

    @classmethod
    def convert(
        cls,
        uri: str | Path,
        storage_options: Mapping[str, str] | None = None,
        *,
        partition_types: Mapping[str, DataType] | None = None,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> DeltaTable:
        """Make a Delta table of a directory of Parquet files, in place."""
        table = cls(uri, storage_options)
        plan = plan_convert(table.store, partition_types=partition_types)
        execute_convert(table.store, plan, properties=properties, name=name, progress=progress)
        return table

    def _refreshed(self) -> Snapshot:
        known = self._latest
        self._latest = load_snapshot(self.store) if known is None else refresh(self.store, known)
        return self._latest

    def _resilient(self, operation: Callable[[Snapshot], Result], rows: Rows | None = None) -> Result:
        """Do something with the latest version; where its checkpoint proves unreadable, once more without it.

        Rows that may have been taken already, and cannot be taken twice, leave that to the next call.
        """
        latest = self._refreshed()
        try:
            return operation(latest)
        except CorruptCheckpointError as error:
            _log.warning("%s: going on without it", error)
            self._latest = latest = without_checkpoint(self.store, latest)
            if rows is not None and not isinstance(rows, pa.Table | pa.RecordBatch):
                raise
            return operation(latest)

    def _remember_mended(self, damaged: Snapshot, mended: Snapshot) -> None:
        """Go on from a state that was rebuilt, so that the damage is not found again and again."""
        if self._latest is damaged:
            self._latest = mended

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


def _now() -> int:
    return int(time.time() * 1000)
