"""Share files: shares, recipients and grants as one YAML document, to be applied and exported.

The form is the reference server's (`version`, `shares` with `schemas` with `tables`, `authorization`), so its
configuration file is a share file as it is; the further keys are ours. Reading checks everything and changes
nothing; `catalog.share_plan` compares with the catalog and applies. Where a table does not say
`historyShared` it is false, as it is for that server; an export always says it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from distributary.catalog import grants, recipients, shares
from distributary.catalog.entry_limits import checked_comment, checked_display_name, checked_properties
from distributary.catalog.errors import ShareFileError
from distributary.catalog.recipients import Recipient, checked_networks, checked_recipient_properties
from distributary.catalog.shared_tables import SharedTable, checked_policy
from distributary.catalog.shares import Share
from distributary.catalog.yaml_document import read_yaml, read_yaml_file, write_yaml
from distributary.errors import DistributaryError
from distributary.sharing.names import check_name, name_key
from distributary.sharing.table_policy import AccessMode, TablePolicy
from distributary.storage.location import is_absolute_uri

VERSION: Final = 1
REFERENCE_RECIPIENT: Final = "bearer"
"""The recipient that holds the one token of a reference server's file."""


class TableEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A table in a share file."""

    name: str
    location: str
    id: str | None = None
    comment: str | None = None
    history_shared: bool = False
    start_version: int = 0
    change_feed: bool = True
    access_modes: tuple[AccessMode, ...] = ("url",)
    auxiliary_locations: tuple[str, ...] = ()
    partition_filter: str | None = None
    cdf_enabled: bool = False
    """What older releases of the reference server called `historyShared`."""

    @property
    def policy(self) -> TablePolicy:
        """The rules of the table."""
        rules: dict[str, Any] = {name: getattr(self, name) for name in TablePolicy.__struct_fields__}
        rules["history_shared"] = self.history_shared or self.cdf_enabled
        return TablePolicy(**rules)


class SchemaEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A schema in a share file."""

    name: str
    tables: tuple[TableEntry, ...] = ()


class ShareEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A share in a share file."""

    name: str
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] = {}
    schemas: tuple[SchemaEntry, ...] = ()


class RecipientEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A recipient in a share file; its tokens are not in it."""

    name: str
    comment: str | None = None
    properties: dict[str, str] = {}
    allowed_addresses: tuple[str, ...] = ()
    disabled: bool = False
    shares: tuple[str, ...] = ()


class Authorization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The one token of a reference server."""

    bearer_token: str

    def __repr__(self) -> str:
        return "Authorization(…)"


class ShareFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a share file says about shares; settings in the same file are not here."""

    version: int
    shares: tuple[ShareEntry, ...] = ()
    recipients: tuple[RecipientEntry, ...] = ()
    authorization: Authorization | None = None


_KNOWN_KEYS: Final = {
    "tables": {field.encode_name for field in msgspec.structs.fields(TableEntry)},
    "schemas": {field.encode_name for field in msgspec.structs.fields(SchemaEntry)},
    "shares": {field.encode_name for field in msgspec.structs.fields(ShareEntry)},
    "recipients": {field.encode_name for field in msgspec.structs.fields(RecipientEntry)},
}


def read_share_file(path: Path) -> ShareFile:
    """Read a share file, ours or the reference server's; relative locations start at the file."""
    return checked_share_file(_decoded(read_yaml_file(path), str(path)), path.absolute().parent, str(path))


def parse_share_file(text: bytes | str, name: str, folder: Path) -> ShareFile:
    """Read the text of a share file, e.g. from stdin."""
    return checked_share_file(_decoded(read_yaml(text, name), name), folder, name)


def checked_share_file(file: ShareFile, folder: Path, name: str) -> ShareFile:
    """Check every name and value, and that no two entries of a scope have one name."""
    if file.version != VERSION:
        raise ShareFileError(f"{name}: `version` must be {VERSION}, not {file.version}")
    try:
        checked = msgspec.structs.replace(
            file,
            shares=tuple(_checked_share(share, folder) for share in file.shares),
            recipients=tuple(_checked_recipient(recipient) for recipient in file.recipients),
        )
        _refuse_doubles("share", [share.name for share in checked.shares])
        _refuse_doubles("recipient", [recipient.name for recipient in checked.recipients])
    except DistributaryError as error:
        raise ShareFileError(f"{name}: {error}") from error
    return checked


def exported(connection: Connection) -> ShareFile:
    """Give the whole catalog as a share file: no token, no id but those that another server showed."""
    every = shares.list_shares(connection)
    tables = {share.id: shares.list_tables(connection, share) for share in every}
    schemas = {
        share.id: [schema.name for schema in shares.list_schemas(connection, share)] for share in every
    }
    granted: dict[str, list[str]] = {}
    for grant in grants.grants_of(connection):
        granted.setdefault(grant.recipient, []).append(grant.share)
    return ShareFile(
        version=VERSION,
        shares=tuple(share_entry(share, schemas[share.id], tables[share.id]) for share in every),
        recipients=tuple(
            recipient_entry(recipient, granted.get(recipient.name, []))
            for recipient in recipients.list_recipients(connection)
        ),
    )


def share_entry(share: Share, schemas: list[str], tables: list[SharedTable]) -> ShareEntry:
    """Give a share of the catalog as an entry."""
    return ShareEntry(
        name=share.name,
        display_name=share.display_name,
        comment=share.comment,
        properties=dict(share.properties),
        schemas=tuple(
            SchemaEntry(name=name, tables=tuple(table_entry(t) for t in tables if t.schema == name))
            for name in schemas
        ),
    )


def table_entry(table: SharedTable) -> TableEntry:
    """Give a table of the catalog as an entry."""
    rules = msgspec.structs.asdict(table.policy)
    return TableEntry(name=table.name, id=table.published_id, comment=table.comment, **rules)


def recipient_entry(recipient: Recipient, granted: list[str]) -> RecipientEntry:
    """Give a recipient of the catalog as an entry."""
    return RecipientEntry(
        name=recipient.name,
        comment=recipient.comment,
        properties=dict(recipient.properties),
        allowed_addresses=recipient.allowed_addresses,
        disabled=recipient.disabled,
        shares=tuple(granted),
    )


def share_file_text(file: ShareFile) -> str:
    """Write a share file; every table says whether its history is shared."""
    document = msgspec.to_builtins(file)
    for share, entry in zip(document.get("shares", ()), file.shares, strict=False):
        for schema, schema_entry in zip(share.get("schemas", ()), entry.schemas, strict=True):
            for table, rules in zip(schema.get("tables", ()), schema_entry.tables, strict=True):
                table["historyShared"] = rules.history_shared
                if rules.access_modes == ("url",):
                    table.pop("accessModes", None)
    return write_yaml(document)


def _decoded(document: dict[str, Any], name: str) -> ShareFile:
    # The reference server has keys of its own beside these, which are settings.
    wanted = {
        key: document[key] for key in ("version", "shares", "recipients", "authorization") if key in document
    }
    wanted = {key: value for key, value in wanted.items() if value is not None}
    _refuse_unknown(wanted, name)
    try:
        return msgspec.convert(wanted, ShareFile)
    except msgspec.ValidationError as error:
        raise ShareFileError(f"{name}: {error}") from None


def _refuse_unknown(value: Any, name: str, inside: str = "") -> None:
    """A misspelt key of a table would silently share more than was meant."""
    match value:
        case list():
            for item in value:
                _refuse_unknown(item, name, inside)
        case dict():
            known = _KNOWN_KEYS.get(inside)
            for key, inner in value.items():
                if known is not None and key not in known:
                    raise ShareFileError(
                        f"{name}: {inside} have no key {key!r}: they have {', '.join(sorted(known))}"
                    )
                if key in _KNOWN_KEYS and key != inside and isinstance(inner, list):
                    _refuse_unknown([i for i in inner if isinstance(i, dict)], name, key)
        case _:
            return


def _checked_share(share: ShareEntry, folder: Path) -> ShareEntry:
    checked = msgspec.structs.replace(
        share,
        name=check_name(share.name, "share"),
        display_name=checked_display_name(share.display_name),
        comment=checked_comment(share.comment),
        properties=checked_properties(share.properties),
        schemas=tuple(_checked_schema(schema, folder) for schema in share.schemas),
    )
    _refuse_doubles("schema", [schema.name for schema in checked.schemas])
    return checked


def _checked_schema(schema: SchemaEntry, folder: Path) -> SchemaEntry:
    tables = tuple(_checked_table(table, folder) for table in schema.tables)
    _refuse_doubles("table", [table.name for table in tables])
    return SchemaEntry(name=check_name(schema.name, "schema"), tables=tables)


def _checked_table(table: TableEntry, folder: Path) -> TableEntry:
    def rooted(location: str) -> str:
        return location if is_absolute_uri(location) or not location else str(folder / location)

    rules = msgspec.structs.replace(
        table.policy,
        location=rooted(table.location),
        auxiliary_locations=tuple(rooted(root) for root in table.auxiliary_locations),
    )
    values = msgspec.structs.asdict(checked_policy(rules))
    name, comment = check_name(table.name, "table"), checked_comment(table.comment)
    return TableEntry(name=name, id=table.id or None, comment=comment, **values)


def _checked_recipient(recipient: RecipientEntry) -> RecipientEntry:
    return msgspec.structs.replace(
        recipient,
        name=check_name(recipient.name, "recipient"),
        comment=checked_comment(recipient.comment),
        properties=checked_recipient_properties(recipient.properties),
        allowed_addresses=checked_networks(recipient.allowed_addresses),
    )


def _refuse_doubles(kind: str, names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name_key(name), name)
        if first is not name:
            raise ShareFileError(f"two {kind}s have the same name: {first!r} and {name!r}")
