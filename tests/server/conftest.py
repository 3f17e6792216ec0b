"""Fixtures of the server tests: a world to share, servers over it on both databases, and none at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sharing_world.asgi import InProcess
from sharing_world.contents import Contents, make_contents
from sharing_world.postgresql import postgresql
from sharing_world.running import RunningServer, running_server

UNLIMITED = {"calls_per_second": 0, "concurrent_queries": 0, "concurrent_downloads": 0}
KINDS = {"sqlite, 1 worker": ("sqlite", 1), "postgresql, 3 workers": ("postgresql", 3)}


@pytest.fixture(scope="session")
def corpus(shared_dir, request) -> Path | None:
    """The third-party tables, where they are."""
    return request.getfixturevalue("delta_tables").tables


@pytest.fixture(scope="session", params=list(KINDS))
def server(request, tmp_path_factory, corpus) -> Iterator[RunningServer]:
    """A running server: with SQLite and one worker, with PostgreSQL and three."""
    kind, workers = KINDS[request.param]
    folder = tmp_path_factory.mktemp(kind)
    if kind == "sqlite":
        yield from _served(folder, str(folder / "catalog.db"), workers, corpus)
    else:
        with postgresql() as url:
            yield from _served(folder, url, workers, corpus)


def _served(folder: Path, database: str, workers: int, corpus: Path | None) -> Iterator[RunningServer]:
    contents = make_contents(folder, database, corpus)
    settings = {"database": database, "workers": workers, "limits": UNLIMITED}
    with running_server(contents, settings) as server:
        yield server
    contents.database.close()


@pytest.fixture(scope="session")
def contents(tmp_path_factory) -> Iterator[Contents]:
    """A world in SQLite that no process serves; tests leave it as they find it."""
    folder = tmp_path_factory.mktemp("contents")
    made = make_contents(folder, str(folder / "catalog.db"), None)
    yield made
    made.database.close()


@pytest.fixture
def application(contents) -> Iterator[InProcess]:
    """The application over that world, without a listener."""
    made = InProcess(contents)
    yield made
    made.close()
