"""The ids of the keys that a catalog is used with: the secrets are in the key file, never here.

A server whose key file lacks the key that others sign with would refuse their tickets and page tokens;
comparing ids at start finds that before a recipient does.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert, select, update

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import now_ms


def record(connection: Connection, key_id: str) -> bool:
    """Note that a key is in use; False when that is known."""
    known = select(_K.c.id).where(_K.c.id == key_id)
    if connection.execute(known).one_or_none() is not None:
        return False
    connection.execute(insert(_K).values(id=key_id, created_at=now_ms(), retired_at=None))
    return True


def retire(connection: Connection, key_id: str) -> None:
    """Note that a key was taken out of the key file."""
    connection.execute(update(_K).where(_K.c.id == key_id).values(retired_at=now_ms()))


def missing(connection: Connection, held: Iterable[str]) -> set[str]:
    """Give the keys in use that a key file does not hold."""
    in_use = connection.execute(select(_K.c.id).where(_K.c.retired_at.is_(None))).scalars()
    return set(in_use) - set(held)


_K = sql.key_ids
