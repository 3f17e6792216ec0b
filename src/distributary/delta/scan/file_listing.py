"""The data files of a scan as an Arrow table, for people and programs that look at them."""

from __future__ import annotations

import pyarrow as pa

from distributary.delta.log.snapshot import Snapshot
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


def list_files(scan: TableScan, snapshot: Snapshot) -> pa.Table:
    """One row a file: path as in the log, size, time, partition values by column name, rows, statistics."""
    files = scan.pruned.files
    return pa.table(
        {
            "path": files.column("path"),
            "size": files.column("size"),
            "modification_time": files.column("modificationTime").cast(pa.timestamp("ms", "UTC")),
            "partition_values": _partition_values(scan, snapshot),
            "num_records": scan.pruned.num_records(),
            "stats": files.column("stats"),
            "deletion_vector": _deletion_vectors(scan),
        }
    )


def _partition_values(scan: TableScan, snapshot: Snapshot) -> pa.Array:
    files = scan.pruned.files
    names = snapshot.metadata.partitioning
    texts = [
        files.partition_values(physical_name(snapshot.schema.field(name), scan.mode)).combine_chunks()
        for name in names
    ]
    count, width = files.num_files, len(names)
    offsets = pa.array(range(0, count * width + 1, width) if width else [0] * (count + 1), pa.int32())
    keys = pa.array(list(names) * count, pa.string())
    order = pa.array([at * count + row for row in range(count) for at in range(width)], pa.int64())
    items = pa.concat_arrays(texts).take(order) if texts else pa.array([], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, items)


def _deletion_vectors(scan: TableScan) -> pa.StructArray:
    files = scan.pruned.files
    columns = [files.column("deletionVector", field.name).combine_chunks() for field in DELETION_VECTOR]
    return pa.StructArray.from_arrays(columns, fields=list(DELETION_VECTOR), mask=columns[0].is_null())
