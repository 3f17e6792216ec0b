"""The smoke part on other PySparks, where their environments are there, and on executors of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).parent / "smoke.py"
NEEDED = ("pyspark", "pyarrow", "obstore", "msgspec", "pyroaring", "stamina", "httpx2")


def _smoke(python: Path, folder: Path, *arguments: str) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))
    }
    done = subprocess.run(
        [str(python), str(SMOKE), str(folder), *arguments],
        env={**environment, "PYTHONPATH": str(PROJECT / "src")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert "SMOKE" in done.stdout, done.stderr[-3000:]
    return done.stdout


def _environment(folder: str) -> Path:
    python = PROJECT / folder / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{folder} is not there; `make tools` makes it")
    asked = f"import importlib.util as u; assert all(map(u.find_spec, {NEEDED}))"
    if subprocess.run([python, "-c", asked], capture_output=True, check=False).returncode:
        pytest.skip(f"{folder} lacks packages that the smoke part needs")
    return python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "folder"), [("4.2", ".venv-spark-peer"), ("4.1", ".tools/spark-4.1")], ids=["4.2", "4.1"]
)
def test_smoke_part_runs_on_another_pyspark(tmp_path: Path, version: str, folder: str) -> None:
    """Column mapping by name and by id; `make evidence ARGS=spark_versions` runs every mode everywhere."""
    assert f"SMOKE {version}" in _smoke(_environment(folder), tmp_path, "local[2]", "name,id")


@pytest.mark.slow
def test_executors_of_their_own_need_nothing_of_ours(tmp_path: Path) -> None:
    """Two executor processes that have neither our classes nor our package read all the same."""
    home = importlib.util.find_spec("pyspark")
    assert home is not None
    output = _smoke(Path(sys.executable), tmp_path, "local-cluster[2,1,700]", "name")
    assert "local-cluster" in output
