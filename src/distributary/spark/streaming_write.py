"""A stream written to a Delta table, each batch exactly once.

Spark's checkpoint gives a query an id that stays the same over restarts and numbers its batches; both are
committed with the rows (`txn`), so that a batch which is run again after a failure is skipped where it was
committed already. In complete mode each batch replaces the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from distributary.errors import InvalidInputError
from distributary.spark.cloud_connectors import check_connector
from distributary.spark.table_write import write_table
from distributary.storage.object_store import open_store

_QUERY_ID: Final = "sql.streaming.queryId"

OutputMode = Literal["append", "complete"]


def write_stream(
    df: DataFrame,
    path: str,
    *,
    checkpoint_location: str,
    output_mode: OutputMode = "append",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    app_id: str | None = None,
    partition_by: Sequence[str] | None = None,
    merge_schema: bool = False,
    properties: Mapping[str, str] | None = None,
    optimize_write: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a query that writes each batch of a stream to a table.

    `trigger` is what Spark's own takes: `{"availableNow": True}` or `{"processingTime": "10 seconds"}`.
    `app_id` replaces the query's id in the table's transactions, to go on with another checkpoint.
    """
    if not df.isStreaming:
        raise InvalidInputError("this is no stream: write its rows with write_table")
    if output_mode not in ("append", "complete"):
        raise InvalidInputError(f'output_mode is "append" or "complete", not {output_mode!r}')
    check_connector(df.sparkSession, open_store(path, storage_options))
    known = dict(properties or {})

    def write_batch(rows: DataFrame, number: int) -> None:
        is_first = number == 0
        write_table(
            rows,
            path,
            "overwrite" if output_mode == "complete" else "append",
            partition_by=partition_by,
            merge_schema=merge_schema,
            properties=known if is_first else None,
            txn=(app_id or _query_id(rows), number),
            optimize_write=optimize_write,
            storage_options=storage_options,
        )

    return _started(df, write_batch, checkpoint_location, output_mode, trigger, query_name)


def _started(
    df: DataFrame,
    write_batch: Callable[[DataFrame, int], None],
    checkpoint_location: str,
    output_mode: OutputMode,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery:
    writer = df.writeStream.foreachBatch(write_batch).outputMode(output_mode)
    writer = writer.option("checkpointLocation", checkpoint_location)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _query_id(rows: DataFrame) -> str:
    """The id of the query that runs this batch, which its checkpoint keeps."""
    found = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if not found:
        raise InvalidInputError("the stream's query has no id here: give app_id to write_stream")
    return found
