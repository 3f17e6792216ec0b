"""A shared table: what it looks like, its rows at a version, and how they changed.

``client.table("share.schema.table").snapshot(version=3).where("country = 'FR'").select("id").limit(10)`` says
what is wanted; nothing is asked until a frame is asked for.
"""

from __future__ import annotations

import pyarrow as pa

from distributary.client.session import Session
from distributary.client.shared_changes import ChangesRange, SharedChanges
from distributary.client.shared_rows import Moment, wire_time
from distributary.client.shared_snapshot import SharedSnapshot
from distributary.client.table_answer import TableAnswer, TableInformation
from distributary.client.table_query import ask_metadata
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.sharing.names import TableName


class SharedTable:
    """A table of a share; its metadata is asked for once, when it is first needed."""

    def __init__(self, session: Session, name: TableName) -> None:
        self._session = session
        self._name = name
        self._answer: TableAnswer | None = None

    @property
    def name(self) -> TableName:
        """Share, schema and table."""
        return self._name

    @property
    def metadata(self) -> Metadata:
        """Id, name, description, partition columns and configuration."""
        return self.known().metadata

    @property
    def information(self) -> TableInformation:
        """What the server tells besides: size, number of files, access modes and location."""
        return self.known().information

    @property
    def schema(self) -> StructType:
        """The columns as Delta describes them."""
        return parse_schema(self.metadata.schema_string or "{}")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow describes them."""
        return arrow_schema(self.schema)

    @property
    def protocol(self) -> Protocol:
        """The protocol versions and features that reading needs."""
        return self.known().protocol

    def version(self, starting_timestamp: Moment | None = None) -> int:
        """The latest version, or the first one at or after a time."""
        moment = None if starting_timestamp is None else wire_time(starting_timestamp)
        return self._session.rest.table_version(self._name, moment)

    def snapshot(self, version: int | None = None, timestamp: Moment | None = None) -> SharedSnapshot:
        """The rows at a version, or as they were at a time; the latest by default.

        A time is an aware datetime or ISO 8601 text; one without a zone is UTC.
        """
        return SharedSnapshot(self._session, self._name, self.known, version, timestamp)

    def hinted_snapshot(
        self, json_hint: str | None, version: int | None = None, timestamp: Moment | None = None
    ) -> SharedSnapshot:
        """The rows of the files that a server gives for a hint of the caller's; rows are not filtered."""
        return SharedSnapshot(self._session, self._name, self.known, version, timestamp, json_hint)

    def changes(
        self,
        starting_version: int | None = None,
        ending_version: int | None = None,
        *,
        starting_timestamp: Moment | None = None,
        ending_timestamp: Moment | None = None,
    ) -> SharedChanges:
        """The rows that changed between two versions or times, both included."""
        range = ChangesRange(
            starting_version=starting_version,
            ending_version=ending_version,
            starting_timestamp=starting_timestamp,
            ending_timestamp=ending_timestamp,
        )
        return SharedChanges(self._session, self._name, range)

    def known(self) -> TableAnswer:
        """Protocol and metadata as the server told them when they were first needed."""
        if self._answer is None:
            self._answer = ask_metadata(self._session.rest, self._name, self._session.settings.query)
        return self._answer

    def __repr__(self) -> str:
        return f"SharedTable({str(self._name)!r})"
