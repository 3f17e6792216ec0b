"""delta-spark as a peer in a process of its own, and pairs of tables to compare."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

PROJECT = Path(__file__).resolve().parents[3]
for place in (PROJECT / "tests" / "interop", Path(__file__).parent):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

from peers.process import Peer  # noqa: E402
from side_by_side import Pair  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """delta-spark in a process of its own: one session for all tests of a worker."""
    python = PROJECT / ".venv-spark-peer" / "bin" / "python"
    jars = sorted((PROJECT / ".tools" / "delta-spark" / "jars").glob("*.jar"))
    ready = list((PROJECT / ".tools" / "delta-spark").glob(".ready-*"))
    if not (ready and jars and python.exists() and shutil.which("java")):
        pytest.skip("delta-spark is not set up; tools/delta_spark_peer.sh does it where Java and Maven are")
    folder = tmp_path_factory.mktemp("delta-spark")
    server = PROJECT / "tests" / "interop" / "peers" / "spark_server.py"
    command = [str(python), str(server), str(folder), *map(str, jars)]
    environment = {"TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    with Peer("delta-spark", command, folder, environment) as peer:
        yield peer


@pytest.fixture
def pair(spark: SparkSession, delta_spark: Peer, tmp_path: Path) -> Pair:
    """One table of ours and one of delta-spark's, to which the same is done."""
    return Pair(spark, delta_spark, tmp_path)


@pytest.fixture
def pairs(spark: SparkSession, delta_spark: Peer, tmp_path: Path) -> Callable[[str], Pair]:
    """Several such pairs, by name."""
    return lambda name: Pair(spark, delta_spark, tmp_path / name)
