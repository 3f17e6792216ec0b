"""Rows of a shared table, described before they are asked for: which rows, which columns, how many."""

from __future__ import annotations

import copy
import datetime
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pyarrow as pa

from distributary.arrow_memory import frame_memory
from distributary.client.awaitable_rows import AwaitableRows
from distributary.client.delta_replay import scan_settings, takes_first_rows
from distributary.client.file_download import FileSource, FileUrls
from distributary.client.progress import download_bar
from distributary.client.read_plan import ReadPlan
from distributary.client.session import Session
from distributary.client.spark_frame import connection_options, spark_frame
from distributary.client.table_answer import FileUrl, TableAnswer
from distributary.delta.scan.table_scan import ScanSettings
from distributary.delta.schema.data_types import parse_schema
from distributary.errors import InvalidInputError
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, all_of
from distributary.frames import lazy_polars
from distributary.sharing.names import TableName

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

Moment = str | datetime.datetime

# Where every column of a file is read, one request for all of it is best up to this size.
_WHOLE_IF_ALL = 8 << 20
# Within so many seconds, columns and rows are asked for together.
_AT_ONCE = 5.0


class OpenedRead(msgspec.Struct, frozen=True):
    """A read whose files are known: its columns, its batches, and what it will cost."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    plan: ReadPlan


class SharedRows(AwaitableRows):
    """Rows of a shared table; every method that narrows them gives a new value."""

    def __init__(self, session: Session, table: TableName) -> None:
        self._session = session
        self._table = table
        self._predicate: Expression | None = None
        self._columns: tuple[str, ...] | None = None
        self._limit: int | None = None
        self._looked_at: tuple[float, OpenedRead] | None = None

    def where(self, *predicates: str | Expression) -> Self:
        """Only rows for which all predicates are true; each is SQL text or built with `col`."""
        trees = [parse_predicate(each) if isinstance(each, str) else each for each in predicates]
        known = [] if self._predicate is None else [self._predicate]
        return self._with(_predicate=all_of([*known, *trees]))

    def select(self, *columns: str) -> Self:
        """Only these columns, in this order."""
        if not columns:
            raise InvalidInputError("select() needs the name of a column")
        return self._with(_columns=columns)

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        if rows < 0:
            raise InvalidInputError(f"limit must not be negative, not {rows}")
        return self._with(_limit=rows if self._limit is None else min(rows, self._limit))

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows; asks the server. Rows that are read at once come from the same answer."""
        opened = self._open()
        self._looked_at = (time.monotonic(), opened)
        return opened.schema

    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches, in no particular order; read as they are taken, in bounded memory."""
        looked_at, self._looked_at = self._looked_at, None
        if looked_at is not None and time.monotonic() - looked_at[0] < _AT_ONCE:
            return looked_at[1].batches()
        return self._open().batches()

    def to_record_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader that other libraries can stream from."""
        opened = self._open()
        return pa.RecordBatchReader.from_batches(opened.schema, opened.batches())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        opened = self._open()
        with frame_memory():
            return pa.Table.from_batches(opened.batches(), opened.schema)

    def to_lazy(self) -> pl.LazyFrame:
        """The rows as a Polars LazyFrame: columns and `head` that it needs are asked for, and no more."""
        return lazy_polars(self.arrow_schema, self._narrowed)

    def to_spark(self, spark: SparkSession | None = None) -> SparkDataFrame:
        """The rows as a Spark DataFrame, by the source ``deltaSharing`` of the (active) session.

        Spark's workers download the files; nothing is read here. The session must know the source:
        `distributary.spark.session()` makes one that does, `register(spark)` tells one of yours.
        """
        rest, formats = self._session.rest, self._session.settings.query.formats
        options = {
            **connection_options(rest.profile, rest.settings),
            "columns": None if self._columns is None else msgspec.json.encode(self._columns).decode(),
            "where": None if self._predicate is None else str(self._predicate),
            "limitHint": self._limit,
            "responseFormat": ",".join(formats),
            **self._spark_options(),
        }
        frame = spark_frame(str(self._table), options, spark)
        return frame if self._limit is None else frame.limit(self._limit)

    @abstractmethod
    def _spark_options(self) -> dict[str, Any]:
        """Which version or changes are meant, as options of the Spark source."""

    def explain(self) -> ReadPlan:
        """What a read would ask and download; asks the server for the files, and downloads none."""
        return self._open().plan

    @abstractmethod
    def _open(self) -> OpenedRead:
        """Ask the server for the files."""

    def _narrowed(self, columns: list[str] | None, limit: int | None) -> Iterator[pa.RecordBatch]:
        rows = self if columns is None else self.select(*columns)
        return (rows if limit is None else rows.limit(limit)).to_record_batches()

    def _with(self, **changed: object) -> Self:
        other = copy.copy(self)
        vars(other).update(changed, _looked_at=None)
        return other

    def _source(self, answer: TableAnswer, refresh: Callable[[], dict[str, FileUrl]]) -> FileSource:
        settings = self._session.settings
        everything = self._columns is None and self._predicate is None and not takes_first_rows(self._limit)
        whole = max(settings.whole_bytes, _WHOLE_IF_ALL) if everything else settings.whole_bytes
        return FileSource(
            FileUrls(answer.urls, refresh),
            self._session.connections,
            self._session.rest.settings,
            cache=self._session.cache(answer.metadata.id),
            whole_bytes=whole,
        )

    def _scan_settings(self, answer: TableAnswer) -> ScanSettings:
        sizes = [file.action.size or 0 for file in answer.files]
        names = self._columns or parse_schema(answer.metadata.schema_string or "{}").names
        return scan_settings(self._session.settings.budget, sizes, self._limit, len(names))

    def _watched(
        self, source: FileSource, total: int, batches: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        with download_bar(str(self._table), total, self._session.settings.progress) as received:
            source.received = received
            yield from batches()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._table)!r})"


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """At most so many rows of some batches."""
    left = limit
    for batch in batches:
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        yield batch
        if left == 0:
            return


def wire_time(moment: Moment) -> str:
    """A time as servers read it: ISO 8601 in UTC; one without a zone is UTC. Other texts go as they are."""
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment.strip())
        except ValueError:
            return str(moment)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return aware.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
