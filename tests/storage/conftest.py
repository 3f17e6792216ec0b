"""The stores that the storage contract is proven on; servers that are not installed are skipped."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from distributary.storage import ObjectStore, open_store

TOOLS = Path(__file__).parents[2] / ".tools"
STORES = ["local", "memory", "moto", "versitygw", "azurite"]


@dataclass(frozen=True)
class Place:
    """A base URI under which tests make roots of their own, and the options to open them."""

    name: str
    base: str
    options: Mapping[str, str]

    def open(self, suffix: str = "", **more: object) -> ObjectStore:
        return open_store(f"{self.base}/{uuid.uuid4().hex}{suffix}", self.options, **more)  # type: ignore[arg-type]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Every kind of store, one after the other."""
    return _place(request, request.param, tmp_path)


def _place(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Place:
    if name == "local":
        return Place(name, str(tmp_path), {})
    if name == "memory":
        return Place(name, f"memory://{uuid.uuid4().hex}", {})
    if name in ("moto", "versitygw"):
        server = request.getfixturevalue(f"{name}_server")
        return Place(name, f"s3://{server.bucket}", server.storage_options)
    return request.getfixturevalue(f"{name}_place")


@pytest.fixture(scope="session")
def azurite_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """azurite as Azure Blob Storage."""
    binary = TOOLS / "node_modules" / ".bin" / "azurite-blob"
    if not binary.exists() or shutil.which("node") is None:
        pytest.skip("azurite is not installed; tools/test_servers.sh does it where npm is")
    folder = tmp_path_factory.mktemp("azurite")
    # azurite serves one account, whose key it takes from this variable.
    key = base64.b64encode(os.urandom(32)).decode()
    command = [str(binary), "--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", "{port}"]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running("azurite", command, folder, {"AZURITE_ACCOUNTS": f"account:{key}"}) as endpoint:
        options = {"account_name": "account", "account_key": key, "endpoint": f"{endpoint}/account"}
        _make_container(f"{endpoint}/account/lake", key)
        yield Place("azurite", "abfss://lake@account.dfs.core.windows.net", options)


def _make_container(url: str, key: str) -> None:
    """Create a container with a request signed by the account's key (obstore cannot create one)."""
    import hashlib
    import hmac
    from email.utils import formatdate

    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    to_sign = "PUT" + "\n" * 12 + canonical + "/account/account/lake\nrestype:container"
    digest = hmac.new(base64.b64decode(key), to_sign.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey account:{base64.b64encode(digest).decode()}"
    headers["Content-Length"] = "0"
    request = urllib.request.Request(f"{url}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201


@pytest.fixture(scope="session")
def gcs_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """fake-gcs-server as Google Cloud Storage."""
    binary = shutil.which("fake-gcs-server", path=f"{TOOLS / 'bin'}:{os.environ.get('PATH', '')}")
    if binary is None:
        pytest.skip("fake-gcs-server is not built; tools/test_servers.sh does it where Go is")
    folder = tmp_path_factory.mktemp("gcs")
    command = [binary, "-scheme", "http", "-host", "127.0.0.1", "-port", "{port}", "-backend", "memory"]
    command += ["-external-url", "http://127.0.0.1:{port}", "-public-host", "127.0.0.1:{port}"]
    with _running("fake-gcs-server", command, folder, {}) as endpoint:
        body = json.dumps({"name": "lake"}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{endpoint}/storage/v1/b?project=p", data=body, headers=headers)
        urllib.request.urlopen(request, timeout=10).close()
        yield Place("gcs", "gs://lake", {"base_url": endpoint, "skip_signature": "true"})


@contextmanager
def _running(name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [part.format(port=port) for part in command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(name, process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait(name: str, process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
            return
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")
