"""A peer: another engine in a process of its own, asked by lines of JSON; rows travel as Arrow files."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


class PeerError(Exception):
    """What the other engine said when it failed."""


@dataclass(frozen=True)
class View:
    """A table as a peer sees it."""

    version: int
    rows: pa.Table
    schema: dict[str, Any]
    partition_columns: list[str]
    properties: dict[str, str]
    operations: list[str]  # of the history, oldest first
    features: frozenset[str]


def _inherited() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("SPARK_HOME", "PYTHONPATH")}


class Peer:
    """A running peer."""

    def __init__(self, name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._folder = folder
        self._numbers = itertools.count()
        self._log = folder / "peer.log"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env={**_inherited(), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
            )

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()

    def ask(self, op: str, **arguments: Any) -> Any:
        """Have the peer do something; what it answers."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            pytest.fail(f"{self.name} ended: {self._log.read_text(errors='replace')[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {op} {arguments}: {answer['error']}")
        return answer["result"]

    def rows(self, path: str | Path, version: int | None = None) -> pa.Table:
        """All rows of a table."""
        out = self._file()
        self.ask("rows", path=str(path), version=version, out=str(out))
        return self._taken(out)

    def view(self, path: str | Path) -> View:
        """A table with all that is known about it."""
        out = self._file()
        found = self.ask("view", path=str(path), out=str(out))
        features = frozenset(found.pop("features"))
        return View(rows=self._taken(out), features=features, **found)

    def append(self, path: str | Path, rows: pa.Table) -> int:
        """Append rows; the version after it."""
        given = self._file()
        with pa.OSFile(str(given), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        version: int = self.ask("append", path=str(path), rows=str(given))
        given.unlink()
        return version

    def _file(self) -> Path:
        return self._folder / f"rows-{next(self._numbers)}.arrow"

    @staticmethod
    def _taken(path: Path) -> pa.Table:
        with pa.OSFile(str(path), "rb") as source:
            table = pa.ipc.open_file(source).read_all()
        path.unlink()
        return table
