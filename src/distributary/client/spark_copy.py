"""Files of a local copy fetched by Spark's tasks: for tables that one machine would copy too slowly.

Which files are missing is decided by the driver, and so is the commit: both are the code of every other sync.
Only the fetching is spread: groups of files are tasks, each with the profile and what is needed to ask for
fresh URLs of the very same version. A file appears under its name when all of it is there, so a task that
Spark repeats, or runs twice at once, changes nothing. Workers need this package, and must reach the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from distributary.client.connection import ConnectionSettings
from distributary.client.copied_files import FileCopier, Received, vector_key
from distributary.client.errors import FileDownloadError
from distributary.client.file_download import FileSource, FileUrls
from distributary.client.session import ReadSettings, Session
from distributary.client.table_answer import FileUrl, TableAnswer
from distributary.client.table_query import QuerySettings, SnapshotPin, SnapshotQuestion
from distributary.delta.log.actions import Add
from distributary.errors import InvalidInputError
from distributary.sharing.names import TableName
from distributary.sharing.profile import Profile
from distributary.storage.object_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES: Final = 256 << 20
"""About how many bytes of files one task fetches."""

# Asking for a file costs about as much as fetching so many bytes of it.
_FILE_BYTES: Final = 2 << 20
# Every task of a job gets the list of all of them.
_TASKS_OF_A_JOB: Final = 256
_OUTCOME: Final = "bytes long, status long, problem string"
_OUTCOME_COLUMNS: Final = pa.schema({"bytes": pa.int64(), "status": pa.int64(), "problem": pa.string()})


class CopyOutcome(msgspec.Struct, frozen=True):
    """How many bytes a task has fetched, or why a file could not be had."""

    bytes: int = 0
    status: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Some files to fetch, to be done by any process; `repr` shows neither secrets nor URLs."""

    table: TableName
    adds: tuple[Add, ...] = field(repr=False)
    urls: Mapping[str, FileUrl] = field(repr=False)
    pin: SnapshotPin = field(repr=False)
    profile: Profile = field(repr=False)
    connection: ConnectionSettings = field(repr=False)
    query: QuerySettings = field(repr=False)
    root: str
    storage_options: Mapping[str, str] = field(repr=False)

    def run(self) -> CopyOutcome:
        """Fetch the files that are not there; one that cannot be had is told, other failures are raised."""
        settings = ReadSettings(access="url", query=self.query, progress=False)
        session = Session(self.profile, self.connection, settings)
        try:
            question = SnapshotQuestion.resumed(session.rest, self.table, self.pin, self.query)
            urls = FileUrls(self.urls, question.fresh_urls)
            source = FileSource(urls, session.connections, self.connection)
            copier = FileCopier(open_store(self.root, self.storage_options), source)
            return CopyOutcome(copier.fetch(self.adds, lambda _bytes: None))
        except FileDownloadError as error:
            return CopyOutcome(status=error.status, problem=str(error))
        finally:
            session.close()


class SparkCopier:
    """Fetches files of one answer into a copy by tasks of a Spark session."""

    def __init__(self, spark: SparkSession, task: Callable[[Sequence[Add]], CopyTask]) -> None:
        self._spark = spark
        self._task = task

    def fetch(self, adds: Sequence[Add], received: Received) -> int:
        """Fetch the files of adds that the copy lacks; gives the bytes that came."""
        tasks = [self._task(group) for group in _groups(adds, TASK_BYTES)]
        count = 0
        for first in range(0, len(tasks), _TASKS_OF_A_JOB):
            size = self._job(tasks[first : first + _TASKS_OF_A_JOB])
            received(size)
            count += size
        return count

    def _job(self, tasks: list[CopyTask]) -> int:
        numbers: Any = self._spark.range(0, len(tasks), 1, len(tasks))
        outcomes = [
            CopyOutcome(row["bytes"], row["status"], row["problem"])
            for row in numbers.mapInArrow(partial(_run_numbered, tasks), _OUTCOME).collect()
        ]
        for outcome in outcomes:
            if outcome.problem is not None:
                raise FileDownloadError(outcome.problem, outcome.status)
        return sum(outcome.bytes for outcome in outcomes)


def spark_copying(
    spark: SparkSession,
    session: Session,
    table: TableName,
    root: str,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[SnapshotQuestion, TableAnswer], SparkCopier]:
    """How the files of an answer are fetched by Spark into a copy at a place that its workers reach."""
    if root.startswith("memory:"):
        raise InvalidInputError("Spark's workers cannot reach a copy in the memory of this process")

    def copier(question: SnapshotQuestion, answer: TableAnswer) -> SparkCopier:
        rest, query = session.rest, msgspec.structs.replace(session.settings.query, formats=("delta",))

        def task(adds: Sequence[Add]) -> CopyTask:
            keys = {key for add in adds for key in (add.path, vector_key(add)) if key is not None}
            urls = {key: answer.urls[key] for key in keys}
            options = dict(storage_options or {})
            return CopyTask(
                table, tuple(adds), urls, question.pin, rest.profile, rest.settings, query, root, options
            )

        return SparkCopier(spark, task)

    return copier


def _run_numbered(tasks: Sequence[CopyTask], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        outcomes = [msgspec.to_builtins(tasks[number].run()) for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pylist(outcomes, schema=_OUTCOME_COLUMNS)


def _groups(adds: Sequence[Add], most_bytes: int) -> Iterator[list[Add]]:
    """Files for one task each; those that share a file of deletion vectors stay together."""
    group: list[Add] = []
    filled = 0
    for add in sorted(adds, key=lambda add: vector_key(add) or ""):
        new_vector = not group or vector_key(group[-1]) is None or vector_key(group[-1]) != vector_key(add)
        if group and filled + add.size > most_bytes and new_vector:
            yield group
            group, filled = [], 0
        group.append(add)
        filled += add.size + _FILE_BYTES
    if group:
        yield group
