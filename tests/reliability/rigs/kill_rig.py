"""A1: writers killed with SIGKILL at random moments.

`python -m rigs.kill_rig FOLDER ROUNDS SEED` forks two writers a round, which append to one table in a
loop, kills each at a random moment, and then commits itself, with no repair step between. Prints the
counts as JSON; any fault makes it fail. It runs as a process of its own, so that it forks from one thread.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from distributary.delta.log.snapshot import Snapshot, load_snapshot, refresh
from distributary.storage.object_store import ObjectStore, open_store
from rigs.history_checker import check, record, recorded
from rigs.plain_table import append, create, labels_of

WRITERS = 2
ROUNDS_A_TABLE = 40
LONGEST_LIFE = 0.02


def run_kills(folder: Path, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Run the rig in a process of its own."""
    command = [sys.executable, "-m", "rigs.kill_rig", str(folder), str(rounds), str(seed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise AssertionError(found.stderr[-4000:] or found.stdout)
    return json.loads(found.stdout)


def main(folder: Path, rounds: int, seed: int) -> dict[str, Any]:
    luck = random.Random(seed)
    totals = {"kills": 0, "versions": 0, "acknowledged": 0, "unacknowledged": 0, "temporary_files": 0}
    faults: list[str] = []
    for start in range(0, rounds, ROUNDS_A_TABLE):
        root = folder / f"table-{start}"
        totals["kills"] += _one_table(root, min(ROUNDS_A_TABLE, rounds - start), luck)
        log = labels_of(root / "_delta_log")
        verdict = check(log, recorded(root / "history.jsonl"))
        faults += [f"{root.name}: {fault}" for fault in (*verdict.faults, *_unread(root, log))]
        totals["versions"] += verdict.versions
        totals["acknowledged"] += verdict.acknowledged
        totals["unacknowledged"] += verdict.unacknowledged
        totals["temporary_files"] += sum(1 for _ in root.rglob(".*.tmp"))
    return {**totals, "faults": faults}


def _one_table(root: Path, rounds: int, luck: random.Random) -> int:
    store = open_store(str(root))
    history = root / "history.jsonl"
    snapshot = create(store).snapshot
    kills = 0
    for _ in range(rounds):
        writers = [_fork_writer(store, snapshot, history) for _ in range(WRITERS)]
        for writer in luck.sample(writers, WRITERS):
            time.sleep(luck.uniform(0.001, LONGEST_LIFE))
            os.kill(writer, signal.SIGKILL)
            _, status = os.waitpid(writer, 0)
            kills += os.WIFSIGNALED(status)
        snapshot = _commit_one(store, refresh(store, snapshot), history)
    return kills


def _fork_writer(store: ObjectStore, snapshot: Snapshot, history: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        while True:
            snapshot = _commit_one(store, snapshot, history)
    finally:
        os._exit(1)


def _commit_one(store: ObjectStore, snapshot: Snapshot, history: Path) -> Snapshot:
    label = uuid.uuid4().hex
    result = append(store, snapshot, label)
    record(history, result.version, label)
    return result.snapshot


def _unread(root: Path, log: dict[int, list[str]]) -> list[str]:
    """What our own reader sees otherwise, from whatever checkpoints the killed writers left."""
    seen = {add.path for add in load_snapshot(open_store(str(root))).files.adds()}
    there = {label for labels in log.values() for label in labels}
    return [f"the reader sees {len(seen)} files of {len(there)}"] if seen != there else []


if __name__ == "__main__":
    outcome = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(outcome))
    sys.exit(1 if outcome["faults"] else 0)
