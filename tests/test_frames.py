"""Arrow to pandas, Polars and DuckDB, and what is said when one of them is not installed."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from distributary import frames

TABLE = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def test_to_pandas_gives_the_rows():
    frame = frames.to_pandas(TABLE)
    assert list(frame["id"]) == [1, 2, 3]
    assert frame["name"].isna().tolist() == [False, True, False]


def test_to_polars_gives_the_rows():
    assert frames.to_polars(TABLE).to_dicts() == TABLE.to_pylist()


def test_to_duckdb_without_connection_uses_the_default_one():
    assert frames.to_duckdb(TABLE).filter("id > 1").fetchall() == [(2, None), (3, "c")]


def test_to_duckdb_with_a_connection_can_be_joined_there():
    import duckdb

    with duckdb.connect() as connection:
        relation = frames.to_duckdb(TABLE, connection)
        assert relation.aggregate("sum(id)").fetchall() == [(6,)]


def test_to_duckdb_of_a_reader_streams_it():
    assert frames.to_duckdb(TABLE.to_reader(max_chunksize=1)).aggregate("count(*)").fetchall() == [(3,)]


@pytest.mark.parametrize("extra", ["pandas", "polars", "duckdb"])
def test_missing_library_is_an_error_that_names_the_extra(extra):
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {extra!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import pyarrow as pa\n"
        "from distributary import frames, errors\n"
        f"try: frames.to_{extra}(pa.table({{'id': [1]}}))\n"
        "except errors.MissingExtraError as error: print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install 'distributary[{extra}]'" in answer.stdout
