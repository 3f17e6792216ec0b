"""A3, A10, A11 and A12: writers that race, stall and contend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from rigs.plain_table import append, create, labels_of
from rigs.race_rig import WRITERS, contend, race, race_to_create

from distributary.delta.log.snapshot import load_snapshot
from distributary.storage.object_store import open_store


@pytest.mark.slow
def test_sixteen_writers_racing_on_a_disk_have_one_winner_each_time(tmp_path: Path) -> None:
    """LW-001, A3: 800 races for one entry."""
    assert race([open_store(str(tmp_path)) for _ in range(WRITERS)], 800).faults == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moto", "versitygw"])
def test_sixteen_writers_racing_on_s3_have_one_winner_each_time(
    request: pytest.FixtureRequest, name: str
) -> None:
    """LW-001, A3: 100 races a server for one entry, by conditional puts."""
    server = request.getfixturevalue(f"{name}_server")
    root = server.uri(uuid.uuid4().hex)
    stores = [open_store(root, server.storage_options) for _ in range(WRITERS)]
    assert race(stores, 100).faults == []


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
def test_sixteen_writers_on_a_disk_all_commit_and_nothing_is_lost(tmp_path: Path, processes: bool) -> None:
    """LW-002, A3: losers rebase and succeed; versions are contiguous, every file is there once."""
    outcome = contend(str(tmp_path), {}, 5, processes=processes)
    assert outcome.verdict.faults == ()
    assert outcome.verdict.acknowledged == WRITERS * 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moto", "versitygw"])
def test_sixteen_writers_on_s3_all_commit_and_nothing_is_lost(
    request: pytest.FixtureRequest, name: str
) -> None:
    """LW-002, A3: the same on object stores."""
    server = request.getfixturevalue(f"{name}_server")
    outcome = contend(server.uri(uuid.uuid4().hex), server.storage_options, 2)
    assert outcome.verdict.faults == ()
    assert outcome.verdict.acknowledged == WRITERS * 2


@pytest.mark.slow
def test_many_writers_on_one_table_do_not_starve(tmp_path: Path) -> None:
    """A11: 32 writers; every commit gets through in a bounded number of attempts."""
    outcome = contend(str(tmp_path), {}, 3, writers=32)
    print(f"32 writers: {outcome.commits_a_second:.0f} commits/s, at most {outcome.most_attempts} attempts")
    assert outcome.verdict.faults == ()
    assert outcome.most_attempts <= 50


@pytest.mark.slow
def test_racing_creators_make_one_table_that_all_of_them_see(tmp_path: Path) -> None:
    """LW-001, A12: 200 rounds of 4 creators; the others are told, and can go on with the table."""
    for number in range(200):
        root = str(tmp_path / str(number))
        assert race_to_create([open_store(root) for _ in range(4)]) == []


def test_table_half_created_by_a_dead_writer_can_be_created(tmp_path: Path) -> None:
    """A12: a log directory with a temporary file in it, and nothing else."""
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / ".0123.tmp").write_bytes(b'{"commitInfo"')
    store = open_store(str(tmp_path))
    assert create(store).version == 0
    assert load_snapshot(store).version == 0


STALLED = """
import os, signal, sys
from rigs.plain_table import append
from distributary.delta.log.snapshot import load_snapshot
from distributary.storage.object_store import open_store
import distributary.storage.local_disk as disk

moments = [sys.argv[2]]

def stop_once(moment, target):
    if target.endswith(".json") and moment in moments:
        moments.clear()
        os.kill(os.getpid(), signal.SIGSTOP)

class Stalling:
    def __getattr__(self, name):
        return getattr(os, name)
    def link(self, source, target):
        stop_once("before", target)
        os.link(source, target)
        stop_once("after", target)

store = open_store(sys.argv[1])
snapshot = load_snapshot(store)
disk.os = Stalling()
print(append(store, snapshot, "stalled").version)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_writer_stopped_around_the_put_conflicts_or_succeeds_but_never_overwrites(
    tmp_path: Path, moment: str
) -> None:
    """A10: SIGSTOP just before, or just after, the entry is created; others commit; then it goes on."""
    store = open_store(str(tmp_path))
    snapshot = create(store).snapshot
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", STALLED, str(tmp_path), moment]
    writer = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    _wait_until_stopped(writer.pid)
    others = [append(store, load_snapshot(store), f"other-{number}").version for number in range(3)]
    assert others == ([1, 2, 3] if moment == "before" else [2, 3, 4])
    os.kill(writer.pid, signal.SIGCONT)
    output, _ = writer.communicate(timeout=60)
    assert int(output) == (4 if moment == "before" else 1)
    log = labels_of(tmp_path / "_delta_log")
    assert sorted(log) == [0, 1, 2, 3, 4]
    assert sorted(label for labels in log.values() for label in labels) == [
        "other-0",
        "other-1",
        "other-2",
        "stalled",
    ]
    assert snapshot.version == 0


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 60
    while "State:\tT" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
