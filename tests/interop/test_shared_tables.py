"""One table, several engines: each goes on from what the others wrote; all see the same versions and rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from peers.content import content, difference
from peers.process import Peer, PeerError
from peers.tables import both, numbers, simple

import distributary as ds
from distributary.delta.errors import ConstraintViolationError

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


def assert_rows(table: ds.DeltaTable, expected: pa.Table) -> None:
    found, wanted = content(table.snapshot().to_arrow()), content(expected)
    assert found == wanted, difference(found, wanted)


def assert_peer_rows(peer: Peer, path: Path, expected: pa.Table) -> None:
    found, wanted = content(peer.rows(path)), content(expected)
    assert found == wanted, difference(found, wanted)


def versions(path: Path) -> list[int]:
    names = (found.name for found in (path / "_delta_log").glob("*.json"))
    return sorted(int(name[:20]) for name in names if len(name) == 25)


def test_spark_changes_a_table_of_ours_and_we_read_it(spark: Peer, tmp_path: Path) -> None:
    """LW-002, LW-003: delta-spark appends, updates and deletes by vectors, merges, optimizes and alters,
    with our own commits in between; versions stay contiguous.
    """
    path = tmp_path / "t"
    table = simple(path, properties=DELETION_VECTORS)
    table.append(numbers(1, 2, 3, 4, 5, 6))
    at = f"delta.`{path}`"
    spark.append(path, numbers(7, 8))
    assert_rows(table, numbers(*range(1, 9)))
    spark.ask("sql", text=f"UPDATE {at} SET value = 'changed' WHERE id = 1")
    spark.ask("sql", text=f"DELETE FROM {at} WHERE id IN (2, 8)")
    assert any(table.snapshot().state.files.deletion_vectors())
    changed = pa.table({"id": [1], "value": ["changed"], "place": ["a"]})
    assert_rows(table, both(changed, numbers(3, 4, 5, 6, 7)))
    table.append(numbers(9))
    spark.ask(
        "sql",
        text=f"MERGE INTO {at} t USING (SELECT 9 AS id UNION ALL SELECT 10) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET value = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, value, place) VALUES (s.id, 'new', 'z')",
    )
    merged = pa.table({"id": [9, 10], "value": ["merged", "new"], "place": ["a", "z"]})
    rows = both(changed, numbers(3, 4, 5, 6, 7), merged)
    assert_rows(table, rows)
    table.checkpoint()
    spark.ask("sql", text=f"OPTIMIZE {at}")
    assert_rows(table, rows)
    spark.ask("sql", text=f"ALTER TABLE {at} ADD COLUMNS (extra DOUBLE)")
    table.append(numbers(11).append_column("extra", pa.array([0.5])))
    rows = both(rows, numbers(11).append_column("extra", pa.array([0.5])))
    assert_rows(ds.DeltaTable(path), rows)
    assert_peer_rows(spark, path, rows)
    assert versions(path) == list(range(table.version() + 1))
    for version in range(table.version() + 1):
        ours = content(table.snapshot(version=version).to_arrow())
        assert ours == content(spark.rows(path, version)), version


def test_our_writes_on_a_table_that_spark_made(spark: Peer, tmp_path: Path) -> None:
    """LW-010, LW-011, LW-014: mapped columns, deletion vectors, a constraint, a default, a generated column,
    in-commit timestamps, v2 checkpoints, row tracking and clustering, all made by delta-spark.
    """
    path = tmp_path / "t"
    at = f"delta.`{path}`"
    spark.ask(
        "sql",
        text=f"CREATE TABLE {at} (id BIGINT NOT NULL, value STRING DEFAULT 'none', place STRING, "
        "twice BIGINT GENERATED ALWAYS AS (id * 2)) USING DELTA CLUSTER BY (id) TBLPROPERTIES ("
        "'delta.columnMapping.mode'='name', 'delta.enableDeletionVectors'='true', "
        "'delta.feature.allowColumnDefaults'='supported', 'delta.enableInCommitTimestamps'='true', "
        "'delta.checkpointPolicy'='v2', 'delta.enableRowTracking'='true')",
    )
    spark.ask("sql", text=f"ALTER TABLE {at} ADD CONSTRAINT positive CHECK (id > 0)")
    spark.ask("sql", text=f"INSERT INTO {at} (id, value, place) VALUES (1, 'x', 'a'), (2, 'y', 'b')")
    spark.ask("sql", text=f"DELETE FROM {at} WHERE id = 2")
    table = ds.DeltaTable(path)
    table.append(pa.table({"id": [3], "place": ["c"]}))
    with pytest.raises(ConstraintViolationError):
        table.append(pa.table({"id": [-1], "place": ["c"]}))
    table.checkpoint()
    rows = {"id": [1, 3], "value": ["x", "none"], "place": ["a", "c"], "twice": [2, 6]}
    assert_rows(table, pa.table(rows))
    view = spark.view(path)
    assert content(view.rows) == content(pa.table(rows))
    assert view.version == table.version()
    assert view.properties == dict(table.snapshot().metadata.properties)
    ids = spark.ask("sql", text=f"SELECT id, _metadata.row_id FROM {at}")
    assert len({row_id for _, row_id in ids}) == 2
    with pytest.raises(PeerError, match=r"(?i)constraint"):
        spark.ask("sql", text=f"INSERT INTO {at} (id) VALUES (-1)")


def test_rules_that_we_made_are_enforced_by_spark(spark: Peer, tmp_path: Path) -> None:
    """LW-011: our constraint, NOT NULL and generated column bind delta-spark's writers as well."""
    path = tmp_path / "t"
    table = simple(path)
    table.append(numbers(1))
    table.alter.add_constraint("positive", "id > 0")
    table.alter.set_not_null("value")
    table.alter.set_default("place", "'nowhere'")
    at = f"delta.`{path}`"
    with pytest.raises(PeerError, match=r"(?i)positive"):
        spark.ask("sql", text=f"INSERT INTO {at} VALUES (-1, 'x', 'y')")
    with pytest.raises(PeerError, match=r"(?i)null"):
        spark.ask("sql", text=f"INSERT INTO {at} VALUES (2, null, 'y')")
    spark.ask("sql", text=f"INSERT INTO {at} (id, value) VALUES (2, 'x')")
    assert_rows(table, both(numbers(1), pa.table({"id": [2], "value": ["x"], "place": ["nowhere"]})))


def test_change_feed_of_our_writes_is_the_same_for_spark(spark: Peer, tmp_path: Path) -> None:
    table = simple(tmp_path / "t", properties={"delta.enableChangeDataFeed": "true"})
    table.append(numbers(1, 2))
    table.overwrite(numbers(3))
    text = f"SELECT id, _change_type, _commit_version FROM table_changes_by_path('{tmp_path / 't'}', 0)"
    theirs = sorted(tuple(row) for row in spark.ask("sql", text=text))
    changes = table.changes(0).to_arrow().select(["id", "_change_type", "_commit_version"]).to_pylist()
    assert sorted(tuple(str(value) for value in row.values()) for row in changes) == theirs


def test_filters_of_peers_find_every_row_by_our_statistics(peer: Peer, tmp_path: Path) -> None:
    """ST-006: files that our statistics rule out hold no row that a peer looks for."""
    long_text = "x" * 60
    rows = pa.table(
        {
            "id": pa.array(range(6), pa.int64()),
            "text": [long_text + "a", long_text + "z", "ü😀" * 30, "", None, "b"],
            "real": [float("nan"), -0.0, 0.0, float("inf"), None, 1.5],
            "moment": pa.array([0, 1, 999, 1000, 1001, 1_709_210_096_789_012], pa.timestamp("us", "UTC")),
        }
    )
    table = ds.DeltaTable.create(tmp_path / "t", rows.schema)
    for at in range(rows.num_rows):
        table.append(rows.slice(at, 1))
    table.checkpoint()
    conditions = {
        f"text = '{long_text}z'": [1],
        f"text > '{long_text}b'": [1, 2],
        "text >= 'ü'": [2],
        "text = ''": [3],
        "text IS NULL": [4],
        "real > 100": [0, 3],
        "real IS NULL": [4],
        "id >= 4": [4, 5],
        "moment = timestamp '1970-01-01 00:00:00.000999Z'": [2],
        "moment > timestamp '2024-02-29 12:34:56.789Z'": [5],
    }
    if (
        peer.name != "delta-spark"
    ):  # its Parquet reader does not find -0.0 in dictionaries, its own ones either
        conditions["real = 0.0"] = [1, 2]
    for condition, ids in conditions.items():
        assert sorted(peer.ask("matching", path=str(tmp_path / "t"), condition=condition)) == ids, condition


def test_three_engines_take_turns_on_one_table(spark: Peer, deltalake: Peer, tmp_path: Path) -> None:
    """LW-001, LW-002, LW-003: nobody overwrites anybody, and all see all rows."""
    path = tmp_path / "t"
    table = simple(path, partition_by=["place"], properties={"delta.checkpointInterval": "3"})
    expected, number = [], 0
    for turn in range(3):
        for write in (
            table.append,
            lambda rows: spark.append(path, rows),
            lambda rows: deltalake.append(path, rows),
        ):
            number += 1
            rows = numbers(number, place=f"p {turn}")
            write(rows)
            expected.append(rows)
    wanted = both(*expected)
    assert_rows(table, wanted)
    assert_peer_rows(spark, path, wanted)
    assert_peer_rows(deltalake, path, wanted)
    assert versions(path) == list(range(number + 1))


def test_deltalake_changes_a_table_of_ours_and_we_read_it(deltalake: Peer, tmp_path: Path) -> None:
    """LW-002, LW-003: append, update, delete, optimize and a checkpoint by deltalake."""
    path = tmp_path / "t"
    table = simple(path, partition_by=["place"])
    table.append(numbers(1, 2, 3))
    deltalake.append(path, numbers(4, place="b c"))
    deltalake.ask("update", path=str(path), values={"value": "'changed'"}, predicate="id = 1")
    deltalake.ask("delete", path=str(path), predicate="id = 2")
    table.append(numbers(5, place="b c"))
    deltalake.ask("checkpoint", path=str(path))
    deltalake.ask("optimize", path=str(path))
    changed = pa.table({"id": [1], "value": ["changed"], "place": ["a"]})
    rows = both(changed, numbers(3), numbers(4, 5, place="b c"))
    assert_rows(ds.DeltaTable(path), rows)
    assert_rows(table, rows)
    assert_peer_rows(deltalake, path, rows)
    assert versions(path) == list(range(table.version() + 1))
