"""A table's version and metadata (REST-150 to REST-164)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.server.endpoints.table_data import answered, asked_about, wishes_of
from distributary.sharing.query_request import parse_metadata_request, parse_version_request

if TYPE_CHECKING:
    from distributary.server.answers import Answer, StreamedAnswer
    from distributary.server.routes import Call
    from distributary.server.service import Service


async def table_version(service: Service, call: Call) -> Answer | StreamedAnswer:
    """The version in a header, no body; for HEAD of the table and for GET of `version` alike."""
    asked = await asked_about(service, call)
    request = parse_version_request(call.request.parameters())
    return await answered(service, call, asked, "version", lambda: service.tables.version(asked, request))


async def table_metadata(service: Service, call: Call) -> Answer | StreamedAnswer:
    """Two lines: protocol and metadata."""
    asked = await asked_about(service, call)
    request, wishes = parse_metadata_request(call.request.parameters()), wishes_of(call)
    return await answered(
        service, call, asked, "metadata", lambda: service.tables.metadata(asked, request, wishes)
    )
