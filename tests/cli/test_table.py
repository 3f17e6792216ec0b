"""`distributary table …` on the sample table and on third-party tables: rows, formats, errors, pipes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from distributary.cli import progress
from distributary.cli.main import cli
from distributary.cli.sample_table import make_sample_table
from distributary.delta.schema.data_types import parse_schema

PROGRAM = [sys.executable, "-m", "distributary.cli.main", "table"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return make_sample_table(tmp_path_factory.mktemp("sample") / "orders", change_feed=False)


@pytest.fixture(scope="module")
def orders(sample) -> str:
    return str(sample.path)


def run(*arguments: str | Path, input: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["table", *map(str, arguments)], input=input)


def output_of(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(*arguments: str | Path) -> list[dict]:
    return [json.loads(line) for line in output_of(*arguments, "-o", "ndjson").splitlines()]


def test_show_tells_a_table_on_one_screen(orders):
    text = output_of("show", orders)
    lines = dict(line.split("  ", 1) for line in text.splitlines())
    assert lines["name"].strip() == "orders"
    assert lines["version"].strip() == "4"
    assert lines["partitioned by"].strip() == "country"
    assert lines["rows"].strip() == "34"
    assert lines["files"].strip() == "7"
    assert "Overwrite" in lines["last operation"]


def test_show_as_json_has_every_fact(orders):
    found = json.loads(output_of("show", orders, "-o", "json"))
    assert found["location"] == Path(orders).as_uri()
    assert (found["version"], found["timestamp"]) == (4, "2024-03-05T08:00:00.000Z")
    assert found["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert found["features"] == {"appendOnly": False, "invariants": False}
    assert (found["numFiles"], found["numRows"]) == (7, 34)
    assert found["lastOperation"]["operation"] == "WRITE"
    assert found["log"]["numFiles"] == 10
    assert found["log"]["checkpoint"] is None


def test_show_of_an_older_version_and_in_other_formats(orders):
    assert json.loads(output_of("show", orders, "--version", "1", "-o", "ndjson"))["numRows"] == 12
    assert (
        json.loads(output_of("show", orders, "--timestamp", "2024-03-02T09:00", "-o", "json"))["version"] == 1
    )
    fields = dict(list(csv.reader(io.StringIO(output_of("show", orders, "-o", "csv"))))[1:])
    assert fields["partitioned by"] == "country"


def test_show_names_active_features_and_the_checkpoint(delta_tables):
    table = delta_tables.tables / "kernelrs__v2-checkpoints-parquet-with-sidecars"
    found = json.loads(output_of("show", table, "-o", "json"))
    assert found["features"]["v2Checkpoint"] is True
    assert found["log"]["checkpoint"]["version"] == 6
    assert "v2Checkpoint (active)" in output_of("show", table)


def test_show_says_when_the_log_does_not_know_the_rows(delta_tables):
    table = delta_tables.tables / "trino__databricks73.pruning.no_stats"
    assert json.loads(output_of("show", table, "-o", "json"))["numRows"] is None
    assert "not in the log" in output_of("show", table)


def test_show_works_where_only_a_checkpoint_is_left(delta_tables, tmp_path):
    table = Path(shutil.copytree(delta_tables.tables / "dat__with_checkpoint", tmp_path / "table"))
    for commit in (table / "_delta_log").glob("*.json"):
        commit.unlink()
    found = json.loads(output_of("show", table, "-o", "json"))
    assert (found["version"], found["timestamp"], found["lastOperation"]) == (2, None, None)


def test_schema_is_a_tree_with_types(orders):
    assert output_of("schema", orders).splitlines() == [
        "order_id: long",
        "customer: string",
        "amount: decimal(10,2)",
        "ordered_at: timestamp",
        "country: string",
    ]


def test_schema_shows_nesting_and_not_null(delta_tables):
    lines = output_of("schema", delta_tables.tables / "dat__nested_types").splitlines()
    assert "struct: struct" in lines
    assert any(line.startswith("  ") for line in lines)
    assert "  element: short" in lines
    assert "  key: string not null" in lines


def test_schema_as_json_is_deltas_own(delta_tables):
    table = delta_tables.tables / "dat__nested_types"
    commit = min((table / "_delta_log").glob("*.json")).read_text().splitlines()
    (metadata,) = (json.loads(line)["metaData"] for line in commit if "metaData" in line)
    text = output_of("schema", table, "-o", "json")
    assert json.loads(text) == json.loads(metadata["schemaString"])
    assert parse_schema(text) == parse_schema(metadata["schemaString"])


def test_schema_as_rows_has_a_path_for_each_column(delta_tables):
    columns = list(
        csv.DictReader(
            io.StringIO(output_of("schema", delta_tables.tables / "dat__nested_types", "-o", "csv"))
        )
    )
    assert {"struct", "struct.float64"} <= {row["column"] for row in columns}


def test_history_is_newest_first_and_can_be_limited(orders):
    assert [row["version"] for row in rows_of("history", orders)] == [4, 3, 2, 1, 0]
    (newest,) = json.loads(output_of("history", orders, "--limit", "1", "-o", "json"))
    assert newest["commitInfo"]["engineInfo"].startswith("distributary/")
    assert newest["timestamp"] == "2024-03-05T08:00:00.000Z"
    assert output_of("history", orders).splitlines()[2].split()[:3] == [
        "4",
        "2024-03-05T08:00:00.000Z",
        "WRITE",
    ]


def test_history_as_csv_carries_all_that_writers_said(orders):
    rows = list(csv.DictReader(io.StringIO(output_of("history", orders, "-o", "csv"))))
    assert json.loads(rows[0]["commit_info"])["operation"] == "WRITE"


def test_files_are_pruned_by_a_predicate(orders):
    assert len(rows_of("files", orders)) == 7
    pruned = rows_of("files", orders, "--where", "country = 'FR' AND order_id >= 12")
    assert [row["path"].partition("/")[0] for row in pruned] == ["country=FR", "country=FR"]
    assert pruned[0]["partition_values"] == [["country", "FR"]]
    assert json.loads(pruned[0]["stats"])["numRecords"] == pruned[0]["num_records"] == 4


def test_files_of_an_older_version_as_parquet(orders, tmp_path):
    assert output_of("files", orders, "--version", "1", "-o", "parquet", "--output", tmp_path / "files") == ""
    listed = pq.read_table(tmp_path / "files")
    assert listed.num_rows == 3
    assert "deletion_vector" in listed.column_names


def test_files_on_a_terminal_leave_out_the_long_statistics(orders):
    assert "stats" not in output_of("files", orders).splitlines()[0].split()


def test_files_say_nothing_on_stderr_where_it_is_no_terminal(orders):
    assert run("files", orders, "--where", "order_id = 1").stderr == ""


def test_head_gives_ten_rows_unless_told_otherwise(orders):
    assert len(rows_of("head", orders)) == 10
    assert len(rows_of("head", orders, "--limit", "3")) == 3
    assert rows_of("head", orders, "-n", "0") == []
    assert len(rows_of("head", orders, "--all")) == 34


def test_head_filters_and_selects(orders):
    rows = rows_of(
        "head", orders, "--where", "country = 'FR' AND order_id < 5", "--columns", "order_id, country"
    )
    assert sorted(row["order_id"] for row in rows) == [1, 4]
    assert list(rows[0]) == ["order_id", "country"]


@pytest.mark.parametrize(
    ("text", "names"), [("`a,b`,c", ["a,b", "c"]), (" a , b ", ["a", "b"]), ("`x``y`", ["x`y"])]
)
def test_columns_may_be_quoted(text, names):
    from distributary.cli.table_options import _names

    assert _names(text) == names


def test_head_at_every_version_is_what_was_written(sample):
    for version, expected in enumerate(sample.rows_by_version):
        rows = rows_of("head", sample.path, "--version", str(version), "--all")
        assert sorted(row["order_id"] for row in rows) == sorted(row["order_id"] for row in expected)
        amounts = {row["order_id"]: str(row["amount"]) for row in expected}
        assert {row["order_id"]: row["amount"] for row in rows} == amounts


@pytest.mark.parametrize("format", ["json", "ndjson", "csv", "parquet", "table"])
def test_head_writes_the_same_rows_in_every_format(orders, tmp_path, format):
    target = tmp_path / "rows"
    assert output_of("head", orders, "--all", "--columns", "order_id", "-o", format, "--output", target) == ""
    if format == "parquet":
        found = pq.read_table(target).column("order_id").to_pylist()
    elif format == "json":
        found = [row["order_id"] for row in json.loads(target.read_text())]
    elif format == "ndjson":
        found = [json.loads(line)["order_id"] for line in target.read_text().splitlines()]
    else:
        found = [int(line) for line in target.read_text().splitlines()[1 if format == "csv" else 2 :]]
    assert sorted(found) == [n for n in range(36) if n not in (3, 9)]


def test_head_stops_reading_when_it_has_enough(orders, tmp_path):
    """Files that are not needed are not opened: here they are not even there."""
    table = Path(shutil.copytree(orders, tmp_path / "orders"))
    first = rows_of("files", table)[0]["path"]
    for file in table.glob("*/*.parquet"):
        if not str(file).endswith(first):
            file.unlink()
    assert len(rows_of("head", table, "-n", "4")) == 4
    result = run("head", table, "-n", "5")
    assert result.exit_code == 1
    assert result.stderr.startswith("DATA_FILE_ERROR: ")


def test_count_is_a_bare_number_for_scripts(orders):
    assert output_of("count", orders) == "34\n"
    assert output_of("count", orders, "--where", "country = 'DE' AND order_id < 12") == "2\n"
    assert output_of("count", orders, "--version", "0") == "0\n"
    assert json.loads(output_of("count", orders, "-o", "json")) == [{"count": 34}]


def test_changes_between_versions(delta_tables):
    table = delta_tables.tables / "kernelrs__cdf-table-simple"
    rows = rows_of("changes", table, "--from", "0")
    assert {row["_change_type"] for row in rows} >= {"insert"}
    some = rows_of(
        "changes", table, "--from", "0", "--to", "0", "--where", "_change_type = 'insert'", "-n", "1"
    )
    assert [row["_commit_version"] for row in some] == [0]
    since = rows_of("changes", table, "--from-timestamp", "1980-01-01", "--columns", "_commit_version")
    assert len(since) == len(rows)


def test_table_with_nested_values_keeps_them_in_json(delta_tables):
    row = rows_of("head", delta_tables.tables / "dat__nested_types", "-n", "1")[0]
    assert isinstance(row["struct"], dict)
    assert isinstance(row["array"], list)


def test_verify_of_a_sound_table_ends_with_0(orders):
    assert output_of("verify", orders) == "no problems in 5 commits, 5 checksums, 7 data files\n"
    report = json.loads(output_of("verify", orders, "--deep", "-o", "json"))
    assert report["ok"] is True
    assert report["checked"]["footers"] == 7
    assert output_of("verify", orders, "-o", "ndjson") == ""


@pytest.fixture
def damaged(orders, tmp_path) -> Path:
    table = Path(shutil.copytree(orders, tmp_path / "damaged"))
    min((table / "country=FR").glob("*.parquet")).unlink()
    return table


def test_verify_of_a_damaged_table_ends_with_1(damaged):
    result = run("verify", damaged)
    assert result.exit_code == 1
    first, last = result.stdout.splitlines()
    assert first.startswith("error DATA_FILE_MISSING country=FR/part-0")
    assert last == "1 errors, 0 warnings in 5 commits, 5 checksums, 7 data files"


def test_verify_of_a_damaged_table_in_formats_for_programs(damaged):
    result = run("verify", damaged, "-o", "json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["ok"] is False
    assert report["found"] == {"DATA_FILE_MISSING": 1}
    assert report["problems"][0]["severity"] == "error"
    lines = list(csv.DictReader(io.StringIO(run("verify", damaged, "-o", "csv").stdout)))
    assert lines[0]["code"] == "DATA_FILE_MISSING"


def test_verify_with_warnings_alone_ends_with_0(orders, tmp_path):
    table = Path(shutil.copytree(orders, tmp_path / "orders"))
    (table / "_delta_log" / f"{2:020d}.crc").write_text("{")
    result = run("verify", table)
    assert result.exit_code == 0
    assert result.stdout.startswith("warning CHECKSUM_UNREADABLE ")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["show", "{folder}/nothing"], 3, "TABLE_NOT_FOUND"),
        (["verify", "{folder}/nothing"], 3, "TABLE_NOT_FOUND"),
        (["show", "{orders}", "--version", "99"], 3, "VERSION_NOT_FOUND"),
        (["show", "{orders}", "--timestamp", "1999-01-01"], 3, "VERSION_NOT_FOUND"),
        (["show", "{orders}", "--timestamp", "yesterday"], 2, "INVALID_INPUT"),
        (["show", "{orders}", "--version", "1", "--timestamp", "2024-03-02"], 2, "not both"),
        (["show", "{orders}", "--version", "-1"], 2, "--version"),
        (["head", "{orders}", "--where", "country ="], 2, "INVALID_PREDICATE"),
        (["head", "{orders}", "--where", "nation = 'FR'"], 2, "UNKNOWN_COLUMN"),
        (["head", "{orders}", "--columns", "nation"], 2, "UNKNOWN_COLUMN"),
        (["head", "{orders}", "--columns", " , "], 2, "names no column"),
        (["head", "{orders}", "-o", "xml"], 2, "xml"),
        (["head", "{orders}", "--output", "{folder}/no/such/folder"], 2, "cannot write"),
        (["count", "{orders}", "--where", "order_id"], 2, ""),
        (["changes", "{orders}"], 2, "--from"),
        (["changes", "{orders}", "--from", "1", "--from-timestamp", "2024-03-02"], 2, "--from"),
        (["changes", "{orders}", "--from", "1", "--to", "2", "--to-timestamp", "2024-03-02"], 2, "--to"),
        (["changes", "{orders}", "--from", "1"], 1, "CHANGE_FEED_UNAVAILABLE"),
        (["show", "{orders}", "--storage-option", "region"], 2, "KEY=VALUE"),
        (["show", "{orders}", "--storage-option", "no_such_option=1"], 2, "no_such_option"),
        (["show", "nowhere://x/y"], 2, "INVALID_INPUT"),
        (["show"], 2, "PATH"),
    ],
)
def test_bad_input_is_a_clear_error_with_its_exit_code(orders, tmp_path, arguments, exit_code, says):
    result = run(*(text.format(orders=orders, folder=tmp_path) for text in arguments))
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "name", ["aws_secret_access_key", "AWS_SESSION_TOKEN", "azure_storage_account_key", "sas_token"]
)
def test_secret_as_a_flag_is_refused_without_repeating_it(orders, name):
    result = run("show", orders, "--storage-option", f"{name}=hush-hush")
    assert result.exit_code == 2
    assert "--storage-options-file" in result.stderr
    assert "hush" not in result.stderr


@pytest.mark.parametrize(
    "content",
    ['{"aws_region": "eu", "aws_secret_access_key": "x"}', "# mine\naws_region = eu\n\nprofile=x\n"],
)
def test_storage_options_come_from_a_file_or_stdin(orders, tmp_path, content):
    (tmp_path / "options").write_text(content)
    assert run("count", orders, "--storage-options-file", tmp_path / "options").exit_code == 0
    assert run("count", orders, "--storage-options-file", "-", input=content).exit_code == 0


def test_storage_options_file_that_does_not_parse_is_refused_without_its_content(orders, tmp_path):
    (tmp_path / "options").write_text('{"aws_secret_access_key": "hush-hush"')
    result = run("count", orders, "--storage-options-file", tmp_path / "options")
    assert result.exit_code == 2
    assert "hush" not in result.stderr


def test_table_on_s3_is_read_with_options_from_file_and_flags(orders, s3_server, tmp_path):
    s3_server.upload(Path(orders), "cli/orders")
    options = dict(s3_server.storage_options)
    region = options.pop("aws_region")
    (tmp_path / "options").write_text(json.dumps(options))
    given = ["--storage-options-file", tmp_path / "options", "--storage-option", f"aws_region={region}"]
    assert output_of("count", s3_server.uri("cli/orders"), *given) == "34\n"
    assert output_of("verify", s3_server.uri("cli/orders"), "--deep", *given).startswith("no problems")
    assert len(rows_of("head", s3_server.uri("cli/orders"), "-n", "2", *given)) == 2
    assert run("show", s3_server.uri("cli/nothing"), *given).exit_code == 3


def test_clone_outside_its_root_needs_the_root_to_be_allowed(orders, tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(Path(orders) / "_delta_log", clone / "_delta_log")
    for commit in (clone / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace('"path":"', f'"path":"{Path(orders).as_uri()}/'))
    refused = run("head", clone)
    assert refused.exit_code == 4
    assert refused.stderr.startswith("PATH_OUTSIDE_TABLE")
    assert len(rows_of("head", clone, "--allow-root", orders)) == 10


def test_output_is_data_only_and_messages_go_to_stderr(orders):
    answer = subprocess.run([*PROGRAM, "head", orders, "-o", "csv"], capture_output=True, text=True)
    assert answer.returncode == 0
    assert answer.stderr == ""
    assert len(answer.stdout.splitlines()) == 11


@pytest.mark.parametrize("format", ["ndjson", "csv", "table", "json", "parquet"])
def test_reader_that_goes_away_ends_the_command_quietly(orders, format):
    reader, writer = os.pipe()
    os.close(reader)
    answer = subprocess.run(
        [*PROGRAM, "head", orders, "-o", format], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert answer.returncode == 141
    assert answer.stderr == ""


def test_reader_may_leave_after_the_first_row(tmp_path):
    table = make_sample_table(tmp_path / "orders").path
    with subprocess.Popen(
        [*PROGRAM, "head", str(table), "--all", "-o", "ndjson"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["country"]
        process.stdout.close()
    assert process.returncode in (0, 141)


def test_exit_codes_of_the_real_program(orders, tmp_path):
    for arguments, code in [
        (["count", orders], 0),
        (["count", str(tmp_path / "nothing")], 3),
        (["count", orders, "--where", "("], 2),
        (["count"], 2),
    ]:
        assert subprocess.run([*PROGRAM, *arguments], capture_output=True).returncode == code


def test_help_imports_none_of_the_heavy_libraries(record_property):
    """What keeps `--help` under 0.4 s; the time itself is recorded, not asserted."""
    code = (
        "import sys; from click.testing import CliRunner; from distributary.cli.main import cli;"
        "[CliRunner().invoke(cli, ['table', *name, '--help']) for name in"
        " ([], ['show'], ['verify'], ['create'], ['append'], ['alter', 'widen'], ['vacuum'])];"
        "print(*{'pyarrow', 'obstore', 'numpy', 'rich', 'msgspec', 'pandas'} & set(sys.modules))"
    )
    start = time.perf_counter()
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    record_property("seconds", time.perf_counter() - start)
    assert answer.stdout.strip() == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Rows:
    arrow_schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])

    def to_record_batches(self):
        for start in range(0, 9, 3):
            yield pa.record_batch({"n": range(start, start + 3), "m": [0, 0, 0]}, self.arrow_schema)


def test_progress_is_shown_on_a_terminal_only(monkeypatch, tmp_path):
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert progress.reading(Rows(), tmp_path / "file").read_all().num_rows == 9  # pyright: ignore
        assert bool(stream.getvalue()) is shown


@pytest.mark.parametrize(("limit", "expected"), [(None, 9), (0, 0), (3, 3), (4, 4), (100, 9)])
@pytest.mark.parametrize("visible", [True, False])
def test_reading_gives_as_many_rows_as_are_wanted(monkeypatch, limit, expected, visible):
    monkeypatch.setattr(sys, "stdout", Terminal() if visible else io.StringIO())
    table = progress.reading(Rows(), None, limit, without="m").read_all()  # pyright: ignore
    assert table.column("n").to_pylist() == list(range(expected))
    assert table.column_names == ["n"]
