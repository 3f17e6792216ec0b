"""`distributary serve` as processes: a folder, the reference server's file, refusals, stopping, dying."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner
from sharing_world.processes import WIDE, opened, tree, until
from sharing_world.running import (
    COMMAND,
    RunningServer,
    free_port,
    lines,
    running_server,
    started,
    stopped,
    wait_until_ready,
)

from distributary.cli.main import cli
from distributary.cli.sample_table import make_sample_table
from distributary.sharing.profile import read_profile


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    make_sample_table(tmp_path / "my lake" / "orders")
    make_sample_table(tmp_path / "my lake" / "eu" / "west" / "or.ders")
    (tmp_path / "my lake" / "eu_west").mkdir()
    make_sample_table(tmp_path / "my lake" / "eu_west" / "or_ders")
    return tmp_path / "my lake"


class ServedFolder:
    """A running `serve FOLDER`."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.port, self.admin_port = free_port(), free_port()
        self.profile, self.log = place / "lake.share", place / "serve.log"
        command = [*COMMAND, "serve", str(folder), "--port", str(self.port)]
        command += ["--admin-port", str(self.admin_port), "--profile", str(self.profile)]
        state = {"XDG_STATE_HOME": str(place / "state"), "XDG_CACHE_HOME": str(place / "cache")}
        self.process = started(command, self.log, **state)

    def tables(self) -> list[tuple[str, str, str]]:
        profile = read_profile(self.profile)
        answer = httpx2.get(
            f"{profile.endpoint.rstrip('/')}/shares/my_lake/all-tables",
            headers={"Authorization": f"Bearer {profile.bearer_token}"},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return [(item["share"], item["schema"], item["name"]) for item in answer.json()["items"]]

    def wait(self) -> None:
        with httpx2.Client(timeout=60) as client:
            wait_until_ready(client, [f"http://127.0.0.1:{self.port}/readyz"], self.process, self.log)


def test_folder_is_served_and_followed_and_its_token_kept(lake, tmp_path):
    """DESIGN 5: names, new tables, the token of the profile"""
    served = ServedFolder(lake, tmp_path)
    try:
        served.wait()
        assert served.tables() == [
            ("my_lake", "default", "orders"),
            ("my_lake", "eu_west", "or_ders"),
            ("my_lake", "eu_west", "or_ders_2"),
        ]
        assert os.stat(served.profile).st_mode & 0o077 == 0
        make_sample_table(lake / "late")
        assert until(lambda: ("my_lake", "default", "late") in served.tables())
        (lake / "late").rename(tmp_path / "away")
        assert until(lambda: ("my_lake", "default", "late") not in served.tables())
        token = read_profile(served.profile).bearer_token
    finally:
        assert stopped(served.process) == 0
    assert token not in served.log.read_text()
    again = ServedFolder(lake, tmp_path)
    try:
        again.wait()
        assert read_profile(again.profile).bearer_token == token
        assert f"http://127.0.0.1:{again.port}/delta-sharing/" in again.profile.read_text()
        assert len(again.tables()) == 3
    finally:
        stopped(again.process)


def test_file_of_the_reference_server_is_served_as_it_is(lake, tmp_path):
    """UX 2.5: migrating; the recipients' token and the file ids stay"""
    port = free_port()
    file = tmp_path / "delta-sharing-server.yaml"
    table = {"name": "orders", "location": str(lake / "orders"), "id": "00000000-0000-0000-0000-000000000001"}
    document = {
        "version": 1,
        "shares": [{"name": "share1", "schemas": [{"name": "default", "tables": [table]}]}],
        "authorization": {"bearerToken": "reference-token"},
        "host": "127.0.0.1",
        "port": port,
        "endpoint": "/delta-sharing",
        "preSignedUrlTimeoutSeconds": 900,
    }
    file.write_text(json.dumps(document))
    log = tmp_path / "serve.log"
    command = [*COMMAND, "serve", "--config", str(file), "--admin-port", str(free_port()), "--workers", "1"]
    process = started(command, log, XDG_CACHE_HOME=str(tmp_path / "cache"))
    try:
        with httpx2.Client(timeout=60) as client:
            wait_until_ready(client, [f"http://127.0.0.1:{port}/readyz"], process, log)
            answer = client.get(
                f"http://127.0.0.1:{port}/delta-sharing/shares/share1/all-tables",
                headers={"Authorization": "Bearer reference-token"},
            )
        (item,) = answer.json()["items"]
        assert item["id"] == table["id"]
    finally:
        stopped(process)
    assert "reference-token" not in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "loopback only"),
        (["--admin-host", "0.0.0.0"], "loopback only"),
        (["--tls-cert", "x.pem"], "both files"),
        (["no-such-folder"], "no folder"),
        (["--profile", "x.share"], "goes with FOLDER"),
    ],
)
def test_dangerous_or_wrong_arguments_are_refused(contents, tmp_path, arguments, said):
    """C-41: plain HTTP beyond loopback only when told so"""
    config = tmp_path / "distributary.yaml"
    config.write_text(f"database: {contents.database.file}\nkey_file: {contents.keys.path}\n")
    result = CliRunner().invoke(cli, ["serve", "--config", str(config), *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_worker_that_dies_is_replaced(server: RunningServer):
    """RELIABILITY C1: kill -9 of a worker"""
    workers = [pid for pid in tree(server.process.pid)[1:] if _listens(pid, server.base)]
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    time.sleep(0.5)

    def answers() -> bool:
        try:
            return server.get("/shares").status_code == 200
        except httpx2.TransportError:
            return False

    assert until(answers, 90)


def _listens(pid: int, base: str) -> bool:
    """Whether a process has a listening socket on the port of a URL."""
    port = f":{int(base.rpartition(':')[2]):04X} "
    sockets = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()
        if port in line and line.split()[3] == "0A"
    }
    found = set()
    for place in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(os.readlink(place).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    return bool(found & sockets) and "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()


def test_running_answers_end_well_when_the_server_stops(contents, tmp_path):
    """RELIABILITY C1: SIGTERM drains"""
    settings = {"database": str(contents.database.file), "workers": 1}
    settings["cache"] = {"folder": str(tmp_path / "cache")}
    with running_server(contents, settings) as server:
        whole = server.query("Sales.us.wide").content
        assert len(lines(server.query("Sales.us.wide"))) == 30_002
        connection = opened(server, WIDE)
        received = connection.recv(65536)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        while chunk := connection.recv(1 << 20):
            received += chunk
        connection.close()
        assert server.process.wait(timeout=60) == 0
    assert received.endswith(b"0\r\n\r\n")
    assert len(received) > len(whole)
