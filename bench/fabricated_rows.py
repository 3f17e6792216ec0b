"""A table of many rows: what scan benchmarks read.

Eight columns of the usual kinds in twelve files. `key` grows from file to file, so that a
range of it touches few files; `amount` is spread evenly over all of them. The files are
plain Parquet and the log is one commit written by hand, so that no engine under test made them.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FILES = 12
ROW_GROUP = 256 * 1024
START = 1_700_000_000_000
COLUMNS = {
    "key": "long",
    "category": "string",
    "amount": "double",
    "quantity": "integer",
    "active": "boolean",
    "day": "date",
    "at": "timestamp",
    "comment": "string",
}
CATEGORIES = [f"category {number:02d}" for number in range(40)]


def write_table(root: Path, rows: int) -> None:
    """Write the files and the log of a table with so many rows."""
    shutil.rmtree(root, ignore_errors=True)
    log = root / "_delta_log"
    log.mkdir(parents=True)
    edges = np.linspace(0, rows, FILES + 1, dtype=np.int64)
    adds = [
        _write_file(root, number, make_rows(int(start), int(stop)))
        for number, (start, stop) in enumerate(pairwise(edges))
    ]
    actions = [
        {"commitInfo": {"timestamp": START, "operation": "WRITE", "operationParameters": {}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": _metadata()},
        *adds,
    ]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def make_rows(start: int, stop: int) -> pa.Table:
    """The rows with keys from `start` to `stop`; the same ones every time."""
    random = np.random.default_rng(start)
    count = stop - start
    keys = np.arange(start, stop, dtype=np.int64)
    categories = pa.DictionaryArray.from_arrays(random.integers(0, 40, count).astype(np.int32), CATEGORIES)
    at = START * 1000 + keys * 250_000 + random.integers(0, 250_000, count)
    words = pa.array(random.integers(0, 2**40, count)).cast(pa.string())
    return pa.table(
        {
            "key": keys,
            "category": categories.cast(pa.string()),
            "amount": np.round(random.random(count) * 1000, 3),
            "quantity": random.integers(0, 100, count).astype(np.int32),
            "active": random.random(count) < 0.7,
            "day": pa.array((19_000 + keys // 25_000).astype(np.int32)).cast(pa.date32()),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "comment": pc.binary_join_element_wise("order", words, " "),
        }
    )


def _write_file(root: Path, number: int, table: pa.Table) -> dict[str, object]:
    path = root / f"part-{number:05d}.snappy.parquet"
    pq.write_table(table, path, compression="snappy", row_group_size=ROW_GROUP)
    add = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": START,
        "dataChange": True,
        "stats": json.dumps(_statistics(table)),
    }
    return {"add": add}


def _statistics(table: pa.Table) -> dict[str, object]:
    ordered = [name for name in COLUMNS if name not in ("active", "comment")]
    bounds = {name: pc.min_max(table.column(name)) for name in ordered}
    return {
        "numRecords": table.num_rows,
        "minValues": {name: _json(found["min"].as_py()) for name, found in bounds.items()},
        "maxValues": {name: _json(found["max"].as_py(), up=True) for name, found in bounds.items()},
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }


def _json(value: object, up: bool = False) -> object:
    """Timestamps have milliseconds in statistics; a maximum may be higher than the values, never lower."""
    if hasattr(value, "microsecond"):
        milliseconds = value.microsecond // 1000
        text = f"{value:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
        return text if not up else f"{value:%Y-%m-%dT%H:%M:%S}.999Z"
    return value if isinstance(value, int | float | str) else str(value)


def _metadata() -> dict[str, object]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in COLUMNS.items()
    ]
    return {
        "id": "5b8f5f5e-0000-4000-8000-000000000002",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": START,
    }
