"""A snapshot as a DataFrame, read by Spark's own vectorised Parquet reader.

The list of files comes from the log through a file index of ours (SnapshotFileIndex.java), so nothing is
listed, and partition values, statistics and the filters of a query leave out what a query does not need.
Deleted rows are left out by a filter; columns come under their logical names, in the order of the schema.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.scan.table_scan import file_access, partition_column
from distributary.delta.schema.schema_evolution import check_type_changes
from distributary.delta.table import DeltaTable
from distributary.spark.deletion_vector_filter import DeletedRows, read_bitmaps
from distributary.spark.file_relation import FileList, FileRows, read_files
from distributary.spark.jvm import pruning_filters
from distributary.spark.path_scan import PathRows, read_paths, uses_index
from distributary.spark.row_identity import RowIdentity, file_constants
from distributary.spark.rule_violation import column_named
from distributary.spark.skipping_statistics import SkippingStatistics
from distributary.spark.table_store import trusted_roots
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
    allowed_roots: Sequence[str] = (),
) -> DataFrame:
    """The rows of a Delta table at a version or a time; the latest by default.

    `allowed_roots` are places outside of the table in which its files may lie (shallow clones).
    """
    table = DeltaTable(path, storage_options, allowed_roots=trusted_roots(spark, allowed_roots))
    return table.snapshot(version, timestamp).resilient(
        lambda state: scan_snapshot(spark, table.store, state)
    )


def count_rows(
    spark: SparkSession,
    path: str,
    version: int | None = None,
    timestamp: datetime.datetime | str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> int:
    """How many rows a table has: from the log where it says so of every file, otherwise counted by Spark."""
    table = DeltaTable(path, storage_options, allowed_roots=trusted_roots(spark, allowed_roots))
    return table.snapshot(version, timestamp).resilient(lambda state: _count(spark, table.store, state))


def scan_snapshot(
    spark: SparkSession,
    store: ObjectStore,
    snapshot: Snapshot,
    files: FileSelection | None = None,
    *,
    positions: bool = False,
    identity: bool = False,
) -> DataFrame:
    """The rows of these files (default: all) of a snapshot.

    With `positions`, two more columns: the position of a row's file in `files` and the row's number in it,
    counted with the deleted ones. With `identity` two more of tables that track their rows: the id of a row
    and the version that it is of (row_identity).
    """
    check_type_changes(snapshot.schema)
    selected = snapshot.files if files is None else files
    constants = _partition_columns(snapshot, selected)
    if positions:
        constants[FILE_ORDINAL] = pa.array(np.arange(selected.num_files, dtype=np.int32))
    tracked = RowIdentity.of(snapshot.metadata.properties, snapshot.root) if identity else None
    if tracked is not None:
        constants |= file_constants(selected)
    whole = files is None and not positions and tracked is None
    name = f"{store.root}@{snapshot.version}" if whole else None
    listed = FileList.of(selected, constants, _statistics(snapshot, selected), name)
    live = _live_rows(spark, store, snapshot, selected, listed, tracked)
    names = [*snapshot.schema.names, *((FILE_ORDINAL,) if positions else ())]
    if tracked is None:
        return live.select(names, ROW_INDEX if positions else None)
    rows = live.select([*names, *tracked.names], ROW_INDEX)
    kept = [*names, *((ROW_INDEX,) if positions else ())]
    return rows.select(*map(column_named, kept), *tracked.columns(sf.col(ROW_INDEX)))


def prune_with_spark(
    spark: SparkSession,
    store: ObjectStore,
    snapshot: Snapshot,
    condition: Column | str,
    files: FileSelection | None = None,
    *,
    alias: str | None = None,
) -> FileSelection:
    """The files (of these, or of all) that may hold rows satisfying a condition of Spark SQL.

    Spark itself analyses, simplifies and splits the condition, which may name the table by `alias`; the index
    decides, as in a scan.
    """
    selected = snapshot.files if files is None else files
    if not uses_index(spark):
        return selected
    listed = FileList.of(selected, _partition_columns(snapshot, selected), _statistics(snapshot, selected))
    rows = read_files(spark, store, snapshot.schema, snapshot.mapping_mode, listed)
    frame = rows.frame if alias is None else rows.frame.alias(alias)
    filters = pruning_filters(frame.filter(condition), rows.index)
    if filters is None:
        return selected.filter(np.zeros(selected.num_files, np.bool_))
    bits = np.frombuffer(bytes(rows.index.keptBits(*filters)), np.uint8)
    return selected.filter(np.unpackbits(bits, bitorder="little")[: selected.num_files].astype(np.bool_))


def _live_rows(
    spark: SparkSession,
    store: ObjectStore,
    snapshot: Snapshot,
    files: FileSelection,
    listed: FileList,
    tracked: RowIdentity | None,
) -> FileRows | PathRows:
    """The rows of files that are not deleted."""
    bitmaps = read_bitmaps(files.deletion_vectors(), file_access(store).read_range)
    schema = snapshot.schema if tracked is None else tracked.schema(snapshot.schema)
    mode = snapshot.mapping_mode
    if not uses_index(spark):
        return read_paths(spark, store, schema, mode, listed).without(bitmaps)
    deleted = DeletedRows.of(bitmaps)
    if deleted is None:
        return read_files(spark, store, schema, mode, listed)
    rows = read_files(spark, store, schema, mode, listed.having({_BASE: deleted.bases, _LAST: deleted.lasts}))
    return rows.filtered(deleted.live(spark, sf.col(_BASE), sf.col(_LAST), rows.row))


def _count(spark: SparkSession, store: ObjectStore, snapshot: Snapshot) -> int:
    pruner = FilePruner(snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode)
    records = pruner.prune(snapshot.files, None).live_records()
    if records.null_count == 0:
        return pc.sum(records).as_py() or 0
    return scan_snapshot(spark, store, snapshot).count()


def _statistics(snapshot: Snapshot, files: FileSelection) -> SkippingStatistics:
    return SkippingStatistics(files, snapshot.schema, snapshot.metadata.partitioning, snapshot.mapping_mode)


def _partition_columns(snapshot: Snapshot, files: FileSelection) -> dict[str, pa.Array]:
    return {
        name: partition_column(files, snapshot.schema, name, snapshot.mapping_mode)
        for name in snapshot.metadata.partitioning
    }
