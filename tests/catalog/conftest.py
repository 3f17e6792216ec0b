"""A catalog on SQLite and on PostgreSQL, with keys and an administrator."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from distributary import DeltaTable
from distributary.catalog.administration import Administration, initialise
from distributary.catalog.database import Database
from distributary.server.key_ring import KeyRing, create_key_file


@pytest.fixture
def keys(tmp_path) -> KeyRing:
    return create_key_file(tmp_path / "keys", now=1)


@pytest.fixture
def database(database_url, keys) -> Iterator[Database]:
    """An initialised catalog, on each kind of database."""
    opened = Database(database_url, busy_seconds=30)
    initialise(opened, keys)
    yield opened
    opened.close()


@pytest.fixture
def admin(database, keys) -> Administration:
    return Administration(database, keys, actor="test")


@pytest.fixture
def orders(tmp_path) -> Path:
    """A small table, partitioned by country and day."""
    schema = pa.schema([("id", pa.int64()), ("country", pa.string()), ("day", pa.date32())])
    table = DeltaTable.create(str(tmp_path / "orders"), schema=schema, partition_by=["country", "day"])
    day = datetime.date(2024, 1, 1)
    table.append(pa.table({"id": [1, 2, 3], "country": ["DE", "FR", "FR"], "day": [day] * 3}, schema=schema))
    return tmp_path / "orders"
