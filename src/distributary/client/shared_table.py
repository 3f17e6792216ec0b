"""A shared table: what it looks like, its rows at a version, and how they changed.

``client.table("share.schema.table").snapshot(version=3).where("country = 'FR'").select("id").limit(10)`` says
what is wanted; nothing is asked until a frame is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from distributary.client.copied_files import Received
from distributary.client.read_task import ChangesAsked, ReadTask, read_task
from distributary.client.session import Session
from distributary.client.shared_changes import ChangesRange, SharedChanges
from distributary.client.shared_rows import Moment, wire_time
from distributary.client.shared_snapshot import SharedSnapshot
from distributary.client.spark_copy import spark_copying
from distributary.client.sync import Copying, SyncedVersion, SyncResult, TableSync
from distributary.client.table_answer import TableAnswer, TableInformation
from distributary.client.table_query import ChangesQuestion, QueryBody, SnapshotQuestion, ask_metadata
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType, parse_schema
from distributary.sharing.names import TableName
from distributary.storage.object_store import ObjectStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        return SharedSnapshot(self._session, self._name, self, version, timestamp)

    def hinted_snapshot(
        self, json_hint: str | None, version: int | None = None, timestamp: Moment | None = None
    ) -> SharedSnapshot:
        """The rows of the files that a server gives for a hint of the caller's; rows are not filtered."""
        return SharedSnapshot(self._session, self._name, self, version, timestamp, json_hint)

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

    def sync(
        self,
        path: str | Path,
        *,
        starting_version: int | None = None,
        compare: bool = False,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
    ) -> SyncResult:
        """Make or continue a local Delta copy of the table at a path or URI, up to the latest version.

        A new copy begins with the latest version, or with `starting_version`; then each shared version is one
        commit. With `compare` the copy is also compared with the latest version, file by file. With `spark`
        the workers of that session fetch the files.
        """
        store = open_store(str(path), storage_options)
        copying = None if spark is None else self.copying_by(spark, store, storage_options)
        return self.sync_run(store, copying=copying).finish(starting_version, compare=compare)

    def copying_by(
        self, spark: SparkSession, store: ObjectStore, storage_options: Mapping[str, str] | None = None
    ) -> Copying:
        """How a run fetches files by the workers of a Spark session."""
        return spark_copying(spark, self._session, self._name, store.root, storage_options)

    def sync_versions(
        self,
        path: str | Path,
        *,
        follow: float | None = None,
        starting_version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Iterator[SyncedVersion]:
        """The same, version by version as they are committed.

        With `follow` it never ends: it looks for new versions every so many seconds.
        """
        store = open_store(str(path), storage_options)
        while True:
            yield from self.sync_run(store).run(starting_version)
            if follow is None:
                return
            time.sleep(follow)

    def sync_run(
        self, store: ObjectStore, received: Received | None = None, copying: Copying | None = None
    ) -> TableSync:
        """One run that brings a copy up to date; `received` is told of every number of bytes."""
        now = ask_metadata(self._session.rest, self._name, self._session.settings.query)
        return TableSync(self._session, self._name, now.metadata.id, store, received, copying)

    @property
    def answer(self) -> TableAnswer | None:
        """Protocol and metadata, where they have been asked for."""
        return self._answer

    def known(self) -> TableAnswer:
        """Protocol and metadata as the server told them when they were first needed."""
        if self._answer is None:
            self._answer = ask_metadata(self._session.rest, self._name, self._session.settings.query)
        return self._answer

    def known_at(self, version: int | None, timestamp: Moment | None) -> TableAnswer:
        """Protocol and metadata of a version, or of a time; the latest, asked anew, without either."""
        parameters = {} if version is None else {"version": str(version)}
        if timestamp is not None:
            parameters["timestamp"] = wire_time(timestamp)
        return ask_metadata(self._session.rest, self._name, self._session.settings.query, parameters)

    def file_actions(self, first: int, last: int) -> ReadTask:
        """The files that some versions added and removed; of use to who reads on from where it was."""
        body = QueryBody(starting_version=first, ending_version=last)
        settings = self._session.settings.query
        question = SnapshotQuestion(self._session.rest, self._name, body, settings)
        return read_task(self._session, self._name, question.ask(), question.pin, ())

    def change_actions(self, first: int, last: int) -> ReadTask:
        """The files that tell the changes of some versions, with each version's own metadata."""
        bounds = ChangesRange(starting_version=first, ending_version=last).parameters
        parameters = {**bounds, "includeHistoricalMetadata": "true"}
        settings = self._session.settings.query
        answer = ChangesQuestion(self._session.rest, self._name, parameters, settings).ask()
        return read_task(self._session, self._name, answer, ChangesAsked(parameters), ())

    def __repr__(self) -> str:
        return f"SharedTable({str(self._name)!r})"
