"""Snapshots: the state of a version, loaded and refreshed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

import distributary as ds
from distributary.delta.errors import (
    CorruptCheckpointError,
    IncompleteLogError,
    LogGapError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from distributary.delta.log.snapshot import load_snapshot, refresh


def test_every_version_equals_the_slow_replay(busy_log, shown) -> None:
    """LR-001, LR-002, LR-008, LR-020: protocol, metadata, adds, tombstones, transactions of each."""
    for version in range(11):
        assert shown(busy_log.load(version)) == busy_log.state(version).shown()


@pytest.mark.parametrize("kind", ["classic", "multi-part", "v2-json", "v2-parquet"])
def test_every_version_equals_the_slow_replay_with_checkpoints(busy_log, shown, kind: str) -> None:
    """LR-063, CK-003: whatever the start of replay is, the state is the same."""
    busy_log.checkpoint(3, kind=kind)
    busy_log.checkpoint(7, kind=kind)
    for version in range(11):
        assert shown(busy_log.load(version)) == busy_log.state(version).shown()


def test_latest_protocol_and_metadata_win_entirely(log) -> None:
    """LR-021, LR-022: the latest replaces the old one; nothing of the old remains."""
    log.create(name="old", configuration={"a": "1"}, partitionColumns=["value"])
    log.commit(log.protocol(1, 4), log.metadata({"x": "string"}, configuration={"b": "2"}))
    for checkpoint in (False, True):
        if checkpoint:
            log.checkpoint(0)
        snapshot = log.load()
        assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 4)
        assert (snapshot.metadata.name, snapshot.metadata.properties) == (None, {"b": "2"})
        assert snapshot.metadata.partitioning == ()
        assert snapshot.schema.names == ("x",)


def test_transaction_may_go_down(log) -> None:
    """LR-023: the latest seen wins, from a checkpoint and after it."""
    log.create(log.txn("a", 10))
    log.commit(log.txn("a", 3), log.txn("b", 1))
    assert {k: t.version for k, t in log.load().transactions.items()} == {"a": 3, "b": 1}
    log.checkpoint()
    log.commit(log.txn("a", 2))
    assert {k: t.version for k, t in log.load().transactions.items()} == {"a": 2, "b": 1}


def test_adds_and_tombstones_never_intersect(busy_log) -> None:
    """LR-026: in every version, with and without a checkpoint between."""
    busy_log.checkpoint(6)
    for version in range(11):
        snapshot = busy_log.load(version)
        active = {(add.path, add.deletion_vector) for add in snapshot.files.adds()}
        assert not active & {(remove.path, remove.deletion_vector) for remove in snapshot.tombstones()}


def test_version_zero_without_metadata_is_incomplete(log) -> None:
    """LR-041, LR-028: version 0 has a metaData; without one it cannot be shown."""
    log.commit(log.protocol(), log.add("a"))
    with pytest.raises(IncompleteLogError, match="metaData"):
        log.load()


def test_log_without_protocol_is_incomplete(log) -> None:
    """LR-028: no protocol after replay is an error."""
    log.commit(log.metadata())
    with pytest.raises(IncompleteLogError, match="protocol"):
        log.load()


def test_unsupported_reader_version_is_refused_with_advice(log) -> None:
    """LR-007: refused, saying what is needed."""
    log.commit(log.protocol(99, 7), log.metadata())
    with pytest.raises(UnsupportedFeatureError, match="99"):
        log.load()


def test_every_unsupported_feature_is_named(log) -> None:
    """LR-007, RELIABILITY B7: the refusal names the features that are missing, and only those."""
    log.commit(
        log.protocol(
            3,
            7,
            readerFeatures=["deletionVectors", "x1", "x2"],
            writerFeatures=["deletionVectors", "x1", "x2", "w"],
        ),
        log.metadata(),
    )
    with pytest.raises(UnsupportedFeatureError) as caught:
        log.load()
    assert set(caught.value.features) == {"x1", "x2"}
    assert "x1" in str(caught.value)
    assert "deletionVectors" not in str(caught.value)


def test_other_formats_are_refused(log) -> None:
    """LR-043: only parquet."""
    log.commit(log.protocol(), log.metadata(format={"provider": "orc", "options": {}}))
    with pytest.raises(UnsupportedFeatureError, match="orc"):
        log.load()


def test_no_table_and_no_such_version(log) -> None:
    with pytest.raises(TableNotFoundError):
        log.load()
    log.create()
    with pytest.raises(VersionNotFoundError):
        log.load(1)


def test_gap_is_an_error_that_names_it(busy_log) -> None:
    """LR-028, LR-002: versions are contiguous."""
    busy_log.commit_file(6).unlink()
    with pytest.raises(LogGapError) as caught:
        busy_log.load()
    assert caught.value.path.endswith(f"{6:020d}.json")
    assert busy_log.load(5).version == 5


def test_gap_after_a_known_version_is_found_by_refresh(log) -> None:
    """LR-028: where the next commit was lost, an open table does not go on as if nothing came after it."""
    log.create(log.add("a"))
    table = ds.DeltaTable(log.root)
    assert table.version() == 0
    log.commit(log.add("b"))
    log.commit(log.add("c"))
    log.commit_file(1).unlink()
    with pytest.raises(LogGapError):
        table.version()


def test_commit_info_is_not_needed(log, shown) -> None:
    """LR-048: a log without any commitInfo reads the same."""
    log.create(log.add("a"))
    path = log.commit_file(0)
    path.write_text(
        "".join(line + "\n" for line in path.read_text().splitlines() if "commitInfo" not in line)
    )
    assert shown(log.load()) == log.state().shown()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def people(log, **config: str) -> None:
    """A table of two data files with real rows."""
    log.create(
        log.data_file("a.parquet", {"id": [1, 2], "value": ["x", "y"]}),
        configuration=config,
    )
    log.commit(log.data_file("sub/dir/b.parquet", {"id": [3], "value": ["z"]}))


def test_data_files_lie_anywhere_in_the_table(log) -> None:
    """LR-003: at the root or in any directory; names like Hive's are a convention only."""
    people(log)
    log.commit(log.data_file("q=9/c.parquet", {"id": [4], "value": ["w"]}))
    assert rows_of(ds.DeltaTable(log.root).snapshot().to_arrow()) == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]


def test_partition_values_come_from_the_log(log) -> None:
    """LR-004: not from the path, even when the path says otherwise."""
    log.create(
        log.data_file("p=wrong/a.parquet", {"id": [1]}, partitionValues={"p": "right"}),
        log.data_file("plain.parquet", {"id": [2]}, partitionValues={"p": None}),
        columns={"id": "long", "p": "string"},
        partitionColumns=["p"],
    )
    rows = ds.DeltaTable(log.root).snapshot().to_arrow().to_pylist()
    assert {row["id"]: row["p"] for row in rows} == {1: "right", 2: None}


def test_columns_missing_in_a_file_are_null(log) -> None:
    """LR-052: a column added later reads as null from older files."""
    people(log)
    log.commit(log.metadata({"id": "long", "value": "string", "extra": "double"}))
    table = ds.DeltaTable(log.root).snapshot().to_arrow()
    assert table.column_names == ["id", "value", "extra"]
    assert table.column("extra").null_count == table.num_rows == 3


def test_snapshot_is_isolated_from_later_commits(log) -> None:
    """LR-053: rows, files and version stay those of the snapshot while others commit."""
    people(log)
    log.checkpoint()
    snapshot = ds.DeltaTable(log.root).snapshot()
    log.commit(log.remove("a.parquet"), log.data_file("c.parquet", {"id": [9], "value": ["new"]}))
    log.commit(log.metadata({"id": "long"}))
    assert snapshot.version == 1
    assert rows_of(snapshot.to_arrow()) == [(1, "x"), (2, "y"), (3, "z")]
    assert snapshot.arrow_schema.names == ["id", "value"]


def test_moved_and_copied_tables_still_read(log, tmp_path: Path) -> None:
    """LR-055: all metadata lies with the data; ordinary file tools can move a table."""
    people(log)
    log.checkpoint(kind="v2-parquet")
    expected = rows_of(ds.DeltaTable(log.root).snapshot().to_arrow())
    moved = tmp_path / "else where" / "t%20x"
    moved.parent.mkdir()
    log.root.rename(moved)
    assert rows_of(ds.DeltaTable(moved).snapshot().to_arrow()) == expected
    copied = shutil.copytree(moved, tmp_path / "copy")
    shutil.rmtree(moved)
    assert rows_of(ds.DeltaTable(copied).snapshot().to_arrow()) == expected
    assert rows_of(ds.DeltaTable(copied).snapshot(version=0).to_arrow()) == [(1, "x"), (2, "y")]


def test_versions_read_in_order_give_what_was_added(log) -> None:
    """LR-054: a tailing reader finds what each version added."""
    people(log, **{"delta.enableChangeDataFeed": "true"})
    log.commit(log.remove("a.parquet"))
    changes = ds.DeltaTable(log.root).changes(0).to_arrow()
    found = [(row["_commit_version"], row["_change_type"], row["id"]) for row in changes.to_pylist()]
    assert found == sorted(found, key=lambda row: row[0])
    assert sorted(found) == [
        (0, "insert", 1),
        (0, "insert", 2),
        (1, "insert", 3),
        (2, "delete", 1),
        (2, "delete", 2),
    ]


def test_rearranging_versions_change_no_rows(log) -> None:
    """LR-050, LR-051: dataChange=false only moves rows; snapshots have them, tailing readers skip them."""
    people(log, **{"delta.enableChangeDataFeed": "true"})
    log.commit(
        log.remove("a.parquet", dataChange=False),
        log.remove("sub/dir/b.parquet", dataChange=False),
        log.data_file("all.parquet", {"id": [1, 2, 3], "value": ["x", "y", "z"]}, dataChange=False),
    )
    table = ds.DeltaTable(log.root)
    assert rows_of(table.snapshot().to_arrow()) == rows_of(table.snapshot(version=1).to_arrow())
    assert table.snapshot().num_files() == 1
    assert table.changes(2).to_arrow().num_rows == 0


def test_refresh_without_news_gives_the_same_snapshot(busy_log) -> None:
    """Nothing is read again, also where the version is that of a checkpoint."""
    snapshot = busy_log.load()
    assert refresh(busy_log.store, snapshot) is snapshot
    busy_log.checkpoint()
    at_checkpoint = busy_log.load()
    assert at_checkpoint.segment.commits == ()
    assert refresh(busy_log.store, at_checkpoint) is at_checkpoint
    busy_log.commit(busy_log.add("later"))
    assert refresh(busy_log.store, at_checkpoint).segment.checkpoint is at_checkpoint.segment.checkpoint


_STEPS = [
    *("add", "remove", "re-add", "txn", "metadata", "domain"),
    *("classic", "multi-part", "v2-json", "v2-parquet", "no hint", "clean"),
    *("re-create", "refresh", "refresh", "nothing"),
]
_steps = st.lists(st.sampled_from(_STEPS), max_size=14)


class Story:
    """A table's life, told step by step."""

    def __init__(self, log) -> None:
        self.log = log
        self.start()
        self.checkpoints: list[int] = []
        self.births = 0

    def start(self) -> None:
        self.log.create(self.log.add("first"))

    def take(self, step: str, number: int) -> None:
        log = self.log
        paths = [path for path, _ in log.state().adds]
        match step:
            case "add":
                log.commit(log.add(f"f{number}", partitionValues={"p": str(number)}, tags={"n": "1"}))
            case "remove" if paths:
                log.commit(log.remove(paths[number % len(paths)]))
            case "re-add" if paths:
                log.commit(log.add(paths[number % len(paths)], size=number))
            case "txn":
                log.commit(log.txn(f"a{number % 2}", 50 - number))
            case "metadata":
                log.commit(log.metadata({f"c{number}": "long"}, name=f"n{number}"))
            case "domain":
                log.commit(
                    {
                        "domainMetadata": {
                            "domain": "d",
                            "configuration": str(number),
                            "removed": number % 2 == 0,
                        }
                    }
                )
            case "classic" | "multi-part" | "v2-json" | "v2-parquet":
                log.checkpoint(kind=step)
                self.checkpoints.append(log.version)
            case "no hint":
                log.hint(None)
            case "clean" if self.checkpoints:
                log.clean(self.checkpoints[-1])
            case "re-create":
                log.drop()
                self.checkpoints.clear()
                self.births += 1
                self.start()
            case _:
                pass


@given(_steps)
@example(["remove", "v2-json", "clean"])  # a sidecar of no rows: its column chunks have no data page
@settings(max_examples=60, deadline=None)
def test_refresh_equals_a_full_load_after_any_steps(make_log, shown, steps: list[str]) -> None:
    """LR-020, LR-053, LR-061: also when the table was re-created, checkpointed or cleaned in between."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story(make_log(Path(folder) / "t"))
        store = story.log.store
        held = [(load_snapshot(store), story.log.state().shown(), 0)]
        for number, step in enumerate(steps):
            story.take(step, number)
            if step == "refresh":
                snapshot = refresh(store, held[-1][0])
                held.append((snapshot, story.log.state().shown(), story.births))
                assert shown(snapshot) == held[-1][1]
        snapshot = refresh(store, held[-1][0])
        truth = story.log.state().shown()
        assert shown(snapshot) == shown(load_snapshot(store)) == truth
        for old, expected, birth in held:
            if birth == story.births:
                _assert_unchanged(old, expected, shown)


def _assert_unchanged(old, expected, shown) -> None:
    """An old snapshot shows its version, or says that the files it needs are gone."""
    try:
        found = shown(old)
    except CorruptCheckpointError:
        assert old.segment.checkpoint is not None
        return
    assert found == expected


def test_refresh_survives_a_checkpoint_that_was_damaged_meanwhile(busy_log, shown) -> None:
    """RELIABILITY P3: damage found only while replaying later commits leads to another start."""
    (path,) = busy_log.checkpoint(8)
    table = ds.DeltaTable(busy_log.root)
    assert table.version() == 10
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(len(data) - 40))
    busy_log.commit(busy_log.add("later", partitionValues={"p": "1"}))
    snapshot = table.snapshot()
    assert snapshot.num_files() == len(busy_log.state().adds)
    assert shown(snapshot.state) == busy_log.state().shown()


def test_checkpoint_replaced_meanwhile_is_read_anew(busy_log, shown) -> None:
    """LR-053: another writer's checkpoint of the same name never mixes with what was read of the old one."""
    (path,) = busy_log.checkpoint(8)
    table = ds.DeltaTable(busy_log.root)
    snapshot = table.snapshot()
    busy_log.clean(8)
    path.unlink()
    busy_log.checkpoint(8, group=3, compression="none")
    assert snapshot.resilient(shown) == busy_log.state().shown()
    assert snapshot.state.segment.checkpoint is not None


def test_refreshing_often_without_looking_at_files_loses_nothing(busy_log, shown) -> None:
    """LR-020: commits of several refreshes add up, whether or not files were asked for between."""
    busy_log.checkpoint(5)
    snapshot = busy_log.load()
    for number in range(6):
        if number == 2:
            assert snapshot.files.num_files
        busy_log.commit(busy_log.add(f"n{number}"), *([busy_log.remove(f"n{number - 1}")] if number else []))
        snapshot = refresh(busy_log.store, snapshot)
    assert shown(snapshot) == busy_log.state().shown()


def test_long_tails_start_again_from_a_newer_checkpoint(log, shown) -> None:
    """A refresh over many commits does not drag its tail along for ever."""
    log.create()
    snapshot = log.load()
    for number in range(210):
        log.commit(log.add(f"f{number}"))
    log.checkpoint(205)
    fresh = refresh(log.store, snapshot)
    assert fresh.segment.checkpoint is not None
    assert shown(fresh) == log.state().shown()
