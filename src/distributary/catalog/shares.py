"""Shares, their schemas, and the tables in them (DM-001 to DM-027), with the pages in which they are listed.

Names match by folding; pages follow the folded names and continue after the last one given, so that each
entry that stays comes exactly once, whatever is added or dropped between two pages (REST-033 to REST-039).
A schema exists while something is in it or it was made on its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Select, delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import Database, now_ms
from distributary.catalog.entry_limits import checked_comment, checked_display_name, checked_properties
from distributary.catalog.errors import NameTakenError, NotInCatalogError
from distributary.catalog.recipients import Recipient
from distributary.catalog.shared_tables import SharedTable, shared_table_of
from distributary.sharing.names import check_name, name_key, name_problem

PAGE_SIZE: Final = 500

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some items of a list, and the place to go on from (None after the last page)."""

    items: list[Item]
    next: str | None = None


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One share, as the catalog has it."""

    id: str
    name: str
    display_name: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = {}
    created_at: int = 0
    updated_at: int = 0


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """One schema of a share."""

    id: str
    share_id: str
    share: str
    name: str


def visible_shares(
    database: Database, recipient: Recipient, *, limit: int = PAGE_SIZE, after: str | None = None
) -> Page[Share]:
    """Give a page of the shares that are granted to a recipient, by name."""
    query = select(_S).join(sql.grants).where(sql.grants.c.recipient_id == recipient.id)
    if after is not None:
        query = query.where(_S.c.name_key > after)
    rows, more = _some(database, query.order_by(_S.c.name_key), limit)
    return Page([share_of(row) for row in rows], rows[-1].name_key if more else None)


def visible_share(database: Database, recipient: Recipient, name: str) -> Share | None:
    """Find a share by name, if it is granted to a recipient; None tells not there and not granted alike."""
    if name_problem(name, "share"):
        return None
    granted = select(_S).join(sql.grants).where(sql.grants.c.recipient_id == recipient.id)
    with database.read() as connection:
        row = connection.execute(granted.where(_S.c.name_key == name_key(name))).one_or_none()
    return None if row is None else share_of(row)


def visible_schemas(
    database: Database, share: Share, *, limit: int = PAGE_SIZE, after: str | None = None
) -> Page[Schema]:
    """Give a page of the schemas of a share that was found for a recipient."""
    query = select(_C).where(_C.c.share_id == share.id)
    if after is not None:
        query = query.where(_C.c.name_key > after)
    rows, more = _some(database, query.order_by(_C.c.name_key), limit)
    return Page([schema_of(row, share) for row in rows], rows[-1].name_key if more else None)


def visible_schema(database: Database, share: Share, name: str) -> Schema | None:
    """Find a schema of a share by name."""
    with database.read() as connection:
        return find_schema(connection, share, name)


def visible_tables(
    database: Database,
    recipient: Recipient,
    share: Share,
    schema: Schema | None = None,
    *,
    limit: int = PAGE_SIZE,
    after: str | None = None,
) -> Page[SharedTable]:
    """Give a page of the tables of a schema, or of the whole share, as the recipient may see them."""
    query = _tables().where(_O.c.share_id == share.id)
    if schema is not None:
        query = query.where(_O.c.schema_id == schema.id)
    if after is not None:
        schema_key, _, table_key = after.partition("/")
        query = query.where(tuple_(_C.c.name_key, _O.c.name_key) > tuple_(schema_key, table_key))
    rows, more = _some(database, query.order_by(_C.c.name_key, _O.c.name_key), limit)
    last = f"{rows[-1].schema_key}/{rows[-1].name_key}" if more else None
    return Page([shared_table_of(row, recipient) for row in rows], last)


def find_share(connection: Connection, name: str) -> Share | None:
    """Find a share by name, whatever its casing."""
    if name_problem(name, "share"):
        return None
    row = connection.execute(select(_S).where(_S.c.name_key == name_key(name))).one_or_none()
    return None if row is None else share_of(row)


def get_share(connection: Connection, name: str) -> Share:
    """Find a share by name; it is an error when there is none."""
    found = find_share(connection, name)
    if found is None:
        raise NotInCatalogError(
            f"there is no share {name!r}: `distributary share list` shows those there are"
        )
    return found


def list_shares(connection: Connection) -> list[Share]:
    """Give every share, by name."""
    return [share_of(row) for row in connection.execute(select(_S).order_by(_S.c.name_key))]


def create_share(
    connection: Connection,
    name: str,
    *,
    display_name: str | None = None,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Share:
    """Add an empty share that nobody is granted yet."""
    now = now_ms()
    made = Share(
        id=str(uuid.uuid4()),
        name=check_name(name, "share"),
        display_name=checked_display_name(display_name),
        comment=checked_comment(comment),
        properties=checked_properties(properties or {}),
        created_at=now,
        updated_at=now,
    )
    try:
        connection.execute(insert(_S).values(name_key=name_key(name), **_columns(made)))
    except IntegrityError as error:
        raise NameTakenError(f"there is a share {name!r} already") from error
    return made


def save_share(connection: Connection, share: Share) -> Share:
    """Keep a changed share; its id says which, so a new name keeps grants and tables."""
    saved = msgspec.structs.replace(
        share,
        name=check_name(share.name, "share"),
        display_name=checked_display_name(share.display_name),
        comment=checked_comment(share.comment),
        properties=checked_properties(share.properties),
        updated_at=now_ms(),
    )
    values = {**_columns(saved), "name_key": name_key(saved.name)}
    try:
        connection.execute(update(_S).where(_S.c.id == saved.id).values(values))
    except IntegrityError as error:
        raise NameTakenError(f"there is a share {saved.name!r} already") from error
    return saved


def drop_share(connection: Connection, share: Share) -> None:
    """Remove a share with its schemas, tables and grants; a new one of that name gets none of them."""
    connection.execute(delete(_S).where(_S.c.id == share.id))


def list_schemas(connection: Connection, share: Share) -> list[Schema]:
    """Give every schema of a share, by name."""
    rows = connection.execute(select(_C).where(_C.c.share_id == share.id).order_by(_C.c.name_key))
    return [schema_of(row, share) for row in rows]


def find_schema(connection: Connection, share: Share, name: str) -> Schema | None:
    """Find a schema of a share by name, whatever its casing."""
    if name_problem(name, "schema"):
        return None
    query = select(_C).where(_C.c.share_id == share.id, _C.c.name_key == name_key(name))
    row = connection.execute(query).one_or_none()
    return None if row is None else schema_of(row, share)


def schema_named(connection: Connection, share: Share, name: str) -> Schema:
    """Find a schema of a share, or make it."""
    found = find_schema(connection, share, name)
    if found is not None:
        return found
    made = Schema(id=str(uuid.uuid4()), share_id=share.id, share=share.name, name=check_name(name, "schema"))
    values = {"id": made.id, "share_id": share.id, "name": made.name, "name_key": name_key(name)}
    try:
        connection.execute(insert(_C).values(values))
    except IntegrityError as error:
        raise NameTakenError(
            f"schema {name!r} of share {share.name!r} was made by someone else: try again"
        ) from error
    return made


def drop_schema(connection: Connection, schema: Schema) -> None:
    """Remove a schema with its tables."""
    connection.execute(delete(_C).where(_C.c.id == schema.id))


def list_tables(connection: Connection, share: Share) -> list[SharedTable]:
    """Give every table of a share by schema and name, with filters as they are stored."""
    query = _tables().where(_O.c.share_id == share.id).order_by(_C.c.name_key, _O.c.name_key)
    return [shared_table_of(row) for row in connection.execute(query)]


def share_of(row: Any) -> Share:
    """Read a row of the table of shares."""
    return Share(
        id=row.id,
        name=row.name,
        display_name=row.display_name,
        comment=row.comment,
        properties=msgspec.json.decode(row.properties, type=dict[str, str]),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def schema_of(row: Any, share: Share) -> Schema:
    """Read a row of the table of schemas."""
    return Schema(id=row.id, share_id=share.id, share=share.name, name=row.name)


_S = sql.shares
_C = sql.schemas
_O = sql.shared_objects


def _tables() -> Select[Any]:
    columns = (_S.c.name.label("share"), _C.c.name.label("schema"), _C.c.name_key.label("schema_key"))
    return select(_O, *columns).join(_C, _O.c.schema_id == _C.c.id).join(_S, _O.c.share_id == _S.c.id)


def _some(database: Database, query: Select[Any], limit: int) -> tuple[list[Any], bool]:
    """Read one row more than asked for, which tells whether there is another page."""
    if limit <= 0:
        return [], False
    size = min(limit, PAGE_SIZE)
    with database.read() as connection:
        rows = list(connection.execute(query.limit(size + 1)))
    return rows[:size], len(rows) > size


def _columns(share: Share) -> dict[str, Any]:
    columns = msgspec.structs.asdict(share)
    columns["properties"] = msgspec.json.encode(share.properties).decode()
    return columns
