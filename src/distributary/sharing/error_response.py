"""Errors of the sharing protocol: what went wrong with a request, in the form that clients expect.

Every answer that is no success is a JSON object with ``errorCode`` and ``message`` (REST-005). The codes
are those of REST-017; `HTTP_STATUS` is the one table that gives each its status. Messages are written for
the recipient: they name what was asked for, never a place in a store or anything else of the provider.

::

    SharingError
    ├── MalformedRequestError        400 the request cannot be read at all
    ├── InvalidParameterError        400 a parameter has a value that cannot be used
    ├── UnsupportedOperationError    400 this table cannot be read in the way asked for
    ├── UnauthenticatedError         401 no token, or a wrong one
    ├── PermissionDeniedError        403 known, but not allowed to do this
    ├── ResourceNotFoundError        404 no such share, schema, table or query
    ├── AlreadyExistsError           409 the same key or name was used for something else
    ├── TooManyRequestsError         429 more requests than the recipient's limit
    ├── ServiceUnavailableError      503 the server cannot answer now
    └── InternalError                500 anything else, without details
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec

from distributary.errors import DistributaryError

ErrorCode = Literal[
    "MALFORMED_REQUEST",
    "INVALID_PARAMETER_VALUE",
    "UNSUPPORTED_OPERATION",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "RESOURCE_DOES_NOT_EXIST",
    "RESOURCE_CONFLICT",
    "RESOURCE_EXHAUSTED",
    "TEMPORARILY_UNAVAILABLE",
    "INTERNAL_ERROR",
]
"""The values of ``errorCode``."""

HTTP_STATUS: Final[dict[ErrorCode, int]] = {
    "MALFORMED_REQUEST": 400,
    "INVALID_PARAMETER_VALUE": 400,
    "UNSUPPORTED_OPERATION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_DOES_NOT_EXIST": 404,
    "RESOURCE_CONFLICT": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL_ERROR": 500,
    "TEMPORARILY_UNAVAILABLE": 503,
}
"""The HTTP status of each error code."""

ERROR_CONTENT_TYPE: Final = "application/json"


class ErrorResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an answer that is no success."""

    error_code: str
    message: str

    def encode(self) -> bytes:
        """The JSON text."""
        return msgspec.json.encode(self)


class SharingError(DistributaryError):
    """The root of what a sharing server answers instead of a success."""

    code = "SHARING_ERROR"
    error_code: ClassVar[ErrorCode] = "INTERNAL_ERROR"

    @property
    def status(self) -> int:
        """The HTTP status."""
        return HTTP_STATUS[self.error_code]

    def response(self) -> ErrorResponse:
        """The body to send."""
        return ErrorResponse(self.error_code, str(self))


class MalformedRequestError(SharingError):
    """The request cannot be read: no JSON, or a field of the wrong type."""

    code = "MALFORMED_REQUEST"
    error_code = "MALFORMED_REQUEST"


class InvalidParameterError(SharingError):
    """A parameter has a value that cannot be used, here or together with the others."""

    code = "INVALID_PARAMETER_VALUE"
    error_code = "INVALID_PARAMETER_VALUE"


class UnsupportedOperationError(SharingError):
    """The table cannot be read in the way the client asked for."""

    code = "UNSUPPORTED_OPERATION"
    error_code = "UNSUPPORTED_OPERATION"


class UnauthenticatedError(SharingError):
    """The bearer token is missing or not valid."""

    code = "UNAUTHENTICATED"
    exit_code = 4
    error_code = "UNAUTHENTICATED"


class PermissionDeniedError(SharingError):
    """The recipient is known but may not do this."""

    code = "PERMISSION_DENIED"
    exit_code = 4
    error_code = "PERMISSION_DENIED"


class ResourceNotFoundError(SharingError):
    """There is no such share, schema, table or query for this recipient."""

    code = "RESOURCE_DOES_NOT_EXIST"
    exit_code = 3
    error_code = "RESOURCE_DOES_NOT_EXIST"


class AlreadyExistsError(SharingError):
    """A name or an idempotency key was used for something else before."""

    code = "RESOURCE_CONFLICT"
    exit_code = 5
    error_code = "RESOURCE_CONFLICT"


class TooManyRequestsError(SharingError):
    """The recipient sends more than its limit; `retry_after` says in how many seconds to come back."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 6
    error_code = "RESOURCE_EXHAUSTED"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServiceUnavailableError(SharingError):
    """The server cannot answer now; `retry_after` says in how many seconds to come back."""

    code = "TEMPORARILY_UNAVAILABLE"
    exit_code = 6
    error_code = "TEMPORARILY_UNAVAILABLE"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InternalError(SharingError):
    """Something went wrong on the server's side; the message says no more than that (REST-018)."""

    code = "INTERNAL_ERROR"
    error_code = "INTERNAL_ERROR"
