"""The versions of a shared table as a stream reads them: a snapshot first, then what each version adds.

Answers of the server become `VersionFiles`: the files of each version in the order of `share_offsets`, and
where a version cannot be shown, why. What was asked last is kept until the batch is over, because Spark
asks for the end of a batch first and for its files afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from distributary.client.read_task import ReadTask
from distributary.client.shared_table import SharedTable
from distributary.client.table_answer import SharedFile, TableAnswer
from distributary.delta.log.actions import Add, Metadata
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.errors import DistributaryError
from distributary.spark.errors import ShareSchemaChangedError
from distributary.spark.share_offsets import StreamPosition, VersionFiles
from distributary.spark.share_schema import check_compatible
from distributary.spark.stream_rules import StreamRules, ordered


@dataclass(frozen=True, slots=True)
class Window:
    """Some versions that follow each other, and the task that all their files belong to."""

    task: ReadTask
    versions: tuple[VersionFiles, ...]


class ShareLog:
    """Asks a server about the versions of one table."""

    def __init__(self, table: SharedTable, schema: StructType, rules: StreamRules) -> None:
        self._table = table
        self._schema = schema
        self._rules = rules
        self._windows: dict[tuple[int, bool], Window] = {}
        self._latest: tuple[float, int] | None = None

    def latest(self, *, at_least: int | None = None) -> int:
        """The latest version; one of late is enough, or any that is beyond the version given."""
        if self._latest is not None:
            asked, version = self._latest
            fresh = time.monotonic() - asked < self._rules.version_seconds
            if at_least is not None and (fresh or version >= at_least):
                return version
        version = self._table.version()
        self._latest = (time.monotonic(), version)
        return version

    def first_version_since(self, timestamp: str) -> int:
        """The first version at or after a time."""
        return self._table.version(timestamp)

    def windows(self, start: StreamPosition, last: int) -> Iterator[Window]:
        """What follows a position, up to a version, in as many questions as it takes."""
        version = start.version
        if start.snapshot:
            yield self._kept(version, version, snapshot=True)
            version += 1
        while version <= last:
            until = min(last, version + self._rules.versions_at_once - 1)
            window = self._kept(version, until, snapshot=False)
            yield window
            version = window.versions[-1].version + 1

    def forget(self) -> None:
        """Drop what was kept: the batch is over, and its URLs grow old."""
        self._windows.clear()

    def _kept(self, first: int, last: int, *, snapshot: bool) -> Window:
        known = self._windows.get((first, snapshot))
        if known is None or known.versions[-1].version < last:
            known = self._snapshot(first) if snapshot else self._asked(first, last)
            self._windows[first, snapshot] = known
        return known

    def _snapshot(self, version: int) -> Window:
        task = self._table.snapshot(version).task()
        files = tuple(_placed(file, version) for file in ordered(task.answer.files))
        problem = self._schema_problem(task.answer.metadata, version)
        found = VersionFiles(version, files, snapshot=True, problem=problem)
        return Window(replace(task, changes=self._rules.changes), (found,))

    def _asked(self, first: int, last: int) -> Window:
        ask = self._table.change_actions if self._rules.changes else self._table.file_actions
        task = ask(first, last)
        by_version: dict[int, list[SharedFile]] = {}
        for file in task.answer.files:
            # The end of a range is a hint; a server may tell of later versions (A4).
            by_version.setdefault(first if file.version is None else file.version, []).append(file)
        problems = self._schema_problems(task.answer, first, last)
        where = str(self._table.name)
        versions = (
            self._rules.files_of(version, by_version.get(version, []), problems.get(version), where)
            for version in range(first, last + 1)
        )
        return Window(task, tuple(versions))

    def _schema_problems(self, answer: TableAnswer, first: int, last: int) -> dict[int, DistributaryError]:
        """The versions whose columns a stream cannot show; each lasts until the metadata changes again."""
        states = {first: answer.metadata}
        for later in answer.later:
            if later.metadata is not None and later.version is not None:
                states[later.version] = later.metadata
        problems: dict[int, DistributaryError] = {}
        current: DistributaryError | None = None
        for version in range(first, last + 1):
            if version in states:
                current = self._schema_problem(states[version], version)
            if current is not None:
                problems[version] = current
        return problems

    def _schema_problem(self, metadata: Metadata, version: int) -> DistributaryError | None:
        schema = parse_schema(metadata.schema_string or "{}")
        try:
            check_compatible(self._schema, schema, version, str(self._table.name))
        except ShareSchemaChangedError as error:
            return error
        return None


def _placed(file: SharedFile, version: int) -> SharedFile:
    """A file of a snapshot with what a row of changes tells; servers need not say it."""
    action = file.action
    moment = action.modification_time if isinstance(action, Add) else 0
    return msgspec.structs.replace(
        file, version=version, timestamp=moment if file.timestamp is None else file.timestamp
    )
