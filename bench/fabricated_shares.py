"""Tables that clients of shares read: many small files, few large ones, partitions, many columns, changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

LARGE_FILES = 10
COLUMNS = 50
FULL = 1_000_000
TABLES = ("many", "large", "parts", "wide", "changed")


def write_shares(root: Path, rows: int) -> None:
    """Write every table; `rows` is how many each file of the large one has, 1,000,000 in a full run."""
    from distributary.delta.table import DeltaTable

    shutil.rmtree(root, ignore_errors=True)
    lake = root / "lake"
    files = 1000 if rows == FULL else 40
    _write(lake / "many", [_typed(number * 100, 100) for number in range(files)])
    _write(lake / "large", [_typed(number * rows, rows) for number in range(LARGE_FILES)])
    parts = [_typed(number * 1000, 1000, part=number) for number in range(files)]
    _write(lake / "parts", [pa.concat_tables(parts)], partition_by=["part"])
    wide = rows // 4
    _write(lake / "wide", [_wide(number * wide, wide) for number in range(4)])
    properties = {"delta.enableChangeDataFeed": "true"}
    table = DeltaTable.create(lake / "changed", schema=_typed(0, 0).schema, properties=properties)
    for number in range(20):
        table.append(_typed(number * rows // 50, rows // 50))


def _write(place: Path, files: list[pa.Table], partition_by: list[str] | None = None) -> None:
    """A table that has a file, at least, for each of some tables."""
    from distributary.delta.table import DeltaTable

    table = DeltaTable.create(place, schema=files[0].schema, partition_by=partition_by or [])
    if len(files) <= LARGE_FILES:
        for data in files:
            table.append(data)
        return
    _commit_many(table, files)


def _commit_many(table, files: list[pa.Table]) -> None:
    """Many small files in one commit."""
    import pyarrow.parquet as pq

    from distributary.delta.commit.staged_commit import Operation, StagedCommit
    from distributary.delta.commit.transaction import commit
    from distributary.delta.log.actions import Add

    adds: list[Add] = []
    for number, data in enumerate(files):
        place = table.store.local_path(f"part-{number:05d}.parquet")
        pq.write_table(data, place)
        stats = f'{{"numRecords":{data.num_rows}}}'
        adds.append(Add(place.name, {}, place.stat().st_size, 0, data_change=True, stats=stats))
    commit(table.store, table.snapshot().state, StagedCommit(Operation("WRITE"), tuple(adds)))


def _typed(start: int, count: int, part: int | None = None) -> pa.Table:
    """Rows of some common types, the same ones every time."""
    ids = np.arange(start, start + count, dtype=np.int64)
    columns: dict[str, pa.Array] = {
        "id": pa.array(ids),
        "value": pa.array(ids * 0.5),
        "code": pa.array((ids * 7919 % 1000).astype(np.int32)),
        "name": pa.array([f"name-{number % 5000:05d}" for number in ids], pa.string()),
    }
    if part is not None:
        columns["part"] = pa.array(np.full(count, part, np.int32))
    return pa.table(columns)


def _wide(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count, dtype=np.int64)
    return pa.table({f"c{number:02d}": pa.array(ids * (number + 1) % 1_000_003) for number in range(COLUMNS)})
