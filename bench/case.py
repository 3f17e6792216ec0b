"""What a benchmark is: cases of a subject, the sizes they run at, and the clock of a child process.

A subject is a module with `TITLE`, `INTRODUCTION` and `cases(sizes)`. The work of a case for
an engine is the module's function `<engine>_<work>`; it is called in a process of its own as
`function(clock, folder, **arguments)`, does its preparations, does the work inside
`with clock:`, and returns what shows that the work was done: engines must agree on it.
Subjects are imported by the peers' interpreter too, so they import engines inside functions.
Where starting an engine takes long, the subject says `LASTING = True`: one process of each engine
then does all its work, after `<engine>_warm_up(folder)`.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OURS = "distributary"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the data is."""

    files: tuple[int, ...] = (100_000, 1_000_000)
    rows: int = 10_000_000
    commits: int = 200
    repeats: int = 3


FULL = Sizes()
QUICK = Sizes(files=(10_000,), rows=120_000, commits=10, repeats=1)


@dataclass(frozen=True, slots=True)
class Target:
    """What the design asks for: ours at most so many times the peer's time (and its memory)."""

    peer: str
    time: float
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table: the same work by several engines on the same data."""

    name: str
    title: str
    work: str
    data: str
    engines: tuple[str, ...]
    arguments: Mapping[str, object] = field(default_factory=dict)
    group: str = ""
    remark: str = ""
    targets: tuple[Target, ...] = ()


class Clock:
    """Wall time, CPU time and peak memory of what happens inside `with`, of children (a JVM) too."""

    def __init__(self) -> None:
        self.measured: dict[str, float] = {}

    def __enter__(self) -> Clock:
        self._children = child_processes()
        self._cpu = cpu_seconds() + _cpu_of(self._children)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        wall = time.perf_counter() - self._start
        cpu = cpu_seconds() + _cpu_of(self._children) - self._cpu
        memory = peak_memory() + sum(_peak_of(child) for child in self._children)
        self.measured = {"wall": wall, "cpu": cpu, "memory": memory}

    def add_processes(self, cpu: float, memory: int) -> None:
        """Count other processes that did the work, which know best what they took."""
        self.measured["cpu"] += cpu
        self.measured["memory"] += memory


def peak_memory() -> int:
    """The highest resident set of this process; `ru_maxrss` begins with that of the parent on Linux."""
    return _peak_of("self") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _peak_of(process: str) -> int:
    """The highest resident set of a process; 0 where it has ended or the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = status.partition("VmHWM:")[2].split()
    return int(found[0]) * 1024 if found else 0


def cpu_seconds() -> float:
    """The CPU time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def child_processes() -> list[str]:
    """The processes below this one; none where the system does not tell."""
    parents: dict[str, str] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[place.parent.name] = place.read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended meanwhile
            continue
    found, wanted = [], {str(os.getpid())}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        found += sorted(wanted)
    return found


def _cpu_of(processes: list[str]) -> float:
    ticks = 0
    for process in processes:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
