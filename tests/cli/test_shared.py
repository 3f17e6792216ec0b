"""The recipient's commands, against a scripted server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from distributary.cli.main import cli
from distributary.delta.table import DeltaTable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "client"))

from scripted_server import TOKEN, ScriptedServer


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A recipient with one profile of a server of one table; runs commands."""
    rows = pa.table({"id": pa.array(range(20), pa.int64()), "kind": ["a", "b"] * 10})
    DeltaTable.create(tmp_path / "orders", schema=rows.schema).append(rows)
    server = ScriptedServer(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("DELTA_SHARING_PROFILE", "DELTA_SHARING_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "acme.share").write_text(json.dumps(server.profile))

    def runs(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, list(arguments))
        assert result.exit_code == code, result.output
        assert TOKEN not in result.output
        return result.output

    runs.folder = tmp_path
    yield runs
    server.close()


def test_profiles_are_added_listed_and_checked(run):
    """A profile is kept readable for its owner only (H5)."""
    assert "no profile yet" in run("ls", code=2)
    assert "added acme" in run("profile", "add", str(run.folder / "acme.share"))
    kept = run.folder / "config" / "distributary" / "profiles" / "acme.share"
    assert kept.stat().st_mode & 0o077 == 0
    assert "already" in run("profile", "add", str(run.folder / "acme.share"), code=2)
    run("profile", "add", str(run.folder / "acme.share"), "--name", "other")
    assert [row["name"] for row in json.loads(run("profile", "list", "-o", "json"))] == ["acme", "other"]
    assert "several profiles" in run("ls", code=2)
    assert json.loads(run("profile", "check", "acme", "-o", "json"))["shares"] == ["s"]


def test_shared_tables_are_listed_read_and_downloaded(run):
    run("profile", "add", str(run.folder / "acme.share"))
    assert json.loads(run("ls", "-o", "json")) == [{"share": "s", "comment": None}]
    assert json.loads(run("ls", "s", "-o", "json")) == [{"schema": "c"}]
    told = json.loads(run("describe", "s.c.orders", "-o", "json"))
    assert [column["name"] for column in told["columns"]] == ["id", "kind"]
    assert "partitions" in run("describe", "s.c.orders")
    assert len(run("head", "s.c.orders", "-n", "3", "-o", "ndjson").splitlines()) == 3
    found = run("cat", "s.c.orders", "--where", "id > 17", "--columns", "id", "-o", "csv")
    assert found.splitlines() == ['"id"', "18", "19"]
    assert len(json.loads(run("changes", "s.c.orders", "--from", "1", "-o", "json"))) == 20
    for name, read in (
        ("o.parquet", pq.read_table),
        ("o.arrow", lambda path: pa.ipc.open_stream(path).read_all()),
    ):
        target = run.folder / name
        assert "wrote 20 rows" in run("download", "s.c.orders", str(target))
        assert read(target).num_rows == 20
    run("download", "s.c.orders", str(run.folder / "o.csv"), "-n", "5")
    assert len((run.folder / "o.csv").read_text().splitlines()) == 6
    assert "which format" in run("download", "s.c.orders", str(run.folder / "o.bin"), code=2)


def test_a_table_may_name_its_profile(run):
    url = f"{run.folder / 'acme.share'}#s.c.orders"
    (run.folder / "acme.share").chmod(0o600)
    assert len(run("head", url, "-n", "2", "-o", "ndjson").splitlines()) == 2
    assert "SERVER" not in run("head", f"{run.folder / 'acme.share'}#s.c", code=2)
