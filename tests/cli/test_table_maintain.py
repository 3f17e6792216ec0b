"""`distributary table checkpoint | vacuum | restore | analyze | clone | convert`: plans, deeds, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from distributary import DeltaTable
from distributary.cli import progress
from distributary.cli import result as result_module
from distributary.cli.main import cli


def run(*arguments: str | Path, input: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["table", *map(str, arguments)], input=input)


def facts(*arguments: str | Path) -> dict:
    answer = run(*arguments, "-o", "json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def table(tmp_path) -> Path:
    """Version 1 has a file of rows 0 and 1, version 2 has another with row 2 in its place."""
    path = tmp_path / "t"
    made = DeltaTable.create(path, pa.schema([("n", pa.int64())]))
    made.append(pa.table({"n": [0, 1]}))
    made.overwrite(pa.table({"n": [2]}))
    return path


def values(table: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(table).snapshot(version).to_arrow().column("n").to_pylist())


def data_files(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


def test_checkpoint_of_each_kind(table):
    found = facts("checkpoint", table)
    assert (found["kind"], found["version"], found["files"], found["written"]) == ("single", 2, 1, True)
    assert all((table / path).is_file() for path in found["paths"])
    assert "there already" in run("checkpoint", table).stdout
    assert len(facts("checkpoint", table, "--kind", "multi-part", "--parts", "2")["paths"]) == 2
    refused = run("checkpoint", table, "--kind", "v2")
    assert refused.exit_code != 0
    assert "v2Checkpoint" in refused.stderr
    run("alter", "add-feature", table, "v2Checkpoint")
    assert facts("checkpoint", table, "--kind", "v2")["kind"] == "v2"
    assert values(table) == [2]


def test_vacuum_plans_first_and_keeps_what_is_promised(table):
    plan = run("vacuum", table, "--dry-run")
    assert "0 files (0 bytes)" in plan.stdout
    assert run("vacuum", table).stdout == "0 files deleted, 2 stay\n"
    refused = run("vacuum", table, "--retention", "0 hours")
    assert refused.exit_code == 2
    assert "promises" in refused.stderr
    planned = facts("vacuum", table, "--retention", "0 hours", "--force", "--dry-run")
    assert (planned["files"], len(planned["paths"]), planned["dryRun"]) == (1, 1, True)
    assert data_files(table) == 2
    done = facts("vacuum", table, "--retention", "interval 0 hours", "--force", "--yes")
    assert (done["deleted"], done["failed"], data_files(table)) == (1, [], 1)
    assert values(table) == [2]


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "command", [["vacuum", "--retention", "0 hours", "--force"], ["restore", "--to-version", "1"]]
)
def test_what_cannot_be_undone_is_asked_about_on_a_terminal(table, monkeypatch, command):
    monkeypatch.setattr(result_module, "sys", type("sys", (), {"stdin": Terminal()}))
    name, *rest = command
    answer = run(name, table, *rest, input="n\n")
    assert answer.exit_code == 130
    assert "[y/N]" in answer.stderr
    assert (values(table), data_files(table)) == ([2], 2)
    assert run(name, table, *rest, input="y\n").exit_code == 0


def test_vacuum_that_cannot_delete_says_so(table, monkeypatch):
    from distributary.errors import StorageError
    from distributary.storage.local_disk import LocalDisk

    def refuse(self: object, path: str) -> None:
        raise StorageError(f"{path} is held")

    monkeypatch.setattr(LocalDisk, "delete", refuse)
    answer = run("vacuum", table, "--retention", "0 hours", "--force")
    assert answer.exit_code == 1
    assert "could not be deleted" in answer.stderr


def test_restore_is_planned_and_then_made(table):
    plan = run("restore", table, "--to-version", "1", "--dry-run")
    assert "brings back 1 files, removes 1" in plan.stdout
    assert DeltaTable(table).version() == 2
    done = facts("restore", table, "--to-version", "1")
    assert (done["version"], done["restoredVersion"]) == (3, 1)
    assert values(table) == [0, 1]
    moment = DeltaTable(table).history()[1].timestamp / 1000
    import datetime

    text = datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat()
    assert facts("restore", table, "--to-timestamp", text)["version"] == 4
    assert values(table) == [2]


def test_restore_of_files_that_are_gone_needs_leave(table):
    run("vacuum", table, "--retention", "0 hours", "--force")
    refused = run("restore", table, "--to-version", "1")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("DATA_FILE_ERROR: ")
    assert len(facts("restore", table, "--to-version", "1", "--dry-run")["missing"]) == 1
    assert run("restore", table, "--to-version", "1", "--ignore-missing").exit_code == 0
    assert values(table) == []


def test_analyze_only_where_statistics_are_missing(table):
    assert "0 of 1 files" in run("analyze", table).stdout
    assert facts("analyze", table)["changed"] is False
    planned = facts("analyze", table, "--all", "--dry-run")
    assert (planned["files"], planned["changed"], planned["version"]) == (1, False, 2)
    done = facts("analyze", table, "--all")
    assert (done["changed"], done["version"]) == (True, 3)


def test_clone_deep_and_shallow(table, tmp_path):
    plan = run("clone", table, tmp_path / "deep", "--dry-run")
    assert "deep clone" in plan.stdout
    assert not (tmp_path / "deep").exists()
    assert facts("clone", table, tmp_path / "deep", "--version", "1")["sourceVersion"] == 1
    assert values(tmp_path / "deep") == [0, 1]
    assert facts("clone", table, tmp_path / "shallow", "--shallow")["shallow"] is True
    assert run("count", tmp_path / "shallow", "--allow-root", table).stdout == "1\n"
    assert not list((tmp_path / "shallow").glob("*.parquet"))


def test_convert_makes_a_table_in_place(tmp_path):
    folder = tmp_path / "events" / "day=2024-01-01"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), folder / "a.parquet")
    events = tmp_path / "events"
    plan = run("convert", events, "--partition-type", "day=date", "--dry-run")
    assert "1 Parquet files" in plan.stdout
    assert not (events / "_delta_log").exists()
    done = facts("convert", events, "--partition-type", "day=date", "--name", "events")
    assert (done["version"], done["partitionColumns"]) == (0, ["day"])
    assert str(DeltaTable(events).snapshot().schema) == "struct<n:long,day:date>"
    assert run("convert", events).exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["checkpoint", "{folder}/nothing"], 3, "TABLE_NOT_FOUND"),
        (["checkpoint", "{table}", "--kind", "double"], 2, "double"),
        (["checkpoint", "{table}", "--parts", "0"], 2, "--parts"),
        (["vacuum", "{folder}/nothing"], 3, "TABLE_NOT_FOUND"),
        (["vacuum", "{table}", "--retention", "never"], 2, "--retention"),
        (["vacuum", "{table}", "--retention", "1 month", "--force"], 2, "use days"),
        (["restore", "{table}"], 2, "--to-version or --to-timestamp"),
        (["restore", "{table}", "--to-version", "1", "--to-timestamp", "2024-01-01"], 2, "one of them"),
        (["restore", "{table}", "--to-version", "99"], 3, "VERSION_NOT_FOUND"),
        (["restore", "{table}", "--to-timestamp", "yesterday"], 2, "ISO 8601"),
        (["restore", "{table}", "--to-timestamp", "1999-01-01"], 3, "VERSION_NOT_FOUND"),
        (["analyze", "{folder}/nothing"], 3, "TABLE_NOT_FOUND"),
        (["clone", "{table}"], 2, "TARGET"),
        (["clone", "{table}", "{table}"], 2, "onto itself"),
        (["clone", "{folder}/nothing", "{folder}/copy"], 3, "TABLE_NOT_FOUND"),
        (["clone", "{table}", "{folder}/copy", "--version", "9"], 3, "VERSION_NOT_FOUND"),
        (["clone", "{table}", "{folder}/copy", "--version", "1", "--timestamp", "2024-01-01"], 2, "not both"),
        (["convert", "{folder}/nothing"], 2, "no Parquet files"),
        (["convert", "{table}"], 5, "TABLE_EXISTS"),
        (["convert", "{table}", "--partition-type", "day"], 2, "KEY=VALUE"),
        (["convert", "{table}", "--partition-type", "day=moon"], 2, "moon"),
    ],
)
def test_bad_input_is_a_clear_error_with_its_exit_code(table, tmp_path, arguments, exit_code, says):
    answer = run(*(text.format(table=table, folder=tmp_path) for text in arguments))
    assert (answer.exit_code, answer.stdout) == (exit_code, ""), answer.output
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert DeltaTable(table).version() == 2


def test_bar_is_shown_on_a_terminal_only(monkeypatch):
    import io

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((io.StringIO(), False), (Screen(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.bar("working", 10) as advance:
            advance(10)
        assert bool(stream.getvalue()) is shown
