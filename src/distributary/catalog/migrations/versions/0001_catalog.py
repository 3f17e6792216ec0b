"""The first catalog: shares, schemas, shared objects, recipients, tokens, grants, audit, key ids, query jobs.

A migration is history: it says by itself what it makes, and stays as it is when the tables change later.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table."""
    _make_shares()
    _make_recipients()
    _make_audit()
    _make_query_jobs()


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Text(), primary_key=True)


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _bytes(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _key(*, unique: bool = False) -> sa.Column[Any]:
    return sa.Column("name_key", KEY_TEXT, nullable=False, unique=unique)


def _owner(name: str, target: str, *, primary_key: bool = False) -> sa.Column[Any]:
    reference = sa.ForeignKey(f"{target}.id", ondelete="CASCADE")
    return sa.Column(name, sa.Text(), reference, nullable=False, primary_key=primary_key)


def _make_shares() -> None:
    op.create_table(
        "shares",
        _id(),
        _text("name"),
        _key(unique=True),
        _text("display_name", nullable=True),
        _text("comment", nullable=True),
        _text("properties"),
        _number("created_at"),
        _number("updated_at"),
    )
    op.create_table(
        "schemas",
        _id(),
        _owner("share_id", "shares"),
        _text("name"),
        _key(),
        sa.UniqueConstraint("share_id", "name_key", name="schemas_name"),
    )
    op.create_table(
        "shared_objects",
        _id(),
        _owner("share_id", "shares"),
        _owner("schema_id", "schemas"),
        _text("name"),
        _key(),
        _text("kind"),
        _text("published_id", nullable=True),
        _text("comment", nullable=True),
        _text("location"),
        _flag("history_shared"),
        _number("start_version"),
        _flag("change_feed"),
        _text("access_modes"),
        _text("auxiliary_locations"),
        _text("partition_filter", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("schema_id", "name_key", name="shared_objects_name"),
    )
    op.create_index("ix_shared_objects_share_id", "shared_objects", ["share_id"])


def _make_recipients() -> None:
    op.create_table(
        "recipients",
        _id(),
        _text("name"),
        _key(unique=True),
        _text("comment", nullable=True),
        _text("properties"),
        _text("allowed_addresses"),
        _flag("disabled"),
        _number("created_at"),
        _number("updated_at"),
    )
    op.create_table(
        "bearer_tokens",
        _id(),
        _owner("recipient_id", "recipients"),
        _bytes("secret_hash"),
        _number("created_at"),
        _number("expires_at", nullable=True),
        _number("revoked_at", nullable=True),
    )
    op.create_index("ix_bearer_tokens_recipient_id", "bearer_tokens", ["recipient_id"])
    op.create_table(
        "grants",
        _owner("share_id", "shares", primary_key=True),
        _owner("recipient_id", "recipients", primary_key=True),
        _number("granted_at"),
    )
    op.create_index("ix_grants_recipient_id", "grants", ["recipient_id"])


def _make_audit() -> None:
    op.create_table(
        "audit_events",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        _number("at"),
        _text("actor"),
        _text("action"),
        _text("target"),
        _text("outcome"),
        _text("details"),
        _bytes("hash"),
    )
    op.create_index("audit_events_at", "audit_events", ["at"])
    op.create_table(
        "audit_seals",
        sa.Column("name", sa.Text(), primary_key=True),
        _number("number"),
        _bytes("hash"),
        _text("key_id"),
        _bytes("signature"),
    )
    op.create_table("key_ids", _id(), _number("created_at"), _number("retired_at", nullable=True))


def _make_query_jobs() -> None:
    op.create_table(
        "query_jobs",
        _id(),
        _owner("recipient_id", "recipients"),
        _owner("table_id", "shared_objects"),
        _text("idempotency_key"),
        _bytes("request"),
        _text("state"),
        _number("attempts"),
        _text("lease_owner", nullable=True),
        _number("lease_until", nullable=True),
        _bytes("result", nullable=True),
        _text("error_code", nullable=True),
        _text("error_message", nullable=True),
        _number("created_at"),
        _number("expires_at"),
        sa.UniqueConstraint("recipient_id", "table_id", "idempotency_key", name="query_jobs_idempotency"),
    )
    op.create_index("query_jobs_state", "query_jobs", ["state", "created_at"])
