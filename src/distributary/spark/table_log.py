"""The versions of a Delta table as a stream reads them: a snapshot first, then what each version adds.

The log is the table's own. Files of versions that only laid rows out differently (`dataChange=false`) are
left out. A version whose columns the stream does not have, or that made the table another one, is a problem
that ends the stream after all rows before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from distributary.client.table_answer import SharedFile
from distributary.delta.errors import VersionNotFoundError
from distributary.delta.log.actions import CommitActions, Metadata
from distributary.delta.log.history import read_commit, timeline
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.data_types import parse_schema
from distributary.delta.table import DeltaTable, milliseconds
from distributary.errors import DistributaryError
from distributary.spark.errors import StreamSchemaChangedError, StreamSourceChangedError
from distributary.spark.share_offsets import StreamPosition, VersionFiles
from distributary.spark.share_schema import incompatibility
from distributary.spark.stream_rules import StreamRules, ordered


class TableLog:
    """Reads the log of one table for a stream, whose columns are those of `loaded`."""

    def __init__(self, table: DeltaTable, loaded: Snapshot, rules: StreamRules) -> None:
        self._table = table
        self._loaded = loaded
        self._rules = rules
        self._known: dict[tuple[int, bool], VersionFiles] = {}
        self._before: dict[int, DistributaryError | None] = {}
        self._latest: tuple[float, int] | None = None

    def latest(self, *, at_least: int | None = None) -> int:
        """The latest version; one of late is enough, or any that is beyond the version given.

        Spark asks a stream that has nothing new a hundred times a second, which must not list the log.
        """
        if at_least is not None and self._latest is not None:
            asked, version = self._latest
            if version >= at_least or time.monotonic() - asked < self._rules.version_seconds:
                return version
        self._latest = (time.monotonic(), self._table.version())
        return self._latest[1]

    def first_version_since(self, moment: str) -> int:
        """The first version committed at or after a time; without a zone it is UTC."""
        latest = self._table.snapshot().state
        found = timeline(self._table.store, latest).first_version_from(milliseconds(moment))
        if found is None:
            raise VersionNotFoundError(f"nothing was committed to {self._table.uri} at or after {moment}")
        return found

    def versions(self, start: StreamPosition, last: int) -> Iterator[VersionFiles]:
        """What follows a position, up to a version."""
        version = start.version
        if start.snapshot:
            yield self._remembered(version, snapshot=True)
            version += 1
        if version <= last:
            first = self._remembered(version, snapshot=False)
            problem = first.problem or self._inherited(version)
            yield VersionFiles(version, first.files, problem=problem)
        for number in range(version + 1, last + 1):
            yield self._remembered(number, snapshot=False)

    def forget(self) -> None:
        """Drop what was read: the batch is over."""
        self._known.clear()

    def _remembered(self, version: int, *, snapshot: bool) -> VersionFiles:
        """Read once a batch, since Spark asks for its end first and for its files afterwards."""
        key = (version, snapshot)
        if key not in self._known:
            self._known[key] = self._snapshot(version) if snapshot else self._commit(version)
        return self._known[key]

    def _snapshot(self, version: int) -> VersionFiles:
        state = self._table.snapshot(version).state
        files = ordered(SharedFile(add, version) for add in state.files.adds())
        return VersionFiles(version, files, snapshot=True, problem=self._problem(state.metadata, version))

    def _commit(self, version: int) -> VersionFiles:
        commit = read_commit(self._table.store, version)
        problem = None if commit.metadata is None else self._problem(commit.metadata, version)
        return self._rules.files_of(version, _changed(commit), problem, self._table.uri)

    def _inherited(self, version: int) -> DistributaryError | None:
        """The problem that a version has from those before it, where it does not set its columns itself."""
        if version == 0 or version > self._loaded.version:
            return None
        if version not in self._before:
            sets_columns = read_commit(self._table.store, version).metadata is not None
            state = None if sets_columns else self._table.snapshot(version - 1).state
            self._before[version] = None if state is None else self._problem(state.metadata, version)
        return self._before[version]

    def _problem(self, metadata: Metadata, version: int) -> DistributaryError | None:
        where = f"{self._table.uri}: version {version}"
        if metadata.id != self._loaded.metadata.id:
            return StreamSourceChangedError(
                f"{where} made this another table: it was replaced. Start anew with another checkpoint"
            )
        problem = incompatibility(self._loaded.schema, parse_schema(metadata.schema_string or "{}"))
        if problem is None:
            return None
        return StreamSchemaChangedError(
            f"{where} {problem}. All rows before it were given. Load the stream again and start the query "
            "with the same checkpoint to go on with the new columns"
        )


def _changed(commit: CommitActions) -> list[SharedFile]:
    """The files by which a version changed rows."""
    files = [file for file in commit.files if file.data_change]
    return [SharedFile(file, commit.version) for file in (*files, *commit.change_files)]
