"""A3, A11 and A12: writers that race for the same version, in threads and in processes.

`race` lets writers create the same log entry at once, round after round, and looks who was told that it
won. `contend` lets them commit for real, each losing, rebasing and trying again until all have committed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from distributary.delta.commit.transaction import BEFORE_WRITE, commit
from distributary.delta.errors import CommitConflictError
from distributary.delta.log.log_path import commit_path
from distributary.delta.log.snapshot import load_snapshot
from distributary.errors import ObjectExistsError
from distributary.storage.commit_file import create_commit
from distributary.storage.object_store import ObjectStore, open_store
from rigs.history_checker import Acknowledged, Verdict, check
from rigs.plain_table import addition, create, labels_in_store

WRITERS = 16


class Races(NamedTuple):
    """How many rounds there were, and those without exactly one winner whose entry is there."""

    rounds: int
    faults: list[str]


class Contention(NamedTuple):
    """How commits under contention went: the verdict on the log, tries a commit, commits a second."""

    verdict: Verdict
    most_attempts: int
    mean_attempts: float
    commits_a_second: float


def race(stores: Sequence[ObjectStore], rounds: int) -> Races:
    """Race one writer a store (of the same root) for each of `rounds` entries."""
    faults: list[str] = []
    with ThreadPoolExecutor(len(stores)) as pool:
        for number in range(rounds):
            path = commit_path(number)
            gate = threading.Barrier(len(stores))

            def write(store: ObjectStore, path: str = path, gate: threading.Barrier = gate) -> str | None:
                label = uuid.uuid4().hex
                gate.wait()
                try:
                    create_commit(store, path, json.dumps({"id": label}).encode() + b"\n", label)
                except ObjectExistsError:
                    return None
                return label

            winners = [label for label in pool.map(write, stores) if label is not None]
            there = json.loads(stores[0].get(path))["id"]
            if winners != [there]:
                faults.append(f"round {number}: {len(winners)} winners")
    return Races(rounds, faults)


def race_to_create(stores: Sequence[ObjectStore]) -> list[str]:
    """Race the creation of one table; gives what was wrong."""
    gate = threading.Barrier(len(stores))

    def make(store: ObjectStore) -> str:
        gate.wait()
        try:
            create(store)
        except CommitConflictError:
            return "sees" if load_snapshot(store).version == 0 else "does not see"
        return "made"

    with ThreadPoolExecutor(len(stores)) as pool:
        outcomes = Counter(pool.map(make, stores))
    expected = {"made": 1, "sees": len(stores) - 1}
    return [] if outcomes == {k: v for k, v in expected.items() if v} else [str(dict(outcomes))]


class _Done(NamedTuple):
    version: int
    label: str
    attempts: int


def append_in_a_loop(store: ObjectStore, commits: int) -> list[_Done]:
    """Commit a number of times on whatever is there, counting the attempts of each."""
    snapshot = load_snapshot(store)
    done: list[_Done] = []
    for _ in range(commits):
        label = uuid.uuid4().hex
        attempts = 0

        def count(phase: str, version: int) -> None:
            nonlocal attempts
            del version
            attempts += phase == BEFORE_WRITE

        result = commit(store, snapshot, addition(label), on_phase=count)
        snapshot = result.snapshot
        done.append(_Done(result.version, label, attempts))
    return done


def contend(
    uri: str,
    options: Mapping[str, str],
    commits: int,
    *,
    writers: int = WRITERS,
    processes: bool = False,
) -> Contention:
    """Let writers append to one new table until each has made its commits."""
    store = open_store(uri, options)
    create(store)
    work = _in_processes if processes else _in_threads
    start = time.perf_counter()
    done = work(uri, options, commits, writers)
    seconds = time.perf_counter() - start
    verdict = check(labels_in_store(store), [Acknowledged(one.version, one.label) for one in done])
    seen = {add.path for add in load_snapshot(store).files.adds()}
    if seen != {one.label for one in done}:
        verdict = verdict._replace(
            faults=(*verdict.faults, f"the reader sees {len(seen)} of {len(done)} files")
        )
    attempts = [one.attempts for one in done]
    return Contention(verdict, max(attempts), sum(attempts) / len(attempts), len(done) / seconds)


def _in_threads(uri: str, options: Mapping[str, str], commits: int, writers: int) -> list[_Done]:
    stores = [open_store(uri, options) for _ in range(writers)]
    with ThreadPoolExecutor(writers) as pool:
        return [
            one for part in pool.map(lambda store: append_in_a_loop(store, commits), stores) for one in part
        ]


def _in_processes(uri: str, options: Mapping[str, str], commits: int, writers: int) -> list[_Done]:
    """Fork the writers from one process that has everything loaded."""
    command = [
        sys.executable,
        "-m",
        "rigs.race_rig",
        uri,
        json.dumps(dict(options)),
        str(commits),
        str(writers),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise AssertionError(found.stderr[-4000:])
    return [_Done(*one) for line in found.stdout.splitlines() for one in json.loads(line)]


def _fork(writers: int, work: Callable[[], Any]) -> None:
    children: list[int] = []
    for _ in range(writers):
        child = os.fork()
        if not child:
            try:
                os.write(1, (json.dumps(work()) + "\n").encode())
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(any(codes))


if __name__ == "__main__":
    at, given = sys.argv[1], json.loads(sys.argv[2])
    _fork(int(sys.argv[4]), lambda: append_in_a_loop(open_store(at, given), int(sys.argv[3])))
