"""Reading checkpoints of every kind, as other writers lay them out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.delta.errors import CorruptCheckpointError
from distributary.delta.log.actions import Sidecar
from distributary.delta.log.checkpoint_reader import read_checkpoint, sidecar_path
from distributary.delta.log.checkpoint_rows import ParquetRows
from distributary.delta.log.log_segment import find_segment

KINDS = ["classic", "multi-part", "v2-json", "v2-parquet"]


def rewritten(path: Path, change) -> None:
    """Write a checkpoint file again after a change to its table."""
    pq.write_table(change(pq.read_table(path)), path, write_page_checksum=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [1, 3])
def test_state_from_a_checkpoint_alone_equals_the_log(busy_log, shown, kind: str, parts: int) -> None:
    """CK-003, CK-004, CK-005, CK-008, CK-009, CK-013: each kind holds the full state, and is read so."""
    busy_log.checkpoint(kind=kind, parts=parts)
    busy_log.clean(10)
    busy_log.commit_file(10).unlink()
    snapshot = busy_log.load()
    assert snapshot.segment.commits == ()
    assert shown(snapshot) == busy_log.state().shown()


@pytest.mark.parametrize("kind", KINDS)
def test_commits_after_a_checkpoint_are_applied_to_it(busy_log, shown, kind: str) -> None:
    """CK-003, LR-026: files of the checkpoint are removed, replaced and added to by later commits."""
    busy_log.checkpoint(4, kind=kind)
    busy_log.clean(4)
    snapshot = busy_log.load()
    assert snapshot.segment.checkpoint is not None
    assert shown(snapshot) == busy_log.state().shown()


@pytest.mark.parametrize("group", [1, 7])
def test_many_row_groups_are_read(busy_log, shown, group: int) -> None:
    """CK-008: one action a row, in any number of row groups."""
    busy_log.checkpoint(group=group)
    busy_log.clean(10)
    assert shown(busy_log.load()) == busy_log.state().shown()


def test_columns_in_any_order_and_unknown_columns_are_tolerated(busy_log, shown) -> None:
    """CK-016, LR-006: order means nothing; what is not known is ignored."""
    (path,) = busy_log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        fields = [add.type.field(at) for at in reversed(range(add.type.num_fields))]
        members = [add.field(field.name) for field in fields]
        extra = pa.array(range(len(add)), pa.int64())
        wider = pa.StructArray.from_arrays(
            [*members, extra], fields=[*fields, pa.field("futureField", pa.int64())], mask=add.is_null()
        )
        table = table.set_column(table.column_names.index("add"), "add", wider)
        table = table.append_column("futureAction", extra)
        return table.select(list(reversed(table.column_names)))

    rewritten(path, change)
    busy_log.clean(10)
    assert shown(busy_log.load()) == busy_log.state().shown()


def test_missing_columns_are_absent_actions(log, shown) -> None:
    """CK-016: a file without txn, remove, domainMetadata and the like has none of them."""
    log.create(log.add("a"), log.add("b"))
    (path,) = log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        names = ["path", "partitionValues", "size", "modificationTime", "dataChange"]
        slim = pa.StructArray.from_arrays(
            [add.field(name) for name in names],
            fields=[add.type.field(name) for name in names],
            mask=add.is_null(),
        )
        return pa.table(
            {"add": slim, "metaData": table.column("metaData"), "protocol": table.column("protocol")}
        )

    rewritten(path, change)
    log.commit_file(0).unlink()
    assert shown(log.load()) == log.state().shown()


def test_null_struct_is_no_action(busy_log) -> None:
    """CK-016, CK-008: of each row one struct is set; the others are null and count for nothing."""
    (path,) = busy_log.checkpoint()
    contents = read_checkpoint(busy_log.store, find_segment(busy_log.store).checkpoint)
    state = busy_log.state()
    assert len(contents.transactions) == len(state.transactions)
    assert pq.read_metadata(path).num_rows > len(state.adds)
    (rows,) = contents.rows
    present = rows.present("add")
    assert present is not None
    assert int(present.sum()) == len(state.adds)


def test_other_integer_and_text_types_are_accepted(log, shown) -> None:
    """CK-016: int32 sizes and large or dictionary texts are the same values."""
    log.create(*(log.add(f"f{at}") for at in range(5)))
    (path,) = log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        fields = list(add.type)
        kinds = {"path": pa.large_string(), "size": pa.int32(), "modificationTime": pa.int64()}
        members = [add.field(f.name).cast(kinds.get(f.name, f.type)) for f in fields]
        renewed = [pa.field(f.name, kinds.get(f.name, f.type)) for f in fields]
        struct = pa.StructArray.from_arrays(members, fields=renewed, mask=add.is_null())
        return table.set_column(table.column_names.index("add"), "add", struct)

    rewritten(path, change)
    log.commit_file(0).unlink()
    assert shown(log.load()) == log.state().shown()


def test_parsed_statistics_leave_out_columns_without_order(log) -> None:
    """CK-014: a boolean column has no minimum and no maximum in `stats_parsed`; others have."""
    log.create(log.add("a"), columns={"id": "long", "flag": "boolean"})
    (path,) = log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        values = pa.array([{"id": 1}] * len(add), pa.struct([("id", pa.int64())]))
        parsed = pa.StructArray.from_arrays(
            [pa.array([5] * len(add), pa.int64()), values, values],
            names=["numRecords", "minValues", "maxValues"],
        )
        fields = [*add.type, pa.field("stats_parsed", parsed.type)]
        members = [add.field(f.name) for f in add.type] + [parsed]
        struct = pa.StructArray.from_arrays(members, fields=fields, mask=add.is_null())
        return table.set_column(table.column_names.index("add"), "add", struct)

    rewritten(path, change)
    log.commit_file(0).unlink()
    (block,) = log.load().files.blocks
    assert block.rows.has("add", ("stats_parsed", "minValues", "id"))
    assert not block.rows.has("add", ("stats_parsed", "minValues", "flag"))
    assert block.column(("stats_parsed", "maxValues", "id")).to_pylist() == [1]
    assert block.column(("stats_parsed", "maxValues", "flag")).to_pylist() == [None]


@pytest.mark.parametrize("dropped", ["protocol", "metaData"])
def test_checkpoint_without_protocol_or_metadata_is_not_used(busy_log, shown, dropped: str) -> None:
    """CK-009, LR-028: it must hold both; the log is used instead, or the error names the checkpoint."""
    (path,) = busy_log.checkpoint()
    rewritten(path, lambda table: table.drop_columns([dropped]))
    assert shown(busy_log.load()) == busy_log.state().shown()
    busy_log.clean(10)
    with pytest.raises(CorruptCheckpointError, match="checkpoint of version 10"):
        busy_log.load()


@pytest.mark.parametrize("dropped", ["path", "size"])
def test_adds_without_path_or_size_are_not_used(busy_log, shown, dropped: str) -> None:
    """CK-013: an add has a path and a size; a file without them is damaged, not empty."""
    (path,) = busy_log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        fields = [field for field in add.type if field.name != dropped]
        members = [add.field(field.name) for field in fields]
        struct = pa.StructArray.from_arrays(members, fields=fields, mask=add.is_null())
        return table.set_column(table.column_names.index("add"), "add", struct)

    rewritten(path, change)
    busy_log.clean(10)
    with pytest.raises(CorruptCheckpointError, match=path.name):
        shown(busy_log.load())


def test_rows_with_a_path_but_no_size_are_damage(log) -> None:
    """CK-009: a file whose size is null is not silently left out."""
    log.create(log.add("a"), log.add("b"))
    (path,) = log.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        add = table.column("add").combine_chunks()
        fields = list(add.type)
        named = zip(add.field("path").to_pylist(), add.field("size").to_pylist(), strict=True)
        sizes = pa.array([None if path == "b" else size for path, size in named], pa.int64())
        members = [sizes if f.name == "size" else add.field(f.name) for f in fields]
        struct = pa.StructArray.from_arrays(members, fields=fields, mask=add.is_null())
        return table.set_column(table.column_names.index("add"), "add", struct)

    rewritten(path, change)
    log.commit_file(0).unlink()
    with pytest.raises(CorruptCheckpointError, match="path"):
        _ = log.load().files


def test_file_that_is_no_checkpoint_is_not_used(busy_log, shown) -> None:
    """CK-008: a Parquet file with none of a checkpoint's columns."""
    path = busy_log.log / f"{10:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    assert shown(busy_log.load()) == busy_log.state().shown()


def test_v2_checkpoint_of_another_version_is_not_used(busy_log, shown) -> None:
    """The mark inside a v2 checkpoint must be of the version in its name."""
    main, *_ = busy_log.checkpoint(6, kind="v2-json", hint=False)
    main.rename(busy_log.log / main.name.replace(f"{6:020d}", f"{9:020d}"))
    assert shown(busy_log.load()) == busy_log.state().shown()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.parquet", "_delta_log/_sidecars/a.parquet"),
        ("a%20b.parquet", "_delta_log/_sidecars/a b.parquet"),
        ("file:/t/_delta_log/_sidecars/a.parquet", "_delta_log/_sidecars/a.parquet"),
        ("_delta_log/_sidecars/a.parquet", "_delta_log/_sidecars/a.parquet"),
    ],
)
def test_sidecar_names_are_uri_references(name: str, expected: str) -> None:
    assert sidecar_path(Sidecar(name, 1, 1)) == expected


@pytest.mark.parametrize(
    "name", ["../a.parquet", "%2e%2e/a", "x/../../a", "..", ".", "", "/etc/passwd", "a%00b"]
)
def test_sidecars_outside_their_directory_are_refused(name: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="sidecar"):
        sidecar_path(Sidecar(name, 1, 1))


@pytest.mark.parametrize("name", ["../../secret", "", "missing.parquet"])
def test_checkpoint_with_a_bad_sidecar_is_not_used(busy_log, shown, name: str) -> None:
    """RELIABILITY B2: a sidecar that is missing or outside: that checkpoint is ignored."""
    main, *_ = busy_log.checkpoint(kind="v2-json")
    lines = [json.loads(line) for line in main.read_text().splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["path"] = name
    main.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert shown(busy_log.load()) == busy_log.state().shown()


def test_column_is_read_from_the_needed_row_groups_only(busy_log) -> None:
    """A selection within one row group reads that group and gives the same values."""
    (path,) = busy_log.checkpoint(group=5)
    rows = ParquetRows(busy_log.store, f"_delta_log/{path.name}", None)
    whole = rows.column("add", ("path",), keep=False).to_pylist()
    chosen = pa.array([10 <= at < 13 for at in range(rows.num_rows)]).to_numpy(zero_copy_only=False)
    again = ParquetRows(busy_log.store, f"_delta_log/{path.name}", None)
    assert again.column("add", ("path",), chosen).to_pylist() == whole[10:13]
    assert again.column("add", ("path",), ~chosen).to_pylist() == whole[:10] + whole[13:]


def test_real_checkpoints_carry_page_checksums(delta_tables) -> None:
    """Spark and Databricks write page checksums, so damage to their data pages is always found."""
    path = next(
        (delta_tables.tables / "golden__v2-checkpoint-parquet/_delta_log/_sidecars").glob("*.parquet")
    )
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    end = column.data_page_offset + column.total_compressed_size
    data[end - 1] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
