"""A snapshot as a DataFrame, read by Spark's own vectorised Parquet reader.

The list of files comes from the log through a file index of ours (SnapshotFileIndex.java), so nothing is
listed, and partition values, statistics and the filters of a query leave out what a query does not need.
Deleted rows are left out by a filter; columns come under their logical names, in the order of the schema.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.table_scan import file_access, partition_column
from distributary.delta.table import DeltaTable
from distributary.spark.deletion_vector_filter import read_deleted_rows
from distributary.spark.file_relation import FileList, read_files
from distributary.spark.skipping_statistics import SkippingStatistics
from distributary.storage.object_store import ObjectStore

FILE_ORDINAL: Final = "__distributary_file"
ROW_INDEX: Final = "__distributary_row"
_BASE: Final = "__distributary_base"
_LAST: Final = "__distributary_last"


def read_table(
    spark: SparkSession,
    path: str,
    version: int | None = None,
    timestamp: datetime.datetime | str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a Delta table at a version or a time; the latest by default."""
    table = DeltaTable(path, storage_options)
    return table.snapshot(version, timestamp).resilient(
        lambda state: scan_snapshot(spark, table.store, state)
    )


def scan_snapshot(
    spark: SparkSession,
    store: ObjectStore,
    snapshot: Snapshot,
    files: FileSelection | None = None,
    *,
    positions: bool = False,
) -> DataFrame:
    """The rows of these files (default: all) of a snapshot.

    With `positions`, two more columns: the position of a row's file in `files` and the row's number in it,
    counted with the deleted ones.
    """
    selected = snapshot.files if files is None else files
    deleted = read_deleted_rows(selected.deletion_vectors(), file_access(store).read_range)
    constants = _partition_columns(snapshot, selected)
    if positions:
        constants[FILE_ORDINAL] = pa.array(np.arange(selected.num_files, dtype=np.int32))
    if deleted is not None:
        constants |= {_BASE: deleted.bases, _LAST: deleted.lasts}
    identity = f"{store.root}@{snapshot.version}" if files is None and not positions else None
    statistics = SkippingStatistics(
        selected, snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode
    )
    listed = FileList.of(selected, constants, statistics, identity)
    frame = read_files(spark, store, snapshot.schema, snapshot.mapping_mode, listed)
    row = frame.metadataColumn("_metadata")["row_index"]
    if deleted is not None:
        frame = frame.filter(deleted.live(spark, sf.col(_BASE), sf.col(_LAST), row))
    output = [_column(field.name) for field in snapshot.schema.fields]
    if positions:
        output += [sf.col(FILE_ORDINAL), row.alias(ROW_INDEX)]
    return frame.select(*output)


def _partition_columns(snapshot: Snapshot, files: FileSelection) -> dict[str, pa.Array]:
    return {
        name: partition_column(files, snapshot.schema, name, snapshot.mapping_mode)
        for name in snapshot.metadata.partitioning
    }


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")
