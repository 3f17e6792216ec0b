"""Local copies of shared tables: what they hold after each shared version, whatever happened on the way."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sync_world import marks, rows

import distributary as ds
from distributary.client.errors import SyncTargetError
from distributary.delta.commit.staged_commit import Operation, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.log.actions import Add
from distributary.delta.operations.restore import removal
from distributary.delta.table import DeltaTable


def numbers(*values: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(values, pa.int64()), "part": pa.array([v % 2 for v in values], pa.int64())}
    )


def made(path: Path, **options) -> DeltaTable:
    table = DeltaTable.create(path, schema=numbers().schema, **options)
    table.append(numbers(1, 2, 3))
    return table


def revealed(source: Path, target: Path, version: int) -> None:
    """Let a table of the corpus have one version more."""
    name = f"_delta_log/{version:020d}.json"
    (target / "_delta_log").mkdir(parents=True, exist_ok=True)
    if not any(target.glob("*.parquet")):
        for file in source.rglob("*"):
            if file.is_file() and "_delta_log" not in file.parts:
                place = target / file.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
    shutil.copyfile(source / name, target / name)


def test_every_shared_version_becomes_one_commit(world, tmp_path):
    """A4, A12: files by startingVersion; the copy's history tells which version came when."""
    table = made(tmp_path / "t", partition_by=["part"])
    shared, copy = world.share("plain", tmp_path / "t"), tmp_path / "copy"
    first = shared.sync(copy)
    assert (first.shared_version, first.commits, first.added_files) == (1, 1, 2)
    for value in (4, 5):
        table.append(numbers(value))
    table.overwrite(numbers(6))
    done = shared.sync(copy)
    assert (done.shared_version, done.commits, done.added_files) == (4, 3, 3)
    assert sorted(marks(copy)) == [1, 2, 3, 4]
    for version, own in marks(copy).items():
        assert rows(copy, own) == rows(table, version)
    again = shared.sync(copy)
    assert (again.commits, again.downloaded_bytes) == (0, 0)
    assert DeltaTable(copy).snapshot().metadata.id != table.snapshot().metadata.id


def test_a_copy_can_begin_with_an_older_version(world, tmp_path):
    table = made(tmp_path / "t")
    table.append(numbers(4))
    copy = tmp_path / "copy"
    done = world.share("older", tmp_path / "t").sync(copy, starting_version=1)
    assert (done.shared_version, done.commits) == (2, 2)
    assert rows(copy, marks(copy)[1]) == rows(table, 1)


def test_schema_and_properties_are_carried_over(world, tmp_path):
    table = made(tmp_path / "t")
    shared, copy = world.share("schema", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    table.append(pa.table({"id": [7], "part": [1], "note": ["new"]}), merge_schema=True)
    table.alter.set_properties({"delta.enableChangeDataFeed": "true", "who": "me"})
    table.append(pa.table({"id": [8], "part": [0], "note": ["newer"]}))
    shared.sync(copy)
    theirs, ours = table.snapshot(), DeltaTable(copy).snapshot()
    assert ours.schema == theirs.schema
    assert ours.metadata.properties == theirs.metadata.properties
    assert DeltaTable(copy).snapshot(marks(copy)[1]).schema != theirs.schema
    assert rows(copy) == rows(table)


@pytest.mark.parametrize(
    "name", ["kernelrs__cdf-table-with-dv", "dat__column_mapping", "deltars__cdf-table-with-cdc-and-dvs"]
)
def test_vectors_and_mapped_columns_stay_as_they_are(world, tmp_path, delta_tables, name):
    """Data files are the same bytes; every version of the copy has the rows of the shared one (RF-066)."""
    source = delta_tables.tables / name
    source = source / "delta" if (source / "delta").is_dir() else source
    versions = sorted(int(file.stem) for file in (source / "_delta_log").glob("0*[0-9].json"))
    table, copy = tmp_path / "t", tmp_path / "copy"
    revealed(source, table, versions[0])
    if len(versions) > 1:
        revealed(source, table, versions[1])
    shared = world.share(name.replace("-", "_"), table)
    shared.sync(copy)
    for version in versions[2:]:
        revealed(source, table, version)
        shared.sync(copy)
    for version, own in marks(copy).items():
        assert rows(copy, own) == rows(table, version)
    contents = {file.read_bytes() for file in table.rglob("*.parquet") if "_delta_log" not in file.parts}
    assert all(file.read_bytes() in contents for file in copy.glob("*.parquet"))


def test_other_engines_read_the_copy(world, tmp_path, peer_python):
    table = made(tmp_path / "t", partition_by=["part"])
    shared, copy = world.share("peers", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    table.append(numbers(9))
    shared.sync(copy)
    code = (
        "import deltalake, os, sys\n"
        "found = deltalake.DeltaTable(sys.argv[1]).to_pyarrow_dataset().to_table()\n"
        "print(sorted(found['id'].to_pylist()), flush=True)\n"
        "os._exit(0)"
    )
    told = subprocess.run([peer_python, "-c", code, copy], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[1, 2, 3, 9]"


def test_without_history_the_copy_is_compared_with_the_latest_version(world, tmp_path):
    table = made(tmp_path / "t")
    shared, copy = world.share("latest", tmp_path / "t", history_shared=False), tmp_path / "copy"
    shared.sync(copy)
    table.append(numbers(4))
    table.overwrite(numbers(5))
    found = list(shared.sync_versions(copy))
    assert [(one.shared_version, one.by, one.added_files, one.removed_files) for one in found] == [
        (3, "snapshot", 1, 1)
    ]
    assert rows(copy) == rows(table)


def test_a_share_of_some_partitions_gives_a_copy_of_those(world, tmp_path):
    table = made(tmp_path / "t", partition_by=["part"])
    shared, copy = world.share("odd", tmp_path / "t", partition_filter="part = 1"), tmp_path / "copy"
    shared.sync(copy)
    table.append(numbers(4))
    table.append(numbers(5))
    assert shared.sync(copy).commits == 2
    assert rows(copy) == sorted(map(str, numbers(1, 3, 5).to_pylist()))


def test_files_that_were_rearranged_in_between_do_not_give_rows_twice(world, tmp_path):
    """Servers tell of data changes only (A4): a file that came by a compaction is not known here."""
    table = made(tmp_path / "t")
    table.append(numbers(4))
    shared, copy = world.share("compacted", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    before = table.snapshot().state
    pq.write_table(table.snapshot().to_arrow(), tmp_path / "t" / "compacted.parquet")
    size = (tmp_path / "t" / "compacted.parquet").stat().st_size
    adds = (Add("compacted.parquet", {}, size, 0, data_change=False),)
    removes = tuple(removal(add, 0, data_change=False) for add in before.files.adds())
    commit(table.store, before, StagedCommit(Operation("OPTIMIZE"), (*removes, *adds)))
    assert [one.by for one in shared.sync_versions(copy)] == ["versions"]
    assert rows(copy) == rows(table)
    table.overwrite(numbers(8))
    table.append(numbers(9))
    assert [one.by for one in shared.sync_versions(copy)] == ["snapshot", "versions"]
    assert rows(copy) == rows(table)
    assert sorted(marks(copy)) == [2, 3, 4, 5]


def test_comparing_repairs_a_copy_whose_files_differ(world, tmp_path):
    table = made(tmp_path / "t")
    shared, copy = world.share("repaired", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    DeltaTable(copy).append(numbers(77))
    assert shared.sync(copy).commits == 0
    assert shared.sync(copy, compare=True).removed_files == 1
    assert rows(copy) == rows(table)


def test_a_version_whose_files_are_gone_is_passed_over(world, tmp_path):
    table = made(tmp_path / "t")
    shared, copy = world.share("vacuumed", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    before = set((tmp_path / "t").glob("*.parquet"))
    table.append(numbers(4))
    (gone,) = set((tmp_path / "t").glob("*.parquet")) - before
    table.overwrite(numbers(5))
    gone.unlink()
    assert [one.by for one in shared.sync_versions(copy)] == ["snapshot"]
    assert rows(copy) == rows(table)


def test_a_file_of_another_size_is_fetched_again(world, tmp_path):
    table = made(tmp_path / "t")
    shared, copy = world.share("resized", tmp_path / "t"), tmp_path / "copy"
    shared.sync(copy)
    name = next(copy.glob("part-*.parquet")).name
    other = tmp_path / "other"
    other.mkdir()
    (other / name).write_bytes(b"half a file")
    shared.sync(other)
    assert rows(other) == rows(table)


def test_what_is_another_table_is_left_alone(world, tmp_path):
    made(tmp_path / "t")
    shared, other = world.share("mine", tmp_path / "t"), made(tmp_path / "other")
    with pytest.raises(SyncTargetError, match="not a copy of s"):
        shared.sync(tmp_path / "other")
    assert other.version() == 1
    copy = tmp_path / "copy"
    shared.sync(copy)
    shutil.rmtree(tmp_path / "t")
    made(tmp_path / "t")
    with pytest.raises(ds.DistributaryError) as raised:
        shared.sync(copy)
    assert raised.value.code == "SYNC_TARGET_MISMATCH"
