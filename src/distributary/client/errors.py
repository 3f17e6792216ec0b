"""What can go wrong between a client and a sharing server.

What a server answers is told by the errors of `distributary.sharing.error_response`; here is the rest.

::

    ClientError
    ├── ServerUnreachableError     no answer: network, name resolution, TLS, time-out
    ├── IncompleteResponseError    an answer ended before it was complete, or contradicts itself
    ├── QueryFailedError           the server began to answer and then said that it failed
    ├── UntrustedAddressError      a URL that a client must not follow, or must not show its token to
    ├── FileDownloadError          a data file could not be had, or is not what the server said
    ├── AccessModeError            the table cannot be reached in the way asked for
    ├── SyncTargetError            a copy cannot be kept there: it is another table, or not this one's copy
    └── TokenRequestError          the token endpoint gave no token
    UnauthenticatedError
    └── TokenExpiredError          the server refused a token that has expired
"""

from __future__ import annotations

from distributary.errors import DistributaryError
from distributary.sharing.error_response import UnauthenticatedError


class ClientError(DistributaryError):
    """The root of what goes wrong on the way to a sharing server."""

    code = "CLIENT_ERROR"


class ServerUnreachableError(ClientError):
    """The server gave no answer within the time that retries may take."""

    code = "SERVER_UNREACHABLE"
    exit_code = 6


class IncompleteResponseError(ClientError):
    """An answer ended too early or cannot be what the server meant; no rows are given instead of fewer."""

    code = "INCOMPLETE_RESPONSE"
    exit_code = 6


class QueryFailedError(ClientError):
    """The server ended its answer with an error message."""

    code = "QUERY_FAILED"
    exit_code = 6


class UntrustedAddressError(ClientError):
    """A URL that would show data or the token to somebody else than the server."""

    code = "UNTRUSTED_ADDRESS"
    exit_code = 4


class FileDownloadError(ClientError):
    """A data file could not be downloaded, or differs from what the server said of it."""

    code = "FILE_DOWNLOAD_FAILED"
    exit_code = 6

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """What the file server answered, where that is the reason."""


class AccessModeError(ClientError):
    """The server does not offer the table in the way in which it was to be read."""

    code = "ACCESS_MODE_UNAVAILABLE"
    exit_code = 4


class SyncTargetError(ClientError):
    """What lies at the target is not a copy of this shared table, so it is left as it is."""

    code = "SYNC_TARGET_MISMATCH"
    exit_code = 5


class TokenRequestError(ClientError):
    """The token endpoint of a profile gave no token."""

    code = "TOKEN_REQUEST_FAILED"
    exit_code = 4


class TokenExpiredError(UnauthenticatedError):
    """The server refused a token whose time, as the profile says, is over."""

    code = "TOKEN_EXPIRED"
    exit_code = 4


class ProfileWarning(UserWarning):
    """A profile works, but somebody should look at it: it expires, or others can read it."""


class InsecureConnectionWarning(UserWarning):
    """TLS certificates are not verified, so anybody on the way can read the token and the data."""
