"""A Delta log of any number of files, without the data files: what log benchmarks read.

The layout is the usual one of a large table: 1,000 date partitions, JSON statistics on three
columns, a checkpoint in row groups of 50,000 files, and commits after it that each add one
file and remove one. `stats_parsed` and `partitionValues_parsed` stand beside the texts only
where they are asked for, since most writers leave them out.
"""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START = 1_700_000_000_000
ROWS_PER_FILE = 1000
FIRST_SIZE = 52341
ROW_GROUP = 50_000
STRING_MAP = pa.map_(pa.string(), pa.string())
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("name", "string"), ("value", "double"), ("date", "string"))
    ],
}
METADATA = {
    "id": "5b8f5f5e-0000-4000-8000-000000000001",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(SCHEMA),
    "partitionColumns": ["date"],
    "configuration": {},
    "createdTime": START,
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
VALUES = pa.struct([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
COUNTS = pa.struct([(field.name, pa.int64()) for field in VALUES])
TYPED_STATISTICS = pa.struct(
    [("numRecords", pa.int64()), ("minValues", VALUES), ("maxValues", VALUES), ("nullCount", COUNTS)]
)
TYPED_PARTITION = pa.struct([("date", pa.string())])


def partition_day(number: int) -> str:
    """The date of a partition."""
    return (datetime.date(2020, 1, 1) + datetime.timedelta(days=number)).isoformat()


def file_columns(start: int, stop: int, per_partition: int) -> tuple[list[str], list[str], list[str]]:
    """Paths, dates and statistics of the files from `start` to `stop`."""
    paths, dates, stats = [], [], []
    for number in range(start, stop):
        day = partition_day(number // per_partition)
        low = number * ROWS_PER_FILE
        high = low + ROWS_PER_FILE - 1
        paths.append(f"date={day}/part-{number:07d}-{number * 2654435761 % 2**32:08x}-c000.snappy.parquet")
        dates.append(day)
        stats.append(
            f'{{"numRecords":{ROWS_PER_FILE},'
            f'"minValues":{{"id":{low},"name":"name-{low:09d}","value":{low * 0.5}}},'
            f'"maxValues":{{"id":{high},"name":"name-{high:09d}","value":{high * 0.5}}},'
            '"nullCount":{"id":0,"name":0,"value":0}}'
        )
    return paths, dates, stats


def write_log(
    root: Path, files: int, commits_after: int = 100, partitions: int = 1000, typed: bool = False
) -> None:
    """Write the log of a table with so many files; a checkpoint at version 1, then commits."""
    shutil.rmtree(root, ignore_errors=True)
    log = root / "_delta_log"
    log.mkdir(parents=True)
    per_partition = max(files // partitions, 1)
    _write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    _write_commit(log, 1, [])
    _write_checkpoint(log, files, per_partition, typed)
    for number in range(commits_after):
        write_replacement(log, 2 + number, number, per_partition)


def write_replacement(log: Path, version: int, number: int, per_partition: int) -> None:
    """Write a commit that replaces file `number` by a rewritten one."""
    _write_commit(log, version, _replace_one(number, per_partition))


def _write_commit(log: Path, version: int, actions: list[dict[str, object]]) -> None:
    info = {
        "commitInfo": {"timestamp": START + version * 1000, "operation": "WRITE", "operationParameters": {}}
    }
    lines = [json.dumps(action, separators=(",", ":")) for action in (info, *actions)]
    (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n")


def _replace_one(number: int, per_partition: int) -> list[dict[str, object]]:
    (path,), (day,), (stats,) = file_columns(number, number + 1, per_partition)
    common = {"partitionValues": {"date": day}, "size": FIRST_SIZE, "dataChange": True}
    return [
        {"remove": {"path": path, "deletionTimestamp": START, "extendedFileMetadata": True, **common}},
        {"add": {"path": path.replace("part-", "new-"), "modificationTime": START, "stats": stats, **common}},
    ]


def _write_checkpoint(log: Path, files: int, per_partition: int, typed: bool) -> None:
    schema = _checkpoint_schema(typed)
    path = log / f"{1:020d}.checkpoint.parquet"
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        metadata = {**METADATA, "configuration": [], "format": {"provider": "parquet", "options": []}}
        writer.write_table(
            pa.Table.from_pylist([{"protocol": PROTOCOL}, {"metaData": metadata}], schema=schema)
        )
        for start in range(0, files, ROW_GROUP):
            writer.write_table(_add_rows(schema, start, min(start + ROW_GROUP, files), per_partition))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": files + 2}))


def _checkpoint_schema(typed: bool) -> pa.Schema:
    text, long = pa.string(), pa.int64()
    add = [
        ("path", text), ("partitionValues", STRING_MAP), ("size", long), ("modificationTime", long),
        ("dataChange", pa.bool_()), ("tags", STRING_MAP), ("stats", text),
    ]  # fmt: skip
    if typed:
        add += [("stats_parsed", TYPED_STATISTICS), ("partitionValues_parsed", TYPED_PARTITION)]
    remove = [
        ("path", text), ("deletionTimestamp", long), ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()), ("partitionValues", STRING_MAP), ("size", long),
        ("tags", STRING_MAP),
    ]  # fmt: skip
    metadata = [
        ("id", text), ("name", text), ("description", text),
        ("format", pa.struct([("provider", text), ("options", STRING_MAP)])), ("schemaString", text),
        ("partitionColumns", pa.list_(text)), ("configuration", STRING_MAP), ("createdTime", long),
    ]  # fmt: skip
    return pa.schema(
        [
            ("txn", pa.struct([("appId", text), ("version", long), ("lastUpdated", long)])),
            ("add", pa.struct(add)),
            ("remove", pa.struct(remove)),
            ("metaData", pa.struct(metadata)),
            ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
        ]
    )


def _add_rows(schema: pa.Schema, start: int, stop: int, per_partition: int) -> pa.Table:
    count = stop - start
    paths, dates, stats = file_columns(start, stop, per_partition)
    offsets = pa.array(range(count + 1), pa.int32())
    values = pa.MapArray.from_arrays(offsets, pa.array(["date"] * count), pa.array(dates))
    sizes = pc.add(pa.array(range(start, stop), pa.int64()), FIRST_SIZE)
    times = pa.array([START] * count, pa.int64())
    changes = pa.array([False] * count)
    columns = [pa.array(paths), values, sizes, times, changes, pa.nulls(count, STRING_MAP), pa.array(stats)]
    if len(columns) < schema.field("add").type.num_fields:
        columns += [_typed_statistics(start, stop), pa.StructArray.from_arrays([pa.array(dates)], ["date"])]
    add = pa.StructArray.from_arrays(columns, fields=list(schema.field("add").type))
    return pa.table(
        [add if field.name == "add" else pa.nulls(count, field.type) for field in schema], schema=schema
    )


def _typed_statistics(start: int, stop: int) -> pa.StructArray:
    numbers = pa.array(range(start * ROWS_PER_FILE, stop * ROWS_PER_FILE, ROWS_PER_FILE), pa.int64())
    zeros = pa.array([0] * len(numbers), pa.int64())
    columns = [
        pa.array([ROWS_PER_FILE] * len(numbers), pa.int64()),
        _bounds(numbers),
        _bounds(pc.add(numbers, ROWS_PER_FILE - 1)),
        pa.StructArray.from_arrays([zeros] * len(COUNTS), fields=list(COUNTS)),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(TYPED_STATISTICS))


def _bounds(numbers: pa.Array) -> pa.StructArray:
    names = pa.array([f"name-{number:09d}" for number in numbers.to_pylist()])
    halves = pc.multiply(numbers.cast(pa.float64()), 0.5)
    return pa.StructArray.from_arrays([numbers, names, halves], fields=list(VALUES))
