"""make bench: compare this package with its peers on this machine, and write docs/benchmarks.md.

Each measurement is a process of its own. The engines of a case take turns, so that a busy
moment of the machine meets all of them; the best time of each counts, and the highest memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from case import FULL, OURS, QUICK, Case, Sizes
from data import table_folder
from report import Measurement, Outcome, Section, page, table_lines
from rich.console import Console

PROJECT = Path(__file__).resolve().parent.parent
SUBJECTS = ("read_log", "scan_rows", "write_table")

console = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 where engines disagree about a result or ours fails."""
    options = _options(arguments)
    sizes = QUICK if options.quick else FULL
    repeats, load = options.repeats or sizes.repeats, os.getloadavg()[0]
    peers = options.peers_python.absolute() if options.peers_python else None
    sections = [section for name in SUBJECTS if (section := _run_subject(name, sizes, peers, options))]
    outcomes = [outcome for section in sections for outcome in section.outcomes]
    if not outcomes:
        console.print(f"no benchmark is called {', '.join(options.only)}")
        return 2
    if options.out is not None:
        options.out.write_text(
            page(sections, _versions(peers), quick=options.quick, repeats=repeats, load=load)
        )
        console.print(f"wrote {options.out}")
    return int(any(outcome.problems for outcome in outcomes))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare this package with its peers on this machine.")
    parser.add_argument("--quick", action="store_true", help="small data, one run each: does it work at all")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only this subject or case (may be repeated)")  # fmt: skip
    parser.add_argument(
        "--peers-python", type=Path, help="the interpreter that has the peers; none: only ours"
    )
    parser.add_argument("--repeats", type=int, help="how often each measurement is made")
    parser.add_argument("--data", type=Path, default=PROJECT / ".bench", help="where tables are kept")
    parser.add_argument("--out", type=Path, help="the page to write (docs/benchmarks.md for a complete run)")
    options = parser.parse_args(arguments)
    if options.out is None and not options.quick and not options.only:
        options.out = PROJECT / "docs" / "benchmarks.md"
    return options


def _run_subject(name: str, sizes: Sizes, peers: Path | None, options: argparse.Namespace) -> Section | None:
    subject = importlib.import_module(name)
    chosen = [
        case for case in subject.cases(sizes) if not options.only or {name, case.name} & {*options.only}
    ]
    if not chosen:
        return None
    console.print(f"\n{subject.TITLE}", style="bold")
    section = Section(subject.TITLE, subject.INTRODUCTION, [])
    for case in chosen:
        outcome = _run_case(subject, case, options.repeats or sizes.repeats, peers, options.data)
        section.outcomes.append(outcome)
        print("\n".join(table_lines([outcome], with_head=len(section.outcomes) == 1)), flush=True)
        for problem in outcome.problems:
            console.print(f"{case.name}: {problem}", style="red")
    return section


def _run_case(subject: ModuleType, case: Case, repeats: int, peers: Path | None, cache: Path) -> Outcome:
    with console.status(f"{case.group}: {case.title}: making the table"):
        folder = table_folder(cache.absolute(), case.data)
    found: dict[str, list[Measurement]] = {}
    problems: list[str] = []
    for engine in _turns(case.engines, repeats, peers):
        with console.status(f"{case.group}: {case.title}: {engine}"):
            measured = _measure(subject.__name__, engine, case, folder, peers)
        if isinstance(measured, str):
            problems.append(f"{engine}: {measured}")
        else:
            found.setdefault(engine, []).append(measured)
    results = {json.dumps(one.result): engine for engine, many in found.items() for one in many}
    if len(results) > 1:
        problems += [f"{engine} gave {result}" for result, engine in results.items()]
    best = {engine: Measurement.best(many) for engine, many in found.items()}
    return Outcome(case, best, list(dict.fromkeys(problems)))


def _turns(engines: Iterable[str], repeats: int, peers: Path | None) -> Iterator[str]:
    able = [engine for engine in engines if engine == OURS or peers is not None]
    for _ in range(repeats):
        yield from able


def _measure(subject: str, engine: str, case: Case, folder: Path, peers: Path | None) -> Measurement | str:
    """One measurement, or why there is none."""
    python = sys.executable if engine == OURS else str(peers)
    command = [python, str(PROJECT / "bench" / "measure.py"), subject, engine, case.work, str(folder),
               json.dumps(dict(case.arguments))]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src") if engine == OURS else ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def _versions(peers: Path | None) -> dict[str, str]:
    """The versions of what was compared."""
    ours = _installed(Path(sys.executable), ("distributary", "pyarrow"))
    theirs = ("deltalake", "polars", "duckdb", "duckdb-extension-delta")
    return ours | (_installed(peers, theirs) if peers is not None else {})


def _installed(python: Path, names: Sequence[str]) -> dict[str, str]:
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names!r}}}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
