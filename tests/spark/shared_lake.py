"""A folder of tables behind `distributary serve`, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import distributary as ds
from distributary.client import SharingClient

CHANGES = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class SharedLake:
    """The folder, and the profile of who may read it."""

    folder: Path
    profile: Path

    def url(self, table: str) -> str:
        return f"{self.profile}#lake.default.{table}"


@contextmanager
def shared_lake(base: Path) -> Iterator[SharedLake]:
    """Serve `base`/lake; tables may be made and changed while it is served."""
    lake = SharedLake(base / "lake", base / "lake.share")
    command = [sys.executable, "-m", "distributary.cli.main", "serve", str(lake.folder), "--port", "0"]
    command += ["--admin-port", "0", "--profile", str(lake.profile)]
    environment = {**os.environ, "XDG_STATE_HOME": str(base / "state")}
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(process, lake.profile, base / "log")
        yield lake
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], profile: Path, log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with SharingClient(profile, retry_seconds=0) as client:
                client.list_shares()
                return
        except ds.DistributaryError:
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-2000:])
