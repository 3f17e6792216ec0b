"""Recipients: the principals that shares are granted to (DM-002, DM-007).

A recipient has a name, properties that partition filters can read, and perhaps a list of networks that it
must call from. A disabled recipient keeps its tokens and grants but may do nothing.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import now_ms
from distributary.catalog.entry_limits import checked_comment, checked_properties
from distributary.catalog.errors import InvalidEntryError, NameTakenError, NotInCatalogError
from distributary.sharing.names import check_name, name_key, name_problem

MOST_NETWORKS: Final = 100

_PROPERTY_NAME: Final = re.compile(r"[^\W\d]\w*")


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """One recipient, as the catalog has it."""

    id: str
    name: str
    comment: str | None = None
    properties: Mapping[str, str] = {}
    allowed_addresses: tuple[str, ...] = ()
    """Networks (CIDR) that the recipient may call from; none means anywhere."""
    disabled: bool = False
    created_at: int = 0
    updated_at: int = 0

    def may_call_from(self, address: str) -> bool:
        """Tell whether a client's address is on the list; an address that cannot be read never is."""
        if not self.allowed_addresses:
            return True
        try:
            caller = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(caller, "ipv4_mapped", None)
        return any((mapped or caller) in ipaddress.ip_network(network) for network in self.allowed_addresses)


def recipient_of(row: Any) -> Recipient:
    """Read a row of the table of recipients."""
    return Recipient(
        id=row.id,
        name=row.name,
        comment=row.comment,
        properties=msgspec.json.decode(row.properties, type=dict[str, str]),
        allowed_addresses=msgspec.json.decode(row.allowed_addresses, type=tuple[str, ...]),
        disabled=row.disabled,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def find_recipient(connection: Connection, name: str) -> Recipient | None:
    """Find a recipient by name, whatever its casing."""
    if name_problem(name, "recipient"):
        return None
    row = connection.execute(
        select(sql.recipients).where(sql.recipients.c.name_key == name_key(name))
    ).one_or_none()
    return None if row is None else recipient_of(row)


def get_recipient(connection: Connection, name: str) -> Recipient:
    """Find a recipient by name; it is an error when there is none."""
    found = find_recipient(connection, name)
    if found is None:
        raise NotInCatalogError(
            f"there is no recipient {name!r}: `distributary recipient list` shows those there are"
        )
    return found


def list_recipients(connection: Connection) -> list[Recipient]:
    """Give every recipient, by name."""
    rows = connection.execute(select(sql.recipients).order_by(sql.recipients.c.name_key))
    return [recipient_of(row) for row in rows]


def create_recipient(
    connection: Connection,
    name: str,
    *,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
    allowed_addresses: Sequence[str] = (),
) -> Recipient:
    """Add a recipient, which has no token and no grant yet."""
    now = now_ms()
    made = Recipient(
        id=str(uuid.uuid4()),
        name=check_name(name, "recipient"),
        comment=checked_comment(comment),
        properties=checked_recipient_properties(properties or {}),
        allowed_addresses=checked_networks(allowed_addresses),
        created_at=now,
        updated_at=now,
    )
    try:
        connection.execute(insert(sql.recipients).values(name_key=name_key(name), **_columns(made)))
    except IntegrityError as error:
        raise NameTakenError(f"there is a recipient {name!r} already") from error
    return made


def save_recipient(connection: Connection, recipient: Recipient) -> Recipient:
    """Keep a changed recipient; its id says which."""
    saved = msgspec.structs.replace(
        recipient,
        name=check_name(recipient.name, "recipient"),
        comment=checked_comment(recipient.comment),
        properties=checked_recipient_properties(recipient.properties),
        allowed_addresses=checked_networks(recipient.allowed_addresses),
        updated_at=now_ms(),
    )
    values = {**_columns(saved), "name_key": name_key(saved.name)}
    try:
        connection.execute(update(sql.recipients).where(sql.recipients.c.id == saved.id).values(values))
    except IntegrityError as error:
        raise NameTakenError(f"there is a recipient {saved.name!r} already") from error
    return saved


def drop_recipient(connection: Connection, recipient: Recipient) -> None:
    """Remove a recipient with its tokens, grants and queries; a new one of that name gets none of them."""
    connection.execute(delete(sql.recipients).where(sql.recipients.c.id == recipient.id))


def checked_networks(networks: Sequence[str]) -> tuple[str, ...]:
    """Read addresses and networks, IPv4 and IPv6, into their canonical form."""
    if len(networks) > MOST_NETWORKS:
        raise InvalidEntryError(
            f"{len(networks)} networks are too many for a recipient: at most {MOST_NETWORKS}"
        )
    try:
        return tuple(str(ipaddress.ip_network(network.strip())) for network in networks)
    except ValueError as error:
        raise InvalidEntryError(
            f"{error}: write a network as 192.0.2.0/24, 2001:db8::/32 or one address"
        ) from error


def checked_recipient_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Check properties; their names must be such that a filter can say `recipient.name`."""
    for name in properties:
        if not _PROPERTY_NAME.fullmatch(name):
            raise InvalidEntryError(
                f"{name!r} cannot be the name of a recipient's property: use letters, digits and _, "
                "so that a filter can say recipient.NAME"
            )
    return checked_properties(properties)


def _columns(recipient: Recipient) -> dict[str, Any]:
    columns = msgspec.structs.asdict(recipient)
    columns["properties"] = msgspec.json.encode(recipient.properties).decode()
    columns["allowed_addresses"] = msgspec.json.encode(recipient.allowed_addresses).decode()
    return columns
