"""Answers about what changed: file actions from a version on, and the change data feed.

Implements "Read Data from a Table" with a starting version (A4, A12) and "Read Change Data Feed" (A5,
CDF-001 to CDF-006). Both go through the commits of a range, version by version, and send what concerns the
recipient: file actions that change data, or change files where a commit has them (then those alone), and
later metadata and protocols where they are asked for. Deletion vectors go along with their actions.

Policies hold here as everywhere: no version before the first shared one, no file outside the partition
filter, by the partition values that the log has for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain

from distributary.delta.log.actions import CommitActions
from distributary.server.answer_stream import PAGE_TOKEN_SECONDS, closed, require_url_access, token_number
from distributary.server.changed_files import CommitFiles, FileLineWriter
from distributary.server.commit_range import CommitRange, VersionState
from distributary.server.query_answer import ClientWishes, QueryAnswer, Tokens, UrlSigner, answer_headers
from distributary.server.served_table import ServedTable
from distributary.server.snapshot_cache import SnapshotCache
from distributary.server.table_metadata import (
    first_version_from,
    metadata_line,
    protocol_line,
    require_history,
    require_shared,
    shares_changes,
    version_at,
)
from distributary.sharing.capabilities import ResponseFormat, negotiate
from distributary.sharing.error_response import InvalidParameterError
from distributary.sharing.ndjson import EndStreamAction
from distributary.sharing.query_request import ChangesRequest, QueryRequest
from distributary.sharing.table_policy import TablePolicy

_LINES_AT_ONCE = 2_000

_Select = Callable[[CommitActions], CommitFiles]


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where a page begins: the versions of the first request, and how much of a version was sent."""

    start: int
    end: int
    latest: int
    version: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of a range is asked for."""

    select: _Select
    later_metadata: bool
    later_protocol: bool
    first_of_start: bool


def answer_file_actions(
    cache: SnapshotCache,
    policy: TablePolicy,
    request: QueryRequest,
    wishes: ClientWishes,
    signer: UrlSigner,
    tokens: Tokens,
    *,
    most_versions: int = 0,
) -> QueryAnswer:
    """The answer to a query with a starting version: the files added and removed since."""
    require_url_access(policy)
    require_history(policy)

    def answer() -> QueryAnswer:
        latest = cache.latest(policy)
        cursor = _page_cursor(request, latest, wishes, tokens) or _query_cursor(request, latest)
        _check_span(cursor, most_versions)
        wanted = _Wanted(CommitFiles.of_actions, True, request.include_historical_protocol, True)
        return _Answer(cache, latest, request, wishes, signer, tokens, cursor, wanted).answer()

    return cache.answering(policy, answer)


def answer_changes(
    cache: SnapshotCache,
    policy: TablePolicy,
    request: ChangesRequest,
    wishes: ClientWishes,
    signer: UrlSigner,
    tokens: Tokens,
    *,
    most_versions: int = 0,
) -> QueryAnswer:
    """The answer to a request for changes."""
    require_url_access(policy)
    if not shares_changes(policy):
        raise InvalidParameterError("The changes of this table are not shared.")

    def answer() -> QueryAnswer:
        latest = cache.latest(policy)
        cursor = _page_cursor(request, latest, wishes, tokens) or _changes_cursor(request, latest)
        _check_span(cursor, most_versions)
        historical = request.include_historical_metadata
        protocols = request.include_historical_protocol
        wanted = _Wanted(CommitFiles.of_changes, historical, protocols, historical)
        return _Answer(cache, latest, request, wishes, signer, tokens, cursor, wanted).answer()

    return cache.answering(policy, answer)


def _query_cursor(request: QueryRequest, latest: ServedTable) -> _Cursor:
    start = request.starting_version
    assert start is not None
    end = latest.version if request.ending_version is None else request.ending_version
    require_shared(latest.policy, start)
    for name, version in (("startingVersion", start), ("endingVersion", end)):
        if version > latest.version:
            raise InvalidParameterError(f"{name} {version} is after the latest version, {latest.version}.")
    return _Cursor(start, end, latest.version, start)


def _changes_cursor(request: ChangesRequest, latest: ServedTable) -> _Cursor:
    start, end = request.starting_version, request.ending_version
    if request.starting_timestamp is not None:
        start = first_version_from(latest, request.starting_timestamp)
    assert start is not None
    require_shared(latest.policy, start)
    if start > latest.version:
        raise InvalidParameterError(f"startingVersion {start} is after the latest version, {latest.version}.")
    if request.ending_timestamp is not None:
        end = version_at(latest, request.ending_timestamp)
    end = latest.version if end is None else min(end, latest.version)
    if end < start:
        raise InvalidParameterError(f"The changes would end at version {end}, before they start at {start}.")
    return _Cursor(start, end, latest.version, start)


def _check_span(cursor: _Cursor, most: int) -> None:
    """Refuse a request for more versions than the settings allow; 0 is no limit."""
    asked = cursor.end - cursor.start + 1
    if most and asked > most:
        raise InvalidParameterError(
            f"The request asks for {asked} versions, and {most} are given at once. "
            f"Ask in parts: endingVersion={cursor.start + most - 1} first."
        )


def _page_cursor(
    request: QueryRequest | ChangesRequest, latest: ServedTable, wishes: ClientWishes, tokens: Tokens
) -> _Cursor | None:
    if request.page_token is None:
        return None
    state = tokens.read("page", request.page_token)
    if state.get("query") != _digest(request, latest, wishes):
        raise InvalidParameterError(
            "The pageToken belongs to another request: repeat the first request's parameters with it."
        )
    names = ("start", "end", "latest", "version", "skipped")
    cursor = _Cursor(*(token_number(state.get(name)) for name in names))
    if cursor.latest > latest.version:
        raise InvalidParameterError("The table is not the one of the first page. Start again.")
    return cursor


def _digest(request: QueryRequest | ChangesRequest, table: ServedTable, wishes: ClientWishes) -> str:
    capabilities = wishes.capabilities
    formats = ",".join(capabilities.response_formats)
    features = ",".join(sorted(capabilities.reader_features))
    return request.digest(formats, features, wishes.file_ids or "", table.policy.digest, table.metadata.id)


class _Answer:
    """One answer over a range of versions."""

    def __init__(
        self,
        cache: SnapshotCache,
        latest: ServedTable,
        request: QueryRequest | ChangesRequest,
        wishes: ClientWishes,
        signer: UrlSigner,
        tokens: Tokens,
        cursor: _Cursor,
        wanted: _Wanted,
    ) -> None:
        self._table = latest
        self._request = request
        self._wishes = wishes
        self._tokens = tokens
        self._cursor = cursor
        self._wanted = wanted
        needs_feed = isinstance(request, ChangesRequest)
        self._range = CommitRange(cache, latest.policy, cursor.start, cursor.end, needs_feed=needs_feed)
        first = (
            self._range.first
            if wanted.first_of_start
            else VersionState.of(cache.at(latest.policy, cursor.latest))
        )
        self._first = first
        needed = self._range.needed_features | first.needed_features
        self._needed = needed
        self._format: ResponseFormat = negotiate(wishes.capabilities, needed)
        scheme = wishes.file_ids or self._format
        self._writer = FileLineWriter(latest, self._range, signer, self._format, scheme)
        self._next: _Cursor | None = None

    def answer(self) -> QueryAnswer:
        """The whole answer; what fails at its beginning is raised here."""
        chunks = self._chunks()
        first = next(chunks)
        asked = self._wishes.capabilities.include_end_stream_action
        start = self._cursor.start
        headers = answer_headers(start, self._format, self._wishes, end_stream_action=asked)
        body: Iterator[bytes] = chain([first], chunks)
        if asked or self._request.page_size is not None:
            body = closed(body, self._end)
        return QueryAnswer(start, headers, body, self._format)

    def _chunks(self) -> Iterator[bytes]:
        held = [self._first_lines()]
        left = self._request.page_size
        skipped = self._cursor.skipped
        for commit, state in self._range.commits(self._cursor.version):
            if left == 0:
                if self._has_lines(commit, state):
                    self._next = self._at(commit.version, 0)
                    break
                continue
            if skipped == 0:
                held.append(self._later_lines(commit, state))
            files = self._writer.visible(self._wanted.select(commit), state).actions[skipped:]
            taken = files if left is None else files[:left]
            for start in range(0, len(taken), _LINES_AT_ONCE):
                held.extend(self._writer.lines(commit, taken[start : start + _LINES_AT_ONCE]))
                yield b"".join(held)
                held = []
            if len(taken) < len(files):
                self._next = self._at(commit.version, skipped + len(taken))
                break
            left = None if left is None else left - len(taken)
            skipped = 0
        yield b"".join(held)

    def _first_lines(self) -> bytes:
        first, capabilities = self._first, self._wishes.capabilities
        protocol = protocol_line(first.protocol, self._needed, self._format, capabilities)
        return protocol + metadata_line(
            self._table, first.metadata, first.schema, self._format, first.version
        )

    def _later_lines(self, commit: CommitActions, state: VersionState) -> bytes:
        """Protocol and metadata of a commit after the first one, where they are asked for."""
        if commit.version == self._cursor.start:
            return b""
        lines = b""
        if commit.protocol is not None and self._wanted.later_protocol and self._format == "delta":
            capabilities = self._wishes.capabilities
            lines += protocol_line(commit.protocol, self._needed, self._format, capabilities, commit.version)
        if commit.metadata is not None and self._wanted.later_metadata:
            lines += metadata_line(self._table, commit.metadata, state.schema, self._format, commit.version)
        return lines

    def _has_lines(self, commit: CommitActions, state: VersionState) -> bool:
        if self._later_lines(commit, state):
            return True
        return bool(self._writer.visible(self._wanted.select(commit), state).actions)

    def _at(self, version: int, skipped: int) -> _Cursor:
        return replace(self._cursor, version=version, skipped=skipped)

    def _end(self) -> EndStreamAction:
        token = None
        if self._next is not None:
            state: dict[str, int | str] = {**asdict(self._next)}
            state["query"] = _digest(self._request, self._table, self._wishes)
            token = self._tokens.issue("page", state, PAGE_TOKEN_SECONDS)
        return EndStreamAction(next_page_token=token, min_url_expiration_timestamp=self._writer.expiration)
