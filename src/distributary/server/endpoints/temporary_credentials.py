"""Temporary credentials for directory access (A7, AM-002, RELIABILITY E7).

The location must be the table's root or one of its auxiliary locations exactly; the history must be shared,
since the log shows it. A recipient without directory access to the table gets 403 (REST-015).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from distributary.server.endpoints.table_data import answered, asked_about, json_body
from distributary.sharing.error_response import MalformedRequestError
from distributary.sharing.objects import TemporaryCredentialsRequest

if TYPE_CHECKING:
    from distributary.server.answers import Answer, StreamedAnswer
    from distributary.server.routes import Call
    from distributary.server.service import Service


async def temporary_credentials(service: Service, call: Call) -> Answer | StreamedAnswer:
    """Read-only credentials for the table's directory, or for one of its auxiliary locations."""
    asked = await asked_about(service, call)
    location = requested_location(await json_body(service, call))
    return await answered(
        service, call, asked, "credentials", lambda: service.tables.credentials(asked, location)
    )


def requested_location(body: bytes) -> str | None:
    """The location that a request names; None for the table's root."""
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(body, type=TemporaryCredentialsRequest).location
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedRequestError('The body must be empty or {"location": "<uri>"}.') from None
