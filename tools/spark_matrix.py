"""Run the smoke part of the Spark tests on every supported PySpark, each in an environment of its own.

usage: python tools/spark_matrix.py [--install | --suite] [4.1 4.2 4.3]      (default: all)
With --suite all tests of Spark are run instead of the smoke part, which takes ten minutes and more for each.
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
# These start environments of their own.
LEFT_OUT = ("--ignore=tests/spark/test_spark_versions.py", "--ignore=tests/spark/test_java_runtime.py")


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


def _settings() -> dict[str, str]:
    """This process's variables without those of another Spark."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}


def smoke(version: str) -> str:
    """Run the smoke part on a version; gives the line that it prints."""
    with tempfile.TemporaryDirectory(prefix="spark-matrix-") as folder:
        done = subprocess.run(
            [environment(version), PROJECT / "tests" / "spark" / "smoke.py", folder],
            env={**_settings(), "PYTHONPATH": str(PROJECT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    line = next((text for text in done.stdout.splitlines() if text.startswith("SMOKE")), None)
    if line is None:
        raise SystemExit(f"PySpark {version} failed:\n{done.stderr[-4000:]}")
    return line.removeprefix("SMOKE ")


def suite_environment(version: str) -> Path:
    """The Python of an environment with a version and everything that the tests need."""
    folder = PROJECT / ".tools" / f"spark-suite-{version}"
    stamp = folder / f".ready-{RELEASES[version]}"
    if not stamp.exists():
        release = f"pyspark[connect]=={RELEASES[version]}"
        command = [PROJECT / "tools" / "make_environment", folder, "--editable", ".[all]", "--group", "test"]
        subprocess.run([*command, release], cwd=PROJECT, check=True)
        stamp.touch()
    return folder / "bin" / "python"


def suite(version: str) -> str:
    """Run the tests of Spark on a version; gives pytest's closing line."""
    python = suite_environment(version)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/spark", *LEFT_OUT],
        cwd=PROJECT,
        env=_settings(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"PySpark {version} failed:\n{done.stdout[-6000:]}")
    return f"{RELEASES[version]}: {done.stdout.splitlines()[-1].strip('= ')}"


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
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--install", dest="work", action="store_const", const=installed, default=smoke)
    work.add_argument("--suite", dest="work", action="store_const", const=suite)
    parser.add_argument("versions", nargs="*")
    given = parser.parse_args()
    unknown = set(given.versions) - set(RELEASES)
    if unknown:
        parser.error(f"not supported: {', '.join(sorted(unknown))}")
    for version in given.versions or RELEASES:
        print(given.work(version), flush=True)


if __name__ == "__main__":
    main()
