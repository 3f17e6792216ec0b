"""Answers to "Read Data from a Table": the files of a snapshot that may hold what the client wants.

Implements REST-170 to REST-179, section 4 (filtering) and A4, A6 of beyond.md for reads of one version:
hints, then the limit, then the page; then URLs in one batch and lines made as they are taken. Pages and
refreshes are pinned to the version of the first answer. Reads with a starting version are in
`table_changes`.

Everything that can be refused is refused before the first byte; a failure after it ends the answer with an
``errorMessage`` where the client asked for an end-of-stream action, and cuts it off where it did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.server.answer_stream import (
    PAGE_TOKEN_SECONDS,
    REFRESH_TOKEN_SECONDS,
    closed,
    require_url_access,
    signed_urls,
    token_number,
)
from distributary.server.predicate_hints import usable_hints
from distributary.server.query_answer import ClientWishes, QueryAnswer, Tokens, UrlSigner, answer_headers
from distributary.server.rendered_lines import (
    LineForm,
    checked_paths,
    joined_lines,
    vector_paths,
)
from distributary.server.served_table import Indices, ServedTable
from distributary.server.snapshot_cache import SnapshotCache
from distributary.server.table_changes import answer_file_actions
from distributary.server.table_metadata import chosen_table, first_lines
from distributary.sharing.capabilities import negotiate
from distributary.sharing.error_response import (
    InvalidParameterError,
)
from distributary.sharing.ndjson import EndStreamAction
from distributary.sharing.query_request import QueryRequest
from distributary.sharing.table_policy import TablePolicy

# A little less than a megabyte, which is sent in one part.
_LINES_AT_ONCE = 1_200
_FIRST_LINES = 200
_FEW_LINES = 100
# Threads that sign at once would only take the interpreter from each other, and in turn from the event loop,
# which then waits for each of them: one signs at a time.
_turn = Lock()


@dataclass(frozen=True, slots=True)
class _Page:
    """The files of one answer, and where the next one goes on."""

    files: Indices
    next_file: int | None


def answer_query(
    cache: SnapshotCache,
    policy: TablePolicy,
    request: QueryRequest,
    wishes: ClientWishes,
    signer: UrlSigner,
    tokens: Tokens,
) -> QueryAnswer:
    """The answer to a read of one version, or (with a starting version) of what was added and removed."""
    require_url_access(policy)
    if request.starting_version is not None:
        return answer_file_actions(cache, policy, request, wishes, signer, tokens)
    return cache.answering(policy, lambda: _answer(cache, policy, request, wishes, signer, tokens))


def _answer(
    cache: SnapshotCache,
    policy: TablePolicy,
    request: QueryRequest,
    wishes: ClientWishes,
    signer: UrlSigner,
    tokens: Tokens,
) -> QueryAnswer:
    table, start = _pinned(cache, policy, request, wishes, tokens)
    chosen = negotiate(wishes.capabilities, table.files.needed_features)
    form = table.form(chosen, wishes.file_ids)
    page = _page(table, request, start)
    version = _told_version(table, request)
    head = first_lines(table, chosen, wishes.capabilities, None if version is None else version[0])
    body = _FileStream(table, form, page.files, signer, version)
    first = next(body.lines, b"")
    end = _End(table, request, wishes, tokens, page)
    asked = wishes.capabilities.include_end_stream_action
    headers = answer_headers(table.version, chosen, wishes, end_stream_action=asked)
    chunks = end.closing(chain([head + first], body.lines), body)
    return QueryAnswer(table.version, headers, chunks, chosen, len(page.files))


def query_digest(request: QueryRequest, table: ServedTable, wishes: ClientWishes) -> str:
    """What must stay the same from page to page: the query, the table, the policy, the form of lines."""
    capabilities = wishes.capabilities
    formats = ",".join(capabilities.response_formats)
    features = ",".join(sorted(capabilities.reader_features))
    context = (formats, features, wishes.file_ids or "", table.policy.digest, table.metadata.id)
    return request.digest(*context)


def _pinned(
    cache: SnapshotCache, policy: TablePolicy, request: QueryRequest, wishes: ClientWishes, tokens: Tokens
) -> tuple[ServedTable, int]:
    """The version to answer with, and the file to go on from."""
    if request.page_token is not None:
        state = tokens.read("page", request.page_token)
        table = _table_of(cache, policy, state.get("version"))
        if state.get("query") != query_digest(request, table, wishes):
            raise InvalidParameterError(
                "The pageToken belongs to another query: repeat the first request's parameters with it."
            )
        return table, token_number(state.get("next"))
    if request.refresh_token is not None:
        state = tokens.read("refresh", request.refresh_token)
        table = _table_of(cache, policy, state.get("version"))
        if state.get("table") != table.metadata.id:
            raise InvalidParameterError("The refreshToken is of another table. Start the query again.")
        return table, 0
    return chosen_table(cache, policy, request.version, request.timestamp), 0


def _table_of(cache: SnapshotCache, policy: TablePolicy, version: int | str | None) -> ServedTable:
    return cache.at(policy, token_number(version))


def _told_version(table: ServedTable, request: QueryRequest) -> tuple[int, int] | None:
    """Version and time, which files carry where a version was asked for (RF-045, RF-046)."""
    if not request.is_versioned:
        return None
    return table.version, table.files.timeline.time_of(table.version)


def _page(table: ServedTable, request: QueryRequest, start: int) -> _Page:
    files = _selected(table, request)
    size = request.page_size
    if size is None:
        return _Page(files, None)
    end = start + size
    return _Page(np.sort(files[start:end]), end if end < len(files) else None)


def _selected(table: ServedTable, request: QueryRequest) -> Indices:
    """The files that a query asks for; in the order of their paths where it is paged."""
    hints = usable_hints(request, table.files.columns, table.snapshot.files.num_files)
    files, exact = table.positions, hints.complete
    if hints.predicate is not None:
        decision = table.files.bounds.decide(hints.predicate)
        may_match = decision.may_match.to_numpy(zero_copy_only=False)
        files = files[may_match[files]]
        exact = exact and bool(decision.all_match.to_numpy(zero_copy_only=False)[files].all())
    if request.page_size is not None:
        wanted = np.zeros(table.snapshot.files.num_files, np.bool_)
        wanted[files] = True
        files = table.files.order[wanted[table.files.order]]
    if request.limit_hint is not None and exact:
        files = _limited(table, files, request.limit_hint)
    return files


def _limited(table: ServedTable, files: Indices, limit: int) -> Indices:
    """As many files as hold the rows of a limit; files of unknown length count as empty (FLT-008)."""
    if limit == 0:
        return files[:0]
    records = pc.fill_null(table.files.bounds.live_records, 0).to_numpy(zero_copy_only=False)
    enough = np.flatnonzero(np.cumsum(np.maximum(records[files], 0)) >= limit)
    return files[: enough[0] + 1] if len(enough) else files


class _FileStream:
    """The lines of files, signed and joined as they are taken."""

    def __init__(
        self,
        table: ServedTable,
        form: LineForm,
        files: Indices,
        signer: UrlSigner,
        version: tuple[int, int] | None,
    ) -> None:
        self._form = form
        self._signer = signer
        self._version = version
        self.expiration: int | None = None
        self.lines = self._lines(table.files.lines(form, files))

    def _lines(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        size = _FIRST_LINES
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                yield self._joined(batch.slice(start, size))
                start, size = start + size, _LINES_AT_ONCE

    def _joined(self, batch: pa.RecordBatch) -> bytes:
        with nullcontext() if batch.num_rows <= _FEW_LINES else _turn:
            return self._signed_and_joined(batch)

    def _signed_and_joined(self, batch: pa.RecordBatch) -> bytes:
        signed = signed_urls(self._signer, checked_paths(batch), vector_paths(batch))
        known = self.expiration
        self.expiration = signed.expiration if known is None else min(known, signed.expiration)
        return joined_lines(batch, self._form, signed, self._version).to_pybytes()


class _End:
    """The end of an answer: tokens, the earliest expiry, or what went wrong."""

    def __init__(
        self, table: ServedTable, request: QueryRequest, wishes: ClientWishes, tokens: Tokens, page: _Page
    ) -> None:
        self._asked = wishes.capabilities.include_end_stream_action
        self._paged = request.page_size is not None
        self._next_page: str | None = None
        self._refresh: str | None = None
        if page.next_file is not None:
            state = {
                "version": table.version,
                "next": page.next_file,
                "query": query_digest(request, table, wishes),
            }
            self._next_page = tokens.issue("page", state, PAGE_TOKEN_SECONDS)
        if request.include_refresh_token:
            pinned = {"version": table.version, "table": table.metadata.id}
            self._refresh = tokens.issue("refresh", pinned, REFRESH_TOKEN_SECONDS)

    def closing(self, chunks: Iterator[bytes], stream: _FileStream) -> Iterator[bytes]:
        """The chunks, followed by the action where one was asked for (CAP-015)."""
        if not (self._asked or self._paged or self._refresh):
            return chunks
        return closed(
            chunks,
            lambda: EndStreamAction(
                refresh_token=self._refresh,
                next_page_token=self._next_page,
                min_url_expiration_timestamp=stream.expiration,
            ),
        )
