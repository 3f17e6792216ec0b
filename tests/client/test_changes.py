"""Changes of shared tables, in both formats."""

from __future__ import annotations

import pyarrow as pa
import pytest
from scripted_server import ScriptedServer

import distributary as ds
from distributary.client.errors import IncompleteResponseError


@pytest.fixture
def changing(tmp_path, response_format):
    """A table of three appends and one overwrite, with its change feed on."""
    table = ds.DeltaTable.create(
        tmp_path / "t",
        schema=pa.schema([("id", pa.int64()), ("part", pa.string())]),
        partition_by=["part"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table.append(pa.table({"id": [1, 2], "part": ["a", "b"]}))
    table.append(pa.table({"id": [3], "part": ["a"]}))
    table.overwrite(pa.table({"id": [4], "part": ["c"]}))
    server = ScriptedServer(tmp_path, response_format)
    yield server
    server.close()


def test_added_and_removed_files_are_inserts_and_deletes(changing, connect):
    """CL-018, CDF-001, CDF-002: the columns of changes, times in milliseconds."""
    found = connect(changing).table("s.c.t").changes(1).to_arrow()
    assert found.schema.field("_commit_timestamp").type == pa.int64()
    rows = sorted(
        (row["_commit_version"], row["_change_type"], row["id"], row["part"]) for row in found.to_pylist()
    )
    assert rows == [
        (1, "insert", 1, "a"),
        (1, "insert", 2, "b"),
        (2, "insert", 3, "a"),
        (3, "delete", 1, "a"),
        (3, "delete", 2, "b"),
        (3, "delete", 3, "a"),
        (3, "insert", 4, "c"),
    ]
    assert {row["_commit_timestamp"] - row["_commit_version"] for row in found.to_pylist()} == {
        1_700_000_000_000
    }


def test_changes_are_filtered_and_cut(changing, connect):
    changes = connect(changing).table("s.c.t").changes(1, 3)
    deleted = changes.where("_change_type = 'delete'", "part = 'a'").select("id").to_arrow()
    assert sorted(deleted.column("id").to_pylist()) == [1, 3]
    assert deleted.column_names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert changes.limit(2).to_arrow().num_rows == 2
    asked = changing.asked_for("/changes")[-1]
    assert asked.parameters == {"startingVersion": "1", "endingVersion": "3"}


def test_times_are_sent_in_utc(changing, connect):
    table = connect(changing).table("s.c.t")
    changing.changes = lambda table, parameters: changing.table_reply(0, changing.head_lines(table, None))
    table.changes(starting_timestamp="2024-01-01T02:00:00+02:00", ending_timestamp="2024-01-02").to_arrow()
    asked = changing.asked_for("/changes")[-1]
    assert asked.parameters == {
        "startingTimestamp": "2024-01-01T00:00:00Z",
        "endingTimestamp": "2024-01-02T00:00:00Z",
    }


def test_change_files_are_read_by_their_own_types(tmp_path, connect, response_format, delta_tables):
    """CDF-005: change files bring `_change_type` themselves."""
    found = _with_change_files(delta_tables.tables)
    if found is None:
        pytest.skip("the corpus has no table with change files")
    root, first = found
    (tmp_path / "t").symlink_to(root)
    table = ds.DeltaTable(tmp_path / "t")
    server = ScriptedServer(tmp_path, response_format)
    try:
        expected = table.changes(first, first).to_arrow()
        found = connect(server).table("s.c.t").changes(first, first).to_arrow()
        assert sorted(found.column("_change_type").to_pylist()) == sorted(
            expected.column("_change_type").to_pylist()
        )
        assert found.num_rows == expected.num_rows > 0
    finally:
        server.close()


def test_changes_without_version_are_an_error(changing, connect):
    plain = changing.file_line
    changing.file_line = lambda table, file, kind, version, timestamp: plain(table, file, kind)
    with pytest.raises(IncompleteResponseError, match="no version"):
        connect(changing).table("s.c.t").changes(1).to_arrow()


def test_no_changes_are_an_empty_table_with_columns(changing, connect):
    changing.changes = lambda table, parameters: changing.table_reply(0, changing.head_lines(table, None))
    found = connect(changing).table("s.c.t").changes(1).to_arrow()
    assert found.column_names == ["id", "part", "_change_type", "_commit_version", "_commit_timestamp"]
    assert found.num_rows == 0


def _with_change_files(tables):
    """A table of the corpus and its first version with change files."""
    for log in sorted(tables.glob("*/_delta_log")):
        for commit in sorted(log.glob("*.json")):
            if b'"cdc":' in commit.read_bytes():
                return log.parent, int(commit.name.partition(".")[0])
    return None
