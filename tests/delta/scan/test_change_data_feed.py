"""The change data feed: which rows each version inserted, updated and deleted."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.errors import ChangeFeedError, VersionNotFoundError
from distributary.errors import InvalidInputError

FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*values: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(values, pa.int64()), "part": pa.array([v % 2 for v in values], pa.int32())}
    )


@pytest.fixture
def table(tmp_path: Path) -> ds.DeltaTable:
    table = ds.DeltaTable.create(tmp_path / "t", rows().schema, partition_by=["part"], properties=FEED)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.overwrite(rows(9))
    return table


def changes(table: ds.DeltaTable, *range_: int, **options: Any) -> list[tuple[str, int, int]]:
    found = table.changes(*range_, **options).to_arrow().to_pylist()
    return sorted((row["_change_type"], row["_commit_version"], row["id"]) for row in found)


def test_adds_are_inserts_and_removes_deletes_with_their_version(table: ds.DeltaTable) -> None:
    """CDF-002, CDF-004, LR-051: type, version and time of every changed row."""
    assert changes(table, 0) == [
        ("delete", 3, 1), ("delete", 3, 2), ("delete", 3, 3),
        ("insert", 1, 1), ("insert", 1, 2), ("insert", 2, 3), ("insert", 3, 9),
    ]  # fmt: skip
    schema = table.changes(0).arrow_schema
    assert schema.names == ["id", "part", "_change_type", "_commit_version", "_commit_timestamp"]
    assert schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")
    times = table.changes(2, 2).to_arrow().column("_commit_timestamp").to_pylist()
    assert [round(time.timestamp() * 1000) for time in times] == [table.snapshot(2).timestamp()]


def test_range_is_inclusive_and_partition_values_come_along(table: ds.DeltaTable) -> None:
    """CDF-002: both ends count."""
    assert changes(table, 2, 2) == [("insert", 2, 3)]
    found = table.changes(1, 2).to_arrow().to_pylist()
    assert all(row["part"] == row["id"] % 2 for row in found)


def test_columns_and_predicate_narrow_the_feed(table: ds.DeltaTable) -> None:
    assert changes(table, 0, predicate="id >= 3 AND _change_type = 'insert'") == [
        ("insert", 2, 3),
        ("insert", 3, 9),
    ]
    narrow = table.changes(0, columns=["part"]).arrow_schema.names
    assert narrow == ["part", "_change_type", "_commit_version", "_commit_timestamp"]


def test_rearranging_commits_change_nothing(table: ds.DeltaTable) -> None:
    """LR-050: files that are named again without a data change are no changes."""
    table.analyze(every_file=True)
    assert changes(table, 4) == []


def test_timestamps_choose_versions(table: ds.DeltaTable) -> None:
    folder = table.store.local_path("_delta_log")
    assert folder is not None
    for version in range(4):
        moment = datetime.datetime(2024, 1, 1 + version, tzinfo=datetime.UTC).timestamp()
        os.utime(folder / f"{version:020d}.json", (moment, moment))
    again = ds.DeltaTable(table.uri)
    found = changes(again, starting_timestamp="2024-01-02T12:00:00Z", ending_timestamp="2024-01-03T12:00:00Z")
    assert found == [("insert", 2, 3)]
    with pytest.raises(VersionNotFoundError, match="nothing was committed"):
        again.changes(starting_timestamp="2024-02-01T00:00:00Z")


def test_versions_before_the_feed_was_on_are_refused(tmp_path: Path) -> None:
    """CDF-002: what was not recorded is not made up."""
    table = ds.DeltaTable.create(tmp_path / "t", rows().schema)
    table.append(rows(1))
    table.alter.set_properties(FEED)
    table.append(rows(2))
    with pytest.raises(ChangeFeedError, match="enableChangeDataFeed"):
        table.changes(1).to_arrow()
    assert changes(table, 2) == [("insert", 3, 2)]


def test_column_added_in_the_range_is_null_before_it(table: ds.DeltaTable) -> None:
    table.alter.add_column("note", "string")
    table.append(pa.table({"id": [10], "part": pa.array([0], pa.int32()), "note": ["x"]}))
    found = {row["id"]: row["note"] for row in table.changes(1).to_arrow().to_pylist()}
    assert (found[1], found[10]) == (None, "x")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((), {}), ((3, 1), {}), ((-1,), {}), ((1,), {"starting_timestamp": "2024-01-01"})],
)
def test_ranges_that_make_no_sense_are_refused(
    table: ds.DeltaTable, arguments: tuple[int, ...], options: dict[str, str]
) -> None:
    with pytest.raises(InvalidInputError):
        table.changes(*arguments, **options)  # type: ignore[arg-type]
    with pytest.raises(VersionNotFoundError):
        table.changes(0, 99)


def test_change_files_alone_tell_an_update(delta_tables: Any) -> None:
    """CDF-002, CDF-005: a version with files under _change_data is told by them alone."""
    found = ds.DeltaTable(delta_tables.tables / "deltars__cdf-table").changes(1, 1).to_arrow()
    kinds = set(found.column("_change_type").to_pylist())
    assert kinds == {"update_preimage", "update_postimage"}
