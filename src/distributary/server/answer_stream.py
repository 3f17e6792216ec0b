"""What answers with files have in common: signing, the end of the stream, and failures on the way.

An answer that fails after its first byte ends with an ``errorMessage`` where the client expects an
end-of-stream action (RF-053, RF-054), and is cut off where it does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import DistributaryError
from distributary.server.query_answer import UrlSigner
from distributary.server.rendered_lines import SignedUrls
from distributary.server.table_errors import sharing_error
from distributary.sharing.error_response import (
    InternalError,
    InvalidParameterError,
    UnsupportedOperationError,
)
from distributary.sharing.ndjson import EndStreamAction, EndStreamLine, encode_line
from distributary.sharing.table_policy import TablePolicy

_log = logging.getLogger(__name__)

PAGE_TOKEN_SECONDS = 3 * 24 * 3600
REFRESH_TOKEN_SECONDS = 3600

_FAILED = "The server failed while it answered. Try again."


def require_url_access(policy: TablePolicy) -> None:
    """Refuse URLs of a table that is read by directory only (AM-014)."""
    if "url" not in policy.access_modes:
        raise UnsupportedOperationError(
            "This table has no URLs of files: it is read by directory access (accessModes: dir)."
        )


def token_number(value: int | str | None) -> int:
    """A number that a token carries."""
    if not isinstance(value, int):
        raise InvalidParameterError("The token cannot be used here. Start the query again.")
    return value


def signed_urls(signer: UrlSigner, paths: pa.Array, vectors: pa.Array | None) -> SignedUrls:
    """URLs of files and of their deletion vectors, where they have some."""
    urls, expiration = signer.sign(paths)
    if vectors is None:
        return SignedUrls(urls, None, expiration)
    given = vectors.is_valid()
    found, other = signer.sign(vectors.drop_null())
    empty = pa.repeat(pa.scalar(""), len(vectors))
    return SignedUrls(urls, pc.replace_with_mask(empty, given, found), min(expiration, other))


def closed(chunks: Iterator[bytes], end: Callable[[], EndStreamAction]) -> Iterator[bytes]:
    """Chunks, and the action at their end; a failure on the way is told in it."""
    try:
        yield from chunks
    except Exception as error:
        _log.exception("an answer failed after its first byte")
        told = sharing_error(error) if isinstance(error, DistributaryError) else InternalError(_FAILED)
        failed = EndStreamAction(error_message=str(told), http_status_error_code=told.status)
        yield encode_line(EndStreamLine(failed))
        return
    yield encode_line(EndStreamLine(end()))
