"""Fixtures that many tests share: the given material, the corpus of tables, and S3 servers on loopback."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

PROJECT = Path(__file__).resolve().parent.parent

hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=100
)
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def project_dir() -> Path:
    """The root of the project."""
    return PROJECT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The given material beside the project; DISTRIBUTARY_SHARED names another place."""
    folder = Path(os.environ.get("DISTRIBUTARY_SHARED", PROJECT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the given material is not at {folder}; set DISTRIBUTARY_SHARED")
    return folder


@pytest.fixture(scope="session")
def peer_python() -> Path:
    """The interpreter of the environment that has other engines, to run them as a process of their own."""
    python = PROJECT / ".venv-peers" / "bin" / "python"
    if not python.exists():
        pytest.skip("the environment of the peers is not there; `make test` makes it")
    return python


@dataclass(frozen=True)
class DeltaTables:
    """The unpacked corpus: read-only for tests; copy a table before changing it."""

    tables: Path
    expected: Path


@pytest.fixture(scope="session")
def delta_tables(shared_dir: Path, pytestconfig: pytest.Config) -> DeltaTables:
    """The corpus of third-party tables, unpacked once and kept between runs."""
    archive = shared_dir / "tables" / "delta_tables.tar.gz"
    if not archive.is_file():
        pytest.skip(f"there is no corpus at {archive}")
    facts = archive.stat()
    cache = pytestconfig.cache
    assert cache is not None
    folder = cache.mkdir("delta_tables") / f"{facts.st_size}-{facts.st_mtime_ns}"
    with _locked(folder.with_suffix(".lock")):
        if not folder.exists():
            _unpack(archive, folder)
    return DeltaTables(folder / "shared" / "tables", folder / "shared" / "expected")


def _unpack(archive: Path, folder: Path) -> None:
    unfinished = folder.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(unfinished, filter="data")
    unfinished.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class S3Server:
    """A running S3 server with one empty bucket; tests keep apart by prefix."""

    name: str
    endpoint: str
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What `storage_options` of a table on this server must say."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_region": self.region,
            "aws_allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    def uri(self, prefix: str) -> str:
        """The URI of a prefix in the bucket."""
        return f"s3://{self.bucket}/{prefix}"

    def put(self, key: str, data: bytes) -> None:
        """Store one object."""
        self.client().put_object(Bucket=self.bucket, Key=key, Body=data)

    def upload(self, folder: Path, prefix: str) -> None:
        """Store every file below a folder under a prefix."""
        client = self.client()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())

    def client(self):
        """A boto3 client, independent of the code under test."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            config=Config(s3={"addressing_style": "path"}),
        )


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """moto as an S3 server."""
    command = [sys.executable, str(PROJECT / "tests" / "atomic_moto.py"), "{port}"]
    with _running("moto", command, {}, tmp_path_factory.mktemp("moto")) as endpoint:
        yield _with_bucket(S3Server("moto", endpoint, "lake", "testing", "testing"))


@pytest.fixture(scope="session")
def versitygw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """versitygw as an S3 server, where `make tools` could build it."""
    places = [PROJECT / ".tools" / "bin", Path.home() / "go" / "bin"]
    binary = shutil.which("versitygw", path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if binary is None:
        pytest.skip("versitygw is not built; `make tools` does it where Go is installed")
    folder = tmp_path_factory.mktemp("versitygw")
    (folder / "data").mkdir()
    access_key, secret_key = "testing", secrets.token_hex(16)
    environment = {"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key}
    command = [binary, "--port", "127.0.0.1:{port}", "posix", str(folder / "data")]
    with _running("versitygw", command, environment, folder) as endpoint:
        yield _with_bucket(S3Server("versitygw", endpoint, "lake", access_key, secret_key))


@pytest.fixture(scope="session", params=["moto", "versitygw"])
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """Every S3 server that can run here, one after the other."""
    return request.getfixturevalue(f"{request.param}_server")


def _with_bucket(server: S3Server) -> S3Server:
    server.client().create_bucket(Bucket=server.bucket)
    return server


@contextmanager
def _running(name: str, command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Start a server on a free port of loopback and stop it at the end; yields its endpoint."""
    log = folder / "server.log"
    port = _free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [part.format(port=port) for part in command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_answering(name, process, endpoint, log)
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_answering(name: str, process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
            return
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")


@dataclass(frozen=True)
class PostgresqlServer:
    """A running PostgreSQL."""

    url: str
    process: subprocess.Popen[bytes] | None = None
    scratch: list[str] = field(default_factory=list)

    def emptied_database(self) -> str:
        """The URL of a database that is emptied each time; making a new one takes a second."""
        import psycopg

        if not self.scratch:
            self.scratch.append(self.new_database())
        with psycopg.connect(self.scratch[0], autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self.scratch[0]

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        import psycopg
        from sqlalchemy.engine import make_url

        name = f"test_{secrets.token_hex(8)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL of this test run, or the one that DISTRIBUTARY_TEST_DATABASE names."""
    given = os.environ.get("DISTRIBUTARY_TEST_DATABASE")
    if given:
        yield PostgresqlServer(given)
        return
    if shutil.which("initdb") is None or shutil.which("postgres") is None:
        pytest.skip(
            "PostgreSQL (initdb, postgres) is not installed; set DISTRIBUTARY_TEST_DATABASE to use another"
        )
    # It refuses to run as root, and another user cannot enter pytest's own folders.
    as_user = {"user": _other_user(), "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if as_user:
            shutil.chown(folder, user=str(as_user["user"]))
        yield from _running_postgresql(folder, as_user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> str:
    import pwd

    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    pytest.skip("PostgreSQL does not run as root, and there is no other user to run it")


def _running_postgresql(folder: Path, as_user: Mapping[str, Any]) -> Iterator[PostgresqlServer]:
    data, port = folder / "data", _free_port()
    make = [
        "initdb",
        "-D",
        str(data),
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "-N",
    ]
    subprocess.run(make, check=True, capture_output=True, cwd=folder, **as_user)
    options = [f"-cunix_socket_directories={folder}", "-clisten_addresses=127.0.0.1", f"-cport={port}"]
    quick = ["-cfsync=off", "-csynchronous_commit=off", "-cfull_page_writes=off", "-cmax_connections=200"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["postgres", "-D", str(data), *options, *quick],
            stdout=output,
            stderr=output,
            cwd=folder,
            **as_user,
        )
    try:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _wait_for_postgresql(process, url, log)
        yield PostgresqlServer(url, process)
    finally:
        process.send_signal(signal.SIGQUIT)  # nothing in it is to be kept
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_postgresql(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    pytest.fail(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    return request.getfixturevalue("postgresql_server").emptied_database()


SUMMARIES = {"corpus": "corpus of third-party tables", "interop": "tables exchanged with other engines"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tables of each kind passed, of those that tests count by a property."""
    for name, title in SUMMARIES.items():
        counts: dict[str, list[int]] = {}
        for outcome in ("passed", "failed"):
            for report in terminalreporter.getreports(outcome):
                kind = dict(report.user_properties).get(name)
                if kind is not None and report.when == "call":
                    counts.setdefault(str(kind), [0, 0])[outcome == "failed"] += 1
        if counts:
            terminalreporter.section(title)
            for kind, (passed, failed) in sorted(counts.items()):
                terminalreporter.line(f"{kind}: {passed} of {passed + failed} as expected")
