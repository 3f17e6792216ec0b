"""Fixtures of the client's tests: tables, and servers that do as they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.delta.table import DeltaTable

sys.path.insert(0, str(Path(__file__).parent))

from scripted_server import ScriptedServer
from sync_world import SyncWorld, sync_world

import distributary.client as delta_sharing

Connect = Callable[..., delta_sharing.SharingClient]


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables that tests only read."""
    folder = tmp_path_factory.mktemp("lake")
    days = [f"2024-01-0{1 + at // 10}" for at in range(60)]
    rows = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "amount": pa.array([at / 4 for at in range(60)], pa.float64()),
            "name": pa.array([None if at % 7 == 0 else f"name {at}" for at in range(60)]),
            "day": pa.array(days).cast(pa.date32()),
        }
    )
    DeltaTable.create(folder / "sales", schema=rows.schema, partition_by=["day"]).append(rows)
    wide = pa.table({f"c{at:02d}": pa.array(range(at, at + 200_000), pa.int64()) for at in range(12)})
    DeltaTable.create(folder / "wide", schema=wide.schema).append(wide)
    return folder


@pytest.fixture(params=["parquet", "delta"])
def response_format(request: pytest.FixtureRequest) -> str:
    """Each of the two formats."""
    return request.param


@pytest.fixture
def server(lake: Path, response_format: str) -> Iterator[ScriptedServer]:
    """A well-behaved server of the lake, in each format, until a test says otherwise."""
    served = ScriptedServer(lake, response_format)
    yield served
    served.close()


@pytest.fixture
def plain_server(lake: Path) -> Iterator[ScriptedServer]:
    """The same in the parquet format only."""
    served = ScriptedServer(lake)
    yield served
    served.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients that give up soon, and closes them."""
    made: list[delta_sharing.SharingClient] = []

    def connected(server: ScriptedServer | dict, **settings) -> delta_sharing.SharingClient:
        profile = server.profile if isinstance(server, ScriptedServer) else server
        made.append(delta_sharing.SharingClient(profile, **{"retry_seconds": 2.0, **settings}))
        return made[-1]

    yield connected
    for client in made:
        client.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncWorld]:
    """A server process over tables that tests make and change."""
    with sync_world(tmp_path_factory.mktemp("sync")) as made:
        yield made
