"""The benchmarks run: small data, ours only, no peers and no timings asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PROJECT / "bench" / "run.py", "--quick", *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.mark.parametrize("case", ["refresh", "statistics-typed", "scan-key", "disk_query_small"])
def test_quick_run_of_a_case_writes_a_page_with_its_row(data, tmp_path, case):
    page = tmp_path / "benchmarks.md"
    done = bench("--only", case, "--data", data, "--out", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "| distributary |" in done.stdout
    assert done.stdout.strip().splitlines()[-1] in text
    assert "A quick run on small data" in text
    assert "What went wrong" not in text
    assert str(data) not in text
    assert str(PROJECT) not in text


def test_name_of_no_case_is_refused(data):
    done = bench("--only", "absent", "--data", data)
    assert done.returncode == 2
    assert "no benchmark is called absent" in done.stderr
