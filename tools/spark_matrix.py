"""Run the smoke part of the Spark tests on every supported PySpark, each in an environment of its own.

usage: python tools/spark_matrix.py [--install] [4.1 4.2 4.3]      (default: all)
With --install the environments are only made; what cannot be had here is left out, and said.
They are kept in .tools/spark-<version>; the last line says what was run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# The newest of each minor version that is supported.
RELEASES = {"4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}


def environment(version: str) -> Path:
    """The Python of a version's environment, made where it is not there."""
    folder = PROJECT / ".tools" / f"spark-{version}"
    stamp = folder / f".ready-{RELEASES[version]}"
    if not stamp.exists():
        base = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
        packages = [f"pyspark=={RELEASES[version]}", "pandas>=2.2,<3", *base]
        subprocess.run([PROJECT / "tools" / "make_environment", folder, *packages], check=True)
        stamp.touch()
    return folder / "bin" / "python"


def smoke(version: str) -> str:
    """Run the smoke part on a version; gives the line that it prints."""
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    with tempfile.TemporaryDirectory(prefix="spark-matrix-") as folder:
        done = subprocess.run(
            [environment(version), PROJECT / "tests" / "spark" / "smoke.py", folder],
            env={**settings, "PYTHONPATH": str(PROJECT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    line = next((text for text in done.stdout.splitlines() if text.startswith("SMOKE")), None)
    if line is None:
        raise SystemExit(f"PySpark {version} failed:\n{done.stderr[-4000:]}")
    return line.removeprefix("SMOKE ")


def installed(version: str) -> str:
    """What became of a version's environment."""
    try:
        environment(version)
    except subprocess.CalledProcessError:
        return f"PySpark {version}: left out, it could not be installed"
    return f"PySpark {version}: present"


def main() -> None:
    """Run what was asked for, one version after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("versions", nargs="*")
    given = parser.parse_args()
    unknown = set(given.versions) - set(RELEASES)
    if unknown:
        parser.error(f"not supported: {', '.join(sorted(unknown))}")
    for version in given.versions or RELEASES:
        print(installed(version) if given.install else smoke(version), flush=True)


if __name__ == "__main__":
    main()
