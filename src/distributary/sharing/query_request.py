"""Requests about a table's version, metadata, data and changes: read, checked, and given as values.

Implements the parameters of REST-150 to REST-179 with those of newer editions (beyond.md A2 to A6). What
cannot be read is a `MalformedRequestError`; what can, but cannot be used, an `InvalidParameterError`.
Unknown fields are ignored (REST-020). Times are given as milliseconds since 1970: a time at which the
table is to be shown is rounded down, a time from which on something is wanted is rounded up.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from distributary.sharing.error_response import InvalidParameterError, MalformedRequestError

MAX_PAGE_FILES: Final = 10_000
"""How many files a page has at most, whatever `maxFiles` says."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_MAX_LONG = 2**63 - 1
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}(?::\d{2})?)(\.\d{1,9})?(Z|[+-]\d{2}:?\d{2})", re.IGNORECASE
)
_OLD = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})(\.\d{1,9})?()")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_Body = TypeVar("_Body", bound=msgspec.Struct)


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """What paged requests have in common."""

    max_files: int | None = None
    page_token: str | None = None

    @property
    def page_size(self) -> int | None:
        """How many files a page has; None where everything is wanted in one answer."""
        if self.max_files is None:
            return MAX_PAGE_FILES if self.page_token is not None else None
        return min(self.max_files, MAX_PAGE_FILES)

    def digest(self, *context: str) -> str:
        """A hash over what must stay the same from page to page, and over a context."""
        same = msgspec.structs.replace(self, max_files=None, page_token=None)
        return hashlib.sha256(msgspec.json.encode([context, msgspec.structs.astuple(same)])).hexdigest()


class QueryRequest(_Request, frozen=True, kw_only=True):
    """A read of a table: of a version, or (with a starting version) of what was added and removed."""

    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: int | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    include_historical_protocol: bool = False
    idempotency_key: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None

    @property
    def is_versioned(self) -> bool:
        """Whether a version other than the latest may be meant."""
        return not (self.version is None and self.timestamp is None and self.starting_version is None)

    def digest(self, *context: str) -> str:
        """As for every request; tokens for fresh URLs are sent with the first page only."""
        same = msgspec.structs.replace(
            self, include_refresh_token=False, refresh_token=None, idempotency_key=None
        )
        return super(QueryRequest, same).digest(*context)


class ChangesRequest(_Request, frozen=True, kw_only=True):
    """A read of a table's changes between two versions or times, both included."""

    starting_version: int | None = None
    starting_timestamp: int | None = None
    ending_version: int | None = None
    ending_timestamp: int | None = None
    include_historical_metadata: bool = False
    include_historical_protocol: bool = False


class MetadataRequest(msgspec.Struct, frozen=True):
    """A read of a table's metadata; of the latest version by default."""

    version: int | None = None
    timestamp: int | None = None

    @property
    def is_versioned(self) -> bool:
        """Whether a version other than the latest may be meant."""
        return self.version is not None or self.timestamp is not None


class VersionRequest(msgspec.Struct, frozen=True):
    """A question for the latest version, or the first one from a time on."""

    starting_timestamp: int | None = None


class PollRequest(_Request, frozen=True, kw_only=True):
    """A question for the result of an asynchronous query."""


class _QueryBody(msgspec.Struct, frozen=True, rename="camel"):
    predicate_hints: list[str] | None = None
    json_predicate_hints: str | None = None
    limit_hint: Long | None = None
    version: Long | None = None
    timestamp: str | None = None
    starting_version: Long | None = None
    ending_version: Long | None = None
    include_historical_protocol: bool | None = None
    idempotency_key: str | None = None
    # The Spark client spells it so.
    idempotency_key_too: str | None = msgspec.field(default=None, name="idempotency_key")
    max_files: Long | None = None
    page_token: str | None = None
    include_refresh_token: bool | None = None
    refresh_token: str | None = None


class _PollBody(msgspec.Struct, frozen=True, rename="camel"):
    max_files: Long | None = None
    page_token: str | None = None


def parse_query_request(body: bytes) -> QueryRequest:
    """Read and check the body of a query; an empty one asks for everything (REST-173)."""
    found = _decoded(body, _QueryBody)
    request = QueryRequest(
        predicate_hints=tuple(found.predicate_hints or ()),
        json_predicate_hints=found.json_predicate_hints,
        limit_hint=_not_negative(found.limit_hint, "limitHint"),
        version=_not_negative(found.version, "version"),
        timestamp=_moment(found.timestamp, "timestamp", old=True),
        starting_version=_not_negative(found.starting_version, "startingVersion"),
        ending_version=_not_negative(found.ending_version, "endingVersion"),
        include_historical_protocol=bool(found.include_historical_protocol),
        idempotency_key=found.idempotency_key or found.idempotency_key_too,
        max_files=_positive(found.max_files),
        page_token=found.page_token or None,
        include_refresh_token=bool(found.include_refresh_token),
        refresh_token=found.refresh_token or None,
    )
    _check_query(request)
    return request


def parse_poll_request(body: bytes) -> PollRequest:
    """Read and check the body of a poll."""
    found = _decoded(body, _PollBody)
    return PollRequest(max_files=_positive(found.max_files), page_token=found.page_token or None)


def parse_changes_request(parameters: Mapping[str, str]) -> ChangesRequest:
    """Read and check the query string of a request for changes."""
    request = ChangesRequest(
        starting_version=_number(parameters, "startingVersion"),
        starting_timestamp=_moment(parameters.get("startingTimestamp"), "startingTimestamp", up=True),
        ending_version=_number(parameters, "endingVersion"),
        ending_timestamp=_moment(parameters.get("endingTimestamp"), "endingTimestamp"),
        include_historical_metadata=_flag(parameters, "includeHistoricalMetadata"),
        include_historical_protocol=_flag(parameters, "includeHistoricalProtocol"),
        max_files=_positive(_number(parameters, "maxFiles", signed=True)),
        page_token=parameters.get("pageToken") or None,
    )
    _check_changes(request)
    return request


def parse_metadata_request(parameters: Mapping[str, str]) -> MetadataRequest:
    """Read and check the query string of a request for metadata."""
    request = MetadataRequest(
        version=_number(parameters, "version"),
        timestamp=_moment(parameters.get("timestamp"), "timestamp", old=True),
    )
    if request.version is not None and request.timestamp is not None:
        raise InvalidParameterError("Give only one of version and timestamp.")
    return request


def parse_version_request(parameters: Mapping[str, str]) -> VersionRequest:
    """Read and check the query string of a question for the version."""
    return VersionRequest(
        _moment(parameters.get("startingTimestamp"), "startingTimestamp", old=True, up=True)
    )


def _check_query(request: QueryRequest) -> None:
    points = (request.version, request.timestamp, request.starting_version)
    if sum(point is not None for point in points) > 1:
        raise InvalidParameterError("Give only one of version, timestamp and startingVersion.")
    if request.ending_version is not None:
        if request.starting_version is None:
            raise InvalidParameterError("endingVersion needs a startingVersion.")
        if request.starting_version > request.ending_version:
            raise InvalidParameterError("startingVersion must not be after endingVersion.")
    if request.include_refresh_token or request.refresh_token is not None:
        if request.is_versioned:
            raise InvalidParameterError("A refresh token goes with reads of the latest version only.")
        if request.page_token is not None:
            raise InvalidParameterError("A refresh token goes with the first page only.")


def _check_changes(request: ChangesRequest) -> None:
    if request.starting_version is None and request.starting_timestamp is None:
        raise InvalidParameterError("Changes need a startingVersion or a startingTimestamp.")
    if request.starting_version is not None and request.starting_timestamp is not None:
        raise InvalidParameterError("Give only one of startingVersion and startingTimestamp.")
    if request.ending_version is not None and request.ending_timestamp is not None:
        raise InvalidParameterError("Give only one of endingVersion and endingTimestamp.")
    if (
        request.starting_version is not None
        and request.ending_version is not None
        and request.starting_version > request.ending_version
    ):
        raise InvalidParameterError("startingVersion must not be after endingVersion.")


def _decoded(body: bytes, kind: type[_Body]) -> _Body:
    if not body.strip():
        return kind()
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedRequestError(f"The body of the request cannot be used: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedRequestError("The body of the request is not a JSON object.") from None


def _not_negative(value: int | None, name: str) -> int | None:
    if value is not None and value < 0:
        raise InvalidParameterError(f"{name} must not be negative.")
    return value


def _positive(value: int | None) -> int | None:
    if value is not None and value <= 0:
        raise InvalidParameterError("maxFiles must be positive.")
    return value


def _number(parameters: Mapping[str, str], name: str, *, signed: bool = False) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None or abs(int(text)) > _MAX_LONG:
        raise InvalidParameterError(f"{name} is not a valid number.")
    return int(text) if signed else _not_negative(int(text), name)


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidParameterError(f"{name} must be true or false.")
    return text == "true"


def _moment(text: str | None, name: str, *, old: bool = False, up: bool = False) -> int | None:
    """A time in milliseconds; the form of old clients, without a zone, is UTC."""
    if text is None:
        return None
    match = _ISO.fullmatch(text) or (_OLD.fullmatch(text) if old else None)
    if match is None:
        raise _no_time(text, name)
    day, clock, fraction, zone = match.groups()
    try:
        whole = datetime.datetime.fromisoformat(f"{day}T{clock}{(zone or 'Z').upper()}")
        since = (whole - _EPOCH) // datetime.timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise _no_time(text, name) from None
    nanoseconds = int((fraction or ".0")[1:].ljust(9, "0"))
    return since + (-(-nanoseconds // 1_000_000) if up else nanoseconds // 1_000_000)


def _no_time(text: str, name: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"{name} {text[:40]!r} is no time: write ISO 8601 with a zone, such as 2022-01-01T00:00:00Z."
    )
