"""`/healthz` and `/readyz`: whether the process lives, and whether it can answer (RELIABILITY C6).

The first is green as long as the process runs; the second asks the database, and is red while the worker
drains or the database gives no answer.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

import msgspec
from sqlalchemy import text

from distributary.catalog.database import Database
from distributary.catalog.errors import CatalogError
from distributary.server.answers import Answer

_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


async def alive() -> Answer:
    """The process answers."""
    return Answer(200, _HEADERS, b'{"status":"ok"}')


async def ready(threads: Executor, database: Database, *, draining: bool) -> Answer:
    """The process can answer recipients."""
    checks = {"database": "ok"}
    try:
        await asyncio.get_running_loop().run_in_executor(threads, _ask, database)
    except CatalogError:
        checks["database"] = "no answer"
    if draining:
        checks["server"] = "stopping"
    is_ready = all(state == "ok" for state in checks.values())
    body = msgspec.json.encode({"status": "ok" if is_ready else "not ready", "checks": checks})
    return Answer(200 if is_ready else 503, _HEADERS, body)


def _ask(database: Database) -> None:
    with database.read() as connection:
        connection.execute(text("SELECT 1"))
