"""Shares, schemas and tables as the list and get endpoints give them.

Implements the objects of "List Shares" to "List all Tables" (DM-011 to DM-027, REST-102 to REST-141).
Absent fields are left out; names are what was configured, casing kept.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

LIST_CONTENT_TYPE = "application/json; charset=utf-8"

MAX_DISPLAY_NAME = 255
MAX_COMMENT = 65_536
MAX_PROPERTIES = 50
MAX_PROPERTY_KEY = 255
MAX_PROPERTY_VALUE = 1_000


class WireObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of the objects: camelCase on the wire, absent fields left out."""


class Share(WireObject, frozen=True):
    """A share: what is granted to recipients."""

    name: str
    id: str | None = None
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] | None = None


class Schema(WireObject, frozen=True):
    """A schema: a group of tables within a share."""

    name: str
    share: str


class Table(WireObject, frozen=True):
    """A shared table; location and access modes only where directories may be read (C-11)."""

    # In this order the official client takes them.
    name: str
    share: str
    schema: str
    share_id: str | None = None
    id: str | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] | None = None
    access_modes: tuple[str, ...] | None = None


Item = TypeVar("Item", Share, Schema, Table)


class Page(msgspec.Struct, Generic[Item], frozen=True, rename="camel", omit_defaults=True):
    """One page of a list; the last one has no token."""

    items: list[Item] = []
    next_page_token: str | None = None


class GetShareResponse(WireObject, frozen=True):
    """The answer to "Get Share"."""

    share: Share


class AwsTempCredentials(WireObject, frozen=True):
    """Keys of a session that may only read."""

    access_key_id: str
    secret_access_key: str
    session_token: str

    def __repr__(self) -> str:
        return "AwsTempCredentials(…)"


class AzureUserDelegationSas(WireObject, frozen=True):
    """A shared access signature that may only read."""

    sas_token: str

    def __repr__(self) -> str:
        return "AzureUserDelegationSas(…)"


class GcpOauthToken(WireObject, frozen=True):
    """A down-scoped token that may only read."""

    oauth_token: str

    def __repr__(self) -> str:
        return "GcpOauthToken(…)"


class TemporaryCredentials(WireObject, frozen=True):
    """Credentials for one location, of exactly one kind, until a time in ms since 1970."""

    location: str
    expiration_time: int
    aws_temp_credentials: AwsTempCredentials | None = None
    azure_user_delegation_sas: AzureUserDelegationSas | None = None
    gcp_oauth_token: GcpOauthToken | None = None


class TemporaryCredentialsResponse(WireObject, frozen=True):
    """The answer of ``temporary-table-credentials``."""

    credentials: TemporaryCredentials


class TemporaryCredentialsRequest(WireObject, frozen=True):
    """The body of ``temporary-table-credentials``: the root, or one auxiliary location."""

    location: str | None = None
