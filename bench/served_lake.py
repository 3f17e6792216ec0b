"""Running servers over a lake: ours with its catalog, an S3 server for the same tables, a plain file server.

The sharing server is the real command with default settings; only its limits per recipient are lifted, which
would be what is measured otherwise. Everything that is started is stopped.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parent.parent
TABLES = ("small", "medium", "big", "million", "cdf", "dv", "colmap")
S3, DISK = "lake", "disk"
DAY = 86_400_000
NO_LIMITS = {"calls_per_second": 0, "concurrent_queries": 0, "concurrent_downloads": 0}


@dataclass(frozen=True)
class Served:
    """A server that runs: where it is, what to show it, and which process it is."""

    port: int
    pid: int
    token: str = field(default="", repr=False)
    admin_port: int = 0
    storage_pid: int | None = None

    def bytes_sent(self) -> int:
        """Bytes that the server and its S3 server have sent so far; waits until all are counted."""
        before, count = -1, self._bytes_counted()
        while before != count:
            # Workers add what they have counted to their metrics a few times a second.
            time.sleep(0.7)
            before, count = count, self._bytes_counted()
        return count

    def _bytes_counted(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.findall(r"^http_server_response_body_bytes_total\{[^}]*\} (\S+)$", text, re.M)
        written = 0 if self.storage_pid is None else re.search(r"wchar: (\d+)", _proc(self.storage_pid, "io"))
        return round(sum(map(float, found))) + (int(written[1]) if written else 0)

    def cpu_seconds(self) -> float:
        """User and system time of the server's processes so far."""
        ticks = 0
        for process in processes(self.pid):
            fields = _proc(process, "stat").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if fields else 0
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self, kind: str = "VmRSS") -> int:
        """Bytes in memory of the server's processes: all (VmRSS), or without mapped files (RssAnon)."""
        found = (re.search(rf"{kind}:\s+(\d+)", _proc(one, "status")) for one in processes(self.pid))
        return sum(int(match[1]) * 1024 for match in found if match)


def processes(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        found += [below for child in children for below in processes(int(child))]
    return found


def _proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def s3_server() -> str | None:
    """The S3 server to use, where there is one."""
    places = [str(PROJECT / ".tools" / "bin"), str(Path.home() / "go" / "bin"), os.environ.get("PATH", "")]
    return shutil.which("versitygw", path=os.pathsep.join(places))


@contextmanager
def sharing_server(lake: Path, *, with_s3: bool, tables: Sequence[str] = ()) -> Iterator[Served]:
    """Our server over the tables of a lake: share `disk` as they lie, share `lake` through S3."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-server-")))
        storage, storage_pid = stack.enter_context(_s3(lake, folder)) if with_s3 else ({}, None)
        roots = {DISK: str(lake / "lake"), **({S3: "s3://lake"} if with_s3 else {})}
        token = _catalog(folder, roots, storage, tables)
        port, admin_port = free_port(), free_port()
        settings = {
            "database": str(folder / "catalog.db"),
            "key_file": str(folder / "keys.json"),
            "port": port,
            "admin_port": admin_port,
            "limits": NO_LIMITS,
            "storage": storage,
            "cache": {"folder": str(folder / "cache")},
        }
        from distributary.catalog.yaml_document import write_yaml

        (folder / "server.yaml").write_text(write_yaml(settings))
        command = [sys.executable, "-m", "distributary", "serve", "--config", str(folder / "server.yaml")]
        process = stack.enter_context(running(command, port, folder, path="/readyz"))
        _wait_until_idle(Served(port, process.pid))
        yield Served(port, process.pid, token, admin_port, storage_pid)


def _wait_until_idle(server: Served) -> None:
    """Let every worker start: one of them answers before the others do, whose start would be counted."""
    for _ in range(30):
        before = server.cpu_seconds()
        time.sleep(1)
        if server.cpu_seconds() - before < 0.1:
            return


def _catalog(
    folder: Path,
    roots: Mapping[str, str],
    storage: Mapping[str, Mapping[str, str]],
    tables: Sequence[str],
) -> str:
    from distributary.catalog.administration import Administration, initialise
    from distributary.catalog.database import Database, now_ms
    from distributary.server.key_ring import create_key_file
    from distributary.sharing.table_policy import TablePolicy

    keys = create_key_file(folder / "keys.json", now=now_ms())
    database = Database(f"sqlite:///{folder / 'catalog.db'}")
    initialise(database, keys)
    options = storage.get("s3://lake", {})
    admin = Administration(
        database, keys, actor="bench", storage_options=lambda place: options if "://" in place else {}
    )
    admin.create_recipient("bench")
    for share, root in roots.items():
        admin.create_share(share)
        for name in tables or (*TABLES, *(["blob"] if share == DISK else [])):
            admin.add_table(share, "default", name, TablePolicy(location=f"{root}/{name}"))
        admin.grant(share, "bench")
    token = admin.issue_token("bench", expires_at=now_ms() + DAY).text
    database.close()
    return token


@contextmanager
def _s3(lake: Path, folder: Path) -> Iterator[tuple[dict[str, dict[str, str]], int]]:
    """The options of the S3 store that serves the lake's own files, and its process."""
    binary = s3_server()
    assert binary is not None
    port, secret = free_port(), secrets.token_hex(16)
    keys = {"ROOT_ACCESS_KEY": "bench", "ROOT_SECRET_KEY": secret}
    command = [binary, "--port", f"127.0.0.1:{port}", "posix", str(lake)]
    options = {"aws_endpoint": f"http://127.0.0.1:{port}", "aws_access_key_id": "bench",
               "aws_secret_access_key": secret, "aws_region": "us-east-1", "aws_allow_http": "true",
               "aws_virtual_hosted_style_request": "false"}  # fmt: skip
    with running(command, port, folder, **keys) as process:
        yield {"s3://lake": options}, process.pid


@contextmanager
def bare_server() -> Iterator[Served]:
    """An ASGI application that does nothing, on the same HTTP server with as many workers as ours."""
    port = free_port()
    with TemporaryDirectory(prefix="bench-bare-") as name:
        command = [sys.executable, "-m", "granian", "--interface", "asgi", "--workers", "2", "--no-ws",
                   "--http", "1", "--port", str(port), "--working-dir", str(PROJECT / "bench"),
                   "bare_asgi:application"]  # fmt: skip
        with running(command, port, Path(name)) as process:
            yield Served(port, process.pid)


@contextmanager
def plain_file_server(root: Path) -> Iterator[tuple[str, Served]]:
    """nginx with sendfile where it is installed, else a few lines of Python around `os.sendfile`."""
    nginx = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    port = free_port()
    with TemporaryDirectory(prefix="bench-files-") as name:
        folder = Path(name)
        if nginx is None:
            command = [sys.executable, str(PROJECT / "bench" / "plain_sendfile.py"), str(port), str(root)]
        else:
            (folder / "nginx.conf").write_text(_nginx_settings(port, root, folder))
            command = [nginx, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        with running(command, port, folder) as process:
            yield "nginx" if nginx else "plain sendfile", Served(port, process.pid)


def _nginx_settings(port: int, root: Path, folder: Path) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    scratch = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    return (
        f"daemon off; worker_processes 2; pid {folder}/nginx.pid; {user}\nevents {{}}\n"
        f"http {{ access_log off; sendfile on; tcp_nopush on; {scratch}\n"
        f"server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    )


@contextmanager
def running(
    command: Sequence[str], port: int, folder: Path, *, path: str = "/", **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens, from when it answers until the end of the block."""
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, cwd=folder)  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}{path}", process, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError as answer:
            answer.close()
            if answer.code < 500 or not url.endswith("/readyz"):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"a server did not start: {log.read_text(errors='replace')[-500:]}")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
