"""The peers that tables are exchanged with: each one process a worker of xdist, skipped where not set up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from peers.process import Peer  # noqa: E402

PROJECT = Path(__file__).resolve().parents[2]
SERVERS = Path(HERE) / "peers"


@pytest.fixture(scope="session")
def deltalake(peer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """deltalake (delta-rs) in a process of its own."""
    command = [str(peer_python), str(SERVERS / "deltalake_server.py")]
    with Peer("deltalake", command, tmp_path_factory.mktemp("deltalake"), {"TZ": "UTC"}) as peer:
        yield peer


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """delta-spark in a process of its own: one session for all tests."""
    python = PROJECT / ".venv-spark-peer" / "bin" / "python"
    jars = sorted((PROJECT / ".tools" / "delta-spark" / "jars").glob("*.jar"))
    ready = list((PROJECT / ".tools" / "delta-spark").glob(".ready-*"))
    if not (ready and jars and python.exists() and shutil.which("java")):
        pytest.skip("delta-spark is not set up; tools/delta_spark_peer.sh does it where Java and Maven are")
    folder = tmp_path_factory.mktemp("spark")
    command = [str(python), str(SERVERS / "spark_server.py"), str(folder), *map(str, jars)]
    environment = {"TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    with Peer("delta-spark", command, folder, environment) as peer:
        yield peer


@pytest.fixture(params=["deltalake", "delta-spark"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each of the peers, one after the other."""
    return request.getfixturevalue({"deltalake": "deltalake", "delta-spark": "spark"}[request.param])
