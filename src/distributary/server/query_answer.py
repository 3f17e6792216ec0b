"""What answers a request about a table: headers and a stream of bytes, without any web framework.

`UrlSigner` and `Tokens` are what an answer needs from its surroundings: URLs for the files of one table
and recipient, and continuation tokens for one recipient, share and table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from distributary.sharing.capabilities import (
    CAPABILITIES_HEADER,
    FILE_ID_HASH_HEADER,
    TABLE_VERSION_HEADER,
    Capabilities,
    ResponseFormat,
    response_capabilities,
)
from distributary.sharing.ndjson import NDJSON_CONTENT_TYPE

TokenKind = Literal["page", "refresh"]


class UrlSigner(Protocol):
    """Makes URLs of files."""

    def sign(self, paths: pa.Array) -> tuple[pa.Array, int]:
        """A URL for each path in its canonical form (`storage.log_paths`), and the time at which the
        first of them expires, in milliseconds since 1970.
        """
        ...


class Tokens(Protocol):
    """Issues and reads continuation tokens.

    They are bound to recipient, share and table by whoever gives this; to the query's parameters by the
    state itself, since a refresh token may come back with fewer parameters than its query had.
    """

    def issue(self, kind: TokenKind, state: Mapping[str, int | str], lifetime: int = ...) -> str:
        """A token that carries a state."""
        ...

    def read(self, kind: TokenKind, token: str) -> Mapping[str, int | str]:
        """The state of a token that was issued for the same scope; any other is refused."""
        ...


@dataclass(frozen=True, slots=True)
class ClientWishes:
    """What a client says in headers: its capabilities, and the file ids that it wants."""

    capabilities: Capabilities = Capabilities()  # noqa: RUF009 (it is a frozen value)
    file_ids: ResponseFormat | None = None


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """A success: the headers and the body, which is made as it is taken.

    Where `chunks` raises, the answer must be cut off so that the client notices, never ended cleanly.
    """

    version: int
    headers: tuple[tuple[str, str], ...]
    chunks: Iterator[bytes]
    response_format: ResponseFormat = "parquet"
    num_files: int | None = None
    status: int = 200


def answer_headers(
    version: int, chosen: ResponseFormat, wishes: ClientWishes, *, end_stream_action: bool = False
) -> tuple[tuple[str, str], ...]:
    """The headers of an answer in lines of JSON."""
    headers = [
        (TABLE_VERSION_HEADER, str(version)),
        ("Content-Type", NDJSON_CONTENT_TYPE),
        (CAPABILITIES_HEADER, response_capabilities(chosen, end_stream_action=end_stream_action)),
    ]
    if wishes.file_ids is not None:
        headers.append((FILE_ID_HASH_HEADER, wishes.file_ids))
    return tuple(headers)
