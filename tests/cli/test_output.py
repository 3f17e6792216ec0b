"""Rows in every output format: exact values, streams, files that appear only when complete."""

from __future__ import annotations

import datetime
import io
import json
import math
from decimal import Decimal

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from distributary.cli.output import FORMATS, json_rows, output_options, write_rows
from distributary.cli.text_table import cell_text, write_text_table
from distributary.errors import InvalidInputError

ROWS = pa.table(
    {
        "text": pa.array(["x", None, 'a "b"\nc']),
        "amount": pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(10, 2)),
        "number": pa.array([1.5, math.nan, -math.inf]),
        "moment": pa.array([-70_000_000_000_000_000, 0, None], pa.timestamp("us", "UTC")),
        "day": pa.array([-800_000, 0, None], pa.date32()),
        "bytes": pa.array([b"\x00\xff", b"", None]),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"x": [datetime.date(2020, 1, 1)]}, None, {"x": None}]),
        "nothing": pa.nulls(3),
    }
)


@click.command()
@output_options
def show(format, output):
    write_rows(ROWS, format, output)


def written(*arguments: str) -> bytes:
    result = CliRunner().invoke(show, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout_bytes


EXPECTED_JSON = [
    {
        "text": "x",
        "amount": "1.20",
        "number": 1.5,
        "moment": "-0249-10-15T19:33:20.000000Z",
        "day": "-0221-09-04",
        "bytes": "AP8=",
        "map": [["k", 1]],
        "struct": {"x": ["2020-01-01"]},
        "nothing": None,
    },
    {
        "text": None,
        "amount": None,
        "number": "NaN",
        "moment": "1970-01-01T00:00:00.000000Z",
        "day": "1970-01-01",
        "bytes": "",
        "map": None,
        "struct": None,
        "nothing": None,
    },
    {
        "text": 'a "b"\nc',
        "amount": "-3.00",
        "number": "-Infinity",
        "moment": None,
        "day": None,
        "bytes": None,
        "map": [],
        "struct": {"x": None},
        "nothing": None,
    },
]


def test_json_is_one_array_of_exact_values():
    assert json.loads(written("-o", "json")) == EXPECTED_JSON


def test_ndjson_is_one_row_a_line():
    lines = written("-o", "ndjson").decode().splitlines()
    assert [json.loads(line) for line in lines] == EXPECTED_JSON


def test_json_of_no_rows_is_an_empty_array(capfdbinary):
    write_rows(ROWS.slice(0, 0), "json")
    assert json.loads(capfdbinary.readouterr().out) == []


def test_csv_tells_null_from_empty_text():
    lines = written("-o", "csv").decode().splitlines()
    assert lines[0] == '"text","amount","number","moment","day","bytes","map","struct","nothing"'
    assert lines[2].startswith(",,nan,1970-01-01 00:00:00.000000Z,1970-01-01,")
    assert '"[[""k"",1]]","{""x"":[""2020-01-01""]}"' in lines[1]
    assert ',"",' in lines[2]


def test_csv_of_no_rows_has_a_header(capfdbinary):
    write_rows(ROWS.slice(0, 0), "csv")
    assert capfdbinary.readouterr().out.startswith(b'"text","amount"')


def test_parquet_on_stdout_reads_back_the_same():
    table = pq.read_table(pa.BufferReader(written("-o", "parquet")))
    assert table.schema == ROWS.schema
    assert table.drop_columns("number").equals(ROWS.drop_columns("number"))


def test_table_piped_is_plain_and_never_cut():
    lines = written().decode().splitlines()
    assert lines[0].split() == ROWS.column_names
    assert "-0249-10-15T19:33:20.000000Z" in lines[2]
    assert 'a "b"\\nc' in lines[4]
    assert "NULL" in lines[3]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_table_on_a_terminal_fits_its_width(width):
    sink = io.BytesIO()
    write_text_table(ROWS, sink, width=width)
    assert max(len(line) for line in sink.getvalue().decode().splitlines()) <= width


def test_text_with_control_characters_is_shown_escaped():
    assert cell_text("\x1b[31mred\t") == "\\x1b[31mred\\t"


@given(st.text())
def test_any_text_in_a_table_stays_on_one_line_and_printable(text):
    assert cell_text(text).isprintable()


@pytest.mark.parametrize("format", FORMATS)
def test_reader_gives_the_same_output_as_its_table(format, tmp_path):
    write_rows(ROWS, format, tmp_path / "table")
    write_rows(ROWS.to_reader(max_chunksize=1), format, tmp_path / "reader")
    if format == "parquet":
        assert pq.read_table(tmp_path / "reader").num_rows == pq.read_table(tmp_path / "table").num_rows
    elif format == "arrow":  # the batches differ
        read, whole = (pa.ipc.open_stream((tmp_path / name).read_bytes()) for name in ("reader", "table"))
        assert str(read.read_all().combine_chunks()) == str(whole.read_all().combine_chunks())
    elif format == "table":
        assert (tmp_path / "reader").read_text().splitlines()[2].split()[0] == "x"
    else:
        assert (tmp_path / "reader").read_bytes() == (tmp_path / "table").read_bytes()


def test_output_file_is_left_alone_when_reading_fails(tmp_path):
    def batches():
        yield ROWS.to_batches()[0]
        raise InvalidInputError("cut")

    target = tmp_path / "rows.csv"
    target.write_text("before")
    with pytest.raises(InvalidInputError, match="cut"):
        write_rows(pa.RecordBatchReader.from_batches(ROWS.schema, batches()), "csv", target)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_output_file_in_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot write"):
        write_rows(ROWS, "csv", tmp_path / "no" / "rows.csv")


def test_parquet_on_a_terminal_is_refused(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(InvalidInputError, match="--output"):
        write_rows(ROWS, "parquet")


def test_rows_of_sliced_batches_are_those_of_the_slice():
    batch = ROWS.to_batches()[0].slice(1, 1)
    assert json_rows(batch) == EXPECTED_JSON[1:2]
