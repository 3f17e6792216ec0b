"""The requests of the sharing protocol, and their answers as values.

Every request carries the profile's header (CL-001) and goes to the profile's origin: a redirect to another
one is refused, so a token never leaves it (H1). 429, 5xx and broken connections are tried anew with growing
pauses, never less than the server asks for, within one total time (CL-019); an answer that was cut is asked
for again as a whole. What the server refuses is raised as the error it names.
"""

from __future__ import annotations

import datetime
import functools
import platform
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpcore2
import httpx2
import msgspec

from distributary import __version__
from distributary.client.connection import (
    ConnectionSettings,
    Retry,
    check_endpoint,
    origin_of,
    proxy_for,
    retry_after,
)
from distributary.client.credentials import profile_auth
from distributary.client.errors import (
    ClientError,
    IncompleteResponseError,
    QueryFailedError,
    ServerUnreachableError,
    TokenExpiredError,
    UntrustedAddressError,
)
from distributary.client.table_answer import AnswerReader, TableAnswer, Wanted
from distributary.errors import DistributaryError
from distributary.sharing.capabilities import (
    CAPABILITIES_HEADER,
    TABLE_VERSION_HEADER,
    Capabilities,
    parse_capabilities,
)
from distributary.sharing.error_response import (
    AlreadyExistsError,
    InternalError,
    InvalidParameterError,
    PermissionDeniedError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    SharingError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from distributary.sharing.names import TableName
from distributary.sharing.ndjson import QueryStatus
from distributary.sharing.profile import Profile

_MOST_REDIRECTS: Final = 5
_MOST_WRONG: Final = 5
_MOST_LINE_BYTES: Final = 256 * 1024 * 1024
SLOWEST_RATE: Final = 1000
_REDIRECTS: Final = (301, 302, 303, 307, 308)

_BY_STATUS: Final[dict[int, type[SharingError]]] = {
    400: InvalidParameterError,
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    404: ResourceNotFoundError,
    409: AlreadyExistsError,
    429: TooManyRequestsError,
    503: ServiceUnavailableError,
}

# httpx2 loads it when it is first used: better with this module than in the midst of a request.
_LOADED: Final = httpcore2.__name__

Decoded = TypeVar("Decoded")


class ErrorBody(msgspec.Struct, frozen=True, rename="camel"):
    """What a server says of an error; everything may be missing."""

    error_code: str | None = None
    message: str | None = None


class Request(msgspec.Struct, frozen=True):
    """One request, below the endpoint."""

    method: str
    path: str
    parameters: Mapping[str, str] = {}
    body: Any = None
    capabilities: Capabilities | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers besides who we are."""
        found: dict[str, str] = {}
        if self.capabilities is not None:
            found[CAPABILITIES_HEADER] = self.capabilities.to_header()
        if self.body is not None:
            found["Content-Type"] = "application/json; charset=utf-8"
        return found


class RestClient:
    """One server, as one recipient sees it; to be used by any number of threads."""

    def __init__(self, profile: Profile, settings: ConnectionSettings | None = None) -> None:
        self.profile = profile
        self.settings = settings or ConnectionSettings()
        self.origin = check_endpoint(profile.endpoint, self.settings)
        self.ssl_context = functools.cache(self.settings.ssl_context)
        proxy = proxy_for(self.origin, self.settings)
        self._http = httpx2.Client(
            verify=self._trusted(proxy),
            trust_env=False,
            proxy=proxy,
            timeout=self.settings.timeout,
            headers={"User-Agent": _user_agent(self.settings)},
        )
        self._auth = profile_auth(profile, self.settings, self._http)

    def _trusted(self, proxy: str | None) -> ssl.SSLContext:
        """The certificates that count; none, which cost nothing to load, where no TLS will be spoken."""
        plain = self.origin.scheme == "http" and self.profile.token_endpoint is None and proxy is None
        if plain and self.settings.verify and self.settings.ca_file is None:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self.ssl_context()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def json(self, request: Request, kind: type[Decoded]) -> Decoded:
        """An answer that is one JSON object."""

        def read(response: httpx2.Response) -> Decoded:
            try:
                return msgspec.json.decode(b"".join(self._paced(response)), type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise IncompleteResponseError(
                    f"the answer to {request.path} cannot be read: {error}"
                ) from None

        return self._answered(request, read)

    def table_version(self, table: TableName, starting_timestamp: str | None = None) -> int:
        """The latest version, or the first one from a time on; first editions know HEAD only (C-32)."""
        parameters = {} if starting_timestamp is None else {"startingTimestamp": starting_timestamp}
        try:
            asked = Request("GET", f"{table_path(table)}/version", parameters)
            return self._answered(asked, _required_version)
        except ResourceNotFoundError as error:
            try:
                asked = Request("HEAD", table_path(table), parameters)
                return self._answered(asked, _required_version)
            except SharingError:
                raise error from None

    def table(self, request: Request, wanted: Wanted | None = None) -> TableAnswer | QueryStatus:
        """An answer of lines about a table, or the state of a query that has none yet."""
        return self._answered(request, lambda response: self._read_table(request, response, wanted))

    def _answered(self, request: Request, read: Callable[[httpx2.Response], Decoded]) -> Decoded:
        """Send, and read the answer; both once more where that can help and there is time left."""
        retry, wrong = Retry(self.settings), 0
        while True:
            pause = None
            try:
                with self._open(request) as response:
                    return read(response)
            except httpx2.TransportError as error:
                failure = self._unreachable(request, error)
                # A wrong name or port stays wrong: people should not wait long to hear it.
                wrong += isinstance(error, httpx2.ConnectError)
            except _TryAgainError as error:
                failure, pause = error.failure, error.pause
            except IncompleteResponseError as error:
                failure = error
                wrong += 1
            if wrong >= _MOST_WRONG or not retry.wait(pause):
                raise failure

    @contextmanager
    def _open(self, request: Request) -> Generator[httpx2.Response]:
        """Send a request, following redirects within the origin, and give an answer that is a success."""
        url = self.profile.endpoint + request.path
        body = None if request.body is None else msgspec.json.encode(request.body)
        for _ in range(_MOST_REDIRECTS):
            message = self._http.build_request(
                request.method, url, params=request.parameters or None, content=body, headers=request.headers
            )
            response = self._http.send(message, auth=self._auth, stream=True)
            try:
                if response.status_code not in _REDIRECTS:
                    self._raise_refusal(request, response)
                    yield response
                    return
                url = self._next_place(response)
            finally:
                response.close()
        raise UntrustedAddressError(f"{self.origin} redirects without end")

    def _next_place(self, response: httpx2.Response) -> str:
        place = str(response.url.join(response.headers.get("location", "")))
        if origin_of(place) != self.origin:
            raise UntrustedAddressError(
                f"{self.origin} redirects to {origin_of(place)}, another server: not followed, and the token "
                "was not sent there. If the server has moved, ask the provider for a new profile file"
            )
        return place.partition("?")[0]

    def _raise_refusal(self, request: Request, response: httpx2.Response) -> None:
        status = response.status_code
        if status < 300:
            return
        failure = self._refusal(request, status, b"".join(self._paced(response)))
        if status == 429 or (status >= 500 and status not in (501, 505)):
            raise _TryAgainError(failure, retry_after(response.headers))
        raise failure

    def _refusal(self, request: Request, status: int, body: bytes) -> SharingError:
        try:
            told = msgspec.json.decode(body, type=ErrorBody)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            told = ErrorBody()
        if status == 401 and self.profile.is_expired(datetime.datetime.now(datetime.UTC)):
            return TokenExpiredError(
                f"the token of {self.profile.endpoint} expired on {self.profile.expiration_time}: ask the "
                "provider for a new profile file"
            )
        kind = _BY_STATUS.get(status, InternalError if status >= 500 else InvalidParameterError)
        if told.error_code == "UNSUPPORTED_OPERATION":
            kind = UnsupportedOperationError
        message = self._without_secrets(told.message or "no reason was given")[:1000]
        return kind(f"{self.origin} answered {status} to {request.method} {request.path}: {message}")

    def _without_secrets(self, text: str) -> str:
        for secret in (self.profile.bearer_token, self.profile.client_secret, self.profile.password):
            if secret:
                text = text.replace(secret, "…")
        return text

    def _unreachable(self, request: Request, error: httpx2.TransportError) -> ClientError:
        if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
            return IncompleteResponseError(f"{self.origin}: the answer to {request.path} was cut: {error}")
        return ServerUnreachableError(
            f"{self.origin} cannot be reached: {type(error).__name__}: {error}. Check the endpoint of the "
            "profile, the network and the proxy"
        )

    def _read_table(
        self, request: Request, response: httpx2.Response, wanted: Wanted | None
    ) -> TableAnswer | QueryStatus:
        text = response.headers.get(CAPABILITIES_HEADER)
        told = parse_capabilities(text)
        named = text is not None and "responseformat" in text.lower()
        asked = request.capabilities or Capabilities()
        reader = AnswerReader(
            told.response_formats[0] if named else None,
            end_promised=told.include_end_stream_action,
            asked_delta="delta" in asked.response_formats,
            wanted=wanted,
        )
        framed = not _ends_by_closing(response)
        try:
            reader.read(_lines(self._paced(response)), framed=framed)
        except QueryFailedError as error:
            code = reader.failed_status
            if code is not None and (code == 429 or code >= 500):
                raise _TryAgainError(error, None) from None
            raise
        return reader.status or reader.answer(_version(response))

    def _paced(self, response: httpx2.Response) -> Iterator[bytes]:
        """The bytes of an answer; a server that only drips counts as one that does not answer."""
        started, received = time.monotonic(), 0
        for chunk in response.iter_bytes():
            received += len(chunk)
            elapsed = time.monotonic() - started
            if elapsed > self.settings.timeout and received < elapsed * SLOWEST_RATE:
                raise httpx2.ReadTimeout(f"only {received} bytes in {elapsed:.0f} seconds")
            yield chunk


class _TryAgainError(Exception):
    """A refusal that may pass."""

    def __init__(self, failure: DistributaryError, pause: float | None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.pause = pause


def share_path(share: str) -> str:
    """The path of a share below the endpoint."""
    return f"/shares/{quote(share, safe='')}"


def schema_path(share: str, schema: str) -> str:
    """The path of a schema below the endpoint."""
    return f"{share_path(share)}/schemas/{quote(schema, safe='')}"


def table_path(table: TableName) -> str:
    """The path of a table below the endpoint."""
    return f"{schema_path(table.share, table.schema)}/tables/{quote(table.table, safe='')}"


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of an answer that are not blank."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(rest) > _MOST_LINE_BYTES:
            raise IncompleteResponseError("a line of the answer is too long to be one")
    if rest.strip():
        yield rest


def _version(response: httpx2.Response) -> int | None:
    text = response.headers.get(TABLE_VERSION_HEADER, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _required_version(response: httpx2.Response) -> int:
    version = _version(response)
    if version is None:
        raise IncompleteResponseError(f"the answer has no {TABLE_VERSION_HEADER}")
    return version


def _ends_by_closing(response: httpx2.Response) -> bool:
    """Whether only a closed connection ends the answer, which a broken one looks like."""
    headers = response.headers
    one = response.http_version.startswith("HTTP/1")
    return one and "content-length" not in headers and "transfer-encoding" not in headers


def _user_agent(settings: ConnectionSettings) -> str:
    own = f"distributary/{__version__} python/{platform.python_version()}"
    return own if settings.user_agent is None else f"{settings.user_agent} {own}"
