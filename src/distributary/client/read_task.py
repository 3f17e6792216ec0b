"""Parts of a read that other processes can do: some files of an answer, and how their URLs are renewed.

A task is a value that can be pickled. It has all that a process on another machine needs: the files with
their URLs, the columns and the predicate, and (for URLs that expire before they are used) the profile with
the question to ask again. Its `repr` shows neither secrets nor URLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

import msgspec
import pyarrow as pa

from distributary.client.connection import ConnectionSettings
from distributary.client.delta_replay import ReadBudget, SharedChangeScan, SharedState, scan_settings
from distributary.client.file_download import FileSource, FileUrls
from distributary.client.session import ReadSettings, Session
from distributary.client.table_answer import SharedFile, TableAnswer
from distributary.client.table_query import (
    ChangesQuestion,
    QuerySettings,
    SnapshotPin,
    SnapshotQuestion,
)
from distributary.delta.log.actions import AddCdcFile
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.schema.data_types import StructType, schema_to_json
from distributary.expressions.tree import Expression
from distributary.sharing.names import TableName
from distributary.sharing.profile import Profile

TASK_BYTES = 64 << 20
"""About how many bytes of files one task reads."""

# Opening a file costs about as much as reading so many bytes of it.
_OPEN_BYTES = 2 << 20


class ChangesAsked(msgspec.Struct, frozen=True):
    """The parameters of a question for changes."""

    parameters: dict[str, str]


Renewal: TypeAlias = SnapshotPin | ChangesAsked
"""What is asked again when URLs have expired."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Some files of a shared table, to be read by any process."""

    table: TableName
    columns: tuple[str, ...]
    answer: TableAnswer = field(repr=False)
    profile: Profile = field(repr=False)
    connection: ConnectionSettings = field(repr=False)
    query: QuerySettings = field(repr=False)
    renewal: Renewal = field(repr=False)
    predicate: Expression | None = None
    changes: bool = False
    """Whether the files tell changes; otherwise they hold rows."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; downloads the files."""
        settings = ReadSettings(access="url", query=self.query, progress=False)
        session = Session(self.profile, self.connection, settings)
        try:
            source = FileSource(
                FileUrls(self.answer.urls, self._question(session).fresh_urls),
                session.connections,
                self.connection,
            )
            for batch in self._scanned(source):
                yield batch.select(self.columns)
        finally:
            session.close()

    def with_schema(self, schema: StructType, known: TableAnswer | None = None) -> ReadTask:
        """The same task, reading the files by another schema of the table, as a known state of it has it."""
        state = known or self.answer
        metadata = msgspec.structs.replace(state.metadata, schema_string=schema_to_json(schema))
        answer = msgspec.structs.replace(self.answer, protocol=state.protocol, metadata=metadata)
        return replace(self, answer=answer)

    def split(self, most_bytes: int = TASK_BYTES) -> list[ReadTask]:
        """Tasks of about so many bytes, each of whole units: files that must be read together."""
        groups: list[list[SharedFile]] = []
        filled = most_bytes
        for unit in _units(self.answer.files, changes=self.changes):
            size = sum((file.action.size or 0) + _OPEN_BYTES for file in unit)
            if filled + size > most_bytes:
                groups.append([])
                filled = 0
            groups[-1].extend(unit)
            filled += size
        return [self.narrowed(group) for group in groups]

    def narrowed(self, files: Sequence[SharedFile]) -> ReadTask:
        """The task of some of the files, with no more URLs than they need."""
        keys = {file.action.path for file in files}
        for file in files:
            vector = None if isinstance(file.action, AddCdcFile) else file.action.deletion_vector
            if vector is not None:
                keys.add(vector.path_or_inline_dv)
        urls = {key: url for key, url in self.answer.urls.items() if key in keys}
        part = msgspec.structs.replace(self.answer, files=list(files), urls=urls, end=None, later=[])
        return replace(self, answer=part)

    def _question(self, session: Session) -> SnapshotQuestion | ChangesQuestion:
        match self.renewal:
            case SnapshotPin():
                return SnapshotQuestion.resumed(session.rest, self.table, self.renewal, self.query)
            case ChangesAsked(parameters):
                return ChangesQuestion(session.rest, self.table, parameters, self.query)

    def _scanned(self, source: FileSource) -> Iterator[pa.RecordBatch]:
        state = SharedState(self.answer, str(self.table))
        sizes = [file.action.size or 0 for file in self.answer.files]
        settings = scan_settings(ReadBudget(), sizes)
        if self.changes:
            return SharedChangeScan(
                state,
                self.answer.files,
                source.access(),
                columns=self.columns,
                predicate=self.predicate,
                settings=settings,
            ).batches()
        return TableScan(
            state, source.access(), columns=self.columns, predicate=self.predicate, settings=settings
        ).batches()


def read_task(
    session: Session,
    table: TableName,
    answer: TableAnswer,
    renewal: Renewal,
    columns: Sequence[str],
    predicate: Expression | None = None,
) -> ReadTask:
    """The task of a whole answer."""
    rest, query = session.rest, session.settings.query
    changes = isinstance(renewal, ChangesAsked)
    return ReadTask(
        table, tuple(columns), answer, rest.profile, rest.settings, query, renewal, predicate, changes
    )


def _units(files: Sequence[SharedFile], *, changes: bool) -> Iterator[list[SharedFile]]:
    """Files that only make sense together: what a version adds and removes under one name."""
    if not changes:
        yield from ([file] for file in files)
        return
    ordered = sorted(files, key=lambda file: (file.version or 0, file.action.path))
    for _, of_version in groupby(ordered, key=lambda file: file.version):
        found = list(of_version)
        # Where a version has change files, they alone tell its changes.
        told = [file for file in found if isinstance(file.action, AddCdcFile)] or found
        for _, same in groupby(told, key=lambda file: file.action.path):
            yield list(same)
