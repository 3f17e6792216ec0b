"""The processes that measure: a fresh one each time, or a lasting one of each engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from case import OURS, Case
from report import Measurement

PROJECT = Path(__file__).resolve().parent.parent
MEASURE = PROJECT / "bench" / "measure.py"


@dataclass(frozen=True)
class FreshProcesses:
    """A new process for each measurement; peers run by an interpreter of their own, if there is one."""

    subject: str
    peers: Path | None

    def __enter__(self) -> FreshProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def has(self, engine: str) -> bool:
        """Whether the engine can be measured here."""
        return engine == OURS or self.peers is not None

    def measure(self, engine: str, case: Case, folder: Path) -> Measurement | str:
        """One measurement, or why there is none."""
        python = sys.executable if engine == OURS else str(self.peers)
        command = [python, str(MEASURE), self.subject, engine, case.work, str(folder),
                   json.dumps(dict(case.arguments))]  # fmt: skip
        done = subprocess.run(command, env=_environment(engine), capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        return Measurement(**json.loads(done.stdout.splitlines()[-1]))


@dataclass(frozen=True)
class LastingProcesses:
    """One process of each engine, started when it is first asked for, all by the same interpreter.

    Without that interpreter ours is measured by the one that runs this, and no other engine is.
    """

    subject: str
    python: Path | None
    scratch: Path
    _running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __enter__(self) -> LastingProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def has(self, engine: str) -> bool:
        """Whether the engine can be measured here."""
        return engine == OURS or self.python is not None

    def measure(self, engine: str, case: Case, folder: Path) -> Measurement | str:
        """One measurement, or why there is none."""
        process = self._process(engine)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which its answer tells
            process.stdin.write(json.dumps([case.work, str(folder), dict(case.arguments)]) + "\n")
            process.stdin.flush()
        answer = _answer(process)
        return answer["error"] if "error" in answer else Measurement(**answer)

    def _process(self, engine: str) -> subprocess.Popen[str]:
        if engine not in self._running:
            self.scratch.mkdir(parents=True, exist_ok=True)
            errors = (self.scratch / f"{self.subject}-{engine}.log").open("w")
            python = sys.executable if self.python is None else str(self.python)
            self._running[engine] = subprocess.Popen(
                [python, str(MEASURE), self.subject, engine, str(self.scratch)],
                env=_environment(engine),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            _answer(self._running[engine])
        return self._running[engine]


def _answer(process: subprocess.Popen[str]) -> dict[str, object]:
    """The next line of JSON; engines may print other things between."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    return {"error": f"the process ended with {process.wait()}; its log is in the folder of the data"}


def _environment(engine: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT / "src") if engine == OURS else ""}
