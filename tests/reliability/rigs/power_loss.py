"""A2: recorded writers, and what must hold on every disk that a power loss may leave."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

import distributary.storage.local_disk as local_disk
from distributary.delta.errors import CommitConflictError, TableNotFoundError
from distributary.delta.log.snapshot import Snapshot, load_snapshot
from distributary.delta.operations import append as append_rows
from distributary.errors import DistributaryError
from distributary.storage.object_store import ObjectStore, open_store
from rigs.crash_disk import Recorder, Stall, State, Turns, states
from rigs.history_checker import Acknowledged, check
from rigs.plain_table import append, create, labels_of

# Where the states are made real: nothing of them need be durable.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Losses(NamedTuple):
    """How many states there are, how many differ in more than temporary files, and what was wrong in them."""

    states: int
    distinct: int
    faults: list[str]


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Let local disks go through a recorder."""
    local_disk.os, local_disk.open = recorder, recorder.open  # type: ignore[attr-defined]
    try:
        yield recorder
    finally:
        local_disk.os = os
        del local_disk.open  # type: ignore[attr-defined]


def one_writer(folder: Path, seed: int) -> Recorder:
    """Create a table and append, with a checkpoint every third version."""
    del seed
    recorder = Recorder(folder)
    with recording(recorder):
        store = open_store(str(folder / "lake" / "table"))
        _write(store, recorder, "w", 4)
    return recorder


def racing_writers(folder: Path, seed: int) -> Recorder:
    """Two writers that both want to create the table and append, interleaved by chance."""
    return _race(folder, Turns(2, seed))


def stalling_writers(folder: Path, seed: int) -> Recorder:
    """The same, with one of them stopped at its step `seed` until the other one has finished."""
    return _race(folder, Stall(seed))


def _race(folder: Path, turns: Turns | Stall) -> Recorder:
    recorder = Recorder(folder, turns)

    def write(name: str) -> None:
        try:
            _write(open_store(str(folder / "lake" / "table")), recorder, name, 2)
        finally:
            turns.done()

    with recording(recorder):
        threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return recorder


def row_writer(folder: Path, seed: int) -> Recorder:
    """Append real rows to a partitioned table, so that data files and new partitions are at stake."""
    del seed
    recorder = Recorder(folder)
    with recording(recorder):
        store = open_store(str(folder / "lake" / "table"))
        snapshot = create(store).snapshot
        recorder.acknowledge(0, "")
        for number in range(2):
            rows = pa.table({"id": [number] * 3, "p": ["a", "b", f"c{number}"]})
            result = append_rows.append(store, snapshot, rows)
            snapshot = result.snapshot
            recorder.acknowledge(result.version, "")
    return recorder


SCENARIOS: dict[str, Callable[[Path, int], Recorder]] = {
    "one writer": one_writer,
    "racing writers": racing_writers,
    "stalling writers": stalling_writers,
    "rows": row_writer,
}


def lose_power(folder: Path, scenario: str, seed: int, sample: int, *, first_fault: bool = False) -> Losses:
    """Record a scenario and look at every state that a power loss may leave, or up to the first fault."""
    recorded = folder / f"recorded-{seed}"
    recorded.mkdir(parents=True)
    recorder = SCENARIOS[scenario](recorded, seed)
    faults: list[str] = []
    seen: set[int] = set()
    number = 0
    for number, state in enumerate(states(recorder.ops, recorder.root, sample, seed), 1):
        lasting = sorted((path, data) for path, data in state.files.items() if not path.endswith(".tmp"))
        mark = hash((tuple(lasting), state.directories, state.acknowledged))
        if mark in seen or (faults and first_fault):
            continue
        seen.add(mark)
        with tempfile.TemporaryDirectory(dir=_MEMORY) as place:
            state.write_to(recorder.root, Path(place))
            found = _faults(Path(place) / "lake" / "table", state, goes_on=len(seen) % 5 == 0)
        faults += [f"{scenario} {seed}, state {number}: {fault}" for fault in found]
    shutil.rmtree(recorded)
    return Losses(number, len(seen), faults)


def _write(store: ObjectStore, recorder: Recorder, name: str, count: int) -> None:
    snapshot = _opened(store, recorder)
    for number in range(count):
        label = f"{name}-{number}"
        result = append(store, snapshot, label)
        recorder.acknowledge(result.version, label)
        snapshot = result.snapshot


def _opened(store: ObjectStore, recorder: Recorder) -> Snapshot:
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        pass
    try:
        snapshot = create(store, {"delta.checkpointInterval": "3"}).snapshot
    except CommitConflictError:
        return load_snapshot(store)
    recorder.acknowledge(0, "")
    return snapshot


def _faults(root: Path, state: State, goes_on: bool) -> list[str]:
    try:
        log = labels_of(root / "_delta_log")
    except ValueError as error:
        return [f"torn: {error}"]
    acks = [Acknowledged(version, label) for version, label in state.acknowledged]
    found = list(check(log, [ack for ack in acks if ack.label]).faults)
    found += [f"version {ack.version} is lost" for ack in acks if ack.version not in log]
    labels = {label for labels in log.values() for label in labels}
    store = open_store(str(root))
    try:
        if log:
            snapshot = load_snapshot(store)
            if {add.path for add in snapshot.files.adds()} != labels:
                found.append("the reader sees other files than the log")
            found += _lost_data(root, snapshot)
        if goes_on:
            append(store, snapshot if log else create(store).snapshot, "after")
    except DistributaryError as error:
        found.append(f"{type(error).__name__}: {error}")
    return found


def _lost_data(root: Path, snapshot: Snapshot) -> list[str]:
    """Data files that a commit speaks of and that are not whole."""
    return [
        f"{add.path} is not whole"
        for add in snapshot.files.adds()
        if add.path.endswith(".parquet")
        and (not (root / add.path).exists() or (root / add.path).stat().st_size != add.size)
    ]
