"""A PostgreSQL of the tests' own, on loopback, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharing_world.running import free_port


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database; skips where PostgreSQL is not installed."""
    initdb, server = _program("initdb"), _program("pg_ctl")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="distributary-pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        data, port = folder / "data", free_port()
        _run(user, folder, initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c fsync=off -c max_connections=200"
        log = str(folder / "log")
        _run(user, folder, server, "-D", str(data), "-o", options, "-l", log, "-w", "-t", "120", "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            _run(user, folder, server, "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(user: str | None, folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, user=user, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _program(name: str) -> str:
    places = [*sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True), os.environ["PATH"]]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    return found


def _user() -> str | None:
    """initdb refuses root: another user makes and runs the server then."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
