"""The routes of the sharing protocol below the prefix (obligations section 3, beyond A0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from distributary.server.endpoints import list_objects, table_data, table_metadata, temporary_credentials
from distributary.server.routes import Route

if TYPE_CHECKING:
    from distributary.server.routes import Endpoint

_TABLE: Final = "/shares/{share}/schemas/{schema}/tables/{table}"

PROTOCOL_ROUTES: Final[tuple[Route[Endpoint], ...]] = (
    Route("list_shares", "GET", "/shares", list_objects.list_shares),
    Route("get_share", "GET", "/shares/{share}", list_objects.get_share),
    Route("list_schemas", "GET", "/shares/{share}/schemas", list_objects.list_schemas),
    Route("list_tables", "GET", "/shares/{share}/schemas/{schema}/tables", list_objects.list_tables),
    Route("list_all_tables", "GET", "/shares/{share}/all-tables", list_objects.list_all_tables),
    Route("table_version_head", "HEAD", _TABLE, table_metadata.table_version),
    Route("table_version", "GET", f"{_TABLE}/version", table_metadata.table_version),
    Route("table_metadata", "GET", f"{_TABLE}/metadata", table_metadata.table_metadata),
    Route("table_query", "POST", f"{_TABLE}/query", table_data.table_query),
    Route("poll_query", "POST", f"{_TABLE}/queries/{{queryId}}", table_data.poll_query),
    Route("table_changes", "GET", f"{_TABLE}/changes", table_data.table_changes),
    Route(
        "temporary_credentials",
        "POST",
        f"{_TABLE}/temporary-table-credentials",
        temporary_credentials.temporary_credentials,
    ),
)
