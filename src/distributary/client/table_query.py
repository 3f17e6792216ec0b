"""Asking for a table's files: a snapshot or changes, page by page, at once or when they are ready.

A `TableQuestion` is all that decides the answer. The answer comes whole: pages are asked for until there
is no token left, whatever their length (A6); a query that the server answers later is asked about until it
is done (A8). URLs are renewed by the token that the server gave for it, otherwise by asking again for the
very version that was read.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import msgspec

from distributary.client.errors import IncompleteResponseError, QueryFailedError
from distributary.client.rest import Request, RestClient, table_path
from distributary.client.table_answer import (
    FileUrl,
    TableAnswer,
    Wanted,
    check_no_file_twice,
    joined_pages,
)
from distributary.delta.table_features import FEATURES, FeatureKind
from distributary.sharing.capabilities import Capabilities, ResponseFormat
from distributary.sharing.error_response import SharingError
from distributary.sharing.names import TableName
from distributary.sharing.ndjson import QueryStatus

READABLE_FEATURES = frozenset(
    name.lower()
    for name, feature in FEATURES.items()
    if feature.reads and feature.kind is FeatureKind.READER_WRITER
)

_FIRST_POLL = 0.2
_SLOWEST_POLL = 10.0


class QueryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The body of a query (A4)."""

    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    include_historical_protocol: bool = False
    max_files: int | None = None
    page_token: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    idempotency_key: str | None = None

    def __repr__(self) -> str:
        return (
            f"QueryBody(version={self.version}, timestamp={self.timestamp!r}, from={self.starting_version})"
        )


class PollBody(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The body of a question for the result of a query."""

    query_id: str
    max_files: int | None = None
    page_token: str | None = None


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How questions are asked."""

    formats: tuple[ResponseFormat, ...] = ("delta", "parquet")
    """The response formats, of which the server chooses."""
    page_files: int | None = None
    """How many files a page may have; all in one answer by default."""
    asynchronous: bool = False
    """Whether the server may answer later."""
    patience: float = 600.0
    """How many seconds to wait for such an answer."""


def capabilities(settings: QuerySettings, access_modes: tuple[str, ...] = ("url",)) -> Capabilities:
    """What this client announces."""
    return Capabilities(
        response_formats=settings.formats,
        reader_features=READABLE_FEATURES if "delta" in settings.formats else frozenset(),
        access_modes=access_modes,
        include_end_stream_action=True,
    )


class SnapshotPin(msgspec.Struct, frozen=True):
    """What another process needs to ask for fresh URLs of the same files; the token is not shown."""

    body: QueryBody
    version: int | None
    refresh_token: str | None

    def __repr__(self) -> str:
        return f"SnapshotPin(version={self.version})"


class SnapshotQuestion:
    """Asks for the files of one version, and later for fresh URLs of the same files.

    With a starting version it asks for the files that were added and removed since, version by version.
    """

    def __init__(
        self,
        rest: RestClient,
        table: TableName,
        body: QueryBody,
        settings: QuerySettings,
        access_modes: tuple[str, ...] = ("url",),
    ) -> None:
        self._rest = rest
        self._table = table
        self._settings = settings
        self._access_modes = access_modes
        self._of_versions = body.starting_version is not None
        latest = body.version is None and body.timestamp is None and not self._of_versions
        self._body = msgspec.structs.replace(
            body, max_files=settings.page_files, include_refresh_token=latest
        )
        self._refresh_token: str | None = None
        self._version: int | None = None
        self._lock = threading.Lock()

    @property
    def pin(self) -> SnapshotPin:
        """What was answered, for other processes."""
        return SnapshotPin(self._body, self._version, self._refresh_token)

    @classmethod
    def resumed(
        cls, rest: RestClient, table: TableName, pin: SnapshotPin, settings: QuerySettings
    ) -> SnapshotQuestion:
        """A question that was answered elsewhere."""
        question = cls(rest, table, pin.body, settings)
        question._version, question._refresh_token = pin.version, pin.refresh_token
        return question

    def ask(self, wanted: Wanted | None = None) -> TableAnswer:
        """The answer, all pages of it; `UnwantedAnswerError` as soon as one is not wanted."""
        answer = self._asked(self._body, wanted)
        self._version = answer.version
        self._note_token(answer)
        return answer

    def fresh_urls(self) -> dict[str, FileUrl]:
        """New URLs for the files of the answer."""
        refusal: SharingError | None = None
        with self._lock:
            for body in self._refreshing():
                try:
                    answer = self._asked(body)
                except SharingError as error:
                    refusal = error
                    continue
                self._note_token(answer)
                return answer.urls
        raise refusal or IncompleteResponseError(
            f"{self._table}: the server did not say which version it gave"
        )

    def _refreshing(self) -> Iterator[QueryBody]:
        """The ways to ask for the same files again, the surest first."""
        replace = msgspec.structs.replace
        if self._refresh_token is not None:
            yield replace(self._body, refresh_token=self._refresh_token, include_refresh_token=True)
        if self._version is not None and not self._of_versions:
            yield replace(self._body, version=self._version, timestamp=None, include_refresh_token=False)
        if self._body.include_refresh_token or self._of_versions:
            yield self._body

    def _note_token(self, answer: TableAnswer) -> None:
        if answer.end is not None and answer.end.refresh_token:
            self._refresh_token = answer.end.refresh_token

    def _asked(self, body: QueryBody, wanted: Wanted | None = None) -> TableAnswer:
        answer = joined_pages(self._pages(body, wanted))
        if not self._of_versions:
            check_no_file_twice(answer)
        return answer

    def _pages(self, body: QueryBody, wanted: Wanted | None) -> Iterator[TableAnswer]:
        announced = capabilities(self._settings, self._access_modes)
        if self._settings.asynchronous:
            announced = msgspec.structs.replace(announced, async_query=True)
            body = msgspec.structs.replace(body, idempotency_key=uuid.uuid4().hex)
        path = f"{table_path(self._table)}/query"
        page = self._rest.table(Request("POST", path, body=body, capabilities=announced), wanted)
        if isinstance(page, QueryStatus):
            yield from self._polled(page)
            return
        yield page
        while token := _next_token(page, body.page_token):
            body = msgspec.structs.replace(
                body, page_token=token, include_refresh_token=False, refresh_token=None
            )
            page = _whole(self._rest.table(Request("POST", path, body=body, capabilities=announced)))
            yield page

    def _polled(self, status: QueryStatus) -> Iterator[TableAnswer]:
        """The pages of a query that is answered later."""
        deadline, pause = time.monotonic() + self._settings.patience, _FIRST_POLL
        query_id = status.query_id
        path = f"{table_path(self._table)}/queries/{quote(query_id, safe='')}"
        asked = capabilities(self._settings, self._access_modes)
        body = PollBody(query_id, self._settings.page_files)
        while True:
            _check_status(status, query_id)
            if time.monotonic() + pause > deadline:
                raise QueryFailedError(
                    f"{self._table}: the query was not done after {self._settings.patience:.0f} seconds"
                )
            time.sleep(pause)
            pause = min(pause * 1.6, _SLOWEST_POLL)
            page = self._rest.table(Request("POST", path, body=body, capabilities=asked))
            if not isinstance(page, QueryStatus):
                break
            status = page
        yield page
        while token := _next_token(page, body.page_token):
            body = msgspec.structs.replace(body, page_token=token)
            page = _whole(self._rest.table(Request("POST", path, body=body, capabilities=asked)))
            yield page


class ChangesQuestion:
    """Asks for what changed between two versions or times."""

    def __init__(
        self, rest: RestClient, table: TableName, parameters: dict[str, str], settings: QuerySettings
    ) -> None:
        self._rest = rest
        self._table = table
        self._settings = settings
        self._parameters = parameters
        if settings.page_files is not None:
            self._parameters = {**parameters, "maxFiles": str(settings.page_files)}

    def ask(self) -> TableAnswer:
        """The answer, all pages of it."""
        return joined_pages(self._pages())

    def fresh_urls(self) -> dict[str, FileUrl]:
        """New URLs for the files of the answer."""
        return self.ask().urls

    def _pages(self) -> Iterator[TableAnswer]:
        token: str | None = ""
        while token is not None:
            parameters = {**self._parameters, "pageToken": token} if token else self._parameters
            request = Request(
                "GET",
                f"{table_path(self._table)}/changes",
                parameters,
                capabilities=capabilities(self._settings),
            )
            page = _whole(self._rest.table(request))
            yield page
            token = _next_token(page, token)


def ask_metadata(
    rest: RestClient,
    table: TableName,
    settings: QuerySettings,
    parameters: dict[str, str] | None = None,
    access_modes: tuple[str, ...] = ("url", "dir"),
) -> TableAnswer:
    """The protocol and the metadata of a table."""
    request = Request(
        "GET",
        f"{table_path(table)}/metadata",
        parameters or {},
        capabilities=capabilities(settings, access_modes),
    )
    return _whole(rest.table(request))


def _next_token(page: TableAnswer, before: str | None) -> str | None:
    """The token of the next page; one that comes twice would lead nowhere."""
    token = (page.end.next_page_token or None) if page.end is not None else None
    if token is not None and token == before:
        raise IncompleteResponseError("the server gives the same page again and again")
    return token


def _whole(page: TableAnswer | QueryStatus) -> TableAnswer:
    if isinstance(page, QueryStatus):
        raise IncompleteResponseError("the server promises an answer for later where none was asked for")
    return page


def _check_status(status: QueryStatus, query_id: str) -> None:
    if status.query_id != query_id:
        raise IncompleteResponseError("the server speaks of another query than the one it was asked about")
    if status.status.lower() in ("failed", "error", "cancelled", "canceled"):
        raise QueryFailedError(f"the query failed: {(status.error_message or 'no reason was given')[:500]}")
