"""The page that a run writes: the machine, the tables, and what to make of them."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from case import OURS, Case, Target

HEAD = (
    "| | engine | wall s | CPU s | memory MB | ours : it, wall | CPU | memory |",
    "|---|---|--:|--:|--:|--:|--:|--:|",
)
MOVED_HEAD = (f"{HEAD[0]} MB moved |", f"{HEAD[1]}--:|")
NAMES = {
    OURS: "distributary",
    "deltalake_pyarrow": "deltalake, pyarrow",
    "deltalake_datafusion": "deltalake, DataFusion",
    "polars": "Polars",
    "duckdb": "DuckDB",
    "delta_spark": "delta-spark, tuned",
    "parquet": "plain Parquet",
    "delta_sharing": "delta-sharing",
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
    moved: int | None = None
    """Bytes that came over the network, where somebody counts them."""

    @classmethod
    def best(cls, many: Sequence[Measurement]) -> Measurement:
        """The best times and the highest memory of several runs."""
        return cls(
            min(one.wall for one in many),
            min(one.cpu for one in many),
            max(one.memory for one in many),
            many[0].result,
            max((one.moved for one in many if one.moved is not None), default=None),
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
    """The outcomes of one subject, and how they came about."""

    subject: str
    title: str
    introduction: str
    outcomes: list[Outcome]
    versions: Mapping[str, str]
    repeats: int
    load: float

    @property
    def problems(self) -> list[str]:
        """What went wrong in any of its cases."""
        return [problem for outcome in self.outcomes for problem in outcome.problems]


@dataclass(frozen=True, slots=True)
class WrittenSection:
    """A section of a subject with figures of its own kind, which has written it itself."""

    subject: str
    text: str
    tables: Sequence[str]
    problems: Sequence[str]


AnySection = Section | WrittenSection


def page(old: str, sections: Sequence[AnySection], order: Sequence[str], *, quick: bool) -> str:
    """The whole page: subjects that did not run keep the section that they have on the old one."""
    texts = _sections(old) | {section.subject: _section(section) for section in sections}
    return (
        "\n\n".join([ABOUT, *([QUICK] if quick else []), *(texts[name] for name in order if name in texts)])
        + "\n"
    )


def _sections(page: str) -> dict[str, str]:
    """The sections of a page, by the subject that the mark before each names."""
    found = re.split(r"^<!-- subject: (\w+) -->\n", page, flags=re.M)
    return {
        name: f"<!-- subject: {name} -->\n{text.rstrip()}"
        for name, text in zip(found[1::2], found[2::2], strict=True)
    }


def _section(section: AnySection) -> str:
    if isinstance(section, WrittenSection):
        return section.text
    lines = [f"<!-- subject: {section.subject} -->", f"## {section.title}", "", section.introduction]
    lines += ["", *_circumstances(section)]
    for group, outcomes in groupby(section.outcomes, key=lambda outcome: outcome.case.group):
        lines += ["", f"### {group}", "", *table_lines(list(outcomes), with_head=True)]
    return "\n".join([*lines, *_remarks(section), *_targets(section), *_slower(section)])


def _circumstances(section: Section) -> list[str]:
    return [f"{circumstances(section.versions, section.load)} Turns of each engine: {section.repeats}."]


def circumstances(versions: Mapping[str, str], load: float) -> str:
    """When, where and with what was measured."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"Measured {today} on {os.cpu_count()} cores, {_memory_gib()} GiB of memory, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; {used}. "
        f"Load when the run began: {load:.1f}. {_disturbed(load)}"
    )


def table_lines(outcomes: Sequence[Outcome], with_head: bool) -> list[str]:
    """Rows of a table, ours first in each case."""
    counted = any(one.moved is not None for outcome in outcomes for one in outcome.measurements.values())
    lines = list(MOVED_HEAD if counted else HEAD) if with_head else []
    for outcome in outcomes:
        ours = outcome.measurements.get(OURS)
        for number, (engine, measured) in enumerate(outcome.measurements.items()):
            title = outcome.case.title if number == 0 else ""
            moved = f" {measured.moved / 1e6:,.2f} |" if measured.moved is not None else ""
            figures = _figures(measured, ours, engine)
            lines.append(f"| {title} | {NAMES.get(engine, engine)} | {figures} |{moved}")
    return lines


def _figures(measured: Measurement, ours: Measurement | None, engine: str) -> str:
    figures = [f"{measured.wall:.3f}", f"{measured.cpu:.3f}", f"{measured.memory / 1e6:,.0f}"]
    if ours is None or engine == OURS:
        return " | ".join([*figures, "", "", ""])
    pairs = ((ours.wall, measured.wall), (ours.cpu, measured.cpu), (ours.memory, measured.memory))
    return " | ".join([*figures, *(f"{ours_:.2f}" if (ours_ := a / max(b, 1e-6)) else "" for a, b in pairs)])


ABOUT = """\
# Benchmarks

Written by `make bench`, which runs every engine on the same data, in the same run, on one machine.

Engines take turns. Shown are the best wall and CPU seconds of all turns (CPU is user and system, all threads
and child processes) and the highest peak memory of the whole process, interpreter and libraries included.
Files are in the page cache. A ratio below 1 means that ours took less. That all engines did the same work is
checked: they must agree on counts, sums and names of what they gave. Compare ratios, not seconds: other work
on the machine changes both sides.

To repeat: `make bench`. Some of it: `make bench ARGS='--only scan_rows'`, or a case by its name
(`--only statistics`). Does it work: `make bench ARGS=--quick`."""
QUICK = "**A quick run on small data: it shows that the benchmarks work, no more.**"


def _disturbed(load: float) -> str:
    if load <= (os.cpu_count() or 1) / 2:
        return "The machine was quiet."
    return "Other work ran beside it: wall times are disturbed, and CPU times say more."


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _remarks(section: Section) -> list[str]:
    remarks = dict.fromkeys(outcome.case.remark for outcome in section.outcomes if outcome.case.remark)
    return ["", *(f"- {remark}" for remark in remarks)] if remarks else []


def _targets(section: Section) -> list[str]:
    """What the design asks for, and whether this run had it."""
    lines = [
        _verdict(outcome, target)
        for outcome in section.outcomes
        for target in outcome.case.targets
        if OURS in outcome.measurements and target.peer in outcome.measurements
    ]
    head = ["| target | ours : it, at most | wall | CPU | memory |", "|---|--:|--:|--:|--:|"]
    return ["", "**Targets**", "", *head, *lines] if lines else []


def _verdict(outcome: Outcome, target: Target) -> str:
    ours, peer = outcome.measurements[OURS], outcome.measurements[target.peer]
    wall, cpu, memory = ours.wall / peer.wall, ours.cpu / max(peer.cpu, 1e-6), ours.memory / peer.memory
    held = "" if target.memory is None else f" {_met(memory, target.memory)} ({target.memory:.2f})"
    title = f"{outcome.case.title}, against {NAMES.get(target.peer, target.peer)}"
    return (
        f"| {title} | {target.time:.2f} | {wall:.2f} {_met(wall, target.time)} "
        f"| {cpu:.2f} {_met(cpu, target.time)} | {memory:.2f}{held} |"
    )


def _met(seen: float, most: float) -> str:
    return "met" if seen <= most else "**missed**"


def _slower(section: Section) -> list[str]:
    lines = [
        f"- {outcome.case.group}, {outcome.case.title}: {', '.join(slower)}"
        for outcome in section.outcomes
        if (slower := outcome.slower_than())
    ]
    problems = [
        f"- {outcome.case.group}, {outcome.case.title}: {problem}"
        for outcome in section.outcomes
        for problem in outcome.problems
    ]
    text = [
        "",
        "**Where a peer was quicker in this run** (differences under 20 % are noise where other work runs)",
    ]
    text += ["", *(lines or ["Nowhere."])]
    return [*text, "", "**What went wrong**", "", *problems] if problems else text
