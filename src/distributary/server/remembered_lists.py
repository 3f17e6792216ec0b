"""Lists that a worker has just given, to be given again to the same caller without asking anybody.

Lists are what clients ask most often. One that was given is kept with its headers for as long as all that it
was made of is remembered anyway: the caller's token, the grant and the page (`recent_answers`), so that what
is taken away is gone within a second as before (RELIABILITY P6), and the end of a token is exact. A list
belongs to one Authorization header, kept as a hash, one address, path and query. Requests that say more of
their caller (`X-Forwarded-For`, a header given twice) take the long way.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Final

import msgspec

from distributary.server.answers import Answer, Headers
from distributary.server.authentication import Authentication
from distributary.server.request import MAX_HEADER_BYTES, MAX_TARGET_BYTES, Scope

ListKey = tuple[bytes, str, bytes, bytes]
_MOST: Final = 5_000


class ListRequest(msgspec.Struct, frozen=True):
    """What a request for a list says: which list it is, and what the log wants to know."""

    key: ListKey
    authorization: bytes
    given_id: str | None
    user_agent: str | None


@dataclass(frozen=True, slots=True)
class RememberedList:
    """A list as it was given, and until when it may be given again."""

    until: float
    expires_at: int | None
    recipient_id: str
    recipient: str
    route: str
    headers: Headers
    body: bytes

    def is_usable(self) -> bool:
        """Whether the list and the token of its caller still hold."""
        if self.until <= time.monotonic():
            return False
        return self.expires_at is None or self.expires_at > time.time() * 1000


class RememberedLists:
    """The lists that one worker has just given."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._lists: dict[ListKey, RememberedList] = {}

    def get(self, key: ListKey) -> RememberedList | None:
        """A list that may be given again."""
        found = self._lists.get(key)
        return found if found is not None and found.is_usable() else None

    def keep(
        self, request: ListRequest, recipient_id: str, recipient: str, route: str, answer: Answer
    ) -> None:
        """Remember an answer that was made of what is remembered itself."""
        until, expires_at = self._authentication.remembered(request.authorization)
        if len(self._lists) >= _MOST:
            self._lists.clear()
        headers = (*answer.headers, (b"content-length", str(len(answer.body)).encode()))
        until = min(until, answer.until)
        kept = RememberedList(until, expires_at, recipient_id, recipient, route, headers, answer.body)
        self._lists[request.key] = kept


def list_request(scope: Scope) -> ListRequest | None:
    """What may be answered by a remembered list; None for any other request."""
    if scope["method"] != "GET":
        return None
    path, query, client = scope["raw_path"], scope["query_string"], scope["client"]
    authorization = given_id = user_agent = None
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        if name == b"authorization":
            if authorization is not None:
                return None
            authorization = value
        elif name == b"user-agent":
            if user_agent is not None:
                return None
            user_agent = value.decode("latin-1")
        elif name == b"x-request-id":
            if given_id is None:
                given_id = value.decode("latin-1")
        elif name == b"x-forwarded-for":
            return None
    if authorization is None or size > MAX_HEADER_BYTES or len(path) + len(query) > MAX_TARGET_BYTES:
        return None
    digest = hashlib.sha256(authorization).digest()
    return ListRequest(
        (digest, client[0] if client else "", path, query), authorization, given_id, user_agent
    )
