"""The sample table of the demo: its log, its files and its rows agree, as other eyes than ours see them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq

from distributary.cli.sample_table import FIRST_COMMIT, make_sample_table


def actions(path: Path, version: int) -> list[dict]:
    return [
        json.loads(line) for line in (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    ]


def test_sample_rows_in_files_are_those_it_says_every_version_has(tmp_path):
    sample = make_sample_table(tmp_path / "orders")
    active: dict[str, dict] = {}
    for version, expected in enumerate(sample.rows_by_version):
        for action in actions(sample.path, version):
            if "remove" in action:
                del active[action["remove"]["path"]]
            if "add" in action:
                active[action["add"]["path"]] = action["add"]
        read = [row for add in active.values() for row in rows_of(sample.path, add)]
        assert sorted(read, key=by_id) == sorted((dict(row) for row in expected), key=by_id)


def rows_of(path: Path, add: dict) -> list[dict]:
    table = pq.ParquetFile(path / add["path"]).read()
    assert json.loads(add["stats"])["numRecords"] == table.num_rows
    assert add["size"] == (path / add["path"]).stat().st_size
    return [{**row, **add["partitionValues"]} for row in table.to_pylist()]


def by_id(row: dict) -> int:
    return row["order_id"]


def test_sample_is_the_same_on_every_run(tmp_path):
    first, second = make_sample_table(tmp_path / "a"), make_sample_table(tmp_path / "b")
    assert first.rows_by_version == second.rows_by_version


def test_sample_commit_files_have_the_time_of_their_commit(tmp_path):
    sample = make_sample_table(tmp_path / "orders")
    commit = sample.path / "_delta_log" / f"{0:020d}.json"
    assert datetime.fromtimestamp(commit.stat().st_mtime, FIRST_COMMIT.tzinfo) == FIRST_COMMIT
