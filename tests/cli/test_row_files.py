"""Files of rows: every format gives the same rows in the types of a table, and damage its line."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click import UsageError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from distributary.cli.input_file import ByteStream, input_files
from distributary.cli.output import write_rows
from distributary.cli.row_files import file_schema, read_rows
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.type_text import parse_columns_text
from distributary.errors import DistributaryError, InvalidInputError

UTC = datetime.UTC
COLUMNS = parse_columns_text(
    "id long not null, small byte, name string, amount decimal(10,2), day date, at timestamp, "
    "local timestamp_ntz, ok boolean, ratio double, short_ratio float, raw binary, tags array<string>, "
    "counts map<string,int>, place struct<city:string,points:array<struct<x:double>>>"
)
ROWS = [
    {
        "id": 2**62 + 1,
        "small": -128,
        "name": 'quoted "x", and\na line end',
        "amount": Decimal("12345678.90"),
        "day": datetime.date(1066, 10, 14),
        "at": datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
        "local": datetime.datetime(2024, 2, 29, 23, 59, 59, 1),
        "ok": True,
        "ratio": float("inf"),
        "short_ratio": 0.5,
        "raw": b"\x00\xff",
        "tags": ["a", None, ""],
        "counts": [("one", 1), ("none", None)],
        "place": {"city": "Zürich", "points": [{"x": 1.5}, None, {"x": None}]},
    },
    dict.fromkeys(COLUMNS.names) | {"id": 1, "name": "", "tags": []},
    dict.fromkeys(COLUMNS.names) | {"id": 0},
]
TABLE = pa.Table.from_pylist(ROWS, arrow_schema(COLUMNS))


def rows_of(
    files: Path | list[Path],
    table: StructType | None = COLUMNS,
    *,
    grow: bool = False,
    format: str | None = None,
    delimiter: str | None = None,
) -> pa.Table:
    paths = [str(path) for path in (files if isinstance(files, list) else [files])]
    return read_rows(
        input_files(paths, format, delimiter), table, grow=grow, advance=lambda _bytes: None
    ).read_all()


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("format", ["csv", "json", "ndjson", "parquet"])
def test_rows_that_the_command_line_writes_are_read_back_exactly(tmp_path, format):
    path = tmp_path / f"rows.{format}"
    write_rows(TABLE, format, path)
    assert rows_of(path).to_pylist() == ROWS


@pytest.mark.parametrize("kind", ["stream", "file", "feather"])
def test_rows_of_arrow_are_read_as_a_stream_or_as_a_file(tmp_path, kind):
    path = tmp_path / ("rows.feather" if kind == "feather" else "rows.arrow")
    if kind == "feather":
        feather.write_feather(TABLE, str(path))
    else:
        opened = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with opened(path, TABLE.schema) as writer:
            writer.write_table(TABLE)
    assert rows_of(path).to_pylist() == ROWS


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet"])
def test_packed_file_is_unpacked_while_it_is_read(tmp_path, format):
    write_rows(TABLE, format, tmp_path / "rows")
    path = written(tmp_path, f"rows.{format}.gz", gzip.compress((tmp_path / "rows").read_bytes()))
    assert rows_of(path).to_pylist() == ROWS


def test_json_is_an_array_or_objects_one_after_another(tmp_path):
    for text in (
        '[{"id":1},{"id":2}]',
        '{"id":1}{"id":2}',
        '{"id":\n1}\n\n{"id":2}',
        ' [ {"id":1} , {"id":2} ] \n',
    ):
        assert rows_of(written(tmp_path, "rows.json", text)).column("id").to_pylist() == [1, 2]
    assert rows_of(written(tmp_path, "rows.json", "[]")).num_rows == 0


def test_json_numbers_keep_every_digit_and_may_be_strings(tmp_path):
    text = '{"id": 9007199254740993, "amount": 12345678.91}\n{"id": "9007199254740993", "amount": "1"}'
    rows = rows_of(written(tmp_path, "rows.ndjson", text)).to_pylist()
    assert [row["id"] for row in rows] == [9007199254740993] * 2
    assert [row["amount"] for row in rows] == [Decimal("12345678.91"), Decimal("1.00")]


def test_map_may_be_an_object_or_a_list_of_pairs(tmp_path):
    text = '{"id":1,"counts":{"a":1}}\n{"id":2,"counts":[["a",1]]}'
    assert rows_of(written(tmp_path, "rows.ndjson", text)).column("counts").to_pylist() == [[("a", 1)]] * 2


def test_timestamp_without_a_zone_is_utc(tmp_path):
    path = written(
        tmp_path,
        "a.csv",
        "at\n2024-03-01\n2024-03-01 00:00\n2024-03-01T02:00:00+02:00\n2024-03-01T00:00:00Z\n",
    )
    assert set(rows_of(path).column("at").to_pylist()) == {datetime.datetime(2024, 3, 1, tzinfo=UTC)}


def test_columns_are_found_ignoring_case(tmp_path):
    assert rows_of(written(tmp_path, "a.csv", "ID,Name\n1,x\n")).column_names == ["id", "name"]
    assert rows_of(written(tmp_path, "a.ndjson", '{"ID":1}')).column("id").to_pylist() == [1]


def test_delimiter_is_given_or_a_tab_for_tsv(tmp_path):
    assert rows_of(written(tmp_path, "a.tsv", "id\tname\n1\tx\n")).column("name").to_pylist() == ["x"]
    assert rows_of(written(tmp_path, "a.csv", "id;name\n1;x\n"), delimiter=";").column(
        "name"
    ).to_pylist() == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        (
            "a.csv",
            "id,amount\n1,1\n2,1.999\n",
            SchemaMismatchError,
            "line 3, column amount: '1.999' is no decimal",
        ),
        ("a.csv", 'name,id\n"a\nb",1\nc,x\n', SchemaMismatchError, "line 4, column id: 'x' is no long"),
        ("a.csv", "id\n0x10\n", SchemaMismatchError, "'0x10' is no long"),
        ("a.csv", "small\n300\n", SchemaMismatchError, "'300' is no byte"),
        ("a.csv", "ratio\n1e999\n", SchemaMismatchError, "'1e999' is no double"),
        ("a.csv", "day\n2024-02-30\n", SchemaMismatchError, "'2024-02-30' is no date"),
        ("a.csv", "at\n2024-02-01T10:00:00.1234567\n", SchemaMismatchError, "is no timestamp"),
        ("a.csv", "ok\nyes\n", SchemaMismatchError, "'yes' is no boolean"),
        ("a.csv", "raw\n*\n", SchemaMismatchError, "'*' is no binary"),
        ("a.csv", 'tags\n"[1]"\n', SchemaMismatchError, "line 2, column tags"),
        ("a.csv", "id,other\n1,2\n", SchemaMismatchError, "'other', which the table does not have"),
        ("a.csv", "id,name\n1,2\n3\n", InvalidInputError, "line 3: 1 values where the header names 2"),
        ("a.csv", "id,id\n1,2\n", InvalidInputError, "two columns 'id'"),
        ("a.csv", "", InvalidInputError, "no CSV file"),
        ("a.csv", b"name\n\xff\xfe\n", InvalidInputError, "UTF8"),
        ("a.ndjson", '{"id":1}\n\n{"id":"x"}', SchemaMismatchError, "line 3, column id: 'x' is no long"),
        ("a.ndjson", '{"id":1}\n{"id":1.5}', SchemaMismatchError, "line 2: Expected"),
        (
            "a.ndjson",
            '{"id":1}\n{"id":1,"q":2}',
            SchemaMismatchError,
            "line 2: Object contains unknown field `q`",
        ),
        ("a.ndjson", '{"id":1}\n{"id":', InvalidInputError, "line 2"),
        ("a.ndjson", '{"id":1}\n[2]', InvalidInputError, "line 2"),
        ("a.ndjson", b'{"name":"\xff"}', InvalidInputError, "line 1"),
        (
            "a.ndjson",
            '{"small":1}\n{"small":300}',
            SchemaMismatchError,
            "line 2, column small: '300' is no byte",
        ),
        ("a.ndjson", '{"amount":1.234}', SchemaMismatchError, "column amount: '1.234'"),
        ("a.ndjson", '{"counts":[[null,1]]}', SchemaMismatchError, "key of a map"),
        (
            "a.ndjson",
            '{"id":1}\n{"place":{"points":[{"x":1},{"x":"no"}]}}',
            SchemaMismatchError,
            "line 2, column place: points: element: x: 'no'",
        ),
        ("a.json", '[{"id":1},\n', InvalidInputError, "array does not end"),
        ("a.json", '[{"id":1},\n{"id":', InvalidInputError, "line 2"),
        ("a.json", '[{"id":1},\n3]', InvalidInputError, "line 2: only objects"),
        ("a.json", '[{"id":1}] {"id":2}', InvalidInputError, "only objects"),
        ("a.json", '[\n{"id":1},\n\n{"id":}]', InvalidInputError, "line 4"),
        ("a.json", "[" * 100_000, InvalidInputError, "only objects"),
        ("a.json", '{"id":' + "[" * 100_000, InvalidInputError, "line 1"),
        ("a.json", b'[{"name":"\xff"}]', InvalidInputError, "UTF-8"),
        ("a.parquet", "PAR1 or not", InvalidInputError, "no readable Parquet"),
        ("a.arrow", "nothing", InvalidInputError, "no readable Arrow"),
        ("a.csv.gz", "not packed", InvalidInputError, "cannot be read"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path, name, content, error, says):
    path = written(tmp_path, name, content)
    with pytest.raises(error) as caught:
        rows_of(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value) or "input cannot" in str(caught.value)


def test_file_that_is_cut_is_an_error_not_fewer_rows(tmp_path):
    pq.write_table(TABLE, tmp_path / "whole.parquet")
    with pa.ipc.new_stream(tmp_path / "whole.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    for name in ("whole.parquet", "whole.arrow"):
        cut = written(tmp_path, f"cut_{name}", (tmp_path / name).read_bytes()[:-200])
        with pytest.raises(InvalidInputError):
            rows_of(cut)


def test_new_columns_get_the_types_that_they_look_like(tmp_path):
    text = (
        '{"i":1,"f":1,"t":"2024-03-01T10:00:00Z","d":"2024-03-01","s":"x","n":null,"l":[1],"o":{"a":true}}\n'
        '{"f":1.5,"o":{"b":2}}'
    )
    found = file_schema(input_files([str(written(tmp_path, "a.ndjson", text))], None, None)[0])
    assert str(found) == (
        "struct<i:long,f:double,t:timestamp,d:date,s:string,n:string,l:array<long>,o:struct<a:boolean,b:long>>"
    )
    text = "i,f,t,d,s,n,clock\n1,1.5,2024-03-01 10:00:00,2024-03-01,x,,10:00:00\n"
    found = file_schema(input_files([str(written(tmp_path, "a.csv", text))], None, None)[0])
    assert str(found) == "struct<i:long,f:double,t:timestamp,d:date,s:string,n:string,clock:string>"


def test_table_that_may_grow_keeps_its_types_and_gains_columns(tmp_path):
    table = parse_columns_text("id string, place struct<city:string>")
    rows = rows_of(written(tmp_path, "a.csv", "id,n\n007,1\n"), table, grow=True)
    assert rows.to_pylist() == [{"id": "007", "n": 1}]
    text = '{"id":"7","place":{"city":"x","zip":"1"},"n":1}'
    rows = rows_of(written(tmp_path, "a.ndjson", text), table, grow=True)
    assert rows.to_pylist() == [{"id": "7", "place": {"city": "x", "zip": "1"}, "n": 1}]


def test_columns_of_mixed_kinds_are_refused(tmp_path):
    with pytest.raises(SchemaMismatchError, match="Column a is long in one row and array"):
        rows_of(written(tmp_path, "a.ndjson", '{"a":1}\n{"a":[1]}'), None)


def test_files_are_one_stream_when_their_columns_agree(tmp_path):
    first, second = written(tmp_path, "a.csv", "id,name\n1,x\n"), written(tmp_path, "b.csv", "name,id\ny,2\n")
    assert rows_of([first, second]).column("id").to_pylist() == [1, 2]
    with pytest.raises(SchemaMismatchError, match=r"other columns than .*name"):
        rows_of([first, written(tmp_path, "c.csv", "id\n3\n")])


def test_column_that_the_table_fills_is_left_to_it(tmp_path):
    from distributary.delta.schema.data_types import LONG, StructField

    table = StructType((StructField("a", LONG), StructField("b", LONG, True, {"CURRENT_DEFAULT": "1"})))
    assert rows_of(written(tmp_path, "a.ndjson", '{"a":1}'), table).column_names == ["a"]
    assert rows_of(written(tmp_path, "a.ndjson", '{"a":1,"b":2}'), table).column_names == ["a", "b"]


def test_format_that_cannot_be_told_must_be_given(tmp_path):
    for paths in (["-"], [], [str(written(tmp_path, "rows.dat", "id\n"))]):
        with pytest.raises(UsageError, match="--format"):
            input_files(paths, None, None)
    with pytest.raises(UsageError, match="once only"):
        input_files(["-", "-"], "csv", None)


def test_large_files_come_in_blocks_of_bounded_size(tmp_path):
    """Nothing is held whole: a block is a fraction of the file, and its rows come before the file is read."""
    lines = [json.dumps({"id": n, "name": "x" * 1000}) for n in range(12_000)]
    ndjson = written(tmp_path, "a.ndjson", "\n".join(lines))
    array = written(tmp_path, "a.json", "[" + ",\n".join(lines) + "]")
    table = written(tmp_path, "a.csv", "id,name\n" + "\n".join(f"{n},{'x' * 1000}" for n in range(12_000)))
    for path in (ndjson, array, table):
        taken: list[int] = []
        reader = read_rows(input_files([str(path)], None, None), COLUMNS, grow=False, advance=taken.append)
        first = next(iter(reader))
        assert 0 < first.num_rows < 6_000
        assert sum(taken) < path.stat().st_size or path is table  # Arrow reads a few blocks of CSV ahead
        assert first.num_rows + sum(batch.num_rows for batch in reader) == 12_000
        assert sum(taken) == path.stat().st_size


def test_stream_gives_all_bytes_whatever_is_looked_at_first():
    taken: list[int] = []
    stream = ByteStream(io.BytesIO(b"abcdef"), taken.append, packed=False)
    assert stream.peek(2) == (b"ab", False)
    assert stream.take(1) == (b"a", False)
    assert stream.read(2) + stream.read() == b"bcdef"
    assert sum(taken) == 6


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_rows_or_an_error_of_ours(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.csv", "a.json", "a.ndjson", "a.parquet", "a.arrow"):
        for table in (COLUMNS, None):
            with contextlib.suppress(DistributaryError):
                rows_of(written(folder, name, content), table)
