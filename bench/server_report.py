"""The section of the sharing server: its tables, and the targets of the design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharing_server import ServerCase

Figures = Mapping[str, float]

HEAD = (
    "| | server | CPU ms | p50 ms | p99 ms | first byte ms | first request ms | answer "
    "| requests/s at 1 | 8 | 32 | memory MB | CPU, ours : it |",
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
)
OURS, REFERENCE = "distributary", "reference, recorded"


@dataclass(frozen=True)
class Bound:
    """What the design asks of a figure of a case: at most so much, or at least."""

    case: str
    figure: str
    limit: float
    unit: str
    at_least: bool = False


TARGETS = (
    *(
        Bound(case, "cpu_ms_per_req", 2, "ms CPU")
        for case in ("version_small", "metadata_small", "query_small")
    ),
    Bound("query_medium", "cpu_ms_per_req", 8, "ms CPU"),
    Bound("query_big_1part", "cpu_ms_per_req", 15, "ms CPU"),
    Bound("query_big", "cpu_ms_per_req", 500, "ms CPU"),
    Bound("query_big", "ttfb_p50_ms", 50, "ms to the first byte"),
    Bound("query_million", "p50_ms", 6000, "ms"),
    Bound("query_million", "ttfb_p50_ms", 200, "ms to the first byte, warm"),
    Bound("query_million", "over_idle", 1024, "MiB over idle, all workers"),
    Bound("shares_beside_queries", "p99_ms", 50, "ms, p99"),
    Bound("shares", "c32", 45_000, "requests/s at 32 connections", at_least=True),
)


def section_text(
    cases: Sequence[ServerCase],
    found: Mapping[str, Figures],
    reference: Mapping[str, Figures],
    problems: Sequence[str],
    *,
    with_targets: bool,
) -> list[str]:
    """The lines below the introduction."""
    lines: list[str] = []
    for group, members in groupby(cases, key=lambda case: case.group):
        measured = [case for case in members if case.name in found]
        if measured and group not in ("Beside", "Files"):
            lines += [f"### {group}", "", *HEAD, *_rows(measured, found, reference), ""]
    lines += _beside(found.get("shares_beside_queries"), reference.get("shares_beside_queries"))
    lines += _files(found.get("file_tickets"))
    lines += [*_targets(cases, found), *_bound(found.get("shares"))] if with_targets else []
    if problems:
        lines += ["**What went wrong**", "", *(f"- {problem}" for problem in problems), ""]
    return lines[:-1]


def _rows(
    cases: Sequence[ServerCase], found: Mapping[str, Figures], reference: Mapping[str, Figures]
) -> list[str]:
    lines: list[str] = []
    for case in cases:
        ours, theirs = found[case.name], reference.get(case.reference)
        ratio = (
            "" if theirs is None else f"{ours['cpu_ms_per_req'] / max(theirs['cpu_ms_per_req'], 1e-6):.3f}"
        )
        lines.append(f"| {case.title} | {OURS} | {_row(ours)} | {ratio} |")
        if theirs is not None:
            lines.append(f"| | {REFERENCE} | {_row(theirs)} | |")
    return lines


def _row(figures: Figures) -> str:
    times = ("cpu_ms_per_req", "p50_ms", "p99_ms", "ttfb_p50_ms", "first_total_ms")
    cells = [short(figures.get(name)) for name in times]
    cells.append(f"{_size(figures['bytes'])}, {figures['lines']:,.0f} lines" if figures["bytes"] else "")
    cells += [short(figures.get(f"c{many}")) for many in (1, 8, 32)]
    return " | ".join([*cells, f"{figures['memory'] / 1e6:,.0f}"])


def short(value: float | None) -> str:
    """Three digits or so."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _size(size: float) -> str:
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"


def _beside(ours: Figures | None, theirs: Figures | None) -> list[str]:
    if ours is None:
        return []
    lines = [
        "### `/shares` while 8 clients query all files of big", "",
        "| server | p50 ms | p99 ms | longest ms | requests | big queries | their p50 ms |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for name, one in ((OURS, ours), (REFERENCE, theirs)):
        if one is not None:
            cells = [short(one.get(key)) for key in ("p50_ms", "p99_ms", "max_ms")]
            counts = [f"{one['n']:,.0f}", f"{one['heavy']:,.0f}", short(one["heavy_p50_ms"])]
            lines.append(f"| {name} | {' | '.join([*cells, *counts])} |")
    return [*lines, ""]


def _files(figures: Figures | None) -> list[str]:
    if figures is None:
        return []
    plain = "nginx, sendfile" if figures["nginx"] else "plain sendfile"
    lines = [
        "### A large local file by ticket", "",
        "| server | MB/s to 1 client | to 8 | CPU s a GB, 1 client | 8 |",
        "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for name, prefix in ((OURS, ""), (plain, "plain_")):
        keys = [f"{prefix}{key}_{clients}" for key in ("mb_per_s", "cpu_s_per_gb") for clients in (1, 8)]
        lines.append(f"| {name} | {' | '.join(short(figures[key]) for key in keys)} |")
    return [*lines, ""]


def _targets(cases: Sequence[ServerCase], found: Mapping[str, Figures]) -> list[str]:
    titles = {case.name: case.title for case in cases}
    lines = [
        _verdict(titles[bound.case], bound, found[bound.case]) for bound in TARGETS if bound.case in found
    ]
    head = ["**Targets**", "", "| target | asked | measured | |", "|---|--:|--:|---|"]
    return [*head, *lines, ""] if lines else []


def _bound(shares: Figures | None) -> list[str]:
    """What the machine allows a server of this kind at all: whoever makes the load takes a part of it."""
    if shares is None or "bare" not in shares or "c32" not in shares:
        return []
    share = 100 * shares["c32"] / shares["bare"]
    return [
        "An ASGI application that does nothing, on the same HTTP server and in the same run, gave "
        f"{shares['bare']:,.0f} requests/s",
        "at 32 connections, made on the same cores: `/shares`, with token, limit, metrics and log, has",
        f"{share:.0f} % of this bound.",
        "",
    ]


def _verdict(title: str, bound: Bound, figures: Figures) -> str:
    over = (figures["memory"] - figures["idle"]) / 2**20
    value = over if bound.figure == "over_idle" else figures.get(bound.figure)
    if value is None:
        return f"| {title} | {bound.unit} | not measured | |"
    met = value >= bound.limit if bound.at_least else value <= bound.limit
    sign = "≥" if bound.at_least else "≤"
    return (
        f"| {title} | {sign} {bound.limit:,.0f} {bound.unit} | {short(value)} "
        f"| {'met' if met else '**missed**'} |"
    )
