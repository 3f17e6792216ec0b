"""The change data feed as a DataFrame: which rows each version inserted, updated and deleted.

What changed is decided by the engine (delta.scan.change_data_feed); here its files become rows of Spark. They
come in three kinds: change files, which say of each row what happened to it; files whose live rows all
changed alike; and files of which only some rows did, since their deletion vector was exchanged.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.scan.arrow_reader import DataFile
from distributary.delta.scan.change_data_feed import CHANGE_TYPE, ChangeScan
from distributary.delta.scan.table_scan import file_access
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.table import DeltaTable
from distributary.spark.deletion_vector_filter import DeletedRows, read_bitmaps
from distributary.spark.file_relation import FileList, read_files
from distributary.spark.jvm import jvm_of
from distributary.spark.table_store import trusted_roots
from distributary.storage.log_paths import resolve_path
from distributary.storage.object_store import ObjectStore

_BASE: Final = "__distributary_base"
_LAST: Final = "__distributary_last"

Moment = datetime.datetime | str


def read_changes(
    spark: SparkSession,
    path: str,
    starting_version: int | None = None,
    ending_version: int | None = None,
    *,
    starting_timestamp: Moment | None = None,
    ending_timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> DataFrame:
    """The rows that changed between two versions or times, both included.

    Beside the table's columns they have `_change_type` (insert, delete, update_preimage, update_postimage),
    `_commit_version` and `_commit_timestamp`.
    """
    jvm_of(spark)
    table = DeltaTable(path, storage_options, allowed_roots=trusted_roots(spark, allowed_roots))
    changes = table.changes(
        starting_version,
        ending_version,
        starting_timestamp=starting_timestamp,
        ending_timestamp=ending_timestamp,
    )
    return scan_changes(spark, table.store, changes.scan)


def scan_changes(spark: SparkSession, store: ObjectStore, scan: ChangeScan) -> DataFrame:
    """The rows of a scan of changes."""
    files = list(scan.changed_files())
    told = [file for file in files if CHANGE_TYPE not in file.partition]
    alike = [file for file in files if CHANGE_TYPE in file.partition and file.rows is None]
    some = [file for file in files if file.rows is not None]
    parts = [_rows(spark, store, scan, group) for group in (told, alike, some) if group]
    return reduce(DataFrame.union, parts or [_rows(spark, store, scan, [])])


def _rows(spark: SparkSession, store: ObjectStore, scan: ChangeScan, files: Sequence[DataFile]) -> DataFrame:
    """The rows of files of one kind, with the columns of the scan in their order."""
    chosen = [file.rows for file in files]
    bitmaps = chosen if any(rows is not None for rows in chosen) else _deleted(store, files)
    marked = DeletedRows.of(bitmaps)
    listed = _file_list(store, scan, files)
    if marked is not None:
        listed = listed.having({_BASE: marked.bases, _LAST: marked.lasts})
    found = read_files(spark, store, scan.schema, scan.mode, listed)
    frame = found.frame
    if marked is not None:
        keep = marked.live if bitmaps is not chosen else marked.only
        frame = frame.filter(keep(spark, sf.col(_BASE), sf.col(_LAST), found.row))
    return frame.select(*(_column(name) for name in scan.columns))


def _deleted(store: ObjectStore, files: Sequence[DataFile]) -> list[BitMap64 | None]:
    return read_bitmaps([file.deletion_vector for file in files], file_access(store).read_range)


def _file_list(store: ObjectStore, scan: ChangeScan, files: Sequence[DataFile]) -> FileList:
    sized = [file if file.size else _with_size(store, file) for file in files]
    names = list(files[0].partition) if files else []
    constants = {
        name: pa.array(
            [file.partition[name].as_py() for file in sized], arrow_type(scan.schema.field(name).data_type)
        )
        for name in names
    }
    return FileList(
        pa.chunked_array([[file.path for file in sized]], pa.string()),
        pa.chunked_array([[file.size for file in sized]], pa.int64()),
        pa.chunked_array([[0] * len(sized)], pa.int64()),
        constants,
    )


def _with_size(store: ObjectStore, file: DataFile) -> DataFile:
    """Some tombstones leave the size out, and Spark reads nothing of a file of no bytes."""
    where, key = resolve_path(store, file.path)
    return DataFile(
        file.path, where.head(key).size, file.partition, file.deletion_vector, file.all_match, file.rows
    )


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")
