"""Continuation tokens: the opaque texts by which a recipient asks for the next page or for fresh URLs.

A token is `<key id>.<payload>.<mac>`. The MAC (HMAC-SHA-256 under a key for this purpose) covers the kind,
the recipient, the share, the table, the digest of the query, the expiry and the state; all of them are
compared with the request at hand, so a token is worth nothing to another recipient, on another table,
with other parameters, as another kind or after its time (REST-038, RELIABILITY E2). A token never widens
access: grants and history are checked again as for any request.

`TokenScope` is what a token is bound to; `ContinuationTokens.bound(scope)` gives the two functions that
answering a query needs, issue and read, with nothing of HTTP in them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from distributary.server.signing_keys import SigningKeys, purpose_key
from distributary.sharing.error_response import InvalidParameterError

TokenKind = Literal["list", "page", "refresh", "job"]
TokenState = Mapping[str, int | str]
"""What a token carries back to the server: positions and versions, never anything secret."""

LIFETIME_SECONDS = 3600
_PURPOSE = "continuation-token"
_MAC_BYTES = 24  # 32 letters of base64 exactly: no letter has bits that do not count
_FORM = re.compile(r"([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{1,4096})\.([A-Za-z0-9_-]{32})")


@dataclass(frozen=True, slots=True)
class TokenScope:
    """What a token is bound to: ids of the recipient, the share and the table, and the query's digest."""

    recipient: str
    share: str = ""
    table: str = ""
    query: str = ""


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    scope: str
    expires: int
    state: dict[str, int | str]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Payload).decode


@dataclass(frozen=True, slots=True)
class ContinuationTokens:
    """Issues and reads tokens under the keys of a ring; `now` gives seconds since 1970."""

    keys: SigningKeys
    now: Callable[[], float] = time.time
    longest: Mapping[TokenKind, int] = field(default_factory=dict[TokenKind, int])
    """How many seconds tokens of a kind live at most; an hour where nothing is said."""

    def issue(
        self, kind: TokenKind, scope: TokenScope, state: TokenState, lifetime: int = LIFETIME_SECONDS
    ) -> str:
        """A token for the state of an answer."""
        lifetime = min(lifetime, self.longest.get(kind, LIFETIME_SECONDS))
        key_id = self.keys.current_id
        secret = self.keys.secret(key_id)
        if secret is None:
            raise LookupError(f"the key ring has no key {key_id!r}, though it is the current one")
        payload = _Payload(kind, _scope_digest(scope), int(self.now()) + lifetime, dict(state))
        text = f"{key_id}.{_base64(_encode(payload))}"
        return f"{text}.{_mac(secret, text)}"

    def read(self, kind: TokenKind, scope: TokenScope, token: str) -> TokenState:
        """The state of a token that was issued for this kind and scope; any other token is refused."""
        match = _FORM.fullmatch(token)
        secret = None if match is None else self.keys.secret(match[1])
        if match is None or secret is None or not _is_genuine(secret, token):
            raise _refused(kind)
        payload = _payload(match[2])
        if payload is None or payload.kind != kind or payload.scope != _scope_digest(scope):
            raise _refused(kind)
        if payload.expires <= self.now():
            raise InvalidParameterError(f"The {_NAMES[kind]} has expired: start the query again.")
        return payload.state

    def bound(self, scope: TokenScope) -> BoundTokens:
        """The same, for one scope."""
        return BoundTokens(self, scope)


@dataclass(frozen=True, slots=True)
class BoundTokens:
    """Issue and read for one recipient, table and query."""

    tokens: ContinuationTokens
    scope: TokenScope

    def issue(self, kind: TokenKind, state: TokenState, lifetime: int = LIFETIME_SECONDS) -> str:
        """A token for the state of an answer."""
        return self.tokens.issue(kind, self.scope, state, lifetime)

    def read(self, kind: TokenKind, token: str) -> TokenState:
        """The state of a token that was issued here."""
        return self.tokens.read(kind, self.scope, token)


_NAMES: Mapping[TokenKind, str] = {
    "list": "pageToken",
    "page": "pageToken",
    "refresh": "refreshToken",
    "job": "query id",
}


def _refused(kind: TokenKind) -> InvalidParameterError:
    return InvalidParameterError(
        f"The {_NAMES[kind]} is not one that this server issued for this request. "
        "Send it unchanged, together with the parameters of the first request."
    )


def _payload(text: str) -> _Payload | None:
    try:
        return _decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None


def _is_genuine(secret: bytes, token: str) -> bool:
    text, _, mac = token.rpartition(".")
    return hmac.compare_digest(_mac(secret, text), mac)


def _mac(secret: bytes, text: str) -> str:
    digest = hmac.digest(purpose_key(secret, _PURPOSE), text.encode(), hashlib.sha256)
    return _base64(digest[:_MAC_BYTES])


def _scope_digest(scope: TokenScope) -> str:
    parts = (scope.recipient, scope.share, scope.table, scope.query)
    return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
