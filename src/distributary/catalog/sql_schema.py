"""The tables of the catalog, for SQLite and PostgreSQL alike.

Entries have random UUIDs that are never used again, so whatever is bound to an id (a grant, a ticket, a page
token) ends with the entry. `name_key` is the folded name that look-ups and uniqueness go by; PostgreSQL
compares it byte by byte, as SQLite does, so that pages come in the same order from both. Times are
milliseconds since 1970 in UTC. Small lists and maps are JSON texts.

The migrations make these tables; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA: Final = MetaData()
KEY_TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True)


def _owner(name: str, target: str, **options: Any) -> Column[str]:
    """A reference that ends with what it refers to."""
    return Column(name, Text, ForeignKey(f"{target}.id", ondelete="CASCADE"), nullable=False, **options)


def _time(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


shares: Final = Table(
    "shares",
    METADATA,
    _id(),
    Column("name", Text, nullable=False),
    Column("name_key", KEY_TEXT, nullable=False, unique=True),
    Column("display_name", Text),
    Column("comment", Text),
    Column("properties", Text, nullable=False),
    _time("created_at"),
    _time("updated_at"),
)

schemas: Final = Table(
    "schemas",
    METADATA,
    _id(),
    _owner("share_id", "shares"),
    Column("name", Text, nullable=False),
    Column("name_key", KEY_TEXT, nullable=False),
    UniqueConstraint("share_id", "name_key", name="schemas_name"),
)

shared_objects: Final = Table(
    "shared_objects",
    METADATA,
    _id(),
    _owner("share_id", "shares", index=True),
    _owner("schema_id", "schemas"),
    Column("name", Text, nullable=False),
    Column("name_key", KEY_TEXT, nullable=False),
    Column("kind", Text, nullable=False),
    Column("published_id", Text),
    Column("comment", Text),
    Column("location", Text, nullable=False),
    Column("history_shared", Boolean, nullable=False),
    Column("start_version", BigInteger, nullable=False),
    Column("change_feed", Boolean, nullable=False),
    Column("access_modes", Text, nullable=False),
    Column("auxiliary_locations", Text, nullable=False),
    Column("partition_filter", Text),
    _time("created_at"),
    _time("updated_at"),
    UniqueConstraint("schema_id", "name_key", name="shared_objects_name"),
)

recipients: Final = Table(
    "recipients",
    METADATA,
    _id(),
    Column("name", Text, nullable=False),
    Column("name_key", KEY_TEXT, nullable=False, unique=True),
    Column("comment", Text),
    Column("properties", Text, nullable=False),
    Column("allowed_addresses", Text, nullable=False),
    Column("disabled", Boolean, nullable=False),
    _time("created_at"),
    _time("updated_at"),
)

bearer_tokens: Final = Table(
    "bearer_tokens",
    METADATA,
    _id(),
    _owner("recipient_id", "recipients", index=True),
    Column("secret_hash", LargeBinary, nullable=False),
    _time("created_at"),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
)

grants: Final = Table(
    "grants",
    METADATA,
    _owner("share_id", "shares", primary_key=True),
    _owner("recipient_id", "recipients", primary_key=True, index=True),
    _time("granted_at"),
)

audit_events: Final = Table(
    "audit_events",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _time("at"),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Index("audit_events_at", "at"),
)

audit_seals: Final = Table(
    "audit_seals",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

key_ids: Final = Table(
    "key_ids",
    METADATA,
    _id(),
    _time("created_at"),
    _time("retired_at", nullable=True),
)

query_jobs: Final = Table(
    "query_jobs",
    METADATA,
    _id(),
    _owner("recipient_id", "recipients"),
    _owner("table_id", "shared_objects"),
    Column("idempotency_key", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("lease_owner", Text),
    _time("lease_until", nullable=True),
    Column("result", LargeBinary),
    Column("error_code", Text),
    Column("error_message", Text),
    _time("created_at"),
    _time("expires_at"),
    UniqueConstraint("recipient_id", "table_id", "idempotency_key", name="query_jobs_idempotency"),
    Index("query_jobs_state", "state", "created_at"),
)
