"""Data files: what is in them, how they are named and sized, and what stays after a failure."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.commit.data_file_writer import (
    DataFileWriter,
    WriterSettings,
    num_records,
    remove_data_files,
)
from distributary.delta.commit.partition_split import log_path, partition_directory, split_by_partition
from distributary.delta.errors import InvalidSchemaError, UnsupportedFeatureError
from distributary.delta.log.actions import Add
from distributary.delta.schema.arrow_schema import arrow_schema, delta_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode, assign_column_mapping, physical_name
from distributary.delta.schema.data_types import (
    LONG,
    STRING,
    VARIANT,
    VOID,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from distributary.delta.table_properties import TableProperties
from distributary.errors import StorageError
from distributary.storage.location import percent_decoded
from distributary.storage.object_store import ObjectStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A table's place on the local disk."""
    return open_store(str(tmp_path / "table"))


def write(
    store: ObjectStore,
    rows: pa.Table,
    partitioning: tuple[str, ...] = (),
    properties: dict[str, str] | None = None,
    **settings: Any,
) -> list[Add]:
    writer = DataFileWriter(
        store,
        delta_schema(rows.schema),
        partitioning,
        ColumnMappingMode.NONE,
        TableProperties.from_configuration(properties),
        settings=WriterSettings(**settings),
    )
    return writer.write(rows.to_batches())


def opened(store: ObjectStore, add: Add) -> pq.ParquetFile:
    return pq.ParquetFile(store.open_file(percent_decoded(add.path)))


def files_of(store: ObjectStore) -> list[str]:
    return [meta.path for meta in store.list_all()]


def test_files_have_unique_names_and_are_what_the_actions_say(store: ObjectStore) -> None:
    """LW-009, LW-013, PV-008: a UUID in each name, true sizes and times, dataChange, no partition values."""
    rows = pa.table({"id": [1, 2, 3]})
    before = dt.datetime.now(dt.UTC).timestamp() * 1000 - 1
    [first], [second] = write(store, rows), write(store, rows)
    assert first.path != second.path
    for add in (first, second):
        assert add.path.startswith("part-00000-")
        assert add.path.endswith(".c000.zstd.parquet")
        assert store.head(add.path).size == add.size
        assert add.modification_time >= before
        assert add.data_change
        assert add.partition_values == {}
    assert sorted(files_of(store)) == sorted([first.path, second.path])


def test_no_rows_make_no_file(store: ObjectStore) -> None:
    """LW-009: nothing to write leaves nothing behind."""
    assert write(store, pa.table({"id": pa.array([], pa.int64())})) == []
    assert files_of(store) == []


def test_files_hold_the_columns_of_the_schema_but_not_those_of_the_partition(store: ObjectStore) -> None:
    """LW-006, LW-007, LW-008: data columns only; every file has a value for each partition column."""
    rows = pa.table({"p": ["a", "b", None], "id": [1, 2, 3], "q": [1, 1, 2]})
    adds = write(store, rows, ("p", "q"))
    assert [opened(store, add).schema_arrow.names for add in adds] == [["id"]] * 3
    found = sorted((add.partition_values for add in adds), key=str)
    assert found == [{"p": "a", "q": "1"}, {"p": "b", "q": "1"}, {"p": None, "q": "2"}]


def test_parquet_is_what_every_engine_reads(store: ObjectStore) -> None:
    """LW-006: INT64 microseconds with the right zone flag, optional columns, zstd, no Arrow schema."""
    rows = pa.table(
        {
            "t": pa.array([1], pa.timestamp("us", "UTC")),
            "n": pa.array([1], pa.timestamp("us")),
            "l": pa.array([[1]], pa.list_(pa.int64())),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        },
        schema=pa.schema(
            [
                pa.field("t", pa.timestamp("us", "UTC"), nullable=False),
                pa.field("n", pa.timestamp("us")),
                pa.field("l", pa.list_(pa.int64())),
                pa.field("m", pa.map_(pa.string(), pa.int64())),
            ]
        ),
    )
    [add] = write(store, rows)
    file = opened(store, add)
    instant, wall = file.schema.column(0), file.schema.column(1)
    assert (instant.physical_type, wall.physical_type) == ("INT64", "INT64")
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(instant.logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(wall.logical_type)
    assert instant.max_definition_level == 1
    assert [file.schema.column(at).path for at in (2, 3, 4)] == [
        "l.list.element",
        "m.key_value.key",
        "m.key_value.value",
    ]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.metadata.metadata is None


@pytest.mark.parametrize(
    ("codec", "compression", "name"),
    [
        ("snappy", "SNAPPY", ".snappy.parquet"),
        ("gzip", "GZIP", ".gz.parquet"),
        ("none", "UNCOMPRESSED", ".c000.parquet"),
        ("lz4_raw", "LZ4", ".lz4_raw.parquet"),
    ],
)
def test_the_codec_property_is_obeyed(store: ObjectStore, codec: str, compression: str, name: str) -> None:
    """beyond.md B11: delta.parquet.compression.codec; the name tells the codec as Spark's names do."""
    [add] = write(store, pa.table({"id": [1]}), properties={"delta.parquet.compression.codec": codec})
    assert opened(store, add).metadata.row_group(0).column(0).compression == compression
    assert add.path.endswith(name)


def test_a_flipped_byte_is_found_by_the_page_checksum(store: ObjectStore) -> None:
    """LW-009: files are never changed; should a disk do so, checksums of pages tell."""
    [add] = write(
        store, pa.table({"id": list(range(1000))}), properties={"delta.parquet.compression.codec": "none"}
    )
    place = store.local_path(add.path)
    assert place is not None
    data = bytearray(place.read_bytes())
    data[200] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
    pq.ParquetFile(place, page_checksum_verification=True).read()


NASTY = [
    "a b",
    "100%",
    "x/y",
    "a:b",
    "ü日本",
    "null",
    "__HIVE_DEFAULT_PARTITION__",
    "..",
    "a=b",
    "q?#[]^{}'\"\\*",
    "\x00\x7f\n",
    "%25",
]


def test_nasty_partition_values_get_directories_that_can_be_found_again(store: ObjectStore) -> None:
    """LW-007, PV-002: directories are escaped as Hive does, log paths once more; values are as they are."""
    adds = write(store, pa.table({"p": NASTY, "id": list(range(len(NASTY)))}), ("p",))
    assert sorted(add.partition_values["p"] for add in adds if add.partition_values) == sorted(NASTY)
    assert sorted(percent_decoded(add.path) for add in adds) == sorted(files_of(store))
    for add in adds:
        assert opened(store, add).metadata.num_rows == 1


def test_directories_are_named_as_spark_names_them() -> None:
    """beyond.md B2: the directory `ts=2021-09-08 11%3A11%3A11` is `…%2011%253A…` in the log."""
    directory = partition_directory(["ts"], ("2021-09-08 11:11:11",))
    assert directory == "ts=2021-09-08 11%3A11%3A11/"
    assert log_path(directory) == "ts=2021-09-08%2011%253A11%253A11/"
    assert partition_directory(["a", "b"], (None, "x")) == "a=__HIVE_DEFAULT_PARTITION__/b=x/"
    assert partition_directory([], ()) == ""


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_directory_is_one_segment_and_round_trips_through_the_log(text: str) -> None:
    """LW-007: no value can leave its directory, and decoding a log path once gives the key."""
    directory = partition_directory(["p"], (text,))
    assert directory.count("/") == 1
    assert len(directory.encode()) <= 250
    assert "\0" not in directory
    assert percent_decoded(log_path(directory)) == directory


def test_a_value_that_is_too_long_for_a_directory_is_still_written(store: ObjectStore) -> None:
    """LW-007: the value is in the log; its directory only has to exist."""
    value = "ü" * 400
    [add] = write(store, pa.table({"p": [value], "id": [1]}), ("p",))
    assert add.partition_values == {"p": value}
    assert opened(store, add).metadata.num_rows == 1


def test_empty_strings_and_nulls_are_one_partition(store: ObjectStore) -> None:
    """PV-001: the empty string is null for every type; the log has JSON null (PV-009)."""
    [add] = write(store, pa.table({"p": ["", None, ""], "id": [1, 2, 3]}), ("p",))
    assert add.partition_values == {"p": None}
    assert num_records([add]) == 3


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "", None, "b"]), st.sampled_from([True, False, None])), max_size=60
    )
)
def test_splitting_keeps_every_row_once_and_in_order(pairs: list[tuple[str | None, bool | None]]) -> None:
    """LW-007: each row is in the part of its values."""
    rows = pa.record_batch(
        {
            "s": pa.array([s for s, _ in pairs], pa.string()),
            "b": pa.array([b for _, b in pairs], pa.bool_()),
            "at": pa.array(range(len(pairs)), pa.int64()),
        }
    )
    columns = [delta_schema(rows.schema).field(name) for name in ("s", "b")]
    seen: list[int] = []
    for texts, part in split_by_partition(rows, columns):
        places = part.column("at").to_pylist()
        assert places == sorted(places)
        seen += places
        if pairs:
            wanted = {(pairs[at][0] or None, pairs[at][1]) for at in places}
            flag = {None: None, True: "true", False: "false"}
            assert {(s, flag[b]) for s, b in wanted} == {texts}
    assert sorted(seen) == list(range(len(pairs)))


def test_rows_are_split_into_files_of_about_the_target_size(store: ObjectStore) -> None:
    """LW-009: delta.targetFileSize bounds files; together they hold each row once, and runs stay together."""
    rows = pa.table(
        {
            "id": pa.array(range(400_000)),
            "text": pa.array([f"{at * 7919 % 1000003:07d}" for at in range(400_000)]),
        }
    )
    adds = write(
        store,
        rows,
        properties={"delta.targetFileSize": "200000"},
        threads=2,
    )
    sizes = [add.size for add in adds]
    assert len(sizes) > 4
    assert max(sizes) < 500_000
    assert num_records(adds) == 400_000
    read = pa.concat_tables([opened(store, add).read() for add in adds]).sort_by("id")
    assert read.equals(rows)


def test_many_partitions_in_little_memory_keep_every_row(store: ObjectStore) -> None:
    """LW-007: a small budget and few open files give more files, never other rows."""
    count = 20_000
    rows = pa.table(
        {"p": [at * 31 % 97 for at in range(count)], "id": list(range(count)), "x": ["y" * 50] * count}
    )
    batches = rows.to_batches(max_chunksize=1000)
    writer = DataFileWriter(
        store,
        delta_schema(rows.schema),
        ["p"],
        ColumnMappingMode.NONE,
        TableProperties.from_configuration({}),
        settings=WriterSettings(threads=2, max_waiting_bytes=200_000, max_open_files=3),
    )
    adds = writer.write(batches)
    assert len({add.path for add in adds}) == len(adds) > 97
    assert num_records(adds) == count
    values = []
    for add in adds:
        assert add.partition_values is not None
        ids = opened(store, add).read(["id"]).column("id").to_pylist()
        assert {at * 31 % 97 for at in ids} == {int(add.partition_values["p"] or -1)}
        values += ids
    assert sorted(values) == list(range(count))


def test_random_prefixes_are_used_where_the_table_asks(store: ObjectStore) -> None:
    """LW-007: delta.randomizeFilePrefixes puts files into short random directories."""
    [add] = write(store, pa.table({"p": ["a"], "id": [1]}), ("p",), {"delta.randomizeFilePrefixes": "true"})
    assert len(add.path.split("/")[0]) == 2
    assert add.partition_values == {"p": "a"}


@pytest.mark.parametrize("mode", [ColumnMappingMode.NAME, ColumnMappingMode.ID])
def test_mapped_columns_have_physical_names_and_field_ids_at_every_level(
    store: ObjectStore, mode: ColumnMappingMode
) -> None:
    """LW-006, beyond.md B5: files, statistics and partition values know columns by their physical names."""
    inner = StructType((StructField("b c", LONG),))
    schema = assign_column_mapping(
        StructType(
            (
                StructField("p", STRING),
                StructField("a", ArrayType(inner)),
                StructField("m", MapType(STRING, inner)),
                StructField("s", StructType((StructField("in", inner), StructField("v", VOID)))),
            )
        )
    ).schema
    rows = pa.table(
        {
            "p": ["x", "x"],
            "a": [[{"b c": 1}, None], None],
            "m": [None, [("k", {"b c": 2})]],
            "s": [{"in": {"b c": 3}, "v": None}, None],
        },
        schema=arrow_schema(schema),
    )
    writer = DataFileWriter(store, schema, ["p"], mode, TableProperties.from_configuration({}))
    [add] = writer.write([batch.slice(0) for batch in rows.to_batches()])
    file = opened(store, add)
    names = {field.name: physical_name(field, mode) for field in schema.fields}
    assert add.partition_values == {names["p"]: "x"}
    assert file.schema_arrow.names == [names["a"], names["m"], names["s"]]
    ids = [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow]
    wanted = [schema.field(name).metadata["delta.columnMapping.id"] for name in ("a", "m", "s")]
    assert [int(found) for found in ids] == wanted
    element = file.schema_arrow.field(0).type.value_type.field(0)
    assert int(element.metadata[b"PARQUET:field_id"]) > 0
    assert element.name.startswith("col-")
    [struct] = [list(row.values()) for row in file.read().column(names["s"]).to_pylist() if row]
    assert [list(value.values()) for value in struct] == [[3]]


def test_void_columns_are_left_out_and_impossible_types_refused(store: ObjectStore) -> None:
    """LW-008, beyond.md B10: void is never in files; variant and void inside arrays are refused."""
    rows = pa.table({"v": pa.nulls(2), "id": [1, 2]})
    [add] = write(store, rows)
    assert opened(store, add).schema_arrow.names == ["id"]
    properties = TableProperties.from_configuration({})
    for bad, error in [
        (StructType((StructField("x", VARIANT),)), UnsupportedFeatureError),
        (StructType((StructField("x", ArrayType(VOID)),)), InvalidSchemaError),
        (StructType((StructField("x", VOID),)), InvalidSchemaError),
    ]:
        with pytest.raises(error):
            DataFileWriter(store, bad, [], ColumnMappingMode.NONE, properties)


def test_sliced_nested_rows_are_written_as_they_are(store: ObjectStore) -> None:
    """LW-006: relabelling columns never shifts rows, whatever offsets their buffers have."""
    kind = pa.struct(
        [pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)]
    )
    column = pa.array([None if at % 3 == 0 else {"l": list(range(at))} for at in range(20)], kind)
    maps = pa.array(
        [None if at % 4 == 0 else [(str(k), {"z": k}) for k in range(at % 5)] for at in range(20)],
        pa.map_(pa.string(), pa.struct([pa.field("z", pa.int64(), nullable=False)])),
    )
    rows = pa.table({"s": column, "m": maps}).slice(5, 11)
    [add] = write(store, rows)
    assert opened(store, add).read().to_pylist() == rows.to_pylist()


class BrokenError(RuntimeError):
    """The source of rows failed."""


def test_rows_that_fail_midway_leave_nothing(store: ObjectStore) -> None:
    """LW-009: the files written so far and the one under way are removed, and threads end."""
    rows = pa.table({"id": list(range(50_000)), "p": [at % 3 for at in range(50_000)]})

    def source() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(max_chunksize=5000)
        raise BrokenError

    writer = DataFileWriter(
        store,
        delta_schema(rows.schema),
        ["p"],
        ColumnMappingMode.NONE,
        TableProperties.from_configuration({"delta.targetFileSize": "10000"}),
        settings=WriterSettings(threads=2, max_waiting_bytes=100_000),
    )
    with pytest.raises(BrokenError):
        writer.write(source())
    assert files_of(store) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("distributary-encode")]


class _FullDisk:
    """A file that takes some bytes and then none."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file, self._room = file, room
        self.closed = False

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 3, 5_000, 60_000])
def test_a_full_disk_is_a_typed_error_and_leaves_nothing(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """LW-009: an error of the disk at any moment removes what was written and is told as a storage error."""
    plain = store.open_output
    left = [room]

    @contextmanager
    def limited(path: str) -> Iterator[Any]:
        with plain(path) as file:
            yield _FullDisk(file, left[0])
        left[0] -= store.head(path).size

    monkeypatch.setattr(store, "open_output", limited)
    rows = pa.table({"id": [at * 7919 % 1000003 for at in range(50_000)]})
    with pytest.raises(StorageError, match="No space left"):
        write(store, rows, properties={"delta.targetFileSize": "20000"}, threads=2)
    assert files_of(store) == []


def test_removing_files_forgives_what_is_gone(store: ObjectStore) -> None:
    """LW-009: leftovers are removed as far as the store allows."""
    adds = write(store, pa.table({"id": [1], "p": ["a%/b"]}), ("p",))
    remove_data_files(store, adds)
    remove_data_files(store, adds)
    assert files_of(store) == []
