"""Newline-delimited JSON: the bodies of metadata, query and changes answers, one object a line.

Implements REST-013, REST-014 and the lines that both response formats share: ``endStreamAction``
(RF-053 to RF-055, emitted wrapped) and ``queryStatus`` of asynchronous queries.
"""

from __future__ import annotations

from typing import Final

import msgspec

NDJSON_CONTENT_TYPE: Final = "application/x-ndjson; charset=utf-8"

_encoder = msgspec.json.Encoder()


class EndStreamAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What stands at the end of an answer; with an error message the client fails its query."""

    refresh_token: str | None = None
    next_page_token: str | None = None
    min_url_expiration_timestamp: int | None = None
    error_message: str | None = None
    http_status_error_code: int | None = None


class QueryStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of an asynchronous query that has no result (yet)."""

    query_id: str
    # Always written; some servers leave it out.
    status: str = ""
    error_message: str | None = None


class EndStreamLine(msgspec.Struct, frozen=True, rename="camel"):
    """The wrapper of an `EndStreamAction`."""

    end_stream_action: EndStreamAction


class QueryStatusLine(msgspec.Struct, frozen=True, rename="camel"):
    """The wrapper of a `QueryStatus`."""

    query_status: QueryStatus


def encode_line(line: msgspec.Struct) -> bytes:
    """One line of an answer, with its newline."""
    return _encoder.encode(line) + b"\n"


def encode_json_string(text: str) -> bytes:
    """A JSON string, quotes included."""
    return _encoder.encode(text)
