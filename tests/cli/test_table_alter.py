"""`distributary table alter | constraint | property`: every change, its dry run, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from distributary import DeltaTable
from distributary.cli.main import cli
from distributary.cli.table_property import GUIDE
from distributary.delta.table_properties import PROPERTIES

COLUMNS = "id int, name string, place struct<city:string>, day date"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["table", *map(str, arguments)])


def facts(*arguments: str | Path) -> dict:
    answer = run(*arguments, "-o", "json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "t"
    properties = [
        "--property",
        "delta.columnMapping.mode=name",
        "--property",
        "delta.enableTypeWidening=true",
    ]
    assert run("create", path, "--schema", COLUMNS, "--partition-by", "day", *properties).exit_code == 0
    (tmp_path / "rows.csv").write_text("id,name,day\n1,a,2024-01-01\n2,,2024-01-02\n")
    assert run("append", path, tmp_path / "rows.csv").exit_code == 0
    return path


def schema(table: Path) -> list[str]:
    return [str(field) for field in DeltaTable(table).snapshot().schema.fields]


CHANGES = [
    (
        ["add-column", "note", "array<string>", "--after", "id"],
        "note:array<string>",
        "columns: note array",
    ),
    (["add-column", "place.zip", "string"], "place:struct<city:string,zip:string>", "place.zip string"),
    (["rename-column", "name", "who"], "who:string", "RENAME COLUMN; oldColumnPath: name"),
    (["drop-column", "name"], None, "DROP COLUMNS; columns: name"),
    (["move-column", "place", "--first"], "place:struct<city:string>", "FIRST"),
    (["set-comment", "name", "who it is"], "name:string", "comment 'who it is'"),
    (["set-not-null", "id"], "id:integer not null", "after a look at every row"),
    (["widen", "id", "long"], "id:long", "CHANGE COLUMN; column: id long"),
    (["describe", "--description", "rows"], "id:integer", "comment = rows"),
    (["describe", "--name", "mine"], "id:integer", "name = mine"),
    (["add-feature", "allowColumnDefaults"], "id:integer", "allowColumnDefaults"),
]


@pytest.mark.parametrize(("arguments", "column", "says"), CHANGES)
def test_change_is_planned_and_then_made(table, arguments, column, says):
    name, *rest = arguments
    planned = run("alter", name, table, *rest, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert says in planned.stdout
    assert DeltaTable(table).version() == 1
    made = facts("alter", name, table, *rest)
    assert (made["version"], made["changed"], made["dryRun"]) == (2, True, False)
    assert column is None or column in schema(table)
    again = run("alter", name, table, *rest)
    assert "nothing to change" in again.stdout or again.exit_code in (1, 2)
    assert DeltaTable(table).version() == 2


def test_defaults_come_and_go(table):
    assert run("alter", "add-feature", table, "allowColumnDefaults").exit_code == 0
    assert facts("alter", "set-default", table, "name", "'nobody'")["version"] == 3
    assert DeltaTable(table).snapshot().schema.field("name").metadata["CURRENT_DEFAULT"] == "'nobody'"
    assert facts("alter", "set-default", table, "name")["version"] == 4
    assert "CURRENT_DEFAULT" not in DeltaTable(table).snapshot().schema.field("name").metadata


def test_not_null_and_comment_are_taken_back(table):
    run("alter", "set-not-null", table, "id")
    assert "let a column" not in run("alter", "set-nullable", table, "id").stdout
    assert "id:integer" in schema(table)
    run("alter", "set-comment", table, "id", "x")
    run("alter", "set-comment", table, "id", "")
    assert DeltaTable(table).snapshot().schema.field("id").comment is None


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["add-column", "{table}", "name", "string"], 1, "SCHEMA_MISMATCH"),
        (["add-column", "{table}", "x", "lnog"], 2, "lnog"),
        (["add-column", "{table}", "x", "int", "--first", "--after", "id"], 2, "not both"),
        (["add-column", "{table}", "x"], 2, "TYPE"),
        (["rename-column", "{table}", "nobody", "x"], 2, "nobody"),
        (["rename-column", "{table}", "name", "ID"], 1, "already"),
        (["drop-column", "{table}", "day"], 1, "partitioned by it"),
        (["drop-column", "{table}"], 2, "COLUMN"),
        (["move-column", "{table}", "nobody"], 2, "nobody"),
        (["set-comment", "{table}", "nobody", "x"], 2, "nobody"),
        (["set-not-null", "{table}", "name"], 1, "NOT_NULL_VIOLATION"),
        (["set-nullable", "{table}", "nobody"], 2, "nobody"),
        (["widen", "{table}", "id", "string"], 1, "SCHEMA_MISMATCH"),
        (["set-default", "{table}", "name", "nonsense("], 1, "nonsense"),
        (["add-feature", "{table}", "teleport"], 1, "teleport"),
        (["describe", "{table}"], 2, "--name or --description"),
        (["describe", "{table}x", "--name", "y"], 3, "TABLE_NOT_FOUND"),
    ],
)
def test_bad_change_is_a_clear_error_with_its_exit_code(table, arguments, exit_code, says):
    answer = run("alter", *(text.format(table=table) for text in arguments))
    assert (answer.exit_code, answer.stdout) == (exit_code, ""), answer.output
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert DeltaTable(table).version() == 1


def test_constraints_are_added_listed_and_dropped(table, tmp_path):
    assert run("constraint", "add", table, "positive", "id > 0", "--dry-run").exit_code == 0
    assert facts("constraint", "add", table, "positive", "id > 0")["version"] == 2
    run("alter", "set-not-null", table, "id")
    listed = json.loads(run("constraint", "list", table, "-o", "json").stdout)
    assert listed == [
        {"kind": "check", "name": "positive", "expression": "id > 0"},
        {"kind": "not null", "name": "id", "expression": "id IS NOT NULL"},
    ]
    (tmp_path / "bad.csv").write_text("id\n-1\n")
    broken = run("append", table, tmp_path / "bad.csv")
    assert broken.exit_code == 1
    assert broken.stderr.startswith("CONSTRAINT_VIOLATION: ")
    assert facts("constraint", "drop", table, "positive")["version"] == 4
    assert "nothing to change" in run("constraint", "drop", table, "positive", "--if-exists").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["add", "{table}", "x", "id > 1"], 1, "CONSTRAINT_VIOLATION"),
        (["add", "{table}", "x", "id >"], 2, "INVALID_PREDICATE"),
        (["add", "{table}", "x", "nobody > 1"], 2, "UNKNOWN_COLUMN"),
        (["add", "{table}", "a b", "id > 0"], 2, "name for a constraint"),
        (["drop", "{table}", "nobody"], 2, "no constraint nobody"),
        (["list", "{table}x"], 3, "TABLE_NOT_FOUND"),
    ],
)
def test_bad_constraint_is_a_clear_error(table, arguments, exit_code, says):
    answer = run("constraint", *(text.format(table=table) for text in arguments))
    assert (answer.exit_code, answer.stdout) == (exit_code, "")
    assert says in answer.stderr


def test_properties_are_set_listed_and_unset(table):
    assert run("property", "set", table, "owner=me", "--dry-run").exit_code == 0
    assert facts("property", "set", table, "owner=me", "delta.CheckpointInterval=20")["version"] == 2
    rows = list(csv.DictReader(io.StringIO(run("property", "list", table, "-o", "csv").stdout)))
    found = {row["property"]: row for row in rows}
    assert found["owner"]["value"] == "me"
    interval = found["delta.checkpointInterval"]
    assert (interval["value"], interval["default"]) == ("20", "10")
    assert "delta.appendOnly" not in found
    assert facts("property", "unset", table, "owner")["version"] == 3
    assert "nothing to change" in run("property", "unset", table, "owner", "--if-exists").stdout


def test_property_list_explains_every_property(table):
    assert set(GUIDE) == set(PROPERTIES)
    rows = json.loads(run("property", "list", table, "--all", "-o", "json").stdout)
    found = {row["property"]: row for row in rows}
    assert set(PROPERTIES) <= set(found)
    assert found["delta.logRetentionDuration"]["default"] == "interval 30 days"
    assert found["delta.columnMapping.mode"]["value"] == "name"
    assert all(row["what_it_does"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["set", "{table}", "owner"], 2, "KEY=VALUE"),
        (["set", "{table}", "delta.chekpointInterval=5"], 2, "Did you mean delta.checkpointInterval"),
        (["set", "{table}", "delta.checkpointInterval=often"], 2, "whole number"),
        (["set", "{table}", "delta.columnMapping.mode=id"], 2, "cannot go from name to id"),
        (["set", "{table}", "delta.columnMapping.maxColumnId=1"], 2, "kept by the table"),
        (["unset", "{table}", "nobody"], 2, "no property nobody"),
        (["list", "{table}x"], 3, "TABLE_NOT_FOUND"),
    ],
)
def test_bad_property_is_a_clear_error(table, arguments, exit_code, says):
    answer = run("property", *(text.format(table=table) for text in arguments))
    assert (answer.exit_code, answer.stdout) == (exit_code, "")
    assert says in answer.stderr
