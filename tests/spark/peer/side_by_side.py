"""The same steps on a table of ours and on one of delta-spark's, and what they have in common afterwards.

A step is a statement with `{t}` for the table. delta-spark gets all steps of a scenario in one request, and
afterwards reads our table; we read delta-spark's, and go on with it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.content import content, difference
from peers.process import Peer

from distributary.delta.table import DeltaTable
from distributary.spark import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METRICS = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


@dataclass(frozen=True)
class Step:
    """A statement, or a write of a query's rows with the DataFrame writer's options."""

    text: str
    write: dict[str, Any] = field(default_factory=dict[str, Any])

    def peer_write(self) -> dict[str, Any]:
        """The same write for the peer's DataFrame writer."""
        names = {
            "merge_schema": "mergeSchema",
            "overwrite_schema": "overwriteSchema",
            "replace_where": "replaceWhere",
            "partition_overwrite": "partitionOverwriteMode",
        }
        options = {
            names[key]: str(value).lower() if isinstance(value, bool) else value
            for key, value in self.write.items()
            if key in names
        }
        return {
            "mode": self.write.get("mode", "append"),
            "options": options,
            "partition_by": self.write.get("partition_by", []),
        }


@dataclass(frozen=True)
class Outcome:
    """What a step did on one side: its rows, or that it failed; and the table after it."""

    answer: Any
    rows: list[str]

    @property
    def failed(self) -> bool:
        """Whether the step was refused."""
        return isinstance(self.answer, dict) and "error" in self.answer


class Pair:
    """Two tables that shall be equal."""

    def __init__(self, spark: SparkSession, peer: Peer, folder: Path) -> None:
        self._spark, self._peer = spark, peer
        self.ours, self.theirs = folder / "ours", folder / "theirs"

    def run(self, *steps: str | Step) -> None:
        """Do the same on both sides; rows are equal after each step, and failures happen on both."""
        wanted = [Step(step) if isinstance(step, str) else step for step in steps]
        theirs = self._run_theirs(wanted)
        ours = [self._run_ours(step, self.ours) for step in wanted]
        problems: list[str] = []
        for step, mine, other in zip(wanted, ours, theirs, strict=True):
            if mine.failed != other.failed:
                problems.append(f"{step.text}\n  ours: {mine.answer}\n  theirs: {other.answer}")
            elif mine.rows != other.rows:
                problems.append(f"{step.text}\n  {difference(mine.rows, other.rows)}")
            elif _counts(mine.answer) != _counts(other.answer):
                problems.append(f"{step.text}\n  ours: {mine.answer}\n  theirs: {other.answer}")
        assert not problems, "\n".join(problem[:1500] for problem in problems)

    def exchange(self, *last: str) -> None:
        """Each side reads the other's table; then `last` is done by us to theirs and by them to ours."""
        ours = self._content(self.ours)
        assert self._ask({"do": "content", "path": str(self.ours)}) == ours
        assert self._content(self.theirs) == ours
        if not last:
            return
        requests = [self._request(Step(text), self.ours) for text in last]
        answers = self._ask(*requests, {"do": "content", "path": str(self.ours)}, all_answers=True)
        for text in last:
            outcome = self._run_ours(Step(text), self.theirs)
            assert not outcome.failed, outcome.answer
        assert not [answer for answer in answers[:-1] if "error" in answer], answers
        assert self._content(self.ours) == answers[-1]
        assert self._content(self.theirs) == answers[-1]

    def operations(self) -> tuple[list[str | None], list[str]]:
        """The operations of both histories, oldest first."""
        ours = [entry.operation for entry in reversed(DeltaTable(self.ours).history())]
        return ours, self._ask({"do": "operations", "path": str(self.theirs)})

    def both(self, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a statement gives on each side: schema and rows."""
        frame = sql(self._spark, self._text(text, self.ours))
        rows = [json.loads(json.dumps(row.asDict(recursive=True), default=str)) for row in frame.collect()]
        ours = {"schema": frame.schema.simpleString(), "rows": rows}
        return ours, self._ask({"do": "sql", "text": self._text(text, self.theirs)})

    def peer_says(self, text: str, whose: str) -> dict[str, Any]:
        """What delta-spark answers to a statement about our table or its own."""
        path = self.ours if whose == "ours" else self.theirs
        return self._ask({"do": "sql", "text": self._text(text, path)})

    @contextmanager
    def short_retention_allowed(self) -> Iterator[None]:
        """Let our session vacuum as the peer's does, which does not look at the retention."""
        check = "spark.databricks.delta.retentionDurationCheck.enabled"
        self._spark.conf.set(check, "false")
        try:
            yield
        finally:
            self._spark.conf.unset(check)

    def changes(self, start: int) -> tuple[list[str], list[str]]:
        """The change feeds of both, each read by delta-spark."""
        requests = [{"do": "changes", "path": str(path), "start": start} for path in (self.ours, self.theirs)]
        ours, theirs = self._ask(*requests, all_answers=True)
        return ours, theirs

    def _run_theirs(self, steps: Sequence[Step]) -> list[Outcome]:
        """What delta-spark did; its table is read by the engine, version by version, which costs less."""
        requests: list[dict[str, Any]] = []
        for step in steps:
            requests += [self._request(step, self.theirs), {"do": "version", "path": str(self.theirs)}]
        answers = self._ask(*requests, all_answers=True)
        return [
            Outcome(answer, self._content(self.theirs, version))
            for answer, version in zip(answers[::2], answers[1::2], strict=True)
        ]

    def _run_ours(self, step: Step, path: Path) -> Outcome:
        try:
            answer = self._do(step, path)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        return Outcome(answer, self._content(path))

    def _text(self, text: str, path: Path) -> str:
        """A statement about a table: `{t}` by its path, `{n}` by a name, `{p}` its path alone."""
        name = f"table_{zlib.crc32(str(path).encode())}"
        return text.format(t=f"delta.`{path}`", n=name, p=path)

    def _request(self, step: Step, path: Path) -> dict[str, Any]:
        if step.write:
            return {"do": "write", "select": step.text, "path": str(path), **step.peer_write()}
        return {"do": "sql", "text": self._text(step.text, path)}

    def _do(self, step: Step, path: Path) -> Any:
        from distributary.spark import write_table

        if step.write:
            return write_table(self._spark.sql(step.text), str(path), **step.write) and None
        frame = sql(self._spark, self._text(step.text, path))
        rows = [row.asDict(recursive=True) for row in frame.collect()] if frame.columns else []
        return {"schema": frame.schema.simpleString(), "rows": rows}

    def _content(self, path: Path, version: int | None = None) -> list[str]:
        """All rows by the engine's own reader, which other tests compare with delta-spark's."""
        return content(DeltaTable(path).snapshot(version).to_arrow())

    def _ask(self, *steps: dict[str, Any], all_answers: bool = False) -> Any:
        answers = self._peer.ask("script", steps=list(steps))
        return answers if all_answers else answers[0]


def _counts(answer: Any) -> dict[str, int]:
    rows = answer.get("rows") if isinstance(answer, dict) else None
    return {name: rows[0][name] for name in METRICS if name in rows[0]} if rows else {}
