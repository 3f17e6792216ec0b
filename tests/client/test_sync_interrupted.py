"""Copies that are interrupted, watched and followed, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner
from sync_world import marks, rows

from distributary.cli.main import cli
from distributary.delta.table import DeltaTable

# Counts what happens on the way (a part of a file, each phase of a commit), and dies at one of these moments.
DYING = """
import functools, json, os, signal, sys
import distributary.client as delta_sharing
from distributary.client import file_download, local_copy
profile, name, copy, left = sys.argv[1:]
left = int(left)

def moment(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

parts = file_download.FileSource.parts

def watched(self, key, size):
    for part in parts(self, key, size):
        yield part[: len(part) // 2]
        moment()
        yield part[len(part) // 2 :]

file_download.FileSource.parts = watched
local_copy.commit = functools.partial(local_copy.commit, on_phase=moment)
delta_sharing.SharingClient(json.loads(profile)).table(name).sync(copy, starting_version=1)
"""


def made(path: Path, versions: int) -> DeltaTable:
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "part": ["a", "b"]})
    table = DeltaTable.create(path, schema=data.schema, partition_by=["part"])
    for _ in range(versions):
        table.append(data)
    return table


def test_a_copy_that_is_killed_at_any_moment_is_taken_up(world, tmp_path):
    """Killed (SIGKILL) later and later: every shared version is there once, with all its rows."""
    table = made(tmp_path / "t", 2)
    world.share("killed", tmp_path / "t")
    copy, deaths = tmp_path / "copy", 0
    command = [sys.executable, "-c", DYING, json.dumps(world.profile), "s.c.killed", str(copy)]
    while (code := subprocess.run([*command, str(1 + deaths)]).returncode) != 0:
        assert code == -signal.SIGKILL
        deaths += 1
        assert deaths < 40
    assert deaths >= 4
    assert sorted(marks(copy)) == [1, 2]
    for version, own in marks(copy).items():
        assert rows(copy, own) == rows(table, version)
    named = {add.path for add in DeltaTable(copy).snapshot().state.files.adds()}
    assert {file.name for file in copy.glob("part-*.parquet")} == named


def test_following_brings_versions_as_they_come(world, tmp_path):
    table = made(tmp_path / "t", 1)
    world.share("followed", tmp_path / "t")
    profile = tmp_path / "p.share"
    profile.write_text(json.dumps(world.profile))
    profile.chmod(0o600)
    command = [sys.executable, "-m", "distributary", "sync", "s.c.followed", str(tmp_path / "copy")]
    command += ["--profile", str(profile), "--follow", "--interval", "0.2", "-o", "ndjson"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["sharedVersion"] == 1
        table.append(pa.table({"id": pa.array([3], pa.int64()), "part": ["a"]}))
        told = json.loads(process.stdout.readline())
        assert (told["sharedVersion"], told["commits"]) == (2, 1)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        process.stdout.close()
    assert rows(tmp_path / "copy") == rows(table)


def test_the_command_tells_what_it_did_and_refuses_other_tables(world, tmp_path):
    made(tmp_path / "t", 2)
    other = made(tmp_path / "other", 1)
    world.share("told", tmp_path / "t")
    environment = {
        "DELTA_SHARING_ENDPOINT": world.profile["endpoint"],
        "DELTA_SHARING_BEARER_TOKEN": world.profile["bearerToken"],
    }
    arguments = ["sync", "s.c.told", str(tmp_path / "copy"), "-o", "json"]
    first = json.loads(CliRunner().invoke(cli, arguments, env=environment, catch_exceptions=False).stdout)
    assert (first["sharedVersion"], first["version"], first["commits"], first["addedFiles"]) == (2, 0, 1, 4)
    again = CliRunner().invoke(cli, arguments[:-2], env=environment)
    assert "is up to date: version 2 of s.c.told" in again.stdout
    refused = CliRunner().invoke(cli, ["sync", "s.c.told", other.uri], env=environment)
    assert refused.exit_code == 5
    assert "SYNC_TARGET_MISMATCH" in refused.stderr
