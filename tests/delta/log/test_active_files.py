"""Active files as columns: aligned, narrowed cheaply, and never changed by later versions."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from distributary.delta.log.file_columns import map_values
from distributary.delta.log.snapshot import refresh


@pytest.mark.parametrize("checkpoint", [None, "classic", "multi-part", "v2-json"])
def test_columns_are_aligned_with_each_other(busy_log, checkpoint: str | None) -> None:
    """LR-044: every leaf has one entry a file, in one order, from checkpoint rows and commits alike."""
    if checkpoint:
        busy_log.checkpoint(5, kind=checkpoint)
    files = busy_log.load().files
    state = {add["path"]: add for add in busy_log.state().adds.values()}
    paths = files.column("path").to_pylist()
    assert sorted(paths) == sorted(state)
    assert files.column("size").to_pylist() == [state[path]["size"] for path in paths]
    assert files.column("stats").to_pylist() == [state[path].get("stats") for path in paths]
    assert files.partition_values("p").to_pylist() == [state[path]["partitionValues"]["p"] for path in paths]
    assert files.partition_values("nothing").to_pylist() == [None] * len(paths)
    cardinalities = [(state[path].get("deletionVector") or {}).get("cardinality") for path in paths]
    assert files.column("deletionVector", "cardinality").to_pylist() == cardinalities
    assert [vector and vector.cardinality for vector in files.deletion_vectors()] == cardinalities


def test_filtering_twice_keeps_the_right_files(busy_log) -> None:
    busy_log.checkpoint(5, group=3)
    files = busy_log.load().files
    sizes = np.array(files.column("size").to_pylist())
    first = files.filter(sizes > 3000)
    again = first.filter(pa.array([size % 1000 == 1 for size in sizes[sizes > 3000]]))
    assert sorted(again.column("size").to_pylist()) == sorted(s for s in sizes if s > 3000 and s % 1000 == 1)
    assert again.num_files == again.column("path").length()
    nothing = again.filter(np.zeros(again.num_files, np.bool_))
    assert (nothing.num_files, nothing.column("path").to_pylist(), nothing.adds()) == (0, [], [])


def test_old_snapshot_keeps_its_files_after_refresh(busy_log, shown) -> None:
    """LR-053: columns that the old snapshot reads only after the refresh are still those of its version."""
    busy_log.checkpoint(5)
    old = busy_log.load()
    before = old.files.num_files
    truth = busy_log.state().shown()
    path = busy_log.state().adds.popitem()[1]["path"]
    vector = (
        busy_log.state().adds[next(k for k in busy_log.state().adds if k[0] == path)].get("deletionVector")
    )
    busy_log.commit(
        busy_log.remove(path, **({"deletionVector": vector} if vector else {})), busy_log.add("new")
    )
    new = refresh(busy_log.store, old)
    assert (old.files.num_files, new.files.num_files) == (before, before)
    assert shown(old) == truth
    assert shown(new) == busy_log.state().shown()


def test_same_file_under_another_spelling_is_replaced(log, shown) -> None:
    """LR-029: escaped, relative and absolute paths of one file are one key, in checkpoints too."""
    log.create(
        log.add("a%20b/c.parquet"), log.add("d.parquet"), log.add("e.parquet"), log.add("100%25.parquet")
    )
    log.checkpoint()
    log.commit(
        log.remove("a b/c.parquet"),
        log.remove(f"file://{log.root}/d.parquet"),
        log.remove("./e.parquet"),
    )
    assert log.load().files.column("path").to_pylist() == ["100%25.parquet"]
    log.hint(None)
    (log.log / f"{0:020d}.checkpoint.parquet").unlink()
    assert log.load().files.column("path").to_pylist() == ["100%25.parquet"]


def test_percent_is_decoded_once_only(log) -> None:
    """LR-029: `%2520` is the text `%20`, another file than a space."""
    log.create(log.add("a%2520b"), log.add("a%20b"))
    log.checkpoint()
    log.commit(log.remove("a b"))
    assert log.load().files.column("path").to_pylist() == ["a%2520b"]


@pytest.mark.parametrize(
    "maps",
    [
        [[("p", "1"), ("q", "2")], [("p", "3"), ("q", None)]],
        [[("p", "1"), ("q", "2")], [("q", "4"), ("p", "3")]],
        [[("q", "2")], [], [("p", "1"), ("q", "2")], None],
        [[], []],
        [],
    ],
)
@pytest.mark.parametrize("key", ["p", "q", "r"])
def test_map_values_equal_a_look_into_each_map(maps: list, key: str) -> None:
    """LR-004: the value of a column from the log's map, whatever the order of its entries."""
    array = pa.array(maps, pa.map_(pa.string(), pa.string()))
    expected = [dict(entries).get(key) if entries is not None else None for entries in maps]
    assert map_values(pa.chunked_array([array]), key).to_pylist() == expected
    if len(array) > 1:
        assert map_values(pa.chunked_array([array.slice(1)]), key).to_pylist() == expected[1:]


def test_adds_are_given_back_whole(busy_log) -> None:
    """LR-044: as structs, equal to what the log says."""
    busy_log.checkpoint(5)
    found = {add.path: add for add in busy_log.load().files.adds()}
    for add in busy_log.state().adds.values():
        assert found[add["path"]].partition_values == add["partitionValues"]
        assert found[add["path"]].stats == add.get("stats")
        assert json.loads(found[add["path"]].stats or "{}")["numRecords"] > 0
