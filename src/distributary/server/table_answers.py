"""Answers about shared tables: what a recipient's request about one table is answered with.

Joins the parts: the snapshot cache with the provider's storage options, the signer that fits the place of
the table (tickets for local disks, pre-signed URLs for object stores), and continuation tokens bound to
recipient, share and table. Everything here blocks and belongs on a thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import msgspec

from distributary.catalog.recipients import Recipient
from distributary.catalog.shared_tables import SharedTable
from distributary.server.continuation_tokens import BoundTokens, ContinuationTokens, TokenScope
from distributary.server.directory_access import answer_credentials
from distributary.server.file_tickets import FileTicket, TicketSigner, short_digest
from distributary.server.query_answer import ClientWishes, QueryAnswer, UrlSigner
from distributary.server.rendered_cache import RenderedCache
from distributary.server.settings import Settings
from distributary.server.signing_keys import SigningKeys
from distributary.server.snapshot_cache import SnapshotCache
from distributary.server.table_changes import answer_changes, answer_file_actions
from distributary.server.table_metadata import answer_metadata, answer_version
from distributary.server.table_query import answer_query
from distributary.sharing.query_request import (
    ChangesRequest,
    MetadataRequest,
    QueryRequest,
    VersionRequest,
)
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.location import parse_root
from distributary.storage.object_store import ObjectStore, open_store
from distributary.storage.presigned_urls import url_signer

Paged = TypeVar("Paged", QueryRequest, ChangesRequest)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks about which table."""

    recipient: Recipient
    table: SharedTable

    @property
    def policy(self) -> TablePolicy:
        """The rules under which the recipient sees the table."""
        return self.table.policy


class TableAnswers:
    """Answers requests about tables; safe for threads."""

    def __init__(self, settings: Settings, keys: SigningKeys, tokens: ContinuationTokens) -> None:
        self._settings = settings
        self._keys = keys
        self._tokens = tokens
        self._url_lifetime = timedelta(seconds=settings.lifetimes.url_seconds)
        lines = RenderedCache(settings.cache_folder / "lines", settings.cache.bytes)
        self._cache = SnapshotCache(
            rendered=lines,
            open_table=self._opened,
            staleness=settings.cache.staleness_seconds,
            max_bytes=settings.cache.snapshot_bytes,
        )

    def version(self, asked: Asked, request: VersionRequest) -> QueryAnswer:
        """The latest version of a table, or the first from a time on."""
        return answer_version(self._cache, asked.policy, request)

    def metadata(self, asked: Asked, request: MetadataRequest, wishes: ClientWishes) -> QueryAnswer:
        """The protocol and metadata of a version."""
        return answer_metadata(self._cache, asked.policy, request, wishes)

    def query(self, asked: Asked, request: QueryRequest, wishes: ClientWishes) -> QueryAnswer:
        """The files of a version, or what was added and removed since one."""
        signer, tokens = self._signer(asked), self.tokens(asked)
        request = self._bounded(request)
        if request.starting_version is None:
            return answer_query(self._cache, asked.policy, request, wishes, signer, tokens)
        most = self._settings.limits.versions_per_request
        return answer_file_actions(
            self._cache, asked.policy, request, wishes, signer, tokens, most_versions=most
        )

    def changes(self, asked: Asked, request: ChangesRequest, wishes: ClientWishes) -> QueryAnswer:
        """The change data feed between two versions."""
        signer, tokens = self._signer(asked), self.tokens(asked)
        request, most = self._bounded(request), self._settings.limits.versions_per_request
        return answer_changes(self._cache, asked.policy, request, wishes, signer, tokens, most_versions=most)

    def credentials(self, asked: Asked, location: str | None) -> QueryAnswer:
        """Credentials for reading the table's directory."""
        options = self._settings.storage_options(asked.policy.location)
        return answer_credentials(asked.policy, location, options, self._url_lifetime)

    def metadata_id(self, asked: Asked, version: int) -> str:
        """Which table it was that a version belongs to: a table made anew has another id."""
        return self._cache.at(asked.policy, version).metadata.id

    def tokens(self, asked: Asked) -> BoundTokens:
        """Continuation tokens for this recipient and table only."""
        return self._tokens.bound(TokenScope(asked.recipient.id, asked.table.share_id, asked.table.id))

    def _bounded(self, request: Paged) -> Paged:
        """The request with pages no longer than the settings allow."""
        size, most = request.page_size, self._settings.limits.files_per_page
        if size is None or not most or size <= most:
            return request
        return msgspec.structs.replace(request, max_files=most)

    def _signer(self, asked: Asked) -> UrlSigner:
        expires = int((time.time() + self._url_lifetime.total_seconds()) * 1000)
        policy = asked.policy
        if parse_root(policy.location).scheme == "file":
            ticket = FileTicket(asked.recipient.id, asked.table.id, short_digest(policy), expires)
            return TicketSigner(self._keys, self._settings.base_url, ticket)
        return url_signer(self._cache.table(policy).store, self._url_lifetime)

    def _opened(self, policy: TablePolicy) -> ObjectStore:
        options = self._settings.storage_options(policy.location)
        return open_store(policy.location, options, policy.auxiliary_locations)
