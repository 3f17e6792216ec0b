"""How errors become answers: the one table from error classes to HTTP statuses and errorCodes.

Every answer that is no success has the protocol's JSON body (REST-005, REST-006), on HEAD no body at all
(REST-019). An error that the table does not know is 500 with a fixed message: what happened goes to the
log under the request's id, never to the recipient (REST-018). A 401 carries `WWW-Authenticate` (RFC 6750),
429 and 503 carry `Retry-After`.
"""

from __future__ import annotations

from typing import Final

from distributary.catalog.errors import CatalogError, NotInCatalogError
from distributary.delta.errors import DeltaError
from distributary.errors import (
    DistributaryError,
    InvalidInputError,
    ObjectNotFoundError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)
from distributary.sharing.error_response import (
    ERROR_CONTENT_TYPE,
    InternalError,
    InvalidParameterError,
    MalformedRequestError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    SharingError,
    TooManyRequestsError,
    UnauthenticatedError,
)

INTERNAL_MESSAGE: Final = "The server failed to answer. Its operator finds the reason under the request id."
UNAVAILABLE_MESSAGE: Final = "The server cannot answer now. Try again soon."
STORAGE_MESSAGE: Final = "The store that holds this table gives no answer now. Try again soon."


class PayloadTooLargeError(MalformedRequestError):
    """The body of a request exceeds the budget (413)."""

    code = "PAYLOAD_TOO_LARGE"

    @property
    def status(self) -> int:
        """413."""
        return 413


class HeadersTooLargeError(MalformedRequestError):
    """The headers or the target of a request exceed the budget (431)."""

    code = "HEADERS_TOO_LARGE"

    @property
    def status(self) -> int:
        """431."""
        return 431


class RequestTimeoutError(MalformedRequestError):
    """The body of a request did not arrive in time (408)."""

    code = "REQUEST_TIMEOUT"

    @property
    def status(self) -> int:
        """408."""
        return 408


class MethodNotAllowedError(MalformedRequestError):
    """The path exists, but not for this method (405); `allowed` names those that it has."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"This path takes {', '.join(allowed)} only.")
        self.allowed = allowed

    @property
    def status(self) -> int:
        """405."""
        return 405


def as_sharing_error(error: BaseException) -> SharingError:
    """The error that a recipient is told of."""
    if isinstance(error, SharingError):
        return error
    if isinstance(error, NotInCatalogError | ObjectNotFoundError):
        return ResourceNotFoundError("There is nothing at this path that this recipient can see.")
    if isinstance(error, CatalogError):
        return ServiceUnavailableError(UNAVAILABLE_MESSAGE, retry_after=2)
    if isinstance(error, ThrottledError | StorageUnreachableError):
        return ServiceUnavailableError(STORAGE_MESSAGE, retry_after=5)
    if isinstance(error, InvalidInputError):
        return InvalidParameterError(str(error))
    return InternalError(INTERNAL_MESSAGE)


def is_unexpected(error: BaseException) -> bool:
    """Whether an operator should look into an error: it has a trace in the log."""
    if isinstance(error, SharingError):
        return error.status >= 500
    if isinstance(error, DeltaError | StorageError | CatalogError):
        return True
    return not isinstance(error, DistributaryError)


def error_headers(error: SharingError) -> list[tuple[bytes, bytes]]:
    """The headers of an error's answer."""
    headers = [
        (b"content-type", ERROR_CONTENT_TYPE.encode()),
        (b"cache-control", b"no-store"),
    ]
    if isinstance(error, UnauthenticatedError):
        headers.append((b"www-authenticate", _challenge(error).encode()))
    if isinstance(error, TooManyRequestsError | ServiceUnavailableError):
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if isinstance(error, PayloadTooLargeError | RequestTimeoutError):
        headers.append((b"connection", b"close"))  # the rest of the body is never read
    if isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    return headers


def _challenge(error: UnauthenticatedError) -> str:
    """RFC 6750, section 3: an error code only where a token was given."""
    challenge = 'Bearer realm="delta-sharing"'
    reason = getattr(error, "challenge_error", None)
    return f'{challenge}, error="{reason}"' if reason else challenge
