"""A1 and A9: a writer that dies, or meets an error, at every system call of what it does.

strace counts the calls of each kind that a scenario makes. Then for each call there is one more run, in
which strace kills the writer at that very call or lets it fail with an errno. All runs of one fault are
forked from one process that strace watches: the fault is set for the M-th call of every kind in every
process, and a child first makes as many idle calls as needed for its M-th call to be the one to be hit.

`python -m rigs.syscall_rig PLAN` is the process that forks; `run_faults` is what tests call.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from distributary.delta.errors import CommitStateUnknownError
from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.log.snapshot import load_snapshot
from distributary.errors import DistributaryError
from distributary.storage.object_store import open_store
from rigs.history_checker import check, record, recorded
from rigs.plain_table import append, create, file, labels_of

# The calls that touch files, by their numbers on x86-64.
NUMBERS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8,
    "pread64": 17, "pwrite64": 18, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "getdents64": 217,
    "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "readlink": 89, "openat": 257,
    "mkdirat": 258, "newfstatat": 262, "unlinkat": 263, "renameat": 264, "linkat": 265,
    "readlinkat": 267, "renameat2": 316, "statx": 332,
}  # fmt: skip
ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EMFILE", "EINTR")
AT_CALL = 400
START, END = "/distributary-rig-start", "/distributary-rig-end"
ACKNOWLEDGED, TYPED, UNKNOWN, RAW = 0, 10, 11, 12


class Case(NamedTuple):
    """One run: in which folder, doing what, and which call of which kind is hit (0: none)."""

    folder: str
    scenario: str
    call: str
    number: int
    idle: int


class Outcome(NamedTuple):
    """How a run ended: the case, its exit code (negative: the signal), and its error."""

    case: Case
    code: int
    error: str


def missing() -> str | None:
    """Why the rig cannot run here, or None."""
    if shutil.which("strace") is None:
        return "strace is not installed (`make tools` does it where apt and root are)"
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return "the rig knows the system calls of Linux on x86-64 only"
    status = Path("/proc/self/status").read_text()
    return None if "TracerPid:\t0" in status else "another tracer watches this process"


# What a writer does. Each makes its table ready, gives what is to be watched, and says what must hold.


def _prepare_empty(root: Path) -> None:
    root.mkdir()


def _prepare_commits(root: Path) -> None:
    store = open_store(str(root))
    snapshot = create(store, {"delta.checkpointInterval": "1000"}).snapshot
    for number in range(3):
        snapshot = append(store, snapshot, f"before-{number}").snapshot


def _create(root: Path) -> Callable[[], int]:
    store = open_store(str(root / "made" / "table"))
    return lambda: create(store, {}, file("label")).version


def _append(root: Path) -> Callable[[], int]:
    store = open_store(str(root))
    snapshot = load_snapshot(store)
    return lambda: append(store, snapshot, "label").version


def _rebase(root: Path) -> Callable[[], int]:
    store = open_store(str(root))
    snapshot = load_snapshot(store, 1)
    return lambda: append(store, snapshot, "label").version


def _checkpoint(root: Path) -> Callable[[], int]:
    store = open_store(str(root))
    snapshot = load_snapshot(store)
    return lambda: write_checkpoint(store, snapshot).version


def _prepare_due(root: Path) -> None:
    store = open_store(str(root))
    snapshot = create(store, {"delta.checkpointInterval": "4"}).snapshot
    for number in range(3):
        snapshot = append(store, snapshot, f"before-{number}").snapshot


class Scenario(NamedTuple):
    prepare: Callable[[Path], None]
    act: Callable[[Path], Callable[[], int]]
    table: str = "."
    commits: bool = True


SCENARIOS = {
    "create": Scenario(_prepare_empty, _create, "made/table"),
    "append": Scenario(_prepare_commits, _append),
    "rebase": Scenario(_prepare_commits, _rebase),
    "checkpoint": Scenario(_prepare_commits, _checkpoint, commits=False),
    "append with checkpoint": Scenario(_prepare_due, _append),
}


# The side of the tests: plan the runs, start the watched process, judge what is left.


def run_faults(folder: Path, scenario: str, fault: str) -> list[Outcome]:
    """Hit every call of a scenario with one fault ("KILL" or an errno), and give how each run ended."""
    before, inside = _counted(folder, scenario)
    cases = [
        Case(
            str(folder / f"{fault}-{call}-{number}"), scenario, call, number, AT_CALL - before[call] - number
        )
        for call, count in sorted(inside.items())
        for number in range(1, count + 1)
    ]
    _prepare(cases, folder)
    kind = "signal=KILL" if fault == "KILL" else f"error={fault}"
    options = [f"--inject={','.join(sorted(inside))}:{kind}:when={AT_CALL}"]
    outcomes, trace = _watched(folder / f"{fault}-plan.json", cases, options)
    struck = len(re.findall(r"killed by SIGKILL|\(INJECTED\)", trace))
    assert struck == len(cases), f"{struck} of {len(cases)} calls were hit"
    return outcomes


def faults_of(outcome: Outcome, fault: str) -> list[str]:
    """What is wrong after a run: a broken promise, an untyped error, or a table that cannot go on."""
    case = outcome.case
    scenario = SCENARIOS[case.scenario]
    root = Path(case.folder) / scenario.table
    log = labels_of(root / "_delta_log")
    there = any("label" in labels for labels in log.values())
    found = list(check(log, recorded(Path(case.folder) / "history.jsonl")).faults)
    if fault == "KILL" and outcome.code != -9:
        found.append(f"ended with {outcome.code} instead of being killed")
    if outcome.code == RAW:
        found.append(f"an untyped error: {outcome.error}")
    if outcome.code == TYPED and there and scenario.commits:
        found.append(f"landed, although the writer was told that it did not: {outcome.error}")
    found += _next_writer(root, log, "checkpoint" in case.scenario)
    return [f"{fault} at {case.call} {case.number} of {case.scenario}: {text}" for text in found]


def _next_writer(root: Path, log: dict[int, list[str]], checkpoint: bool) -> list[str]:
    """The next writer goes on with no repair: it reads every label, commits, and may write a checkpoint."""
    store = open_store(str(root))
    labels = {label for labels in log.values() for label in labels}
    try:
        snapshot = load_snapshot(store) if log else create(store).snapshot
        seen = {add.path for add in snapshot.files.adds()}
        after = append(store, snapshot, "after").snapshot
        if checkpoint:
            write_checkpoint(store, after)
        again = {add.path for add in load_snapshot(store).files.adds()}
    except DistributaryError as error:
        return [f"the next writer cannot go on: {error}"]
    return [] if seen == labels and again == labels | {"after"} else ["files are missing or too many"]


def _counted(folder: Path, scenario: str) -> tuple[Counter[str], Counter[str]]:
    """How often each call is made before the scenario begins, and in it."""
    case = Case(str(folder / "counted"), scenario, "", 0, 0)
    _prepare([case], folder)
    outcomes, trace = _watched(
        folder / "counted.json", [case], [f"--trace={','.join(NUMBERS)},access,faccessat2"]
    )
    assert outcomes[0].code == ACKNOWLEDGED, outcomes[0]
    lines = trace.splitlines()
    start = next(at for at, line in enumerate(lines) if START in line)
    end = next(at for at, line in enumerate(lines) if END in line)
    child = lines[start].split()[0]
    loaded = [line for line in lines[start:end] if ".pyc" in line]
    assert not loaded, f"modules are loaded in the midst of what is watched: {loaded[0]}"

    def counted(part: Sequence[str]) -> Counter[str]:
        calls = (re.match(rf"{child} +(\w+)\(", line) for line in part)
        return Counter(call[1] for call in calls if call and call[1] in NUMBERS)

    return counted(lines[:start]), counted(lines[start:end])


def _prepare(cases: Sequence[Case], folder: Path) -> None:
    model = folder / "model"
    if not model.exists():
        SCENARIOS[cases[0].scenario].prepare(model)
    for case in cases:
        shutil.copytree(model, case.folder)


def _watched(plan: Path, cases: Sequence[Case], options: Sequence[str]) -> tuple[list[Outcome], str]:
    """Run cases one after the other under strace; gives their outcomes and what strace wrote."""
    plan.write_text(json.dumps(cases))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "rigs.syscall_rig", str(plan)]
    pipe = subprocess.PIPE
    forker = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert forker.stdin is not None
    assert forker.stdout is not None
    assert forker.stderr is not None
    if forker.stdout.readline() != "ready\n":
        raise AssertionError(forker.stderr.read())
    output = plan.with_suffix(".strace")
    with subprocess.Popen(
        ["strace", "-f", "-qq", "--output", str(output), *options, "--attach", str(forker.pid)],
        stderr=subprocess.DEVNULL,
    ) as strace:
        _wait_for_tracer(forker.pid, strace)
        codes, errors = forker.communicate("go\n")
    assert forker.returncode == 0, errors[-4000:]
    ends = json.loads(codes)
    found = [
        Outcome(case, code, _error_of(Path(case.folder))) for case, code in zip(cases, ends, strict=True)
    ]
    return found, output.read_text()


def _wait_for_tracer(pid: int, strace: subprocess.Popen[bytes]) -> None:
    while "TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text():
        assert strace.poll() is None, "strace may not watch another process here"
        time.sleep(0.01)
    time.sleep(0.05)


def _error_of(folder: Path) -> str:
    path = folder / "error.txt"
    return path.read_text() if path.exists() else ""


# The side of the watched process.


def _fork_all(plan: Path) -> list[int]:
    cases = [Case(*fields) for fields in json.loads(plan.read_text())]
    pa.array([0])  # pyarrow looks for pandas now, and not inside of what is watched
    libc = ctypes.CDLL(None)
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # any process may watch this one
    print("ready", flush=True)
    sys.stdin.readline()
    codes: list[int] = []
    for case in cases:
        child = os.fork()
        if not child:
            _act(case, libc)
        _, status = os.waitpid(child, 0)
        codes.append(os.waitstatus_to_exitcode(status))
    return codes


def _act(case: Case, libc: Any) -> None:
    code = RAW
    folder = Path(case.folder)
    try:
        act = SCENARIOS[case.scenario].act(folder)
        for _ in range(case.idle if case.call else 0):
            libc.syscall(NUMBERS[case.call], -1, None, None, None, None)
        os.access(START, os.F_OK)
        try:
            version = act()
        finally:
            os.access(END, os.F_OK)
        if SCENARIOS[case.scenario].commits:
            record(folder / "history.jsonl", version, "label")
        code = ACKNOWLEDGED
    except BaseException as error:
        (folder / "error.txt").write_text(repr(error))
        if isinstance(error, DistributaryError):
            code = UNKNOWN if isinstance(error, CommitStateUnknownError) else TYPED
    finally:
        os._exit(code)


if __name__ == "__main__":
    print(json.dumps(_fork_all(Path(sys.argv[1]))))
