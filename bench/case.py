"""What a benchmark is: cases of a subject, the sizes they run at, and the clock of a child process.

A subject is a module with `TITLE`, `INTRODUCTION` and `cases(sizes)`. The work of a case for
an engine is the module's function `<engine>_<work>`; it is called in a process of its own as
`function(clock, folder, **arguments)`, does its preparations, does the work inside
`with clock:`, and returns what shows that the work was done: engines must agree on it.
Subjects are imported by the peers' interpreter too, so they import engines inside functions.
"""

from __future__ import annotations

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
    target: tuple[float, float] | None = None  # ours : the peer at most, of wall time and of memory


class Clock:
    """Wall time, CPU time and peak memory of what happens inside `with`."""

    def __init__(self) -> None:
        self.measured: dict[str, float] = {}

    def __enter__(self) -> Clock:
        self._cpu = cpu_seconds()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        wall = time.perf_counter() - self._start
        self.measured = {"wall": wall, "cpu": cpu_seconds() - self._cpu, "memory": peak_memory()}

    def add_processes(self, cpu: float, memory: int) -> None:
        """Count other processes that did the work, which know best what they took."""
        self.measured["cpu"] += cpu
        self.measured["memory"] += memory


def peak_memory() -> int:
    """The highest resident set of this process; `ru_maxrss` begins with that of the parent on Linux."""
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def cpu_seconds() -> float:
    """The CPU time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
