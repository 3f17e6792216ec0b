"""A table's history, details and metrics as DataFrames, with the columns and types of delta-spark's.

The rows come from the log alone; no job runs over data.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from distributary.delta.log.history import HistoryEntry
from distributary.delta.log.protocol_support import features_of
from distributary.delta.table import DeltaTable
from distributary.spark.clustering import clustering_of
from distributary.spark.hadoop_paths import hadoop_uri

HISTORY_COLUMNS: Final = (
    "version bigint, timestamp timestamp, userId string, userName string, operation string, "
    "operationParameters map<string,string>, "
    "job struct<jobId:string,jobName:string,jobRunId:string,runId:string,jobOwnerId:string,"
    "triggerType:string>, "
    "notebook struct<notebookId:string>, clusterId string, readVersion bigint, isolationLevel string, "
    "isBlindAppend boolean, operationMetrics map<string,string>, userMetadata string, engineInfo string"
)
DETAIL_COLUMNS: Final = (
    "format string, id string, name string, description string, location string, createdAt timestamp, "
    "lastModified timestamp, partitionColumns array<string>, clusteringColumns array<string>, "
    "numFiles bigint, sizeInBytes bigint, properties map<string,string>, minReaderVersion int, "
    "minWriterVersion int, tableFeatures array<string>"
)
RESTORE_COLUMNS: Final = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, num_removed_files bigint, "
    "num_restored_files bigint, removed_files_size bigint, restored_files_size bigint"
)
_JOB: Final = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")


def history_frame(spark: SparkSession, table: DeltaTable, limit: int | None = None) -> DataFrame:
    """The commits of a table, newest first."""
    rows = [_history_row(entry) for entry in table.history(limit)]
    return spark.createDataFrame(rows, HISTORY_COLUMNS)


def detail_frame(spark: SparkSession, table: DeltaTable) -> DataFrame:
    """One row about the latest version of a table."""
    state = table.snapshot().state
    last = table.history(1)
    metadata, protocol = state.metadata, state.protocol
    row = (
        "delta",
        metadata.id,
        metadata.name,
        metadata.description,
        hadoop_uri(table.uri),
        _moment(metadata.created_time),
        _moment(last[0].timestamp if last else None),
        list(metadata.partitioning),
        [".".join(path) for path in clustering_of(state)],
        state.files.num_files,
        sum(state.files.column("size").to_pylist()),
        dict(metadata.properties),
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(features_of(protocol)),
    )
    return spark.createDataFrame([row], DETAIL_COLUMNS)


def restore_frame(spark: SparkSession, table: DeltaTable) -> DataFrame:
    """What the last commit, a restore, did."""
    state = table.snapshot().state
    metrics: Mapping[str, str] = table.history(1)[0].commit_info.get("operationMetrics") or {}
    names = ("numRemovedFiles", "numRestoredFiles", "removedFilesSize", "restoredFilesSize")
    row = (
        sum(state.files.column("size").to_pylist()),
        state.files.num_files,
        *(int(metrics.get(name, 0)) for name in names),
    )
    return spark.createDataFrame([row], RESTORE_COLUMNS)


def counts_frame(spark: SparkSession, counts: Mapping[str, int]) -> DataFrame:
    """One row of whole numbers."""
    columns = ", ".join(f"{name} bigint" for name in counts)
    return spark.createDataFrame([tuple(counts.values())], columns)


def _history_row(entry: HistoryEntry) -> tuple[Any, ...]:
    info = entry.commit_info
    job, notebook = info.get("job"), info.get("notebook")
    return (
        entry.version,
        _moment(entry.timestamp),
        info.get("userId"),
        info.get("userName"),
        entry.operation,
        _texts(info.get("operationParameters")),
        None if job is None else tuple(job.get(name) for name in _JOB),
        None if notebook is None else (notebook.get("notebookId"),),
        info.get("clusterId"),
        info.get("readVersion"),
        info.get("isolationLevel"),
        info.get("isBlindAppend"),
        _texts(info.get("operationMetrics")),
        info.get("userMetadata"),
        info.get("engineInfo"),
    )


def _texts(values: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    """Each value as text: one that is none already in JSON."""
    if values is None:
        return None
    return {
        key: value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
    }


def _moment(milliseconds: int | None) -> datetime.datetime | None:
    if milliseconds is None:
        return None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return epoch + datetime.timedelta(milliseconds=milliseconds)
