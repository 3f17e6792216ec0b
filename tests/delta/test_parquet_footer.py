"""The footer parser says the same as pyarrow, and never does worse than refuse."""

from __future__ import annotations

import contextlib
from pathlib import Path

import hypothesis.strategies as st
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from distributary.delta.parquet_footer import (
    InvalidFooterError,
    ParquetFooter,
    footer_length,
    parse_footer,
    sound_footer,
)


def footer_of(data: bytes) -> bytes:
    length = footer_length(data[-8:])
    return data[len(data) - 8 - length : len(data) - 8]


def check_same(footer: ParquetFooter, metadata: pq.FileMetaData) -> None:
    assert footer.num_rows == metadata.num_rows
    assert len(footer.groups) == metadata.num_row_groups
    assert [".".join(column.path) for column in footer.columns] == [
        metadata.schema.column(at).path for at in range(metadata.num_columns)
    ]
    for number, group in enumerate(footer.groups):
        expected = metadata.row_group(number)
        assert group.num_rows == expected.num_rows
        for at, chunk in enumerate(group.chunks):
            column = expected.column(at)
            statistics = column.statistics
            assert ".".join(chunk.path) == column.path_in_schema
            assert (chunk.num_values, chunk.size) == (column.num_values, column.total_compressed_size)
            assert chunk.null_count == (
                statistics.null_count if statistics is not None and statistics.has_null_count else None
            )
            assert chunk.uncompressed_size == column.total_uncompressed_size
            assert chunk.has_dictionary_page == column.has_dictionary_page
            assert (chunk.statistics is None) == (statistics is None)
            if chunk.statistics is not None and chunk.statistics.has_min_max:
                told = (chunk.statistics.min_raw, chunk.statistics.max_raw)
                assert repr(told) == repr((statistics.min_raw, statistics.max_raw))
            elif statistics is not None and column.physical_type != "BOOLEAN":
                assert not statistics.has_min_max
            assert footer.columns[at].repeated == (metadata.schema.column(at).max_repetition_level > 0)


def test_footers_of_many_writers_say_the_same_as_pyarrow(delta_tables) -> None:
    """Every data file, checkpoint and sidecar of the corpus, from a dozen versions of five writers."""
    paths = sorted(delta_tables.tables.glob("**/*.parquet"))
    sound = [path for path in paths if path.read_bytes()[-4:] == b"PAR1"]
    assert len(sound) > 1000
    for path in sound:
        check_same(sound_footer(pa.OSFile(str(path))), pq.read_metadata(path))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path: Path = tmp_path_factory.mktemp("footer") / "x.parquet"
    table = pa.table({"a": [1, None, 3], "b": [["x"], [], None], "c": [{"d": 1.5}, None, {"d": None}]})
    pq.write_table(table, path, row_group_size=2)
    return footer_of(path.read_bytes())


@given(st.data())
@settings(max_examples=500)
def test_damaged_footers_are_parsed_or_refused(sample: bytes, data: st.DataObject) -> None:
    """Flips, cuts and insertions: a footer or InvalidFooterError, nothing else."""
    damaged = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "set"])):
            case "flip":
                damaged[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del damaged[at : at + data.draw(st.integers(1, 20))]
            case "insert":
                damaged[at:at] = data.draw(st.binary(min_size=1, max_size=10))
            case _:
                damaged[at] = data.draw(st.integers(0, 255))
        if not damaged:
            break
    try:
        footer = parse_footer(bytes(damaged))
    except InvalidFooterError:
        return
    assert isinstance(footer.num_rows, int)


@given(st.binary(max_size=300))
def test_random_bytes_are_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidFooterError):
        parse_footer(data)


@pytest.mark.parametrize("tail", [b"", b"PAR1", b"\0\0\0\0PARE", b"x" * 8])
def test_other_endings_are_no_parquet_file(tail: bytes) -> None:
    with pytest.raises(InvalidFooterError):
        footer_length(tail)


def test_bound_of_the_wrong_size_is_refused(sample: bytes) -> None:
    """pyarrow would end the process here."""
    chunk = parse_footer(sample).groups[0].chunks[0]
    assert chunk.statistics is not None
    cut = msgspec.structs.replace(chunk.statistics, stored_minimum=b"\1\0\0")
    with pytest.raises(InvalidFooterError, match="3 bytes"):
        _ = cut.min_raw


def test_footer_that_contradicts_itself_has_a_problem(sample: bytes) -> None:
    footer = parse_footer(sample)
    assert footer.problem() is None
    first, *others = footer.groups
    fewer = msgspec.structs.replace(first, chunks=first.chunks[1:])
    assert "add up" in str(msgspec.structs.replace(footer, num_rows=4).problem())
    assert "other columns" in str(msgspec.structs.replace(footer, groups=(fewer, *others)).problem())
