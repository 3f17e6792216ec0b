"""Clones: shallow ones share files, deep ones stand on their own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.delta.errors import TableExistsError
from distributary.delta.operations.clone import plan_clone
from distributary.errors import InvalidInputError, PathOutsideTableError

DATA = pa.table({"id": [1, 2, 3], "place name": ["a b", "c%d", None]})


@pytest.fixture
def source(tmp_path: Path) -> ds.DeltaTable:
    properties = {"delta.columnMapping.mode": "name"}
    table = ds.DeltaTable.create(
        tmp_path / "the source", DATA.schema, partition_by=["place name"], properties=properties
    )
    table.append(DATA)
    table.append(pa.table({"id": [4], "place name": ["e"]}))
    return table


def content(table: ds.DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.snapshot().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_deep_clone_reads_the_same_after_its_source_is_gone(source: ds.DeltaTable, tmp_path: Path) -> None:
    """LR-055: a deep clone holds everything it needs."""
    expected = content(source)
    clone = source.clone(tmp_path / "copy")
    shutil.rmtree(tmp_path / "the source")
    assert content(clone) == expected
    assert clone.snapshot().metadata.id != source.store.root


def test_shallow_clone_shares_files_and_takes_writes_of_its_own(
    source: ds.DeltaTable, tmp_path: Path
) -> None:
    clone = source.clone(tmp_path / "copy", shallow=True)
    assert not list((tmp_path / "copy").rglob("*.parquet"))
    assert content(clone) == content(source)
    clone.append(pa.table({"id": [5], "place name": ["f"]}))
    assert [row["id"] for row in content(clone)] == [1, 2, 3, 4, 5]
    assert [row["id"] for row in content(source)] == [1, 2, 3, 4]


def test_shallow_clone_opened_without_its_source_allowed_is_refused(
    source: ds.DeltaTable, tmp_path: Path
) -> None:
    """A log that names files elsewhere is not believed unless the caller says so."""
    source.clone(tmp_path / "copy", shallow=True)
    with pytest.raises(PathOutsideTableError):
        ds.DeltaTable(tmp_path / "copy").snapshot().to_arrow()
    opened = ds.DeltaTable(tmp_path / "copy", allowed_roots=[source.uri])
    assert content(opened) == content(source)


@pytest.mark.parametrize("shallow", [True, False])
def test_older_version_can_be_cloned(source: ds.DeltaTable, tmp_path: Path, shallow: bool) -> None:
    clone = source.clone(tmp_path / "copy", shallow=shallow, version=1)
    assert [row["id"] for row in content(clone)] == [1, 2, 3]


@pytest.mark.parametrize("shallow", [True, False])
@pytest.mark.parametrize(
    "name",
    ["spark__table-with-dv-small", "spark__partitioned-table-with-dv-large", "kernelrs__with-short-dv"],
)
def test_deletion_vectors_go_along(name: str, shallow: bool, delta_tables: Any, tmp_path: Path) -> None:
    shutil.copytree(delta_tables.tables / name, tmp_path / "source")
    source = ds.DeltaTable(tmp_path / "source")
    expected = source.snapshot().to_arrow()
    clone = source.clone(tmp_path / "copy", shallow=shallow)
    if not shallow:
        shutil.rmtree(tmp_path / "source")
    found = clone.snapshot().to_arrow()
    key = found.column_names[0]
    assert found.sort_by(key).equals(expected.sort_by(key))


def test_clone_onto_itself_or_onto_a_table_is_refused(source: ds.DeltaTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="itself"):
        plan_clone(source.snapshot().state, source.store, shallow=True)
    ds.DeltaTable.create(tmp_path / "other", pa.schema({"id": pa.int64()}))
    with pytest.raises(TableExistsError):
        source.clone(tmp_path / "other")
