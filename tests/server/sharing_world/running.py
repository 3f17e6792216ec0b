"""A running server over the world: a real process, and how tests talk to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from distributary.catalog.yaml_document import write_yaml
from sharing_world.contents import Contents

START_SECONDS = 120


@dataclass(frozen=True)
class RunningServer:
    """A server process with its two listeners."""

    contents: Contents
    base: str
    admin: str
    process: subprocess.Popen[bytes]
    log: Path
    client: httpx2.Client = field(repr=False)

    @property
    def endpoint(self) -> str:
        return f"{self.base}/delta-sharing"

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = "acme",
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> httpx2.Response:
        """Send a request; `token` names a recipient, None sends none."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {self.contents.tokens.get(token, token)}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        url = path if path.startswith("http") else self.endpoint + path
        return self.client.request(method, url, headers=sent, content=content)

    def get(self, path: str, **more: Any) -> httpx2.Response:
        return self.request("GET", path, **more)

    def query(self, table: str, body: Any = None, **more: Any) -> httpx2.Response:
        return self.request("POST", f"{table_path(table)}/query", body={} if body is None else body, **more)

    def logged(self) -> str:
        """What the server has written to its log."""
        time.sleep(0.3)
        return self.log.read_text()


def table_path(table: str) -> str:
    """The path of `share.schema.table`."""
    share, schema, name = table.split(".")
    return f"/shares/{share}/schemas/{schema}/tables/{name}"


def lines(response: httpx2.Response) -> list[dict[str, Any]]:
    """The objects of an answer in lines; any other answer fails the test."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    return [json.loads(line) for line in response.text.split("\n") if line]


@contextmanager
def running_server(contents: Contents, settings: Mapping[str, Any]) -> Iterator[RunningServer]:
    """Start `distributary serve` with a file of settings, wait until it is ready, stop it at the end."""
    port, admin_port = free_port(), free_port()
    values = {"port": port, "admin_port": admin_port, "key_file": str(contents.keys.path), **settings}
    values.setdefault("cache", {"folder": str(contents.folder / "cache")})
    config = contents.folder / f"server-{port}.yaml"
    config.write_text(write_yaml(values))
    scheme = "https" if "tls" in settings else "http"
    log = contents.folder / f"server-{port}.log"
    process = started([*COMMAND, "serve", "--config", str(config)], log)
    verify: Any = settings["tls"]["certificate"] if "tls" in settings else True
    with httpx2.Client(verify=_context(verify), timeout=60) as client:
        server = RunningServer(
            contents, f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}", process, log, client
        )
        try:
            wait_until_ready(client, [f"{server.base}/readyz", f"{server.admin}/readyz"], process, log)
            yield server
        finally:
            stopped(process)


COMMAND = [sys.executable, "-m", "distributary.cli.main"]


def started(command: list[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )


def stopped(process: subprocess.Popen[bytes]) -> int:
    """Ask a process to stop, and make sure that it does."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def wait_until_ready(
    client: httpx2.Client, urls: list[str], process: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if all(client.get(url).status_code == 200 for url in urls):
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"the server did not start: {log.read_text()[-3000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _context(verify: Any) -> Any:
    if verify is True:
        return True
    import ssl

    return ssl.create_default_context(cafile=verify)
