"""make bench: compare this package with its peers on this machine, and write docs/benchmarks.md.

Each measurement is a process of its own; a subject whose engines are slow to start has one lasting
process for each. The engines of a case take turns, so that a busy moment of the machine meets all
of them; the best time of each counts, and the highest memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from case import FULL, QUICK, Case, Sizes
from data import table_folder
from processes import FreshProcesses, LastingProcesses
from report import AnySection, Measurement, Outcome, Section, WrittenSection, page, table_lines
from rich.console import Console

PROJECT = Path(__file__).resolve().parent.parent
SUBJECTS = ("read_log", "scan_rows", "write_table", "spark_tables", "sharing_server", "sharing_client")
SPARK_PYTHON = PROJECT / ".venv-spark-peer" / "bin" / "python"

Moved = Callable[[], int]

console = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 where engines disagree about a result or ours fails."""
    options = _options(arguments)
    sizes = QUICK if options.quick else FULL
    sections: list[AnySection] = []
    for name in SUBJECTS:
        if section := _run_subject(name, sizes, options):
            sections.append(section)
            _write(options, sections)
    if not sections:
        console.print(f"no benchmark is called {', '.join(options.only)}")
        return 2
    return int(any(section.problems for section in sections))


def _write(options: argparse.Namespace, sections: Sequence[AnySection]) -> None:
    """Put what was measured so far into the page, so that an interrupted run is not lost."""
    if options.out is None:
        return
    old = options.out.read_text() if options.out.exists() else ""
    options.out.write_text(page(old, sections, SUBJECTS, quick=options.quick))
    console.print(f"wrote {options.out}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare this package with its peers on this machine.")
    parser.add_argument("--quick", action="store_true", help="small data, one run each: does it work at all")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only this subject or case (may be repeated)")  # fmt: skip
    parser.add_argument(
        "--peers-python", type=Path, help="the interpreter that has the peers; none: only ours"
    )
    parser.add_argument("--spark-python", type=Path, default=SPARK_PYTHON,
                        help="the interpreter that has the PySpark of delta-spark")  # fmt: skip
    parser.add_argument("--repeats", type=int, help="how often each measurement is made")
    parser.add_argument("--data", type=Path, default=PROJECT / ".bench", help="where tables are kept")
    parser.add_argument("--out", type=Path, help="the page to write (docs/benchmarks.md for whole subjects)")
    options = parser.parse_args(arguments)
    if options.out is None and not options.quick and set(options.only) <= {*SUBJECTS}:
        options.out = PROJECT / "docs" / "benchmarks.md"
    if options.peers_python is not None:
        options.peers_python = options.peers_python.absolute()
    return options


def _run_subject(name: str, sizes: Sizes, options: argparse.Namespace) -> AnySection | None:
    subject = importlib.import_module(name)
    chosen = [
        case for case in subject.cases(sizes) if not options.only or {name, case.name} & {*options.only}
    ]
    if not chosen:
        return None
    console.print(f"\n{subject.TITLE}", style="bold")
    if hasattr(subject, "section"):
        return _own_section(subject, chosen, sizes, options)
    repeats, load = options.repeats or sizes.repeats, os.getloadavg()[0]
    section = Section(
        name, subject.TITLE, subject.INTRODUCTION, [], _versions(subject, options), repeats, load
    )
    with _surroundings(subject, chosen[0], options.data) as moved, _engines(subject, options) as engines:
        for case in chosen:
            outcome = _run_case(engines, case, repeats, options.data, moved)
            section.outcomes.append(outcome)
            print("\n".join(table_lines([outcome], with_head=len(section.outcomes) == 1)), flush=True)
            for problem in outcome.problems:
                console.print(f"{case.name}: {problem}", style="red")
    return section


def _own_section(
    subject: ModuleType, chosen: Sequence[object], sizes: Sizes, options: argparse.Namespace
) -> WrittenSection:
    """The section of a subject that measures by itself."""
    section: WrittenSection = subject.section(
        chosen,
        sizes,
        lambda name: table_folder(options.data.absolute(), name),
        _installed(Path(sys.executable), subject.LIBRARIES),
        os.getloadavg()[0],
        console.print,
    )
    print("\n".join(section.tables), flush=True)
    for problem in section.problems:
        console.print(problem, style="red")
    return section


def _surroundings(subject: ModuleType, case: Case, cache: Path) -> AbstractContextManager[Moved | None]:
    """What has to run beside the engines of a subject: a server, for one, which tells what it has sent."""
    if not hasattr(subject, "surroundings"):
        return nullcontext()
    return subject.surroundings(table_folder(cache.absolute(), case.data))


def _engines(subject: ModuleType, options: argparse.Namespace) -> FreshProcesses | LastingProcesses:
    if not getattr(subject, "LASTING", False):
        return FreshProcesses(subject.__name__, options.peers_python)
    python = options.spark_python if options.spark_python.exists() else None
    return LastingProcesses(subject.__name__, python, options.data.absolute())


def _run_case(
    engines: FreshProcesses | LastingProcesses, case: Case, repeats: int, cache: Path, moved: Moved | None
) -> Outcome:
    with console.status(f"{case.group}: {case.title}: making the table"):
        folder = table_folder(cache.absolute(), case.data)
    found: dict[str, list[Measurement]] = {}
    problems: list[str] = []
    chosen = [name for name in case.engines if engines.has(name)]
    for engine, last in [(name, turn == repeats) for turn in range(1, repeats + 1) for name in chosen]:
        with console.status(f"{case.group}: {case.title}: {engine}"):
            measured = _measured(engines, engine, case, folder, moved if last else None)
        if isinstance(measured, str):
            problems.append(f"{engine}: {measured}")
        else:
            found.setdefault(engine, []).append(measured)
    results = {json.dumps(one.result): engine for engine, many in found.items() for one in many}
    if len(results) > 1:
        problems += [f"{engine} gave {result}" for result, engine in results.items()]
    best = {engine: Measurement.best(many) for engine, many in found.items()}
    return Outcome(case, best, list(dict.fromkeys(problems)))


def _measured(
    engines: FreshProcesses | LastingProcesses, engine: str, case: Case, folder: Path, moved: Moved | None
) -> Measurement | str:
    """One measurement; with what was moved meanwhile, where somebody can tell."""
    before = 0 if moved is None else moved()
    found = engines.measure(engine, case, folder)
    return found if moved is None or isinstance(found, str) else replace(found, moved=moved() - before)


def _versions(subject: ModuleType, options: argparse.Namespace) -> dict[str, str]:
    """The versions of what is compared."""
    ours = _installed(Path(sys.executable), ("distributary", "pyarrow"))
    if getattr(subject, "LASTING", False):
        theirs, python = ("pyspark",), options.spark_python if options.spark_python.exists() else None
    else:
        theirs = getattr(subject, "LIBRARIES", ("deltalake", "polars", "duckdb", "duckdb-extension-delta"))
        python = options.peers_python
    found = ours | (_installed(python, theirs) if python is not None else {})
    return found | getattr(subject, "VERSIONS", {})


def _installed(python: Path, names: Sequence[str]) -> dict[str, str]:
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names!r}}}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
