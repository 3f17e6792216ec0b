"""`distributary table create | append | overwrite`: real tables, real pipes, honest exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from distributary import DeltaTable
from distributary.cli import result as result_module
from distributary.cli.main import cli
from distributary.delta.schema.data_types import schema_to_json

PROGRAM = [sys.executable, "-m", "distributary.cli.main", "table"]
COLUMNS = "id long not null comment 'the key', name string, amount decimal(10,2), day date"


def run(*arguments: str | Path, input: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["table", *map(str, arguments)], input=input)


def facts(*arguments: str | Path, input: str | bytes | None = None) -> dict:
    answer = run(*arguments, "-o", "json", input=input)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def rows(table: Path) -> list[dict]:
    return sorted(DeltaTable(table).snapshot().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def orders(tmp_path) -> Path:
    table = tmp_path / "orders"
    assert run("create", table, "--schema", COLUMNS, "--partition-by", "day").exit_code == 0
    return table


@pytest.fixture
def csv(tmp_path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("id,name,amount,day\n1,a,1.50,2024-01-01\n2,,2,2024-01-02\n")
    return path


def test_create_makes_what_was_asked_for(tmp_path):
    table = tmp_path / "t"
    options = ["--partition-by", "day", "--property", "delta.appendOnly=true", "--property", "owner=me"]
    answer = run("create", table, "--schema", COLUMNS, *options, "--name", "n", "--description", "d")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.startswith("created file://")
    snapshot = DeltaTable(table).snapshot()
    assert [str(field) for field in snapshot.schema.fields] == [
        "id:long not null",
        "name:string",
        "amount:decimal(10,2)",
        "day:date",
    ]
    assert snapshot.schema.field("id").comment == "the key"
    metadata = snapshot.metadata
    assert (metadata.name, metadata.description, metadata.partitioning) == ("n", "d", ("day",))
    assert metadata.properties["delta.appendOnly"] == "true"
    assert metadata.properties["owner"] == "me"


def test_create_takes_a_schema_from_json_and_from_files(tmp_path, orders, csv):
    schema = DeltaTable(orders).snapshot().schema
    text = schema_to_json(schema)
    (tmp_path / "schema.json").write_text(text)
    (tmp_path / "schema.txt").write_text(COLUMNS)
    for number, given in enumerate((text, tmp_path / "schema.json", tmp_path / "schema.txt")):
        assert run("create", tmp_path / f"t{number}", "--schema", given).exit_code == 0
        assert DeltaTable(tmp_path / f"t{number}").snapshot().schema == schema
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), tmp_path / "like.parquet")
    for like, expected in ((tmp_path / "like.parquet", "struct<n:integer>"), (csv, None)):
        assert run("create", tmp_path / f"like_{like.suffix[1:]}", "--like", like).exit_code == 0
        found = str(DeltaTable(tmp_path / f"like_{like.suffix[1:]}").snapshot().schema)
        assert found == (expected or "struct<id:long,name:string,amount:double,day:date>")


def test_create_where_there_is_a_table_is_a_conflict_unless_allowed(orders):
    answer = run("create", orders, "--schema", "other int")
    assert answer.exit_code == 5
    assert answer.stderr.startswith("TABLE_EXISTS: ")
    assert "--if-not-exists" in answer.stderr
    found = facts("create", orders, "--schema", "other int", "--if-not-exists")
    assert (found["created"], found["version"]) == (False, 0)


def test_create_as_a_dry_run_makes_nothing(tmp_path):
    answer = run("create", tmp_path / "t", "--schema", "id long, day timestamp_ntz", "--dry-run")
    assert "2 columns" in answer.stdout
    assert "timestampNtz" in answer.stdout
    assert not (tmp_path / "t").exists()


def test_append_says_what_it_wrote(orders, csv):
    answer = run("append", orders, csv)
    assert answer.stdout.startswith("version 1: 2 rows in 2 files, ")
    found = facts("append", orders, csv)
    assert (found["version"], found["rows"], found["files"], found["skipped"]) == (2, 2, 2, False)
    assert found["bytes"] > 0
    assert [str(row["amount"]) for row in rows(orders)] == ["1.50", "1.50", "2.00", "2.00"]


@pytest.mark.parametrize("format", ["csv", "json", "ndjson", "parquet"])
def test_append_takes_what_head_writes_through_a_pipe(orders, csv, tmp_path, format):
    """The rows of one table go to another through a pipe of two processes."""
    run("append", orders, csv)
    with (
        subprocess.Popen([*PROGRAM, "head", orders, "-o", format], stdout=subprocess.PIPE) as head,
        subprocess.Popen(
            [*PROGRAM, "append", tmp_path / "copy", "-", "--format", format, "--create", "-o", "json"],
            stdin=head.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as append,
    ):
        assert head.stdout is not None
        head.stdout.close()
        output, errors = append.communicate(timeout=60)
    assert (append.returncode, errors) == (0, b"")
    assert json.loads(output)["rows"] == 2
    assert [row["id"] for row in rows(tmp_path / "copy")] == [1, 2]


def test_append_of_an_arrow_stream_from_stdin(orders):
    sink = pa.BufferOutputStream()
    data = pa.table({"id": [7], "name": ["x"]})
    for opened in (pa.ipc.new_stream, pa.ipc.new_file):
        sink = pa.BufferOutputStream()
        with opened(sink, data.schema) as writer:
            writer.write_table(data)
        answer = run("append", orders, "-", "--format", "arrow", input=sink.getvalue().to_pybytes())
        assert answer.exit_code == 0, answer.output
    assert [row["id"] for row in rows(orders)] == [7, 7]


def test_append_of_several_files_is_one_commit(orders, csv, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("day,id,name,amount\n2024-01-03,3,c,3\n")
    assert facts("append", orders, csv, more)["version"] == 1
    assert [row["id"] for row in rows(orders)] == [1, 2, 3]


def test_append_with_a_bad_value_writes_nothing_and_names_the_line(orders, csv, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("id,name,amount,day\n3,,1,\n4,,much,\n")
    for files in ([bad], [csv, bad]):
        answer = run("append", orders, *files)
        assert answer.exit_code == 1
        assert answer.stderr.startswith(
            f"SCHEMA_MISMATCH: {bad}, line 3, column amount: 'much' is no decimal"
        )
    assert DeltaTable(orders).version() == 0
    assert not list(orders.glob("**/*.parquet"))


def test_append_obeys_the_rules_of_the_table(orders):
    answer = run("append", orders, "-", "--format", "ndjson", input='{"id":null}')
    assert answer.exit_code == 1
    assert answer.stderr.startswith("NOT_NULL_VIOLATION: ")


def test_append_with_new_columns_needs_leave(orders, tmp_path):
    wide = tmp_path / "wide.csv"
    wide.write_text("id,day,extra\n1,2024-01-01,007\n")
    answer = run("append", orders, wide)
    assert answer.exit_code == 1
    assert "--merge-schema" in answer.stderr
    assert run("append", orders, wide, "--merge-schema").exit_code == 0
    assert rows(orders)[0]["extra"] == 7
    assert run("append", orders, "-", "--format", "csv", input="id,extra\n2,x\n").exit_code == 1


def test_append_with_a_transaction_is_written_once(orders, csv):
    assert facts("append", orders, csv, "--txn", "load:part:7")["skipped"] is False
    again = facts("append", orders, csv, "--txn", "load:part:7")
    assert (again["skipped"], again["version"], again["rows"]) == (True, 1, 0)
    assert "nothing written" in run("append", orders, csv, "--txn", "load:part:6").stdout
    assert facts("append", orders, csv, "--txn", "load:part:8")["version"] == 2


def test_append_makes_the_table_only_when_told(tmp_path, csv):
    answer = run("append", tmp_path / "new", csv)
    assert answer.exit_code == 3
    assert answer.stderr.startswith("TABLE_NOT_FOUND: ")
    assert facts("append", tmp_path / "new", csv, "--create", "--partition-by", "day")["version"] == 1
    assert facts("append", tmp_path / "new", csv, "--create", "--partition-by", "day")["version"] == 2
    snapshot = DeltaTable(tmp_path / "new").snapshot()
    assert snapshot.metadata.partitioning == ("day",)
    assert str(snapshot.schema) == "struct<id:long,name:string,amount:double,day:date>"


def test_overwrite_replaces_all_rows_or_some_partitions(orders, csv, tmp_path):
    run("append", orders, csv)
    first = tmp_path / "first.csv"
    first.write_text("id,day\n10,2024-01-01\n")
    found = facts("overwrite", orders, first, "--replace-where", "day = '2024-01-01'")
    assert (found["version"], found["removedFiles"]) == (2, 1)
    assert [row["id"] for row in rows(orders)] == [2, 10]
    assert facts("overwrite", orders, first, "--dynamic")["removedFiles"] == 1
    assert [row["id"] for row in rows(orders)] == [2, 10]
    assert facts("overwrite", orders, first)["removedFiles"] == 2
    assert [row["id"] for row in rows(orders)] == [10]


def test_overwrite_may_take_new_columns(orders, tmp_path):
    other = tmp_path / "other.ndjson"
    other.write_text('{"id":"x","when":"2024-01-01T10:00:00Z"}\n')
    answer = run("overwrite", orders, other, "--overwrite-schema")
    assert answer.exit_code == 2, "the table is partitioned by a column that is gone"
    assert run("overwrite", orders, other, "--overwrite-schema", "--partition-by", "id").exit_code == 0
    assert str(DeltaTable(orders).snapshot().schema) == "struct<id:string,when:timestamp>"


def test_overwrite_outside_of_what_is_replaced_is_refused(orders, csv):
    answer = run("overwrite", orders, csv, "--replace-where", "day = '2024-01-01'")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("CONSTRAINT_VIOLATION: ")


def test_overwrite_that_lost_a_race_is_a_conflict(orders, csv, tmp_path):
    """The other writer commits when this one has read its snapshot: more rows left than a pipe can hold."""
    run("append", orders, csv)
    command = [*PROGRAM, "overwrite", orders, "-", "--format", "csv"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        writer.stdin.write("id,name,day\n")
        for number in range(6_000):
            writer.stdin.write(f"{number},{'x' * 1000},2024-01-01\n")
        writer.stdin.flush()
        DeltaTable(orders).overwrite(pa.table({"id": [99]}))
        _, errors = writer.communicate(timeout=120)
    assert writer.returncode == 5, errors
    assert errors.startswith("CONCURRENT_")
    assert [row["id"] for row in rows(orders)] == [99]


class Terminal:
    """A stdin that is a terminal, as far as the question whether to ask goes."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("n\n", False)])
def test_overwrite_on_a_terminal_asks_unless_told_not_to(orders, csv, monkeypatch, answer, goes_on):
    run("append", orders, csv)
    terminal = type("sys", (), {"stdin": Terminal()})
    monkeypatch.setattr(result_module, "sys", terminal)
    asked = run("overwrite", orders, csv, input=answer)
    assert "Replace all rows" in asked.stderr
    assert asked.exit_code == (0 if goes_on else 130)
    assert DeltaTable(orders).version() == (2 if goes_on else 1)
    assert "Replace" not in run("overwrite", orders, csv, "--yes").stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["create", "{folder}/t"], 2, "--schema"),
        (["create", "{folder}/t", "--schema", "id long", "--like", "{csv}"], 2, "--schema"),
        (["create", "{folder}/t", "--schema", "no_such_file.json"], 2, "no_such_file.json"),
        (["create", "{folder}/t", "--schema", "id lnog"], 2, "lnog"),
        (["create", "{folder}/t", "--schema", "id long, id long"], 2, "id"),
        (["create", "{folder}/t", "--schema", '{{"type":"long"}}'], 1, "INVALID_SCHEMA"),
        (["create", "{folder}/t", "--schema", "id long", "--partition-by", "day"], 2, "UNKNOWN_COLUMN"),
        (["create", "{folder}/t", "--schema", "id long", "--partition-by", ","], 2, "--partition-by"),
        (["create", "{folder}/t", "--schema", "id long", "--property", "x"], 2, "KEY=VALUE"),
        (
            ["create", "{folder}/t", "--schema", "id long", "--property", "delta.appendOnly=maybe"],
            2,
            "delta.appendOnly",
        ),
        (["create", "{folder}/t", "--like", "{folder}/nothing.csv"], 2, "nothing.csv"),
        (["append", "{orders}"], 2, "--format"),
        (["append", "{orders}", "{folder}/nothing.csv"], 2, "nothing.csv"),
        (["append", "{orders}", "{folder}"], 2, "directory"),
        (["append", "{orders}", "{csv}", "--format", "xml"], 2, "xml"),
        (["append", "{orders}", "{csv}", "--format", "parquet"], 2, "Parquet"),
        (["append", "{orders}", "{csv}", "--txn", "load"], 2, "APP:VERSION"),
        (["append", "{orders}", "{csv}", "--txn", "load:x"], 2, "APP:VERSION"),
        (["append", "{orders}", "{csv}", "--delimiter", "ab"], 2, "--delimiter"),
        (["append", "{orders}", "{csv}", "--partition-by", "day"], 2, "--create"),
        (["append", "nowhere://x", "{csv}"], 2, "INVALID_INPUT"),
        (["overwrite", "{folder}/nothing", "{csv}"], 3, "TABLE_NOT_FOUND"),
        (["overwrite", "{orders}", "{csv}", "--replace-where", "id = 1"], 2, "partition columns only"),
        (["overwrite", "{orders}", "{csv}", "--replace-where", "day ="], 2, "INVALID_PREDICATE"),
        (["overwrite", "{orders}", "{csv}", "--dynamic", "--overwrite-schema"], 2, "exclude each other"),
    ],
)
def test_bad_input_is_a_clear_error_with_its_exit_code(orders, csv, tmp_path, arguments, exit_code, says):
    answer = run(*(text.format(orders=orders, csv=csv, folder=tmp_path) for text in arguments))
    assert (answer.exit_code, answer.stdout) == (exit_code, ""), answer.output
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert DeltaTable(orders).version() == 0
    assert not (tmp_path / "t").exists()


def test_table_on_s3_is_written_from_the_command_line(s3_server, csv, tmp_path):
    (tmp_path / "options").write_text(json.dumps(dict(s3_server.storage_options)))
    uri, given = s3_server.uri("cli/written"), ["--storage-options-file", tmp_path / "options"]
    assert facts("append", uri, csv, "--create", *given)["version"] == 1
    assert facts("overwrite", uri, csv, "--yes", *given)["removedFiles"] == 1
    assert run("count", uri, *given).stdout == "2\n"
