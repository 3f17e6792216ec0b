"""What a recipient is told when a shared table cannot be read: the protocol's errors, no details of ours.

The one table from errors of the engine and of stores to errors of the protocol. The cause stays chained
for the provider's log; what is sent names neither paths nor stores (REST-018).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributary.delta.errors import (
    ChangeFeedError,
    DataFileError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from distributary.errors import (
    AccessDeniedError,
    DistributaryError,
    ObjectNotFoundError,
    PathOutsideTableError,
    StorageUnreachableError,
    ThrottledError,
)
from distributary.sharing.error_response import (
    InternalError,
    InvalidParameterError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    SharingError,
    UnsupportedOperationError,
)

_GONE = "A version that was asked for is no longer, or not yet, in the table's history."


@contextmanager
def as_sharing_errors() -> Iterator[None]:
    """Let errors of the engine leave as errors of the protocol."""
    try:
        yield
    except SharingError:
        raise
    except DistributaryError as error:
        raise sharing_error(error) from error


def sharing_error(error: DistributaryError) -> SharingError:
    """The protocol's error for one of the engine's."""
    match error:
        case SharingError():
            return error
        case TableNotFoundError():
            return ResourceNotFoundError("The table is shared, but there is nothing at its place any more.")
        case VersionNotFoundError():
            return InvalidParameterError(_GONE)
        case UnsupportedFeatureError():
            names = ", ".join(error.features) or "a protocol version that is not known here"
            return UnsupportedOperationError(f"The table cannot be shared: it needs {names}.")
        case ChangeFeedError():
            return InvalidParameterError("The table has no change data feed for the versions asked for.")
        case PathOutsideTableError():
            return outside_table()
        case StorageUnreachableError() | ThrottledError():
            return ServiceUnavailableError("The table's store does not answer now. Try again.", retry_after=5)
        case AccessDeniedError() | ObjectNotFoundError() | DataFileError():
            return InternalError("The table cannot be read at the moment. Tell its provider.")
        case _:
            return InternalError("The table cannot be read. Tell its provider.")


def outside_table() -> SharingError:
    """The refusal of a table whose log names files that do not belong to it (C-22)."""
    return UnsupportedOperationError(
        "The table names files outside of the places that are shared. Tell its provider."
    )
