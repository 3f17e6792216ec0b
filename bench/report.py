"""The page that a run writes: the machine, the tables, and what to make of them."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from case import OURS, Case

HEAD = (
    "| | engine | wall s | CPU s | memory MB | ours : it, wall | CPU | memory |",
    "|---|---|--:|--:|--:|--:|--:|--:|",
)
NAMES = {
    OURS: "distributary",
    "deltalake_pyarrow": "deltalake, pyarrow",
    "deltalake_datafusion": "deltalake, DataFusion",
    "polars": "Polars",
    "duckdb": "DuckDB",
}
# A ratio this close to 1 is noise.
EVEN = 1.05


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one engine took for one case, and what it gave."""

    wall: float
    cpu: float
    memory: float
    result: object = None

    @classmethod
    def best(cls, many: Sequence[Measurement]) -> Measurement:
        """The best times and the highest memory of several runs."""
        return cls(
            min(one.wall for one in many),
            min(one.cpu for one in many),
            max(one.memory for one in many),
            many[0].result,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what each engine took, and what went wrong."""

    case: Case
    measurements: Mapping[str, Measurement]
    problems: Sequence[str]

    def slower_than(self) -> list[str]:
        """The engines that took less wall time or CPU than ours."""
        ours = self.measurements.get(OURS)
        if ours is None:
            return []
        return [
            f"{NAMES.get(engine, engine)} (wall {ours.wall / peer.wall:.2f} ×, "
            f"CPU {ours.cpu / max(peer.cpu, 1e-6):.2f} ×)"
            for engine, peer in self.measurements.items()
            if engine != OURS and (ours.wall > EVEN * peer.wall or ours.cpu > EVEN * peer.cpu)
        ]


@dataclass(frozen=True, slots=True)
class Section:
    """The outcomes of one subject."""

    title: str
    introduction: str
    outcomes: list[Outcome]


def page(
    sections: Sequence[Section], versions: Mapping[str, str], *, quick: bool, repeats: int, load: float
) -> str:
    """The whole page."""
    lines = ["# Benchmarks", "", *_about(versions, quick, repeats, load)]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.introduction]
        for group, outcomes in groupby(section.outcomes, key=lambda outcome: outcome.case.group):
            several = list(outcomes)
            lines += ["", f"### {group}", "", *table_lines(several, with_head=True)]
        lines += _remarks(section)
    return "\n".join([*lines, *_targets(sections), "", *_slower(sections)]).rstrip() + "\n"


def table_lines(outcomes: Sequence[Outcome], with_head: bool) -> list[str]:
    """Rows of a table, ours first in each case."""
    lines = list(HEAD) if with_head else []
    for outcome in outcomes:
        ours = outcome.measurements.get(OURS)
        for number, (engine, measured) in enumerate(outcome.measurements.items()):
            title = outcome.case.title if number == 0 else ""
            lines.append(f"| {title} | {NAMES.get(engine, engine)} | {_figures(measured, ours, engine)} |")
    return lines


def _figures(measured: Measurement, ours: Measurement | None, engine: str) -> str:
    figures = [f"{measured.wall:.3f}", f"{measured.cpu:.3f}", f"{measured.memory / 1e6:,.0f}"]
    if ours is None or engine == OURS:
        return " | ".join([*figures, "", "", ""])
    pairs = ((ours.wall, measured.wall), (ours.cpu, measured.cpu), (ours.memory, measured.memory))
    return " | ".join([*figures, *(f"{ours_:.2f}" if (ours_ := a / max(b, 1e-6)) else "" for a, b in pairs)])


def _about(versions: Mapping[str, str], quick: bool, repeats: int, load: float) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [
        "Written by `make bench`, which runs every engine on the same data, in the same run, on one machine.",
        *(["", "**A quick run on small data: it shows that the benchmarks work, no more.**"][: 2 * quick]),
        "",
        f"- Date: {today}",
        f"- Machine: {os.cpu_count()} cores, {_memory_gib()} GiB of memory, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}",
        f"- Load when the run began: {load:.1f} (tasks that wanted a core). {_disturbed(load)}",
        f"- Versions: {used}",
        f"- Turns of each engine: {repeats}",
        "",
        "Each measurement is a fresh process; imports are not timed, opening the table is. Engines take",
        "turns. Shown are the best wall and CPU seconds of all turns (CPU is user and system, all threads)",
        "and the highest peak memory of the whole process, interpreter and libraries included (ours starts",
        "at about 130 MB with Arrow, NumPy and pandas loaded, deltalake at 30 MB). Files are in the page",
        "cache. A ratio below 1 means that ours took less. That all engines did the same work is checked:",
        "they must agree on counts, sums and names of what they gave. Compare ratios, not seconds: other",
        "work on the machine changes both sides.",
        "",
        "To repeat: `make bench`. Some of it: `make bench ARGS='--only scan_rows'`, or a case by its name",
        "(`--only statistics`). Does it work: `make bench ARGS=--quick`.",
    ]  # fmt: skip


def _disturbed(load: float) -> str:
    if load <= (os.cpu_count() or 1) / 2:
        return "The machine was quiet."
    return "Other work ran beside it: wall times are disturbed, and CPU times say more."


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _remarks(section: Section) -> list[str]:
    remarks = dict.fromkeys(outcome.case.remark for outcome in section.outcomes if outcome.case.remark)
    return ["", *(f"- {remark}" for remark in remarks)] if remarks else []


def _targets(sections: Sequence[Section]) -> list[str]:
    """What the design asks for, and whether this run had it."""
    lines = [
        line
        for section in sections
        for outcome in section.outcomes
        if outcome.case.target is not None and (line := _verdict(outcome, *outcome.case.target))
    ]
    head = ["| | wall, target | wall | memory, target | memory | CPU |", "|---|--:|--:|--:|--:|--:|"]
    return ["", "## Targets, ours : deltalake", "", *head, *lines] if lines else []


def _verdict(outcome: Outcome, wall: float, memory: float) -> str:
    ours, peer = outcome.measurements.get(OURS), outcome.measurements.get("deltalake")
    if ours is None or peer is None:
        return ""
    took, held, cpu = ours.wall / peer.wall, ours.memory / peer.memory, ours.cpu / max(peer.cpu, 1e-6)
    wall_seen = f"{took:.2f} {'met' if took <= wall else '**missed**'}"
    memory_seen = f"{held:.2f} {'met' if held <= memory else '**missed**'}"
    title = f"{outcome.case.group}, {outcome.case.title}"
    return f"| {title} | {wall:.2f} | {wall_seen} | {memory:.2f} | {memory_seen} | {cpu:.2f} |"


def _slower(sections: Sequence[Section]) -> list[str]:
    lines = [
        f"- {outcome.case.group}, {outcome.case.title}: {', '.join(slower)}"
        for section in sections
        for outcome in section.outcomes
        if (slower := outcome.slower_than())
    ]
    problems = [
        f"- {outcome.case.group}, {outcome.case.title}: {problem}"
        for section in sections
        for outcome in section.outcomes
        for problem in outcome.problems
    ]
    text = ["## Where a peer was quicker in this run", ""]
    text += ["Why is said below each table. Differences under 20 % are noise where other work runs.", ""]
    text += lines or ["Nowhere."]
    return [*text, "", "## What went wrong", "", *problems] if problems else text
