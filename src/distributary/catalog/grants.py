"""Grants: which recipient may read which share (DM-002, DM-003); every request is answered from here.

A grant belongs to the ids of a share and a recipient and ends with either, so a share or recipient that is
made anew under an old name starts without any.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import Database, now_ms
from distributary.catalog.recipients import Recipient, recipient_of
from distributary.catalog.shared_tables import SharedTable, shared_table_of
from distributary.catalog.shares import Share
from distributary.sharing.names import name_key, name_problem


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A recipient may read a share, since a time."""

    share: str
    recipient: str
    granted_at: int


def shared_table(
    database: Database, recipient: Recipient, share: str, schema: str, table: str
) -> SharedTable | None:
    """Find a table by names, under the recipient's policy; None tells not there and not granted alike."""
    if name_problem(share, "share") or name_problem(schema, "schema") or name_problem(table, "table"):
        return None
    names = {"share": name_key(share), "schema": name_key(schema), "name": name_key(table)}
    with database.read() as connection:
        row = connection.execute(_BY_NAME, {"recipient": recipient.id, **names}).one_or_none()
    return None if row is None else shared_table_of(row, recipient)


def shared_table_by_id(database: Database, recipient: Recipient, id: str) -> SharedTable | None:
    """Find a table by its id, if it is (still) granted to the recipient: for tickets and page tokens."""
    with database.read() as connection:
        row = connection.execute(_BY_ID, {"recipient": recipient.id, "id": id}).one_or_none()
    return None if row is None else shared_table_of(row, recipient)


def recipient_by_id(database: Database, id: str) -> Recipient | None:
    """Find a recipient by its id: for tickets, which carry no bearer token."""
    from_id = select(sql.recipients).where(sql.recipients.c.id == id)
    with database.read() as connection:
        row = connection.execute(from_id).one_or_none()
    return None if row is None else recipient_of(row)


def grant(connection: Connection, share: Share, recipient: Recipient) -> bool:
    """Let a recipient read a share; False when it could already."""
    if is_granted(connection, share, recipient):
        return False
    values = {"share_id": share.id, "recipient_id": recipient.id, "granted_at": now_ms()}
    connection.execute(insert(_G).values(values))
    return True


def revoke(connection: Connection, share: Share, recipient: Recipient) -> bool:
    """Take a share away from a recipient; False when it was not granted."""
    one = (_G.c.share_id == share.id) & (_G.c.recipient_id == recipient.id)
    return connection.execute(delete(_G).where(one)).rowcount > 0


def is_granted(connection: Connection, share: Share, recipient: Recipient) -> bool:
    """Tell whether a recipient may read a share."""
    one = (_G.c.share_id == share.id) & (_G.c.recipient_id == recipient.id)
    return connection.execute(select(_G.c.share_id).where(one)).one_or_none() is not None


def grants_of(
    connection: Connection, *, share: Share | None = None, recipient: Recipient | None = None
) -> list[Grant]:
    """Give grants by share and recipient: of a share, of a recipient, or all."""
    query = (
        select(sql.shares.c.name.label("share"), sql.recipients.c.name.label("recipient"), _G.c.granted_at)
        .join_from(_G, sql.shares)
        .join(sql.recipients, _G.c.recipient_id == sql.recipients.c.id)
    )
    if share is not None:
        query = query.where(_G.c.share_id == share.id)
    if recipient is not None:
        query = query.where(_G.c.recipient_id == recipient.id)
    rows = connection.execute(query.order_by(sql.shares.c.name_key, sql.recipients.c.name_key))
    return [Grant(share=row.share, recipient=row.recipient, granted_at=row.granted_at) for row in rows]


_G = sql.grants
_S = sql.shares
_C = sql.schemas
_O = sql.shared_objects


def _granted() -> Any:
    names = (_S.c.name.label("share"), _C.c.name.label("schema"))
    joined = select(_O, *names).join_from(_O, _C, _O.c.schema_id == _C.c.id)
    joined = joined.join(_S, _O.c.share_id == _S.c.id).join(_G, _G.c.share_id == _S.c.id)
    return joined.where(_G.c.recipient_id == bindparam("recipient"))


_BY_NAME: Final = _granted().where(
    _S.c.name_key == bindparam("share"),
    _C.c.name_key == bindparam("schema"),
    _O.c.name_key == bindparam("name"),
)
_BY_ID: Final = _granted().where(_O.c.id == bindparam("id"))
