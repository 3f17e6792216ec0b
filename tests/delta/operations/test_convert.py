"""A directory of Parquet files becomes a Delta table in place."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distributary as ds
from distributary.delta.errors import (
    DataFileError,
    InvalidPartitionValueError,
    SchemaMismatchError,
    TableExistsError,
)
from distributary.delta.operations.convert import plan_convert
from distributary.delta.schema.data_types import DATE
from distributary.errors import InvalidInputError
from distributary.storage.object_store import open_store


def write(path: Path, **columns: list[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_files_become_rows_with_statistics(tmp_path: Path) -> None:
    """LR-003: files at the root and in subdirectories, hidden ones left out."""
    write(tmp_path / "a.parquet", id=[1, 2], x=[1.5, float("nan")])
    write(tmp_path / "deep" / "b c%.parquet", id=[3], x=[2.5])
    write(tmp_path / "_hidden" / "c.parquet", id=[9], x=[9.0])
    table = ds.DeltaTable.convert(tmp_path)
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == [1, 2, 3]
    assert table.snapshot().count("id >= 3") == 1
    assert table.snapshot().files("id > 2").num_rows == 1
    assert table.history()[0].operation == "CONVERT"


def test_partition_directories_become_columns(tmp_path: Path) -> None:
    """PV-001, LW-007: values are decoded, null is null, and types are checked."""
    write(tmp_path / "day=2024-01-31" / "place=a%20b" / "x.parquet", id=[1])
    write(tmp_path / "day=__HIVE_DEFAULT_PARTITION__" / "place=c" / "x.parquet", id=[2])
    table = ds.DeltaTable.convert(tmp_path, partition_types={"day": DATE})
    found = table.snapshot().to_arrow().sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "day": datetime.date(2024, 1, 31), "place": "a b"},
        {"id": 2, "day": None, "place": "c"},
    ]


def test_later_files_may_add_columns_but_not_change_types(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", id=[1])
    write(tmp_path / "b.parquet", id=[2], note=["x"])
    store = open_store(str(tmp_path))
    assert plan_convert(store).schema.names == ("id", "note")
    write(tmp_path / "c.parquet", id=["text"])
    with pytest.raises(SchemaMismatchError, match=r"c\.parquet"):
        plan_convert(store)


@pytest.mark.parametrize("case", ["empty", "table", "damaged", "uneven", "unknown", "both", "value"])
def test_directories_that_cannot_be_converted_are_refused(case: str, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    types = {"nope": DATE} if case == "unknown" else {"day": DATE} if case == "value" else None
    expected: type[Exception] = InvalidInputError
    if case == "table":
        ds.DeltaTable.create(tmp_path, pa.schema({"id": pa.int64()}))
        expected = TableExistsError
    elif case == "damaged":
        (tmp_path / "a.parquet").write_bytes(b"PAR1")
        expected = DataFileError
    elif case == "uneven":
        write(tmp_path / "a.parquet", id=[1])
        write(tmp_path / "day=1" / "b.parquet", id=[1])
    elif case == "both":
        write(tmp_path / "id=1" / "b.parquet", id=[1])
    elif case == "value":
        write(tmp_path / "day=nonsense" / "b.parquet", id=[1])
        expected = InvalidPartitionValueError
    elif case == "unknown":
        write(tmp_path / "a.parquet", id=[1])
    with pytest.raises(expected):
        ds.DeltaTable.convert(tmp_path, partition_types=types)
    assert case == "table" or not list(store.list_from("_delta_log"))
