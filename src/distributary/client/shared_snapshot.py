"""The rows of a shared table at one version.

The predicate and the limit are enforced here, exactly, whatever the server does with the hints that it
gets (CL-005). How bytes are reached follows the table of access modes (AM-010 to AM-013, CL-015).
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow.compute as pc

from distributary.client.delta_replay import SharedState, takes_first_rows
from distributary.client.directory_access import open_directory
from distributary.client.errors import AccessModeError
from distributary.client.file_download import FileSource
from distributary.client.predicate_hints import (
    PredicateHints,
    guessed_hints,
    predicate_hints,
    say_the_same,
)
from distributary.client.read_plan import ReadPlan
from distributary.client.read_task import ReadTask, read_task
from distributary.client.session import Session
from distributary.client.shared_rows import Moment, OpenedRead, SharedRows, wire_time
from distributary.client.table_answer import TableAnswer, TableInformation, UnwantedAnswerError
from distributary.client.table_query import QueryBody, SnapshotQuestion
from distributary.delta.log.actions import Metadata
from distributary.delta.scan.table_scan import TableScan, bound_predicate
from distributary.delta.schema.data_types import parse_schema
from distributary.errors import InvalidInputError
from distributary.expressions.sql_parser import parse_predicate
from distributary.sharing.error_response import InvalidParameterError, UnsupportedOperationError
from distributary.sharing.names import TableName


class Known(Protocol):
    """The table's metadata, asked for when they are first needed."""

    @property
    def answer(self) -> TableAnswer | None:
        """What is known already."""

    def known(self) -> TableAnswer:
        """What is known, or else asked for."""
        ...


class SharedSnapshot(SharedRows):
    """A shared table at a version, at a time, or as it is now."""

    def __init__(
        self,
        session: Session,
        table: TableName,
        known: Known,
        version: int | None = None,
        timestamp: Moment | None = None,
        json_hint: str | None = None,
    ) -> None:
        if version is not None and timestamp is not None:
            raise InvalidInputError("give a version or a timestamp, not both")
        super().__init__(session, table)
        self._known = known
        self._version = version
        self._timestamp = timestamp
        self._json_hint = json_hint

    def _open(self) -> OpenedRead:
        access = self._session.settings.access
        if access == "dir":
            return self._open_directory(self._known.known().information)
        try:
            question, answer, hints = self._asked()
        except UnsupportedOperationError:
            information = self._known.known().information
            if access == "url" or not _only_directory(information):
                _check_urls(self._table, information)
                raise
            return self._open_directory(information)
        return self._opened(question, answer, hints)

    def task(self) -> ReadTask:
        """The files that may hold wanted rows, for other processes to read; by signed URLs only."""
        try:
            question, answer, _ = self._asked()
        except UnsupportedOperationError:
            _check_urls(self._table, self._known.known().information)
            raise
        scan = self._scan(answer, self._source(answer, question.fresh_urls))
        wanted = set(scan.pruned.files.column("path").to_pylist())
        task = read_task(self._session, self._table, answer, question.pin, scan.columns, self._predicate)
        return task.narrowed([file for file in answer.files if file.action.path in wanted])

    def _spark_options(self) -> dict[str, Any]:
        moment = None if self._timestamp is None else wire_time(self._timestamp)
        return {"versionAsOf": self._version, "timestampAsOf": moment}

    def _asked(self) -> tuple[SnapshotQuestion, TableAnswer, PredicateHints]:
        question, answer, hints = self._guessed() or self._ask(self._right_hints())
        _check_urls(self._table, answer.information)
        return question, answer, hints

    def _scan(self, answer: TableAnswer, source: FileSource) -> TableScan:
        return TableScan(
            SharedState(answer, str(self._table)),
            source.access(first_rows=takes_first_rows(self._limit)),
            columns=self._columns,
            predicate=self._predicate,
            settings=self._scan_settings(answer),
        )

    def _right_hints(self) -> PredicateHints | None:
        return None if self._predicate is None else self._hints(self._known.known().metadata)

    def _guessed(self) -> tuple[SnapshotQuestion, TableAnswer, PredicateHints] | None:
        """The answer to one question, with types that the predicate's constants tell; None without a guess.

        Where the answer's first lines show other types, it is read no further, and the question is put right.
        """
        later = self._session.settings.query.asynchronous
        if self._predicate is None or self._json_hint or self._known.answer is not None or later:
            return None
        parsed = parse_predicate(self._predicate) if isinstance(self._predicate, str) else self._predicate
        guess = guessed_hints(parsed)
        if guess is None:
            return None
        question = self._question(guess)
        try:
            answer = question.ask(lambda metadata: say_the_same(guess, self._hints(metadata)))
        except UnwantedAnswerError as error:
            return self._ask(self._hints(error.metadata))
        except InvalidParameterError:
            return None  # a server that does not take what it need not heed: ask in the usual way
        return question, answer, guess

    def _ask(self, hints: PredicateHints | None) -> tuple[SnapshotQuestion, TableAnswer, PredicateHints]:
        """Ask with hints; without them where the answer's columns show that they meant others."""
        question = self._question(hints or PredicateHints())
        answer = question.ask()
        if not hints or hints == self._hints(answer.metadata):
            return question, answer, hints or PredicateHints()
        question = self._question(PredicateHints())
        return question, question.ask(), PredicateHints()

    def _question(self, hints: PredicateHints) -> SnapshotQuestion:
        settings = self._session.settings
        return SnapshotQuestion(
            self._session.rest, self._table, self._body(hints), settings.query, settings.access_modes
        )

    def _body(self, hints: PredicateHints) -> QueryBody:
        return QueryBody(
            predicate_hints=hints.sql,
            json_predicate_hints=self._json_hint or hints.json,
            # A limit counts rows before the predicate: with one, too few files might come.
            limit_hint=self._limit if self._predicate is None else None,
            version=self._version,
            timestamp=None if self._timestamp is None else wire_time(self._timestamp),
        )

    def _hints(self, metadata: Metadata) -> PredicateHints:
        schema = parse_schema(metadata.schema_string or "{}")
        return predicate_hints(bound_predicate(self._predicate, schema))

    def _opened(self, question: SnapshotQuestion, answer: TableAnswer, hints: PredicateHints) -> OpenedRead:
        source = self._source(answer, question.fresh_urls)
        scan = self._scan(answer, source)
        files = scan.pruned.files
        needed = pc.sum(files.column("size")).as_py() or 0
        plan = ReadPlan(
            table=str(self._table),
            version=answer.version,
            access="url",
            response_format=answer.format,
            predicate_hints=hints.sql,
            json_predicate_hints=self._json_hint or hints.json,
            limit_hint=self._limit if self._predicate is None else None,
            hints_not_sent=hints.unsaid,
            table_files=answer.information.num_files,
            table_bytes=answer.information.size,
            offered_files=len(answer.files),
            offered_bytes=sum(file.action.size or 0 for file in answer.files),
            needed_files=files.num_files,
            needed_bytes=needed,
            columns=tuple(scan.columns),
        )
        return OpenedRead(
            scan.arrow_schema,
            lambda: self._watched(source, needed, lambda: scan.batches(self._limit)),
            plan,
        )

    def _open_directory(self, information: TableInformation) -> OpenedRead:
        if "dir" not in (information.access_modes or ()):
            raise AccessModeError(
                f"{self._table} is not offered as a directory (the server says "
                f"{', '.join(information.access_modes or ('url',))}): read it with access='url'"
            )
        options = self._session.settings.storage_options
        table = open_directory(self._session.rest, self._table, information, options)
        snapshot = table.snapshot(self._version, self._timestamp)
        rows = snapshot.rows(self._columns, self._predicate, self._limit)
        needed = snapshot.files(self._predicate).column("size")
        plan = ReadPlan(
            table=str(self._table),
            version=snapshot.version,
            access="dir",
            response_format=None,
            table_files=snapshot.num_files(),
            offered_files=snapshot.num_files(),
            offered_bytes=pc.sum(snapshot.files().column("size")).as_py() or 0,
            needed_files=len(needed),
            needed_bytes=pc.sum(needed).as_py() or 0,
            columns=tuple(rows.arrow_schema.names),
        )
        return OpenedRead(rows.arrow_schema, rows.to_record_batches, plan)


def _only_directory(information: TableInformation) -> bool:
    modes = information.access_modes
    return modes is not None and "dir" in modes and "url" not in modes


def _check_urls(table: TableName, information: TableInformation) -> None:
    if _only_directory(information):
        raise AccessModeError(f"{table} is offered as a directory only: read it with access='dir'")
