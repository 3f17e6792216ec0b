"""The data files of a scan as an Arrow table, for people and programs that look at them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.schema.column_mapping import physical_name

STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modification_time", pa.timestamp("ms", "UTC")),
        ("partition_values", STRING_MAP),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
        ("deletion_vector", DELETION_VECTOR),
    ]
)

_FILES_AT_ONCE = 50_000


def list_files(scan: TableScan, snapshot: Snapshot) -> pa.Table:
    """One row a file: path as in the log, size, time, partition values by column name, rows, statistics."""
    return pa.Table.from_batches(file_batches(scan, snapshot), FILE_SCHEMA)


def file_batches(scan: TableScan, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """The same, some files at a time, so that a listing of any length needs little memory."""
    pruner = FilePruner(snapshot.schema, snapshot.metadata.partitioning, scan.mode)
    for files in scan.pruned.files.parts(_FILES_AT_ONCE):
        statistics = files.column("stats")
        columns = {
            "path": files.column("path"),
            "size": files.column("size"),
            "modification_time": files.column("modificationTime").cast(pa.timestamp("ms", "UTC")),
            "partition_values": _partition_values(files, scan, snapshot),
            "num_records": pruner.num_records(files, statistics),
            "stats": statistics,
            "deletion_vector": _deletion_vectors(files),
        }
        yield from pa.table(columns, FILE_SCHEMA).combine_chunks().to_batches()


def _partition_values(files: FileSelection, scan: TableScan, snapshot: Snapshot) -> pa.Array:
    names = snapshot.metadata.partitioning
    texts = [
        files.partition_values(physical_name(snapshot.schema.field(name), scan.mode)).combine_chunks()
        for name in names
    ]
    count, width = files.num_files, len(names)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(width))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(width), count)))
    # The texts come column by column; the entries of a map must lie side by side.
    order = pa.array(np.arange(width * count).reshape(width, count).T.ravel())
    items = pa.concat_arrays(texts).take(order) if texts else pa.array([], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, items)


def _deletion_vectors(files: FileSelection) -> pa.StructArray:
    columns = [files.column("deletionVector", field.name).combine_chunks() for field in DELETION_VECTOR]
    return pa.StructArray.from_arrays(columns, fields=list(DELETION_VECTOR), mask=columns[0].is_null())
