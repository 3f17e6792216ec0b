"""Overwrite: everything, some partitions, or the schema too."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from distributary.delta.errors import (
    AppendOnlyError,
    ConcurrentAppendError,
    ConstraintViolationError,
    SchemaMismatchError,
)
from distributary.delta.operations.overwrite import overwrite
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError


@pytest.fixture
def partitioned(place: Any) -> DeltaTable:
    """Three partitions of two rows."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    table.append(pa.table({"id": [1, 2, 3, 4, 5, 6], "p": ["a", "a", "b", "b", None, None]}))
    return table


def ids(table: DeltaTable, version: int | None = None) -> list[tuple[int, str | None]]:
    rows = table.snapshot(version).to_arrow().to_pylist()
    return sorted(((row["id"], row["p"]) for row in rows), key=str)


def test_overwriting_replaces_everything_and_keeps_history(
    partitioned: DeltaTable, place: Any, deltalake_reads: Any
) -> None:
    """LW-013, LW-014: tombstones with partition values and size; the older version can still be read."""
    result = partitioned.overwrite(pa.table({"id": [7], "p": ["z"]}))
    assert (result.num_removed_files, ids(partitioned)) == (3, [(7, "z")])
    assert len(ids(partitioned, 1)) == 6
    removes = [line["remove"] for line in place.entries(2) if "remove" in line]
    assert all(
        remove["dataChange"] and remove["deletionTimestamp"] and remove["extendedFileMetadata"]
        for remove in removes
    )
    assert {remove["partitionValues"]["p"] for remove in removes} == {"a", "b", None}
    assert place.plain(deltalake_reads(place)) == [{"id": 7, "p": "z"}]


def test_replace_where_replaces_the_partitions_that_it_names(
    partitioned: DeltaTable, place: Any, deltalake_reads: Any
) -> None:
    """LW-013, LW-016: a predicate over partition columns; rows outside of it are refused."""
    partitioned.overwrite(pa.table({"id": [9], "p": ["a"]}), replace_where="p = 'a'")
    assert ids(partitioned) == [(3, "b"), (4, "b"), (5, None), (6, None), (9, "a")]
    partitioned.overwrite(
        pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())}), replace_where="p is null"
    )
    assert ids(partitioned) == [(3, "b"), (4, "b"), (9, "a")]
    before = place.data_files()
    with pytest.raises(ConstraintViolationError, match="replace_where"):
        partitioned.overwrite(pa.table({"id": [1, 2], "p": ["a", "c"]}), replace_where="p IN ('a', 'b')")
    with pytest.raises(InvalidInputError, match="partition columns only"):
        partitioned.overwrite(pa.table({"id": [1], "p": ["a"]}), replace_where="id = 1")
    assert place.data_files() == before
    assert [row["p"] for row in place.plain(deltalake_reads(place))] == ["b", "b", "a"]


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(
    partitioned: DeltaTable, place: Any, deltalake_reads: Any
) -> None:
    """LW-013, LW-016: other partitions stay; null is a partition of its own."""
    result = partitioned.overwrite(pa.table({"id": [8, 9], "p": [None, "new"]}), dynamic=True)
    assert result.num_removed_files == 1
    assert ids(partitioned) == [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (8, None), (9, "new")]
    assert len(place.plain(deltalake_reads(place))) == 6
    partitioned.overwrite(pa.table({"id": pa.array([], pa.int64())}), dynamic=True)
    assert len(ids(partitioned)) == 6


def test_a_dynamic_overwrite_knows_partitions_by_value_not_by_text(place: Any) -> None:
    """PV-003, PV-005: `1.50` and `1.5` are one partition, whoever wrote it."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64()), ("p", pa.timestamp("us", "UTC"))]), partition_by=["p"]
    )
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    table.append(pa.table({"id": [1], "p": pa.array([moment], pa.timestamp("us", "UTC"))}))
    log = place / "_delta_log" / "00000000000000000001.json"
    log.write_text(
        log.read_text().replace('{"p":"2024-01-01 00:00:00"}', '{"p":"2024-01-01T00:00:00.000000Z"}')
    )
    fresh = DeltaTable(place)
    result = fresh.overwrite(
        pa.table({"id": [2], "p": pa.array([moment], pa.timestamp("us", "UTC"))}), dynamic=True
    )
    assert result.num_removed_files == 1
    assert fresh.snapshot().to_arrow().column("id").to_pylist() == [2]


def test_the_schema_can_be_overwritten_with_the_rows(place: Any, deltalake_reads: Any) -> None:
    """LW-006, LW-011: other columns, another partitioning, the protocol that they need, one commit."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"],
        properties={"delta.columnMapping.mode": "name"},
    )  # fmt: skip
    table.append(pa.table({"id": [1], "p": ["a"]}))
    rows = pa.table({"id": ["x"], "q": [1]})
    with pytest.raises(SchemaMismatchError):
        table.overwrite(rows)
    table.overwrite(rows, overwrite_schema=True, partition_by=["q"])
    assert place.plain(table.snapshot().to_arrow()) == [{"id": "x", "q": 1}]
    assert table.snapshot().metadata.partition_columns == ["q"]
    columns = [field.metadata["delta.columnMapping.id"] for field in table.snapshot().schema.fields]
    assert columns == [3, 4]
    assert place.plain(table.snapshot(1).to_arrow()) == [{"id": 1, "p": "a"}]
    assert place.plain(deltalake_reads(place)) == [{"id": "x", "q": 1}]


def test_an_append_only_table_refuses_to_be_overwritten(place: Any) -> None:
    """CN-001: nothing is removed, and nothing is written."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]), properties={"delta.appendOnly": "true"})
    table.overwrite(pa.table({"id": [1]}))
    before = place.data_files()
    with pytest.raises(AppendOnlyError):
        table.overwrite(pa.table({"id": [2]}))
    assert place.data_files() == before
    table.append(pa.table({"id": [3]}))


def test_choices_that_exclude_each_other_are_refused(partitioned: DeltaTable, tmp_path: Path) -> None:
    """LW-016: an overwrite says one thing."""
    rows = pa.table({"id": [1], "p": ["a"]})
    for options in (
        {"dynamic": True, "replace_where": "p = 'a'"},
        {"dynamic": True, "overwrite_schema": True},
        {"merge_schema": True, "overwrite_schema": True},
        {"partition_by": ["id"]},
    ):
        with pytest.raises(InvalidInputError):
            partitioned.overwrite(rows, **options)
    flat = DeltaTable.create(tmp_path / "flat", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidInputError, match="partitions"):
        flat.overwrite(pa.table({"id": [1]}), dynamic=True)


def test_a_serializable_overwrite_sees_rows_that_came_meanwhile(place: Any) -> None:
    """LW-016: rows appended after the read are not silently kept or lost under Serializable."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64())]), properties={"delta.isolationLevel": "Serializable"}
    )
    snapshot = table.snapshot().state
    table.append(pa.table({"id": [1]}))
    before = place.data_files()
    with pytest.raises(ConcurrentAppendError):
        overwrite(table.store, snapshot, pa.table({"id": [2]}))
    assert place.data_files() == before
