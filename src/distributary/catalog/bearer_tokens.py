"""Bearer tokens: what recipients authenticate with (DM-007, REST-001, REST-018).

A token of ours is `dst_<id>_<secret>` with a secret of 256 random bits; the catalog keeps the SHA-256 of the
whole token, so a stolen database gives none back. It is shown once, when it is made. The public id finds the
row, the hashes are compared in constant time, and an unknown id goes the same way as a known one. A token of
another server (from its configuration file) can be taken over: its id is then a hash of its own.

A recipient has at most two live tokens: rotation makes a new one and shortens the old one's life.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import Database, now_ms
from distributary.catalog.errors import InvalidEntryError, NameTakenError, NotInCatalogError
from distributary.catalog.recipients import Recipient, recipient_of

DAY_MS: Final = 86_400_000
MOST_LIVE_TOKENS: Final = 2
LONGEST_TOKEN: Final = 4096

_OURS: Final = re.compile(r"dst_([0-9a-f]{16})_[0-9a-f]{64}", re.ASCII)
_NO_HASH: Final = bytes(32)


class BearerToken(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token: never the token itself."""

    id: str
    recipient: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def state(self, now: int) -> str:
        """Say `active`, `expired` or `revoked`."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token just made, with its text, which nothing can show again."""

    token: BearerToken
    text: str

    def __repr__(self) -> str:
        return f"IssuedToken(id={self.token.id!r})"

    __str__ = __repr__


class Authenticated(msgspec.Struct, frozen=True, kw_only=True):
    """A recipient that showed a valid token, and which token it was."""

    recipient: Recipient
    token_id: str
    expires_at: int | None


def authenticate(database: Database, token: str, now: int | None = None) -> Recipient | None:
    """Find whose token this is; None when it is unknown, expired or revoked."""
    found = verify(database, token, now)
    return None if found is None else found.recipient


def verify(database: Database, token: str, now: int | None = None) -> Authenticated | None:
    """Like `authenticate`, and tells which token it was and until when it is good."""
    with database.read() as connection:
        row = connection.execute(_LOOK_UP, {"token_id": token_id(token)}).one_or_none()
    stored = _NO_HASH if row is None else bytes(row.secret_hash)
    same = hmac.compare_digest(stored, token_hash(token))
    if row is None or not same or not _is_live(row, now_ms() if now is None else now):
        return None
    return Authenticated(recipient=recipient_of(row), token_id=row.token_id, expires_at=row.expires_at)


def token_id(token: str) -> str:
    """Give the public id of a token: the one in its text, or a hash for a token of another server."""
    ours = _OURS.fullmatch(token)
    if ours is not None:
        return ours[1]
    return "ext" + hashlib.sha256(b"token id\0" + _bytes(token)).hexdigest()[:13]


def token_hash(token: str) -> bytes:
    """Give what the catalog keeps of a token."""
    return hashlib.sha256(_bytes(token)).digest()


def issue_token(
    connection: Connection, recipient: Recipient, *, expires_at: int | None, now: int | None = None
) -> IssuedToken:
    """Make a token; refused when the recipient has two that are live."""
    text = f"dst_{secrets.token_hex(8)}_{secrets.token_hex(32)}"
    return _keep(connection, recipient, text, expires_at, now_ms() if now is None else now)


def take_over_token(
    connection: Connection, recipient: Recipient, text: str, *, expires_at: int | None = None
) -> IssuedToken:
    """Accept a token that another server gave out, so that its recipients need no new one."""
    if not text or len(text) > LONGEST_TOKEN:
        raise InvalidEntryError(f"a token to take over has 1 to {LONGEST_TOKEN} characters")
    return _keep(connection, recipient, text, expires_at, now_ms())


def rotate_token(
    connection: Connection,
    recipient: Recipient,
    *,
    expires_at: int | None,
    grace_ms: int,
    now: int | None = None,
) -> IssuedToken:
    """Make a new token; those before it live on for at most ``grace_ms``, 0 ends them now."""
    at = now_ms() if now is None else now
    if grace_ms < 0:
        raise InvalidEntryError("the old token's remaining life cannot be negative; 0 ends it now")
    live = [token for token in tokens_of(connection, recipient) if token.state(at) == "active"]
    for token in live[:-1] if grace_ms else live:
        _end(connection, token, at)
    for token in live[-1:] if grace_ms else ():
        end = min(at + grace_ms, token.expires_at or at + grace_ms)
        connection.execute(update(_T).where(_T.c.id == token.id).values(expires_at=end))
    return issue_token(connection, recipient, expires_at=expires_at, now=at)


def revoke_token(connection: Connection, id: str, now: int | None = None) -> BearerToken:
    """End a token now; one that has ended stays as it is."""
    token = get_token(connection, id)
    at = now_ms() if now is None else now
    if token.revoked_at is not None:
        return token
    _end(connection, token, at)
    return msgspec.structs.replace(token, revoked_at=at)


def revoke_all_tokens(
    connection: Connection, recipient: Recipient, now: int | None = None
) -> list[BearerToken]:
    """End every live token of a recipient."""
    at = now_ms() if now is None else now
    live = [token for token in tokens_of(connection, recipient) if token.state(at) == "active"]
    return [revoke_token(connection, token.id, at) for token in live]


def get_token(connection: Connection, id: str) -> BearerToken:
    """Find a token by its public id."""
    row = connection.execute(_LISTED.where(_T.c.id == id)).one_or_none()
    if row is None:
        raise NotInCatalogError(f"there is no token with id {id!r}: `distributary token list` shows the ids")
    return _token_of(row)


def tokens_of(connection: Connection, recipient: Recipient | None = None) -> list[BearerToken]:
    """Give the tokens of a recipient, or all, oldest first."""
    query = _LISTED if recipient is None else _LISTED.where(_T.c.recipient_id == recipient.id)
    return [_token_of(row) for row in connection.execute(query.order_by(_T.c.created_at, _T.c.id))]


def forget_ended_tokens(connection: Connection, before: int) -> int:
    """Remove tokens that ended before a time; gives how many."""
    ended = (_T.c.expires_at < before) | (_T.c.revoked_at < before)
    return connection.execute(delete(_T).where(ended)).rowcount


_T = sql.bearer_tokens
_LISTED = select(_T, sql.recipients.c.name.label("recipient")).join(sql.recipients)


def _look_up() -> Any:
    from_both = select(
        sql.recipients,
        _T.c.id.label("token_id"),
        *(_T.c.secret_hash, _T.c.expires_at, _T.c.revoked_at),
    ).join(_T, _T.c.recipient_id == sql.recipients.c.id)
    return from_both.where(_T.c.id == bindparam("token_id"))


def _keep(
    connection: Connection, recipient: Recipient, text: str, expires_at: int | None, now: int
) -> IssuedToken:
    if expires_at is not None and expires_at <= now:
        raise InvalidEntryError("a token cannot have expired before it is made: give a later time")
    _lock(connection, recipient)
    live = [token for token in tokens_of(connection, recipient) if token.state(now) == "active"]
    if len(live) >= MOST_LIVE_TOKENS:
        raise NameTakenError(
            f"recipient {recipient.name!r} has {MOST_LIVE_TOKENS} live tokens already: "
            "revoke one, or rotate (`distributary recipient rotate`)"
        )
    made = BearerToken(id=token_id(text), recipient=recipient.name, created_at=now, expires_at=expires_at)
    values = {"id": made.id, "recipient_id": recipient.id, "secret_hash": token_hash(text)}
    try:
        connection.execute(insert(_T).values(created_at=now, expires_at=expires_at, **values))
    except IntegrityError as error:
        raise NameTakenError("this token is in use already, by this recipient or by another") from error
    return IssuedToken(token=made, text=text)


def _lock(connection: Connection, recipient: Recipient) -> None:
    """Let only one transaction at a time count and add tokens of a recipient (SQLite: always)."""
    rows = select(sql.recipients.c.id).where(sql.recipients.c.id == recipient.id).with_for_update()
    if connection.execute(rows).one_or_none() is None:
        raise NotInCatalogError(f"recipient {recipient.name!r} was dropped meanwhile")


def _end(connection: Connection, token: BearerToken, at: int) -> None:
    connection.execute(update(_T).where(_T.c.id == token.id).values(revoked_at=at))


def _is_live(row: Any, now: int) -> bool:
    return (row.expires_at is None or row.expires_at > now) and (
        row.revoked_at is None or row.revoked_at > now
    )


def _token_of(row: Any) -> BearerToken:
    return BearerToken(
        id=row.id,
        recipient=row.recipient,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _bytes(token: str) -> bytes:
    """A header can hold anything: a lone surrogate must not raise."""
    return token.encode("utf-8", "surrogatepass")


_LOOK_UP: Final = _look_up()
