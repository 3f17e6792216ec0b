"""Measure the figures of docs/evidence.md: the full size of what the tests run in a fast form.

usage: python tools/evidence.py [figure …]        (default: all; `--list` names them)
Each figure that is measured replaces its row; the other rows stay. A broken promise stops the run.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "client"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "reliability"))

import pyarrow as pa
from rigs.commit_model import Protocol, explore
from rigs.fault_proxy import fault_proxy
from rigs.kill_rig import run_kills
from rigs.lost_responses import KINDS, commit_with_losses
from rigs.power_loss import lose_power
from rigs.race_rig import WRITERS, contend, race, race_to_create
from rigs.syscall_rig import ERRORS, SCENARIOS, faults_of, missing, run_faults
from scripted_server import ScriptedServer

from distributary.client import SharingClient
from distributary.delta.table import DeltaTable
from distributary.storage.object_store import open_store

PROJECT = Path(__file__).resolve().parent.parent

PAGE = PROJECT / "docs" / "evidence.md"
HEAD = """# Evidence

What was measured, at the date that a row names, on two cores. `make test` runs the same rigs in a fast form;
`make evidence` measures the full figures and writes this page (one of them with `make evidence ARGS=kills`).
What the figures prove is said in [guarantees](guarantees.md).

| Figure | Target | Measured | Date | How to repeat |
|---|---|---|---|---|
"""


class Figure(NamedTuple):
    """A row: its name, what is to be held, and how it is measured."""

    name: str
    target: str
    measure: Callable[[], str]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evidence-") as place:
        yield Path(place)


def _fixtures() -> Any:
    """The code of tests/conftest.py; there are more modules of that name."""
    spec = importlib.util.spec_from_file_location("shared_fixtures", PROJECT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _server(name: str) -> Iterator[Any]:
    """One of the S3 servers of the tests, started by the code of their fixtures."""
    conftest = _fixtures()
    with _folder() as folder:
        if name == "moto":
            command = [sys.executable, str(PROJECT / "tests" / "atomic_moto.py"), "{port}"]
            keys, environment = ("testing", "testing"), {}
        else:
            binary = shutil.which(name, path=f"{PROJECT / '.tools' / 'bin'}:{os.environ.get('PATH', '')}")
            assert binary is not None, f"{name} is not built: run `make tools`"
            (folder / "data").mkdir()
            keys = ("testing", uuid.uuid4().hex)
            environment = {"ROOT_ACCESS_KEY": keys[0], "ROOT_SECRET_KEY": keys[1]}
            command = [binary, "--port", "127.0.0.1:{port}", "posix", str(folder / "data")]
        with conftest._running(name, command, environment, folder) as endpoint:
            yield conftest._with_bucket(conftest.S3Server(name, endpoint, "lake", *keys))


def _sound(faults: object) -> None:
    if faults:
        raise SystemExit(f"a promise is broken: {faults}")


def kills() -> str:
    """A1 at random moments."""
    totals: Counter[str] = Counter()
    for seed in range(20):
        with _folder() as folder:
            outcome = run_kills(folder, 500, seed + 100)
            _sound(outcome.pop("faults"))
            totals.update(outcome)
    return (
        f"{totals['kills']:,} kills, {totals['versions']:,} versions, {totals['acknowledged']:,} "
        f"acknowledged, {totals['unacknowledged']:,} landed unacknowledged: 0 lost, torn or doubled"
    )


def syscalls() -> str:
    """A1 and A9 at every system call."""
    _sound(missing())
    counts: Counter[str] = Counter()
    for scenario in SCENARIOS:
        for fault in ("KILL", *ERRORS):
            with _folder() as folder:
                outcomes = run_faults(folder, scenario, fault)
                _sound([text for outcome in outcomes for text in faults_of(outcome, fault)])
                counts["kills" if fault == "KILL" else "errors"] += len(outcomes)
    return (
        f"{counts['kills']} calls killed, {counts['errors']:,} calls failed ({', '.join(ERRORS)}), "
        f"in {len(SCENARIOS)} scenarios: 0 violations"
    )


def power_loss() -> str:
    """A2."""
    runs = [("one writer", 1), ("rows", 1)]
    runs += [("racing writers", seed) for seed in range(1, 5)]
    runs += [("stalling writers", step) for step in range(1, 13)]
    states = distinct = 0
    for scenario, seed in runs:
        with _folder() as folder:
            losses = lose_power(folder, scenario, seed, sample=3)
            _sound(losses.faults)
            states, distinct = states + losses.states, distinct + losses.distinct
    return f"{states:,} states ({distinct:,} differ in more than temporary files): 0 lost or torn"


def races_local() -> str:
    """A3 on a disk."""
    with _folder() as folder:
        outcome = race([open_store(str(folder)) for _ in range(WRITERS)], 10_000)
    _sound(outcome.faults)
    return f"{outcome.rounds:,} races of {WRITERS} writers: one winner each time"


def _races_s3(name: str) -> str:
    with _server(name) as server:
        root = server.uri(uuid.uuid4().hex)
        outcome = race([open_store(root, server.storage_options) for _ in range(WRITERS)], 10_000)
    _sound(outcome.faults)
    return f"{outcome.rounds:,} races of {WRITERS} writers: one winner each time"


def contention() -> str:
    """A11, and the sums of A3 in processes."""
    with _folder() as folder:
        many = contend(str(folder / "threads"), {}, 100, writers=32)
        _sound(many.verdict.faults)
        apart = contend(str(folder / "processes"), {}, 50, processes=True)
        _sound(apart.verdict.faults)
    return (
        f"32 threads × 100 commits: all committed, at most {many.most_attempts} attempts "
        f"(mean {many.mean_attempts:.1f}), {many.commits_a_second:.0f} commits/s; 16 processes × 50: "
        f"at most {apart.most_attempts} attempts, {apart.commits_a_second:.0f} commits/s"
    )


def creations() -> str:
    """A12."""
    with _folder() as folder:
        for number in range(200):
            root = str(folder / str(number))
            _sound(race_to_create([open_store(root) for _ in range(16)]))
    return "200 rounds of 16 creators: one creates, the others see the table"


def lost_responses() -> str:
    """A5."""
    struck = 0
    for name in ("moto", "versitygw"):
        with _server(name) as server, fault_proxy(server.endpoint) as proxy:
            for _ in range(5):
                outcome = commit_with_losses(proxy, server.uri(uuid.uuid4().hex), server.storage_options, 50)
                _sound(outcome.faults)
            struck += proxy.struck
    return (
        f"{struck} answers lost ({', '.join(KINDS)}) on moto and versitygw: 0 duplicates, 0 false conflicts"
    )


def model() -> str:
    """The model check."""
    found = explore(Protocol())
    _sound(found.faults)
    return f"3 writers: {found.states:,} states, {found.steps:,} steps, all interleavings: 0 violations"


def _run_tests(*tests: str, **variables: str) -> None:
    """Tests of the suite, longer than `make test` runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--timeout=0", *tests]
    environment = os.environ | variables
    ended = subprocess.run(command, cwd=PROJECT, env=environment, check=False, capture_output=True, text=True)
    _sound(ended.returncode and ended.stdout[-2_000:])


def flips() -> str:
    """B3: checkpoints with a flipped bit."""
    count = 5_000
    _run_tests("tests/delta/test_hostile_log.py", DISTRIBUTARY_FLIPS=str(count))
    return f"{count:,} bits flipped in checkpoints of seven layouts: the truth or an error, never other rows"


def stateful() -> str:
    """The model of rows per version, as the tests have it, many times over."""
    examples, steps = 2_000, 50
    _run_tests(
        "tests/delta/test_stateful_model.py",
        DISTRIBUTARY_STATEFUL_EXAMPLES=str(examples),
        DISTRIBUTARY_STATEFUL_STEPS=str(steps),
    )
    return f"{examples:,} histories of up to {steps} steps: each version as the model says"


def spark_versions() -> str:
    """The smoke part on each version, in environments of their own, and the whole corpus through Spark."""
    matrix = subprocess.run(
        [sys.executable, PROJECT / "tools" / "spark_matrix.py"], capture_output=True, text=True, check=True
    )
    versions = [line.split()[0] for line in matrix.stdout.splitlines()]
    _run_tests("tests/spark/test_corpus_on_spark.py", DISTRIBUTARY_WHOLE_CORPUS="1")
    return f"PySpark {', '.join(versions)}; all tables of the corpus equal"


def expiring_urls() -> str:
    """Read a table of 60 files, each of which takes a second, by URLs that live 3 seconds."""
    rows = pa.table({"id": pa.array(range(6000)), "part": pa.array([at // 100 for at in range(6000)])})
    questions = list[int]()
    with _folder() as folder:
        DeltaTable.create(folder / "sales", schema=rows.schema, partition_by=["part"]).append(rows)
        for form in ("parquet", "delta"):
            server = ScriptedServer(folder, form)
            server.life = 3.0
            server.script = lambda asked: time.sleep(1) if asked.path.startswith("/files/") else None
            start = time.monotonic()
            with SharingClient(server.profile, workers=1) as client:
                found = client.table("s.c.sales").snapshot().to_arrow()
            assert time.monotonic() - start >= 60, "the read was too short to prove anything"
            assert sorted(found.column("id").to_pylist()) == list(range(6000))
            questions.append(len(server.asked_for("/query")))
            server.close()
    return f"2 reads of 60 s, both formats, complete; URLs renewed {min(questions) - 1} times or more"


def spark_suite() -> str:
    """All tests of Spark on each version."""
    command = [sys.executable, PROJECT / "tools" / "spark_matrix.py", "--suite"]
    matrix = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in matrix.stdout.splitlines() if " passed" in line]
    return f"PySpark {'; '.join(lines)}"


FIGURES = {
    "kills": Figure(
        "kill -9 at random moments, 2 writers (A1)", "20,000 kills; 0 lost, torn, doubled", kills
    ),
    "syscalls": Figure("crash and error at every system call (A1, A9)", "100 %; 0 violations", syscalls),
    "power_loss": Figure("simulated power-loss states (A2)", "≥ 10,000; 0 violations", power_loss),
    "races_local": Figure("races on local disk (A3)", "10,000; exactly one winner", races_local),
    "races_moto": Figure("races on S3, moto (A3)", "10,000; exactly one winner", lambda: _races_s3("moto")),
    "races_versitygw": Figure(
        "races on S3, versitygw (A3)", "10,000; exactly one winner", lambda: _races_s3("versitygw")
    ),
    "lost_responses": Figure(
        "lost answers of commits (A5)", "500; 0 duplicates, 0 false conflicts", lost_responses
    ),
    "contention": Figure("contention (A11)", "no starvation (≤ 50 attempts)", contention),
    "creations": Figure("racing creators of a table (A12)", "200 rounds; one creator", creations),
    "flips": Figure("bits flipped in checkpoints (B3)", "5,000; never wrong rows", flips),
    "stateful": Figure(
        "histories of appends, overwrites, alterations, checkpoints, vacuums, restores, crashes",
        "2,000 × 50 steps; rows as modelled",
        stateful,
    ),
    "expiring_urls": Figure(
        "a table that takes 60 s to read, URLs that live 3 s (CL-017)", "complete", expiring_urls
    ),
    "model": Figure("model of the commit protocol", "all interleavings; 0 violations", model),
    "spark_versions": Figure(
        "smoke part on every supported PySpark, corpus on the newest",
        "4.1, 4.2, 4.3; 0 differences",
        spark_versions,
    ),
    "spark_suite": Figure(
        "all tests of Spark on every supported PySpark", "4.1, 4.2, 4.3; 0 failures", spark_suite
    ),
}


def rows_of(page: Path) -> dict[str, str]:
    """The rows that the page has, by the figure that they repeat."""
    text = page.read_text() if page.exists() else ""
    return {found[1]: found[0] for found in re.finditer(r"^\|.*`make evidence ARGS=(\w+)` \|$", text, re.M)}


def write_page(page: Path, rows: dict[str, str]) -> None:
    """Write the page with its rows in a fixed order."""
    page.write_text(HEAD + "".join(f"{rows[name]}\n" for name in FIGURES if name in rows))


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    unknown = set(given.figures) - set(FIGURES)
    if given.list or unknown:
        print("\n".join(f"{name}: {figure.name}" for name, figure in FIGURES.items()))
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}" if unknown else 0)
    for name in given.figures or FIGURES:
        figure = FIGURES[name]
        start = time.monotonic()
        measured = figure.measure()
        seconds = time.monotonic() - start
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        cells = (
            figure.name,
            figure.target,
            f"{measured} ({seconds:.0f} s)",
            day,
            f"`make evidence ARGS={name}`",
        )
        row = f"| {' | '.join(cells)} |"
        write_page(PAGE, rows_of(PAGE) | {name: row})
        print(f"{name}: {measured} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
