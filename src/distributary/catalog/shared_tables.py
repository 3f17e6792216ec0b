"""Shared tables: a Delta table under a name in a share, with the rules it is served by (DM-020 to DM-027).

What is stored may name a recipient's properties in its partition filter; `shared_table_of` with a recipient
gives the policy as that recipient has it.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import now_ms
from distributary.catalog.entry_limits import checked_comment
from distributary.catalog.errors import InvalidEntryError, NameTakenError
from distributary.catalog.partition_filter import bound_filter, checked_filter
from distributary.catalog.recipients import Recipient
from distributary.sharing.names import check_name, name_key
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.location import parse_root

ACCESS_MODES: Final = ("url", "dir")
LONGEST_LOCATION: Final = 4096
MOST_AUXILIARY_LOCATIONS: Final = 100


class SharedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table in a share, with the policy it is served by."""

    id: str
    """Unique, never used again: what tickets and page tokens are bound to."""
    share_id: str
    schema_id: str
    share: str
    schema: str
    name: str
    policy: TablePolicy
    kind: str = "table"
    published_id: str | None = None
    """The id that another server showed for this table; None shows our own."""
    comment: str | None = None
    created_at: int = 0
    updated_at: int = 0

    @property
    def shown_id(self) -> str:
        """The id that recipients see."""
        return self.published_id or self.id

    @property
    def full_name(self) -> str:
        """The name as clients write it: share.schema.table."""
        return f"{self.share}.{self.schema}.{self.name}"


def shared_table_of(row: Any, recipient: Recipient | None = None) -> SharedTable:
    """Read a row; with a recipient, its properties are written into the partition filter."""
    return SharedTable(
        id=row.id,
        share_id=row.share_id,
        schema_id=row.schema_id,
        share=row.share,
        schema=row.schema,
        name=row.name,
        policy=_policy_of(row, recipient),
        kind=row.kind,
        published_id=row.published_id,
        comment=row.comment,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _policy_of(row: Any, recipient: Recipient | None) -> TablePolicy:
    stored: str | None = row.partition_filter
    bound = stored if stored is None or recipient is None else bound_filter(stored, recipient.properties)
    return TablePolicy(
        location=row.location,
        history_shared=row.history_shared,
        start_version=row.start_version,
        change_feed=row.change_feed,
        access_modes=msgspec.json.decode(row.access_modes, type=tuple),
        auxiliary_locations=msgspec.json.decode(row.auxiliary_locations, type=tuple[str, ...]),
        partition_filter=bound,
    )


def checked_policy(policy: TablePolicy) -> TablePolicy:
    """Give a policy back in its stored form, or say which rule it breaks."""
    policy = msgspec.structs.replace(
        policy,
        location=canonical_location(policy.location),
        auxiliary_locations=tuple(canonical_location(root) for root in policy.auxiliary_locations),
    )
    if len(policy.auxiliary_locations) > MOST_AUXILIARY_LOCATIONS:
        raise InvalidEntryError(f"a table has at most {MOST_AUXILIARY_LOCATIONS} auxiliary locations")
    if not 0 <= policy.start_version < 2**63:
        raise InvalidEntryError("the start version is a version of the table: 0 or more")
    unknown = [mode for mode in policy.access_modes if mode not in ACCESS_MODES]
    if unknown or not policy.access_modes:
        raise InvalidEntryError(f"access modes are url, dir or both, not {', '.join(unknown) or 'none'}")
    if policy.partition_filter is None:
        return policy
    if "dir" in policy.access_modes:
        raise InvalidEntryError(
            "a table with a partition filter cannot offer dir access, which would show every file: "
            "leave out the filter or use url access"
        )
    return msgspec.structs.replace(policy, partition_filter=checked_filter(policy.partition_filter))


def insert_table(connection: Connection, table: SharedTable) -> SharedTable:
    """Add a table to a schema; its id is made here."""
    now = now_ms()
    made = msgspec.structs.replace(
        table,
        id=str(uuid.uuid4()),
        name=check_name(table.name, "table"),
        comment=checked_comment(table.comment),
        policy=checked_policy(table.policy),
        created_at=now,
        updated_at=now,
    )
    try:
        connection.execute(insert(sql.shared_objects).values(_columns(made)))
    except IntegrityError as error:
        raise NameTakenError(f"there is a table {made.full_name!r} already") from error
    return made


def save_table(connection: Connection, table: SharedTable) -> SharedTable:
    """Keep a changed table; its id says which."""
    saved = msgspec.structs.replace(
        table,
        name=check_name(table.name, "table"),
        comment=checked_comment(table.comment),
        policy=checked_policy(table.policy),
        updated_at=now_ms(),
    )
    columns = sql.shared_objects.c
    try:
        connection.execute(update(sql.shared_objects).where(columns.id == saved.id).values(_columns(saved)))
    except IntegrityError as error:
        raise NameTakenError(f"there is a table {saved.full_name!r} already") from error
    return saved


def delete_table(connection: Connection, table: SharedTable) -> None:
    """Remove a table from its share, and its schema when nothing is left in it."""
    objects = sql.shared_objects
    connection.execute(delete(objects).where(objects.c.id == table.id))
    left = select(objects.c.id).where(objects.c.schema_id == table.schema_id).exists()
    connection.execute(delete(sql.schemas).where(sql.schemas.c.id == table.schema_id, ~left))


def canonical_location(text: str) -> str:
    """Give the one form of a location: an absolute path of the local disk, or a URI."""
    if len(text) > LONGEST_LOCATION:
        raise InvalidEntryError(f"a location is a path or URI of at most {LONGEST_LOCATION} characters")
    place = parse_root(text)
    if place.scheme == "memory":
        raise InvalidEntryError("a table in memory cannot be shared: other processes do not see it")
    return f"/{place.path}" if place.scheme == "file" else place.uri


def _columns(table: SharedTable) -> dict[str, Any]:
    policy = msgspec.structs.asdict(table.policy)
    policy["access_modes"] = msgspec.json.encode(table.policy.access_modes).decode()
    policy["auxiliary_locations"] = msgspec.json.encode(table.policy.auxiliary_locations).decode()
    names = (
        "id",
        "share_id",
        "schema_id",
        "name",
        "kind",
        "published_id",
        "comment",
        "created_at",
        "updated_at",
    )
    return {name: getattr(table, name) for name in names} | {"name_key": name_key(table.name)} | policy
