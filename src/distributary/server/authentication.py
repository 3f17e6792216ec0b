"""Authentication: from the Authorization header to a recipient (RFC 6750, REST-001, REST-008, REST-016).

Only the header counts; a token in the query, in a cookie or in the body is never looked at. An unknown, an
expired and a revoked token get the same 401. A recipient that is known but disabled, or that calls from
an address outside its list, gets 403 (REST-015). Failures are limited per address, which never locks out
a valid token: the limit is asked only after a token was found wrong.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import ClassVar, Final

from distributary.catalog import bearer_tokens, grants
from distributary.catalog.bearer_tokens import Authenticated
from distributary.catalog.database import Database
from distributary.catalog.recipients import Recipient
from distributary.server.rate_limits import CallRate
from distributary.server.recent_answers import RecentAnswers
from distributary.sharing.error_response import (
    PermissionDeniedError,
    TooManyRequestsError,
    UnauthenticatedError,
)

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*) *", re.IGNORECASE | re.ASCII)
_LONGEST_HEADER: Final = 8192
FAILURES_PER_SECOND: Final = 50.0
FAILURE_BURST: Final = 500


class TokenMissingError(UnauthenticatedError):
    """There is no bearer token in the request."""

    code = "TOKEN_MISSING"
    challenge_error: ClassVar[str | None] = None


class TokenInvalidError(UnauthenticatedError):
    """The bearer token is unknown, expired or revoked."""

    code = "TOKEN_INVALID"
    challenge_error: ClassVar[str | None] = "invalid_token"


class Authentication:
    """Finds the recipient behind a request; answers are at most a second old."""

    def __init__(self, database: Database, executor: Executor) -> None:
        self._database = database
        self._by_token: RecentAnswers[bytes, Authenticated] = RecentAnswers(executor)
        self._by_id: RecentAnswers[str, Recipient] = RecentAnswers(executor)
        self._failures = CallRate(FAILURES_PER_SECOND, FAILURE_BURST, None)

    async def caller(self, authorization: str | None, address: str) -> Recipient:
        """The recipient whose token a header carries."""
        token = bearer_token(authorization)
        if token is None:
            raise TokenMissingError("This needs a bearer token: send Authorization: Bearer {token}.")
        # The cache is keyed by a hash, so that neither memory nor timing holds anything of a token.
        found = await self._by_token.get(
            hashlib.sha256(token.encode()).digest(), lambda: self._verified(token)
        )
        if found is None or _is_over(found.expires_at):
            self._count_failure(address)
            raise TokenInvalidError("The bearer token is not valid. Ask the provider for a new one.")
        return _admitted(found.recipient, address)

    def remembered(self, authorization: bytes) -> tuple[float, int | None]:
        """Until when the caller that a header was found to name is remembered, and when its token ends."""
        token = bearer_token(authorization.decode("latin-1"))
        key = b"" if token is None else hashlib.sha256(token.encode()).digest()
        found = self._by_token.recent(key)
        return (0.0, None) if found is None else (self._by_token.until(key), found.expires_at)

    async def known(self, recipient_id: str, address: str) -> Recipient | None:
        """The recipient that a ticket names, if it still exists and may call from this address."""
        found = await self._by_id.get(
            recipient_id, lambda: grants.recipient_by_id(self._database, recipient_id)
        )
        return None if found is None else _admitted(found, address)

    def _verified(self, token: str) -> Authenticated | None:
        return bearer_tokens.verify(self._database, token)

    def _count_failure(self, address: str) -> None:
        try:
            self._failures.admit(address)
        except TooManyRequestsError as error:
            raise TooManyRequestsError(
                "Too many requests with wrong tokens come from this address.", retry_after=error.retry_after
            ) from None


def bearer_token(authorization: str | None) -> str | None:
    """The token of an Authorization header; None where there is no well-formed one."""
    if authorization is None or len(authorization) > _LONGEST_HEADER:
        return None
    match = _BEARER.fullmatch(authorization)
    return None if match is None else match[1]


def _admitted(recipient: Recipient, address: str) -> Recipient:
    if recipient.disabled:
        raise PermissionDeniedError("The provider has disabled this recipient.")
    if not recipient.may_call_from(address):
        raise PermissionDeniedError("This recipient may not call from this network address.")
    return recipient


def _is_over(expires_at: int | None) -> bool:
    """Whether a remembered token expired meanwhile: its end is exact, whatever is remembered."""
    return expires_at is not None and expires_at <= time.time() * 1000


def caller_address(peer: str, forwarded: str | None, trusted_proxies: Sequence[str]) -> str:
    """Who called: the last address of X-Forwarded-For that no trusted proxy has, where the peer is one."""
    if forwarded is None or not trusted_proxies or not _is_in(peer, trusted_proxies):
        return peer
    for hop in reversed([part.strip() for part in forwarded.split(",")]):
        if not _is_in(hop, trusted_proxies):
            return hop
    return peer


def _is_in(address: str, networks: Sequence[str]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return any(mapped in ipaddress.ip_network(network, strict=False) for network in networks)
