"""A folder of tables that a sharing server shall serve: what the server's benchmarks ask for.

`small`, `medium` and `blob` have real files; `big` and `million` are logs without data files; `cdf` has a
change feed, `dv` a deletion vector, `colmap` column mapping. Logs are written by hand. Every table has the
columns of `fabricated_log`; those with partitions have one date to each file or more.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from fabricated_log import METADATA, PROTOCOL, SCHEMA, START, partition_day, write_log

BLOB_FULL, BLOB_QUICK = 256, 8
Action = dict[str, object]


def write_lake(root: Path, million: int) -> None:
    """Write every table; `million` is the number of files of the largest, 1,000,000 in a full run."""
    shutil.rmtree(root, ignore_errors=True)
    lake = root / "lake"
    full = million == 1_000_000
    _write_files(lake / "small", 10, 1000)
    _write_files(lake / "medium", 1000 if full else 100, 100)
    write_log(lake / "big", million // 10, commits_after=1)
    write_log(lake / "million", million, commits_after=1)
    _write_changes(lake / "cdf")
    _write_vectors(lake / "dv")
    _write_mapped(lake / "colmap")
    _write_blob(lake / "blob", BLOB_FULL if full else BLOB_QUICK)


def rows(start: int, count: int, day: str) -> pa.Table:
    """Some rows, the same ones every time."""
    ids = range(start, start + count)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": [f"name-{number:09d}" for number in ids],
        "value": [number * 0.5 for number in ids],
        "date": [day] * count,
    }
    return pa.table(columns)


def _write_files(root: Path, files: int, rows_each: int) -> None:
    """One file to each date, in one commit."""
    adds: list[Action] = []
    for number in range(files):
        day = partition_day(number)
        data = rows(number * rows_each, rows_each, day).drop_columns(["date"])
        path = f"date={day}/part-{number:05d}.parquet"
        adds.append(_added(root, path, data, {"date": day}))
    _write_commit(root, 0, [*_head(root, partitioned=True), *adds])


def _write_changes(root: Path) -> None:
    """Two appends, an update, a delete and one more append, with the change files of both changes."""
    first, second = rows(0, 1000, partition_day(0)), rows(1000, 1000, partition_day(1))
    updated = pa.concat_tables([_raised(first.slice(0, 10)), first.slice(10)])
    kept = second.slice(0, 990)
    one, two = _added(root, "part-0.parquet", first), _added(root, "part-1.parquet", second)
    properties = {"delta.enableChangeDataFeed": "true"}
    _write_commit(root, 0, [*_head(root, properties=properties), one])
    _write_commit(root, 1, [two])
    kinds = ["update_preimage"] * 10 + ["update_postimage"] * 10
    changes = pa.concat_tables([first.slice(0, 10), updated.slice(0, 10)])
    changed = _added(root, "part-2.parquet", updated)
    _write_commit(root, 2, [_removed(one), changed, _changed(root, "cdc-2.parquet", changes, kinds)])
    rest = _added(root, "part-3.parquet", kept)
    deleted = _changed(root, "cdc-3.parquet", second.slice(990), ["delete"] * 10)
    _write_commit(root, 3, [_removed(two), rest, deleted])
    _write_commit(root, 4, [_added(root, "part-4.parquet", rows(6000, 1000, partition_day(3)))])


def _write_vectors(root: Path) -> None:
    """Four files; half of the first hundred rows of the first are deleted by a vector."""
    from pyroaring import BitMap64

    from distributary.delta.deletion_vectors import write_deletion_vector_file, z85_encode

    adds = [
        _added(root, f"part-{number}.parquet", rows(number * 1000, 1000, partition_day(number)))
        for number in range(4)
    ]
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                "writerFeatures": features}  # fmt: skip
    properties = {"delta.enableDeletionVectors": "true"}
    _write_commit(root, 0, [*_head(root, protocol, properties), *adds])
    name = uuid.uuid5(uuid.NAMESPACE_URL, "vector")
    deleted = BitMap64(range(0, 100, 2))
    data, (offset,) = write_deletion_vector_file([deleted])
    (root / f"deletion_vector_{name}.bin").write_bytes(data)
    size = int.from_bytes(data[offset : offset + 4], "big")
    vector = {"storageType": "u", "pathOrInlineDv": z85_encode(name.bytes), "offset": offset,
              "sizeInBytes": size, "cardinality": len(deleted)}  # fmt: skip
    first = {"add": {**_fields(adds[0]), "deletionVector": vector}}
    _write_commit(root, 1, [_removed(adds[0]), first])


def _write_mapped(root: Path) -> None:
    """One file whose columns have other names than the table's."""
    names = [f"col-{number:04d}" for number in range(4)]
    add = _added(root, "part-0.parquet", rows(0, 1000, partition_day(0)).rename_columns(names))
    fields = [
        {**field, "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}}
        for number, (field, name) in enumerate(zip(SCHEMA["fields"], names, strict=True), 1)
    ]
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    schema = {"type": "struct", "fields": fields}
    _write_commit(root, 0, [*_head(root, protocol, properties, schema), add])


def _write_blob(root: Path, megabytes: int) -> None:
    """One large file of bytes that nothing compresses."""
    values = pa.array([os.urandom(1 << 20) for _ in range(megabytes)], pa.binary())
    table = pa.table({"bytes": values})
    root.mkdir(parents=True)
    pq.write_table(table, root / "part-0.parquet", compression="none", use_dictionary=False)
    schema = {"type": "struct", "fields": [{"name": "bytes", "type": "binary", "nullable": True,
                                            "metadata": {}}]}  # fmt: skip
    size = (root / "part-0.parquet").stat().st_size
    add = {"path": "part-0.parquet", "partitionValues": {}, "size": size, "modificationTime": START,
           "dataChange": True}  # fmt: skip
    _write_commit(root, 0, [*_head(root, schema=schema), {"add": add}])


def _raised(table: pa.Table) -> pa.Table:
    values = pa.array([value + 1000 for value in table["value"].to_pylist()], pa.float64())
    return table.set_column(2, "value", values)


def _added(root: Path, path: str, data: pa.Table, partition: Mapping[str, str] | None = None) -> Action:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, place)
    low, high = data.column(0)[0].as_py(), data.column(0)[-1].as_py()
    key = data.column_names[0]
    stats = {"numRecords": len(data), "minValues": {key: low}, "maxValues": {key: high},
             "nullCount": {key: 0}}  # fmt: skip
    add = {"path": path, "partitionValues": dict(partition or {}), "size": place.stat().st_size,
           "modificationTime": START, "dataChange": True, "stats": json.dumps(stats)}  # fmt: skip
    return {"add": add}


def _changed(root: Path, name: str, data: pa.Table, kinds: list[str]) -> Action:
    path = f"_change_data/{name}"
    (root / "_change_data").mkdir(exist_ok=True)
    pq.write_table(data.append_column("_change_type", pa.array(kinds)), root / path)
    size = (root / path).stat().st_size
    return {"cdc": {"path": path, "partitionValues": {}, "size": size, "dataChange": False}}


def _removed(added: Action) -> Action:
    add = _fields(added)
    facts = {"deletionTimestamp": START, "dataChange": True, "extendedFileMetadata": True}
    return {"remove": {**{name: add[name] for name in ("path", "partitionValues", "size")}, **facts}}


def _fields(added: Action) -> dict[str, object]:
    fields = added["add"]
    assert isinstance(fields, dict)
    return fields


def _head(
    root: Path,
    protocol: Mapping[str, object] = PROTOCOL,
    properties: Mapping[str, str] | None = None,
    schema: Mapping[str, object] = SCHEMA,
    *,
    partitioned: bool = False,
) -> list[Action]:
    metadata = {
        **METADATA,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, root.name)),
        "schemaString": json.dumps(schema),
        "partitionColumns": ["date"] if partitioned else [],
        "configuration": dict(properties or {}),
    }
    return [{"protocol": dict(protocol)}, {"metaData": metadata}]


def _write_commit(root: Path, version: int, actions: Iterable[Action]) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {"timestamp": START + version * 1000, "operation": "WRITE", "operationParameters": {}}
    lines = [json.dumps(action) for action in ({"commitInfo": info}, *actions)]
    (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n")
