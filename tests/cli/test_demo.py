"""`distributary demo`: reads back what it wrote, from files and over HTTP, and leaves nothing if asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from distributary.cli.main import cli

PROGRAM = (sys.executable, "-m", "distributary", "demo")
WITHOUT_SPARK = (
    sys.executable,
    "-c",
    "import importlib.util, signal, sys; find = importlib.util.find_spec;"
    "signal.signal(signal.SIGINT, signal.default_int_handler);"
    "importlib.util.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest);"
    "sys.argv = ['distributary', *sys.argv[1:]];"
    "from distributary.cli.main import main; main()",
    "demo",
)


def run(temporary: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_demo_with_demo_exit_checks_everything_and_leaves_nothing(tmp_path):
    result = run(tmp_path, *PROGRAM, DEMO_EXIT="1")
    assert result.returncode == 0, result.stderr
    assert "a Spark pipeline creates, appends, merges, deletes" in result.stdout
    assert "6 versions of orders read back as written" in result.stdout
    assert "orders over HTTP, at every version; 36 rows now" in result.stdout
    assert "bistro, whose country is FR, sees 13 rows" in result.stdout
    assert [place.name for place in tmp_path.glob("distributary-demo-*")] == []
    assert "dst_" not in result.stdout + result.stderr, "it shows a token"


@contextmanager
def staying_demo(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demo that waits for its user, and what it said up to there."""
    command = (*WITHOUT_SPARK, "--folder", str(folder))
    environment = {name: value for name, value in os.environ.items() if name != "DEMO_EXIT"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "distributary audit list" in line:
                break
        try:
            yield process, said
        finally:
            process.kill()


def test_demo_without_demo_exit_serves_until_interrupted_and_keeps_the_folder(tmp_path):
    with staying_demo(tmp_path / "sample") as (process, said):
        assert "The server runs at http://127.0.0.1:" in said
        listed = run(
            tmp_path,
            *PROGRAM[:-1],
            "ls",
            "--all",
            "--profile",
            str(tmp_path / "sample" / "server" / "acme.share"),
        )
        assert "orders" in listed.stdout, listed.stderr
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "stays there" in rest
    assert "dst_" not in said + rest, "it shows a token"
    assert (tmp_path / "sample" / "orders" / "_delta_log").is_dir()


def test_demo_into_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    result = CliRunner().invoke(cli, ["demo", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
