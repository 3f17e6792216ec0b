"""The official client as a process, and profiles for the servers that it is tried on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sharing_world.running import RunningServer

from distributary.sharing.profile import bearer_profile, write_profile


class OfficialClientError(Exception):
    """The client raised an error."""


class OfficialClient:
    """The client in its own interpreter."""

    def __init__(self, python: Path, log: Path, **environment: str) -> None:
        script = Path(__file__).parent / "client_process.py"
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-W", "ignore", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                text=True,
            )

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = {"call": name, "arguments": arguments, "options": options}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise OfficialClientError(answer["error"])
        return answer["result"]

    def rows(self, url: str, call: str = "load_as_pandas", **options: Any) -> list[dict[str, Any]]:
        return self.call(call, url, **options)["rows"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def official(peer_python, tmp_path_factory) -> Iterator[OfficialClient]:
    """The official client, where it is installed."""
    if subprocess.run([str(peer_python), "-c", "import delta_sharing"], capture_output=True).returncode:
        pytest.skip("delta-sharing is not installed beside the peers; `make test` does it")
    client = OfficialClient(peer_python, tmp_path_factory.mktemp("official") / "client.log")
    yield client
    client.close()


@pytest.fixture(scope="session")
def profile(server: RunningServer, tmp_path_factory) -> str:
    """A profile of the recipient acme."""
    file = tmp_path_factory.mktemp("profile") / "acme.share"
    write_profile(bearer_profile(f"{server.endpoint}/", server.contents.tokens["acme"]), file)
    return str(file)
