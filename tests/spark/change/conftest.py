"""Small tables to change, by deletion vectors or by rewriting files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

PROJECT = Path(__file__).resolve().parents[3]
for place in (PROJECT / "tests" / "interop", Path(__file__).parent):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

from peers.process import Peer  # noqa: E402
from small_tables import TableMaker  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# On a few rows compiling a plan costs more than running it.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark: SparkSession) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in _INTERPRETED}
    for key, value in _INTERPRETED.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value or "")


@pytest.fixture(scope="session")
def deltalake(peer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """deltalake (delta-rs) in a process of its own."""
    command = [str(peer_python), str(PROJECT / "tests" / "interop" / "peers" / "deltalake_server.py")]
    with Peer("deltalake", command, tmp_path_factory.mktemp("deltalake"), {"TZ": "UTC"}) as peer:
        yield peer


@pytest.fixture(params=["vectors", "rewriting"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> TableMaker:
    """Makes tables whose rows are changed by deletion vectors, or by rewriting files."""
    return TableMaker(tmp_path, vectors=request.param == "vectors")


@pytest.fixture
def make_vectors(tmp_path: Path) -> TableMaker:
    """Makes tables with deletion vectors, for what does not depend on the way of changing."""
    return TableMaker(tmp_path, vectors=True)
