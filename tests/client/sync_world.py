"""A real server over tables that tests make and change, for copies of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from sharing_world.contents import DAY, Contents
from sharing_world.running import RunningServer, running_server

import distributary.client as delta_sharing
from distributary.catalog.administration import Administration, initialise
from distributary.catalog.database import Database, now_ms
from distributary.delta.table import DeltaTable
from distributary.server.key_ring import create_key_file
from distributary.sharing.table_policy import TablePolicy


@dataclass(frozen=True)
class SyncWorld:
    """A server process, its catalog, and a recipient."""

    server: RunningServer
    folder: Path

    @property
    def profile(self) -> dict[str, Any]:
        token = self.server.contents.tokens["acme"]
        return {"shareCredentialsVersion": 1, "endpoint": self.server.endpoint, "bearerToken": token}

    def share(self, name: str, location: Path, **policy: Any) -> delta_sharing.SharedTable:
        """Share a table that lies somewhere, and open it as the recipient."""
        admin = self.server.contents.admin
        admin.add_table("s", "c", name, TablePolicy(location=str(location), **policy))
        return self.table(name)

    def table(self, name: str) -> delta_sharing.SharedTable:
        return delta_sharing.SharingClient(self.profile, retry_seconds=5.0).table(f"s.c.{name}")


@contextmanager
def sync_world(folder: Path) -> Iterator[SyncWorld]:
    """Start a server whose catalog has one share and one recipient."""
    keys = create_key_file(folder / "keys.json", now=now_ms())
    url = str(folder / "catalog.db")
    database = Database(url)
    initialise(database, keys)
    admin = Administration(database, keys, actor="test")
    admin.create_share("s")
    admin.create_recipient("acme", properties={"country": "FR"})
    admin.grant("s", "acme")
    tokens = {"acme": admin.issue_token("acme", expires_at=now_ms() + DAY).text}
    contents = Contents(folder, admin, keys, None, tokens)  # pyright: ignore[reportArgumentType]
    with running_server(contents, {"database": url, "workers": 1}) as server:
        yield SyncWorld(server, folder)
    database.close()


def rows(table: DeltaTable | Path, version: int | None = None) -> list[str]:
    """The rows of a table in an order that does not hang on its files."""
    opened = table if isinstance(table, DeltaTable) else DeltaTable(table)
    return sorted(map(str, opened.snapshot(version).to_arrow().to_pylist()))


def marks(copy: Path) -> dict[int, int]:
    """Which version of a copy brought which shared version, as its history tells; each at most once."""
    entries = [entry for entry in DeltaTable(copy).history() if entry.operation == "SYNC"]
    found = {
        int(entry.commit_info["operationParameters"]["sharedVersion"]): entry.version for entry in entries
    }
    assert len(found) == len(entries)
    return found
