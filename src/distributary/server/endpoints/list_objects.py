"""List shares, get a share, list schemas, tables and all tables (REST-101 to REST-141).

Lists come in pages of at most 500 in the order of their folded names; a page token names the last item
given, so each item that stays comes exactly once (REST-030 to REST-039). Only granted shares exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from distributary.catalog import shares as catalog_shares
from distributary.server.answers import Answer
from distributary.server.continuation_tokens import TokenScope
from distributary.sharing import objects
from distributary.sharing.error_response import InvalidParameterError, ResourceNotFoundError

if TYPE_CHECKING:
    from distributary.catalog.shared_tables import SharedTable
    from distributary.server.routes import Call
    from distributary.server.service import Service

MAX_RESULTS: Final = 500
_INT32_MAX: Final = 2**31 - 1
_HEADERS: Final = (
    (b"content-type", objects.LIST_CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
)
_encode = msgspec.json.Encoder().encode


async def list_shares(service: Service, call: Call) -> Answer:
    """The shares that are granted to the recipient."""

    def page(limit: int, after: str | None) -> tuple[list[objects.Share], str | None]:
        found = catalog_shares.visible_shares(service.database, call.recipient, limit=limit, after=after)
        return [_share(share) for share in found.items], found.next

    return await _listed(service, call, "shares", page)


async def get_share(service: Service, call: Call) -> Answer:
    """One share by name."""
    share = await service.share(call.recipient, call.names["share"])
    return Answer(200, _HEADERS, _encode(objects.GetShareResponse(_share(share))))


async def list_schemas(service: Service, call: Call) -> Answer:
    """The schemas of a share."""
    share = await service.share(call.recipient, call.names["share"])

    def page(limit: int, after: str | None) -> tuple[list[objects.Schema], str | None]:
        found = catalog_shares.visible_schemas(service.database, share, limit=limit, after=after)
        return [objects.Schema(schema.name, schema.share) for schema in found.items], found.next

    return await _listed(service, call, f"schemas/{share.id}", page)


async def list_tables(service: Service, call: Call) -> Answer:
    """The tables of a schema."""
    share = await service.share(call.recipient, call.names["share"])
    schema = await service.in_catalog(
        lambda: catalog_shares.visible_schema(service.database, share, call.names["schema"])
    )
    if schema is None:
        raise ResourceNotFoundError("There is no such schema that this recipient can see.")

    def page(limit: int, after: str | None) -> tuple[list[objects.Table], str | None]:
        found = catalog_shares.visible_tables(
            service.database, call.recipient, share, schema, limit=limit, after=after
        )
        return [_table(table) for table in found.items], found.next

    return await _listed(service, call, f"tables/{schema.id}", page)


async def list_all_tables(service: Service, call: Call) -> Answer:
    """The tables of all schemas of a share."""
    share = await service.share(call.recipient, call.names["share"])

    def page(limit: int, after: str | None) -> tuple[list[objects.Table], str | None]:
        found = catalog_shares.visible_tables(
            service.database, call.recipient, share, limit=limit, after=after
        )
        return [_table(table) for table in found.items], found.next

    return await _listed(service, call, f"all-tables/{share.id}", page)


async def _listed(
    service: Service,
    call: Call,
    what: str,
    page: Callable[[int, str | None], tuple[list[objects.Item], str | None]],
) -> Answer:
    """One page, remembered for a moment: lists are what clients ask most often."""

    def load() -> bytes:
        parameters = call.request.parameters()
        limit = max_results(parameters.get("maxResults"))
        scope = TokenScope(call.recipient.id, query=f"list/{what}")
        after = _position(service, scope, parameters.get("pageToken"))
        items, following = page(limit, after)
        found: dict[str, object] = {"items": items}
        if following is not None:
            found["nextPageToken"] = service.tokens.issue("list", scope, {"after": following})
        return _encode(found)

    key = (call.recipient.id, what, call.request.query_string)
    body = await service.list_page(key, load)
    return Answer(200, _HEADERS, body, service.list_until(key, call.recipient, call.names.get("share")))


def max_results(text: str | None) -> int:
    """How many items a page has: what was asked for, at most 500 (REST-031, REST-039)."""
    if text is None:
        return MAX_RESULTS
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) is None or not 0 <= int(text) <= _INT32_MAX:
        raise InvalidParameterError("maxResults must be a whole number, 0 or more.")
    return min(int(text), MAX_RESULTS)


def _position(service: Service, scope: TokenScope, token: str | None) -> str | None:
    if not token:
        return None
    after = service.tokens.read("list", scope, token).get("after")
    return after if isinstance(after, str) else None


def _share(share: catalog_shares.Share) -> objects.Share:
    return objects.Share(
        name=share.name,
        id=share.id,
        display_name=share.display_name,
        comment=share.comment,
        properties=dict(share.properties) or None,
    )


def _table(table: SharedTable) -> objects.Table:
    has_directory = "dir" in table.policy.access_modes
    return objects.Table(
        name=table.name,
        schema=table.schema,
        share=table.share,
        share_id=table.share_id,
        id=table.shown_id,
        location=table.policy.location if has_directory else None,
        auxiliary_locations=(table.policy.auxiliary_locations or None) if has_directory else None,
        access_modes=table.policy.access_modes if has_directory else None,
    )
