"""What went wrong in a cloud store, as typed errors.

obstore's messages may hold signed URLs and answers of the server, so nothing of them is passed on but
the status and the store's error code. Which error it is follows from the class obstore raised and the
HTTP status it reports.
"""

from __future__ import annotations

import re

from obstore import exceptions

from distributary.errors import (
    AccessDeniedError,
    DistributaryError,
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_NO_CONTAINER = ("NoSuchBucket", "ContainerNotFound")
_REFUSED_CODES = (
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "AuthorizationHeaderMalformed",
    "TokenRefreshRequired",
)
_NO_IDENTITY = re.compile(
    r"http://169\.254\.(169\.254|170\.2)/|http://metadata\.google|Error performing token request"
)
_NO_ANSWER = re.compile(
    r"error sending request|kind: (Connect|Timeout|Request|Interrupted|Decode)|timed out|operation timed",
    re.I,
)


def typed_error(error: Exception, root: str, path: str) -> Exception:
    """The error of this package for an error of obstore; other exceptions are returned as they are."""
    if isinstance(error, DistributaryError) or not _is_from_obstore(error):
        return error
    where = f"{path} in {root}" if path else root
    text = str(error)
    status, code = _status(text), _code(text)
    shown = " ".join(part for part in (str(status or ""), code) if part)
    if _NO_IDENTITY.search(text):
        return AccessDeniedError(
            f"{where}: no credentials were found. Give keys as storage options or environment variables, or "
            "install the extra of this cloud (aws, azure, gcs) to use a profile or this machine's identity"
        )
    if code in _NO_CONTAINER:
        return ObjectNotFoundError(f"There is no bucket or container for {root} ({code}): check the name")
    if isinstance(error, FileNotFoundError) or status == 404:
        return ObjectNotFoundError(f"There is no {where}: check the path")
    if isinstance(error, exceptions.AlreadyExistsError):
        return ObjectExistsError(f"{where} exists already; it is not overwritten")
    if _is_denied(error, status, code):
        return AccessDeniedError(
            f"{where} was refused ({shown or 'no credentials accepted'}): check the credentials, their "
            "expiry, the region and the permissions of this identity"
        )
    return _unanswered(error, status, shown, where) or StorageError(
        f"{where} failed ({shown or type(error).__name__})"
    )


def is_beyond_end(error: Exception) -> bool:
    """Whether a range was asked for that begins after the end of the object."""
    return _status(str(error)) == 416


def is_conflict(error: Exception) -> bool:
    """Whether a create-once met another object or another writer."""
    return isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError)


def _unanswered(error: Exception, status: int | None, shown: str, where: str) -> Exception | None:
    """The error where the store did not serve the request, or None."""
    text = str(error)
    if status in (429, 503):
        return ThrottledError(
            f"{where}: the store asks to slow down ({shown}). Try again, or lower max_concurrency"
        )
    if status is not None and status >= 500:
        return StorageUnreachableError(f"{where}: the store failed to answer ({shown}). Try again later")
    if "Received redirect without LOCATION" in text:
        return InvalidInputError(f"{where}: the bucket lies in another region. Set the storage option region")
    if status is None and _NO_ANSWER.search(text):
        return StorageUnreachableError(
            f"{where}: no answer from the store. Check the endpoint, network and proxy"
        )
    return None


def _is_denied(error: Exception, status: int | None, code: str) -> bool:
    classes = exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError
    return isinstance(error, classes) or status in (401, 403) or code in _REFUSED_CODES


def _is_from_obstore(error: Exception) -> bool:
    builtin = (
        FileNotFoundError | FileExistsError | PermissionError | ValueError | NotImplementedError | OSError
    )
    return isinstance(error, exceptions.BaseError | builtin)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _code(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""
