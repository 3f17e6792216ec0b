"""DataFrame → the data files of one commit, written by Spark's own Parquet writer.

All files of a write go into one new directory of the table, named by a random id, so that nothing of another
writer is ever near: a task that was retried, or run twice by speculation, leaves what its one committed
attempt wrote (Hadoop's first commit algorithm, whose job commit moves whole tasks), and a job that fails
leaves nothing that a commit names. Its directory is removed as far as the store allows; vacuum takes the
rest. Timestamps are microseconds, never INT96, whatever the session is set to.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Final, Literal, overload

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession

from distributary.delta.commit.partition_split import log_path
from distributary.delta.log.actions import Add, AddCdcFile
from distributary.delta.log.protocol_support import mapping_mode_of
from distributary.delta.operations.append import CLUSTERING_DOMAIN, WritePlan
from distributary.delta.operations.vacuum import CHANGE_DIRECTORY
from distributary.delta.statistics.collection import IndexedColumn, clustering_columns, indexed_columns
from distributary.delta.table_properties import ENABLE_ROW_TRACKING, TARGET_FILE_SIZE, TableProperties
from distributary.errors import StorageError
from distributary.spark.cloud_connectors import check_connector, hadoop_options
from distributary.spark.file_rows import FileRows
from distributary.spark.hadoop_paths import hadoop_uri
from distributary.spark.new_files import make_durable, statistics_for, written_files
from distributary.spark.row_identity import RowIdentity, carried
from distributary.spark.rule_violation import column_named, violation_in
from distributary.spark.write_session import (
    FILE_SETTINGS,
    names_may_be_unicode,
    remove_directory,
    with_settings,
)
from distributary.storage.object_store import ObjectMeta, ObjectStore

CHANGE_TYPE: Final = "_change_type"
_OPTIONS: Final = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.summary.metadata.level": "NONE",
}
_CODECS: Final = {"none": "uncompressed"}
# The level of Arrow's writer, so that files are alike; that of parquet-java (3) compresses no better.
_ZSTD_LEVEL: Final = "parquet.compression.codec.zstd.level"
# Rows weigh more on their way through a shuffle than in a Parquet file.
_SHUFFLED_PER_STORED: Final = 3


class FileTarget(msgspec.Struct, frozen=True):
    """Where and how the files of one write are written."""

    directory: str
    rows: FileRows
    properties: TableProperties
    columns: tuple[IndexedColumn, ...]
    extra: tuple[Column, ...] = ()


@overload
def write_data_files(
    spark: SparkSession,
    store: ObjectStore,
    plan: WritePlan,
    df: DataFrame,
    *,
    target_size: int | None = None,
    change: Literal[False] = False,
    data_change: bool = True,
    balanced: bool = False,
    bounded: bool = True,
) -> list[Add]: ...


@overload
def write_data_files(
    spark: SparkSession,
    store: ObjectStore,
    plan: WritePlan,
    df: DataFrame,
    *,
    target_size: int | None = None,
    change: Literal[True],
    data_change: bool = True,
    balanced: bool = False,
    bounded: bool = True,
) -> list[AddCdcFile]: ...


def write_data_files(
    spark: SparkSession,
    store: ObjectStore,
    plan: WritePlan,
    df: DataFrame,
    *,
    target_size: int | None = None,
    change: bool = False,
    data_change: bool = True,
    balanced: bool = False,
    bounded: bool = True,
) -> list[Add] | list[AddCdcFile]:
    """Write rows of the table's logical columns, already checked; gives the actions that name the files.

    With `change` the rows have `_change_type` too and become change files. `balanced` moves rows of one
    partition together first, so that a partitioned write makes few files of about the target size. Files are
    `bounded` by the target size where there is one, unless the rows were divided by it already.
    """
    check_connector(spark, store)
    target = _target(spark, store, plan, _extra(plan, df, change), change)
    size = target_size or target.properties.get(TARGET_FILE_SIZE)
    rows = target.rows.frame(df, target.extra)
    rows = _balanced(rows, target.rows.partition_names, size) if balanced else rows
    most = _most_records(plan, size) if bounded else None
    files = _written(store, target, with_settings(rows, FILE_SETTINGS), most)
    try:
        statistics = statistics_for(spark, store, files, () if change else target.columns)
        found = _without_empty(store, list(zip(files, statistics, strict=True)))
        make_durable(store, [file for file, _ in found])
        if change:
            return [_change_file(target, file) for file, _ in found]
        return [_add(target, file, text, data_change) for file, text in found]
    except BaseException:
        discard_directory(spark, store, target.directory)
        raise


def _without_empty(
    store: ObjectStore, files: Sequence[tuple[ObjectMeta, str]]
) -> list[tuple[ObjectMeta, str]]:
    """The files that have rows; Spark writes one for a task without any, so that a schema is there."""
    kept: list[tuple[ObjectMeta, str]] = []
    for file, statistics in files:
        if msgspec.json.decode(statistics)["numRecords"]:
            kept.append((file, statistics))
        else:
            with contextlib.suppress(StorageError):
                store.delete(file.path)
    return kept


def discard_directory(spark: SparkSession, store: ObjectStore, directory: str) -> None:
    """Remove what a write left that will not be committed, as far as the store allows."""
    with contextlib.suppress(Exception):
        remove_directory(spark, f"{hadoop_uri(store.root)}/{directory}", hadoop_options(store))


def _extra(plan: WritePlan, df: DataFrame, change: bool) -> tuple[Column, ...]:
    """What files have beside the table's columns: the type of change, or the identity of rows."""
    if change:
        return (column_named(CHANGE_TYPE),)
    properties = plan.metadata.properties
    if not ENABLE_ROW_TRACKING.read(properties) or not carried(df):
        return ()
    tracked = RowIdentity.of(properties, plan.root)
    return () if tracked is None else tuple(tracked.stored())


def _target(
    spark: SparkSession, store: ObjectStore, plan: WritePlan, extra: tuple[Column, ...], change: bool
) -> FileTarget:
    mode = mapping_mode_of(plan.metadata.properties, plan.protocol)
    properties = TableProperties.from_configuration(plan.metadata.properties)
    partitioning = plan.metadata.partitioning
    clustering = plan.snapshot.domains.get(CLUSTERING_DOMAIN)
    required = clustering_columns(clustering and clustering.configuration)
    ascii_names = not store.is_remote and not names_may_be_unicode(spark)
    return FileTarget(
        directory=f"{CHANGE_DIRECTORY}/{uuid.uuid4()}" if change else str(uuid.uuid4()),
        rows=FileRows(plan.schema, partitioning, mode, ascii_names),
        properties=properties,
        columns=indexed_columns(plan.schema, partitioning, mode, properties, required),
        extra=extra,
    )


def _balanced(rows: DataFrame, partition_names: Sequence[str], size: int | None) -> DataFrame:
    """Rows moved so that each partition has few writers, each with about as much as a file should have."""
    settings = {"spark.sql.adaptive.enabled": "true"}
    if size is not None:
        settings["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = str(size * _SHUFFLED_PER_STORED)
    return with_settings(rows.hint("rebalance", *map(column_named, partition_names)), settings)


def _most_records(plan: WritePlan, size: int | None) -> int | None:
    """How many records fill a file of the target size, by the files that the table has."""
    if size is None or not plan.snapshot.files.num_files:
        return None
    stored = plan.snapshot.files
    bytes_known, records = sum(stored.column("size").to_pylist()), _records(plan)
    return max(size * records // bytes_known, 1) if records and bytes_known else None


def _records(plan: WritePlan) -> int:
    texts = plan.snapshot.files.column("stats").to_pylist()
    if any(text is None for text in texts):
        return 0
    return sum(msgspec.json.decode(text).get("numRecords", 0) for text in texts)


def _written(
    store: ObjectStore, target: FileTarget, rows: DataFrame, most_records: int | None
) -> list[ObjectMeta]:
    """Run the job; on failure nothing stays, and a broken rule is raised as the engine's error."""
    codec = target.properties.compression_codec
    options = {**_OPTIONS, **hadoop_options(store), "compression": _CODECS.get(codec, codec)}
    options[_ZSTD_LEVEL] = rows.sparkSession.conf.get(f"spark.hadoop.{_ZSTD_LEVEL}", None) or "1"
    if most_records is not None:
        options["maxRecordsPerFile"] = str(most_records)
    writer = rows.write.options(**options).mode("error")
    if target.rows.partitioning:
        writer = writer.partitionBy(*target.rows.partition_names)
    try:
        writer.parquet(f"{hadoop_uri(store.root)}/{target.directory}")
        return written_files(store, target.directory)
    except BaseException as error:
        discard_directory(rows.sparkSession, store, target.directory)
        violation = violation_in(error)
        if violation is not None:
            raise violation from error
        raise


def _segments(target: FileTarget, file: ObjectMeta) -> list[str]:
    return file.path[len(target.directory) + 1 :].split("/")[:-1]


def _add(target: FileTarget, file: ObjectMeta, statistics: str, data_change: bool) -> Add:
    return Add(
        path=log_path(file.path),
        partition_values=target.rows.partition_values(_segments(target, file)),
        size=file.size,
        modification_time=file.last_modified,
        data_change=data_change,
        stats=statistics,
    )


def _change_file(target: FileTarget, file: ObjectMeta) -> AddCdcFile:
    return AddCdcFile(
        path=log_path(file.path),
        partition_values=target.rows.partition_values(_segments(target, file)),
        size=file.size,
    )
