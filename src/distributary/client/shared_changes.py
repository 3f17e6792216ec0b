"""The rows of a shared table that changed over some versions (CL-018, CDF-001, CDF-002)."""

from __future__ import annotations

from typing import Any

import msgspec

from distributary.client.delta_replay import SharedChangeScan, SharedState, changes_schema, takes_first_rows
from distributary.client.read_plan import ReadPlan
from distributary.client.read_task import ChangesAsked, ReadTask, read_task
from distributary.client.session import Session
from distributary.client.shared_rows import Moment, OpenedRead, SharedRows, limited, wire_time
from distributary.client.table_query import ChangesQuestion
from distributary.errors import InvalidInputError
from distributary.sharing.names import TableName


class ChangesRange(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where, both included; without an end up to the latest version."""

    starting_version: int | None = None
    ending_version: int | None = None
    starting_timestamp: Moment | None = None
    ending_timestamp: Moment | None = None

    def __post_init__(self) -> None:
        if (self.starting_version is None) == (self.starting_timestamp is None):
            raise InvalidInputError("changes need a starting_version or a starting_timestamp, one of them")
        if self.ending_version is not None and self.ending_timestamp is not None:
            raise InvalidInputError("give an ending_version or an ending_timestamp, not both")

    @property
    def parameters(self) -> dict[str, str]:
        """The range as a server is asked for it."""
        found: dict[str, str] = {}
        for name, version in (
            ("startingVersion", self.starting_version),
            ("endingVersion", self.ending_version),
        ):
            if version is not None:
                found[name] = str(version)
        moments = (("startingTimestamp", self.starting_timestamp), ("endingTimestamp", self.ending_timestamp))
        for name, moment in moments:
            if moment is not None:
                found[name] = wire_time(moment)
        return found


class SharedChanges(SharedRows):
    """Changed rows; each says how it changed, in which version and when (ms since 1970)."""

    def __init__(self, session: Session, table: TableName, range: ChangesRange) -> None:
        super().__init__(session, table)
        self._range = range

    def task(self) -> ReadTask:
        """The files that tell the changes, for other processes to read."""
        parameters, query = self._range.parameters, self._session.settings.query
        answer = ChangesQuestion(self._session.rest, self._table, parameters, query).ask()
        columns = self._columns or changes_schema(SharedState(answer, str(self._table)).schema).names
        asked = ChangesAsked(parameters)
        return read_task(self._session, self._table, answer, asked, columns, self._predicate)

    def _spark_options(self) -> dict[str, Any]:
        return {"readChangeFeed": "true", **self._range.parameters}

    def _open(self) -> OpenedRead:
        settings = self._session.settings
        question = ChangesQuestion(self._session.rest, self._table, self._range.parameters, settings.query)
        answer = question.ask()
        source = self._source(answer, question.fresh_urls)
        scan = SharedChangeScan(
            SharedState(answer, str(self._table)),
            answer.files,
            source.access(first_rows=takes_first_rows(self._limit)),
            columns=self._columns,
            predicate=self._predicate,
            settings=self._scan_settings(answer),
        )
        size = sum(file.action.size or 0 for file in answer.files)
        plan = ReadPlan(
            table=str(self._table),
            version=answer.version,
            access="url",
            response_format=answer.format,
            offered_files=len(answer.files),
            offered_bytes=size,
            needed_files=len(answer.files),
            needed_bytes=size,
            columns=scan.columns,
        )

        def batches():
            return self._watched(source, size, lambda: limited(scan.batches(), self._limit))

        return OpenedRead(scan.arrow_schema, batches, plan)
