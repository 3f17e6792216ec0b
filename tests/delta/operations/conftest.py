"""What the tests of writing share: the place of a table, and another engine that reads it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


class Place(type(Path())):
    """The directory of a table, with looks at what lies in it."""

    def entries(self, version: int) -> list[dict[str, Any]]:
        """The actions of a commit as the log has them."""
        text = (self / "_delta_log" / f"{version:020d}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def data_files(self) -> set[str]:
        """Every data file, committed or not, and whatever else was left beside the log."""
        files = (path for path in self.rglob("*") if path.is_file() and "_delta_log" not in path.parts)
        return {str(path.relative_to(self)) for path in files}

    @staticmethod
    def plain(rows: pa.Table) -> list[dict[str, Any]]:
        """Rows as Python values in the order of `id`; NaN is a word, pairs of maps are dictionaries."""
        found = [{name: _plain(value) for name, value in sorted(row.items())} for row in rows.to_pylist()]
        return sorted(found, key=lambda row: row["id"])


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"key": value[0], "value": _plain(value[1])}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where a test's table goes."""
    return Place(tmp_path / "table")


_PEER = """
import sys, polars as pl
from deltalake import DeltaTable, QueryBuilder
rows = QueryBuilder().register("t", DeltaTable(sys.argv[1])).execute("select * from t").read_all()
pl.DataFrame(rows).write_ipc(sys.argv[2])
"""


@pytest.fixture
def deltalake_reads(peer_python: Path, tmp_path: Path) -> Callable[[Path], pa.Table]:
    """Reads a table with deltalake, in an environment of its own."""

    def read(table: Path) -> pa.Table:
        output = tmp_path / "peer.arrow"
        subprocess.run([str(peer_python), "-c", _PEER, str(table), str(output)], check=True, timeout=120)
        return pa.ipc.open_file(output).read_all()

    return read
