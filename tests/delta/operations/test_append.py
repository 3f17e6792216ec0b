"""Append: every type there and back, and who else can read it."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.delta.commit.data_file_writer import WriterSettings
from distributary.delta.errors import (
    ConstraintViolationError,
    MetadataChangedError,
    NotNullViolationError,
    SchemaMismatchError,
)
from distributary.delta.operations.append import append
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import (
    LONG,
    StructField,
    StructType,
)
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError

INNER = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
EVERY_TYPE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "byte": pa.array([-128, None, 127], pa.int8()),
        "short": pa.array([-(1 << 15), None, (1 << 15) - 1], pa.int16()),
        "integer": pa.array([-(1 << 31), None, (1 << 31) - 1], pa.int32()),
        "long": pa.array([-(1 << 63), None, (1 << 63) - 1], pa.int64()),
        "float": pa.array([0.1, None, float("inf")], pa.float32()),
        "double": pa.array([1e-300, None, float("nan")], pa.float64()),
        "flag": pa.array([True, None, False]),
        "text": pa.array(["", None, "ü日本\n\"'" + "z" * 40]),
        "bytes": pa.array([b"", None, b"\x00\xff"]),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "at": pa.array([-1, None, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "wall": pa.array([-1, None, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us")),
        "money": pa.array([Decimal("-9999999.99"), None, Decimal("0.01")], pa.decimal128(9, 2)),
        "big": pa.array([Decimal(10) ** 27, None, -Decimal("1.0000000001")], pa.decimal128(38, 10)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "map": pa.array([[("k", None)], None, []], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"x": 1, "y": ["a", None]}, None, {"x": None, "y": None}], INNER),
        "deep": pa.array([[{"x": 1, "y": []}, None], None, []], pa.list_(INNER)),
    }
)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_every_type_is_read_back_equal_by_us_and_by_deltalake(
    place: Any, mode: str, deltalake_reads: Any
) -> None:
    """LW-006, LW-015, SC-010: all types with nulls and extremes, nested, with and without column mapping."""
    table = DeltaTable.create(place, EVERY_TYPE.schema, properties={"delta.columnMapping.mode": mode})
    result = table.append(EVERY_TYPE)
    assert (result.version, result.num_rows, result.num_files) == (1, 3, 1)
    read = table.snapshot().to_arrow()
    assert read.schema.types == EVERY_TYPE.schema.types
    assert place.plain(read) == place.plain(EVERY_TYPE)
    info = place.entries(1)[0]["commitInfo"]
    assert (info["operation"], info["operationParameters"]["mode"], info["isBlindAppend"]) == (
        "WRITE",
        "Append",
        True,
    )
    assert info["operationMetrics"]["numOutputRows"] == "3"
    if mode != "id":  # deltalake refuses id mode
        assert place.plain(deltalake_reads(place)) == place.plain(EVERY_TYPE)


PARTITION_TYPES = [
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "flag",
    "text",
    "day",
    "at",
    "wall",
    "money",
    "big",
]


def test_partitions_of_every_type_are_read_back_equal(place: Any, deltalake_reads: Any) -> None:
    """PV-001 to PV-007, LW-007: each type as a partition column, by us; nasty strings also by deltalake."""
    columns = dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns, strict=True))
    # deltalake takes bytes beyond 127 for the characters of a text, against the protocol.
    rows = pa.table({**columns, "bytes": pa.array([b"x", None, b"\x01\x7f"])})
    table = DeltaTable.create(place, rows.schema, partition_by=[*PARTITION_TYPES, "bytes"])
    table.append(rows.slice(1))
    expected = place.plain(rows.slice(1))
    assert place.plain(table.snapshot().to_arrow()) == expected
    nulls, values = sorted(
        (line["add"]["partitionValues"] for line in place.entries(1)[1:]), key=str, reverse=True
    )
    assert set(nulls.values()) == {None}
    assert values["at"] == values["wall"] == "2023-11-14 22:13:20.123456"
    assert (values["day"], values["flag"], values["bytes"]) == ("9999-12-31", "false", "\x01\x7f")
    assert place.plain(deltalake_reads(place)) == expected


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
    "%25",
    "",
    None,
]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_nasty_partition_values_are_read_back_by_deltalake_too(
    place: Any, mode: str, deltalake_reads: Any
) -> None:
    """PV-001, PV-002, PV-009, LW-007: spaces, %, /, :, unicode, `null`, Hive's word; `""` becomes null."""
    rows = pa.table({"id": list(range(len(NASTY))), "p": NASTY})
    table = DeltaTable.create(
        place, rows.schema, partition_by=["p"], properties={"delta.columnMapping.mode": mode}
    )
    table.append(rows)
    expected = [{"id": at, "p": text or None} for at, text in enumerate(NASTY)]
    assert place.plain(table.snapshot().to_arrow()) == expected
    assert place.plain(deltalake_reads(place)) == expected
    for at, text in enumerate(NASTY):
        if text:
            literal = text.replace("\\", "\\\\").replace("'", "\\'")
            assert table.snapshot().to_arrow(predicate=f"p = '{literal}'").column("id").to_pylist() == [at]


@settings(max_examples=30)
@given(texts=st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=90), min_size=1, max_size=6))
def test_any_strings_are_found_again_by_equality(texts: list[str | None]) -> None:
    """ST-003, ST-006, PV-002: neither statistics nor partitions ever hide a row that matches."""
    rows = pa.table({"id": list(range(len(texts))), "s": pa.array(texts, pa.string())})
    for partitioning in ([], ["s"]):
        table = DeltaTable.create(f"memory://strings-{uuid.uuid4()}", rows.schema, partition_by=partitioning)
        table.append(rows)
        for text in texts:
            if text:
                found = table.snapshot().to_arrow(predicate=_equals("s", text)).column("id").to_pylist()
                assert sorted(found) == [at for at, other in enumerate(texts) if other == text]


def _equals(name: str, value: object) -> Any:
    from distributary.expressions.tree import col

    return col(name) == value


MOMENT = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
ENCODINGS = [
    (pa.string(), "x", [pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string_view()]),
    (pa.binary(), b"xy", [pa.large_binary(), pa.binary_view(), pa.binary(2)]),
    (pa.int64(), 7, [pa.int8(), pa.uint32(), pa.decimal128(5, 0)]),
    (
        pa.timestamp("us", "UTC"),
        MOMENT,
        [pa.timestamp("ms", "Europe/Paris"), pa.timestamp("ns", "UTC"), pa.timestamp("s", "UTC")],
    ),
    (
        pa.list_(pa.int64()),
        [7, None],
        [pa.large_list(pa.int32()), pa.list_view(pa.int8()), pa.large_list_view(pa.int64())],
    ),
    (pa.list_(pa.int64()), [7, 8], [pa.list_(pa.int16(), 2)]),
    (pa.date32(), dt.date(2024, 5, 1), [pa.date64()]),
    (pa.float64(), 0.5, [pa.float32(), pa.float16(), pa.int8()]),
    (pa.int32(), None, [pa.null()]),
]


@pytest.mark.parametrize(("kind", "value", "encodings"), ENCODINGS, ids=lambda found: str(found)[:20])
def test_other_encodings_of_the_same_types_are_taken(
    place: Any, kind: pa.DataType, value: Any, encodings: list[pa.DataType]
) -> None:
    """LW-006: dictionaries, large and view types, other units and zones, narrower numbers."""
    table = DeltaTable.create(place, pa.schema([("c", kind)]))
    for encoding in encodings:
        given = 0 if value == 0.5 and pa.types.is_integer(encoding) else value
        rows = pa.table({"c": pa.array([None, given, None, given], encoding)})
        table.overwrite(rows.slice(1))
        assert table.snapshot().to_arrow().column("c").to_pylist() == [given, None, given], encoding


def test_frames_of_other_libraries_are_taken(place: Any) -> None:
    """LW-002: pandas, Polars and DuckDB give their rows by the Arrow C stream; batches and readers too."""
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    batch = pa.record_batch({"id": [1]})
    sources = [
        pandas.DataFrame({"id": [1]}),
        polars.DataFrame({"id": [1]}),
        duckdb.sql("select 1::bigint as id"),
        batch,
        [batch],
        iter([batch]),
        pa.RecordBatchReader.from_batches(batch.schema, [batch]),
    ]
    for source in sources:
        table.append(source)
    table.append(table.snapshot().to_record_batch_reader())
    assert table.snapshot().to_arrow().column("id").to_pylist() == [1] * 14
    for nothing in ([], [1], 5):
        with pytest.raises(InvalidInputError):
            table.append(nothing)  # type: ignore[arg-type]


def test_missing_columns_are_null_and_unknown_ones_refused(place: Any) -> None:
    """LW-006, LW-008: what the data lacks is null; what the table lacks is an error that names it."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
    )
    table.append(pa.table({"S": [{"A": 1}], "ID": [1]}))
    table.append(pa.table({"id": [2]}))
    assert place.plain(table.snapshot().to_arrow()) == [
        {"id": 1, "s": {"a": 1, "b": None}},
        {"id": 2, "s": None},
    ]
    before = place.data_files()
    for unknown in ({"id": [1], "other": [1]}, {"id": [1], "s": [{"a": 1, "c": 2}]}):
        with pytest.raises(SchemaMismatchError, match=r"other|s\.c"):
            table.append(pa.table(unknown))
    assert place.data_files() == before
    assert table.version() == 2


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.int8(), -129),
        (pa.int16(), 1 << 15),
        (pa.int32(), 1 << 31),
        (pa.int32(), -(1 << 31) - 1),
    ],
)
def test_numbers_out_of_range_are_refused(place: Any, kind: pa.DataType, value: int) -> None:
    """SC-010: an integer that its column cannot hold is an error on write, and nothing stays behind."""
    table = DeltaTable.create(place, pa.schema([("n", kind)]))
    with pytest.raises(SchemaMismatchError, match="n"):
        table.append(pa.table({"n": pa.array([1, value], pa.int64())}))
    assert table.version() == 0
    assert place.data_files() == set()


def test_rules_of_the_table_are_kept_and_a_violation_leaves_nothing(place: Any) -> None:
    """CN-012, CN-021, CN-030 by way of append: NOT NULL, CHECK and generated columns."""
    schema = StructType(
        (
            StructField("id", LONG, nullable=False),
            StructField("twice", LONG, metadata={"delta.generationExpression": "id * 2"}),
        )
    )
    table = DeltaTable.create(place, schema, properties={"delta.constraints.small": "id < 100"})
    table.append(pa.table({"id": [1, 2]}))
    assert place.plain(table.snapshot().to_arrow()) == [{"id": 1, "twice": 2}, {"id": 2, "twice": 4}]
    before = place.data_files()
    with pytest.raises(ConstraintViolationError, match="small"):
        table.append(pa.table({"id": [3, 100]}))
    with pytest.raises(NotNullViolationError):
        table.append(pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(NotNullViolationError):
        table.append(pa.table({"twice": [1]}))
    assert place.data_files() == before
    assert table.version() == 1


def test_a_transaction_is_written_once(place: Any) -> None:
    """LW-012: the same or an earlier version of an application is skipped, a later one written."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    assert not table.append(pa.table({"id": [1]}), txn=("app", 5)).skipped
    for version in (5, 4):
        again = DeltaTable(place).append(pa.table({"id": [9]}), txn=("app", version))
        assert again.skipped
        assert again.version == 1
    table.append(pa.table({"id": [2]}), txn=("app", 6))
    table.append(pa.table({"id": [3]}), txn=("other", 1))
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == [1, 2, 3]
    assert len(place.data_files()) == 3
    assert [line["txn"]["version"] for line in place.entries(1) if "txn" in line] == [5]


def test_a_transaction_that_lost_the_race_to_itself_is_skipped(place: Any) -> None:
    """LW-012: two runs of the same batch on the same snapshot commit it once, and leave no files."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    snapshot = table.snapshot().state
    first = append(table.store, snapshot, pa.table({"id": [1]}), txn=("app", 1))
    second = append(table.store, snapshot, pa.table({"id": [1]}), txn=("app", 1))
    assert (first.skipped, second.skipped, second.version) == (False, True, 1)
    assert len(place.data_files()) == 1


def test_appends_on_an_old_snapshot_are_rebased(place: Any) -> None:
    """LW-002: blind appends do not conflict; both commits stay."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    snapshot = table.snapshot().state
    for number in range(3):
        assert append(table.store, snapshot, pa.table({"id": [number]})).version == number + 1
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == [0, 1, 2]


def test_a_conflict_removes_the_files_that_were_written(place: Any) -> None:
    """LW-009: files of a commit that surely did not happen are not left behind."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    snapshot = table.snapshot().state
    table.append(pa.table({"id": [1], "new": [1]}), merge_schema=True)
    before = place.data_files()
    with pytest.raises(MetadataChangedError):
        append(table.store, snapshot, pa.table({"id": [2]}))
    assert place.data_files() == before


@pytest.mark.parametrize("mode", ["none", "name"])
def test_merging_the_schema_lets_new_columns_in(place: Any, mode: str, deltalake_reads: Any) -> None:
    """LW-006, LW-008: older files lack the new columns, which are null there; nested ones too."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]),
        properties={"delta.columnMapping.mode": mode},
    )  # fmt: skip
    table.append(pa.table({"id": [1], "s": [{"a": 1}]}))
    table.append(pa.table({"id": [2], "s": [{"a": 2, "b": "x"}], "new": [2.5]}), merge_schema=True)
    expected = [
        {"id": 1, "new": None, "s": {"a": 1, "b": None}},
        {"id": 2, "new": 2.5, "s": {"a": 2, "b": "x"}},
    ]
    assert place.plain(table.snapshot().to_arrow()) == expected
    assert place.plain(deltalake_reads(place)) == expected
    if mode == "name":
        assert table.snapshot().metadata.properties["delta.columnMapping.maxColumnId"] == "5"


def test_merging_a_type_that_needs_a_feature_upgrades_the_protocol(place: Any) -> None:
    """LW-011: the protocol grows with the schema, in the same commit."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1], "wall": pa.array([0], pa.timestamp("us"))}), merge_schema=True)
    assert "timestampNtz" in (table.snapshot().protocol.writer_features or ())
    assert {"protocol", "metaData"} <= {key for line in place.entries(1) for key in line}


def test_tables_with_row_tracking_get_row_ids(place: Any) -> None:
    """beyond.md B11: every new file has a range of row ids of its own."""
    table = DeltaTable.create(
        place, pa.schema([("id", pa.int64())]), properties={"delta.enableRowTracking": "true"}
    )
    table.append(pa.table({"id": [1, 2, 3]}))
    table.append(pa.table({"id": [4]}))
    ids = [line["add"]["baseRowId"] for version in (1, 2) for line in place.entries(version) if "add" in line]
    assert ids == [0, 3]


def test_a_stream_that_breaks_commits_nothing(place: Any) -> None:
    """LW-002, LW-009: an error of the source leaves the table and its directory as they were."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]))

    def source() -> Any:
        yield pa.record_batch({"id": list(range(1000))})
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(source(), settings=WriterSettings(threads=1, max_waiting_bytes=100))
    assert table.version() == 0
    assert place.data_files() == set()


_FILTERS = """
import sys, json
from deltalake import DeltaTable, QueryBuilder
query = QueryBuilder().register("t", DeltaTable(sys.argv[1]))
for condition, count in json.loads(sys.argv[2]):
    assert query.execute(f"select id from t where {condition}").read_all().num_rows == count, condition
"""


def test_deltalake_prunes_by_our_statistics_and_finds_every_row(place: Any, peer_python: Path) -> None:
    """ST-003, ST-006: filters of another engine on bounds that were cut or rounded lose nothing."""
    texts = ["x" * 32, "x" * 32 + "y", "x" * 31 + "é" * 5, "\U0010ffff" * 40]
    rows = pa.table(
        {
            "id": list(range(4)),
            "s": texts,
            "t": pa.array([1, 999, 1000, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "f": pa.array([float("nan"), 1.0, -0.0, float("inf")]),
            "d": pa.array(
                [Decimal("0.1"), Decimal(10) ** 27, Decimal("-1.0000000001"), Decimal(1)],
                pa.decimal128(38, 10),
            ),
        }
    )
    table = DeltaTable.create(place, rows.schema)
    for at in range(4):
        table.append(rows.slice(at, 1))
    conditions = [
        *((f"s = '{text}'", 1) for text in texts),
        ("t >= '2023-11-14T22:13:20.123456Z'", 1),
        ("f > 5", 2),
        ("f <= 0", 1),
        ("d < 0", 1),
        ("d > 1000", 1),
    ]
    command = [str(peer_python), "-c", _FILTERS, str(place), json.dumps(conditions)]
    subprocess.run(command, check=True, timeout=120)


def test_mapped_tables_can_have_any_column_name(place: Any) -> None:
    """beyond.md B5: names that Parquet's tools refuse are fine where columns are mapped."""
    table = DeltaTable.create(
        place, pa.schema([("a b,c", pa.int64())]), properties={"delta.columnMapping.mode": "name"}
    )
    table.append(pa.table({"a b,c": [1]}))
    assert table.snapshot().to_arrow().to_pylist() == [{"a b,c": 1}]
    assert table.snapshot().properties.column_mapping_mode is ColumnMappingMode.NAME
    assert pc.equal(table.snapshot().to_arrow(predicate="`a b,c` = 1").num_rows, 1).as_py()


def test_tables_on_s3_are_written_like_those_on_disk(s3_server: Any) -> None:
    """LW-001, LW-009: create, append, overwrite and a failed append on an object store."""
    uri = s3_server.uri(f"append-{uuid.uuid4()}")
    options = s3_server.storage_options
    table = DeltaTable.create(
        uri, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"], storage_options=options
    )
    table.append(pa.table({"id": [1, 2], "p": ["a b/%ü", None]}))
    table.overwrite(pa.table({"id": [3], "p": ["a b/%ü"]}), dynamic=True)
    again = DeltaTable(uri, options).snapshot()
    assert again.version == 2
    assert Counter(map(str, again.to_arrow().to_pylist())) == Counter(
        map(str, [{"id": 3, "p": "a b/%ü"}, {"id": 2, "p": None}])
    )
    before = {meta.path for meta in table.store.list_all()}
    with pytest.raises(SchemaMismatchError):
        table.append(
            [pa.record_batch({"id": pa.array([1])}), pa.record_batch({"id": pa.array([1.5])})],
            settings=WriterSettings(threads=1, max_waiting_bytes=1),
        )
    assert {meta.path for meta in table.store.list_all()} == before
