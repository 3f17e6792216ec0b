"""The audit log: who did what, in an order that cannot be changed unseen.

Every event carries the SHA-256 of itself and of the event before it, and the newest hash is sealed with a key
that is not in the database. Changing, removing or reordering events therefore shows in `verify`, even to the
owner of the database; a database put back as a whole to an earlier day does not show. Events are appended in
batches, in one transaction, under the locked head row, so any number of processes can write. Retention
removes the oldest events and leaves a sealed anchor from which verification goes on.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from distributary.catalog import sql_schema as sql
from distributary.catalog.database import now_ms
from distributary.catalog.errors import AuditBrokenError

HEAD: Final = "head"
ANCHOR: Final = "anchor"
FIRST_HASH: Final = bytes(32)
CHUNK: Final = 1000
OUTCOMES: Final = ("allowed", "denied", "failed")


class SealingKeys(Protocol):
    """The key ring, as far as seals need it."""

    @property
    def current_id(self) -> str:
        """The id of the key that makes new seals."""
        ...

    def secret(self, key_id: str) -> bytes | None:
        """The secret of a key, None where the ring does not have it."""
        ...


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, before it has its place in the log; no secret may be in it."""

    action: str
    """What was done: `share.create`, `table.query`, …"""
    actor: str
    """Who did it: `cli:alice`, `recipient:acme`, `server`."""
    target: str = ""
    """What it was done to."""
    outcome: str = "allowed"
    details: Mapping[str, Any] = {}
    at: int = 0
    """When, in milliseconds; 0 is the time of writing."""


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event at its place in the log."""

    number: int
    at: int
    actor: str
    action: str
    target: str
    outcome: str
    details: Mapping[str, Any]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole and unchanged audit log holds."""

    events: int
    first: int
    last: int
    anchored: bool


def begin(connection: Connection, keys: SealingKeys) -> None:
    """Seal the beginning of an empty log; a log that has begun stays as it is."""
    if _seal_row(connection, HEAD) is None:
        _write_seal(connection, keys, HEAD, 0, FIRST_HASH)


def append(connection: Connection, keys: SealingKeys, events: Sequence[Event]) -> int:
    """Append events in the caller's transaction; gives the number of the last."""
    number, previous = _checked_head(connection, keys)
    rows: list[dict[str, Any]] = []
    for event in events:
        number += 1
        row = _row_of(event, number)
        previous = row["hash"] = _chained(previous, row)
        rows.append(row)
    if rows:
        connection.execute(insert(_E), rows)
        _write_seal(connection, keys, HEAD, number, previous)
    return number


def list_events(
    connection: Connection,
    *,
    newest: int | None = None,
    action: str | None = None,
    actor: str | None = None,
    since: int | None = None,
) -> list[RecordedEvent]:
    """Give events in their order; ``newest`` keeps only so many of the last, ``action`` is a beginning."""
    query = select(_E).order_by(_E.c.number.desc())
    if action is not None:
        query = query.where(_E.c.action.startswith(action, autoescape=True))
    if actor is not None:
        query = query.where(_E.c.actor == actor)
    if since is not None:
        query = query.where(_E.c.at >= since)
    rows = connection.execute(query if newest is None else query.limit(newest)).all()
    return [_event_of(row) for row in reversed(rows)]


def verify(connection: Connection, keys: SealingKeys) -> Verification:
    """Recompute the whole chain; `AuditBrokenError` says where it is not what was written."""
    head = _seal_row(connection, HEAD)
    if head is None:
        raise AuditBrokenError("the audit log has no head: it was removed, or `distributary init` never ran")
    _check_seal(keys, head)
    anchor = _seal_row(connection, ANCHOR)
    if anchor is not None:
        _check_seal(keys, anchor)
    start = 0 if anchor is None else anchor.number
    number, previous = start, FIRST_HASH if anchor is None else bytes(anchor.hash)
    for row in _rows_after(connection, start):
        number += 1
        if row["number"] != number:
            raise AuditBrokenError(
                f"event {number} of the audit log is missing: the next one is {row['number']}"
            )
        previous = _chained(previous, row)
        if not hmac.compare_digest(previous, bytes(row["hash"])):
            raise AuditBrokenError(f"event {number} of the audit log was changed, or one before it")
    if number != head.number or not hmac.compare_digest(previous, bytes(head.hash)):
        raise AuditBrokenError(
            f"the audit log ends at event {number}, its sealed head is event {head.number}"
        )
    return Verification(events=number - start, first=start + 1, last=number, anchored=anchor is not None)


def has_events_before(connection: Connection, before: int) -> bool:
    """Whether the oldest event that is still there is from before a time."""
    oldest = select(_E.c.at).order_by(_E.c.number).limit(1)
    found = connection.execute(oldest).scalar()
    return found is not None and found < before


def remove_before(connection: Connection, keys: SealingKeys, before: int) -> int:
    """Remove the events before a time and leave a sealed anchor; gives how many were removed."""
    _checked_head(connection, keys)
    kept = select(_E.c.number).where(_E.c.at >= before).order_by(_E.c.number).limit(1)
    first_kept = connection.execute(kept).scalar()
    last = select(_E).order_by(_E.c.number.desc()).limit(1)
    end = last if first_kept is None else last.where(_E.c.number < first_kept)
    row = connection.execute(end).one_or_none()
    if row is None:
        return 0
    _write_seal(connection, keys, ANCHOR, row.number, bytes(row.hash))
    return connection.execute(delete(_E).where(_E.c.number <= row.number)).rowcount


def reseal(connection: Connection, keys: SealingKeys) -> None:
    """Seal head and anchor with the present key; after `verify`, or when the old key is lost for good."""
    for name in (HEAD, ANCHOR):
        row = _seal_row(connection, name)
        if row is not None:
            _write_seal(connection, keys, name, row.number, bytes(row.hash))


def sealing_key_ids(connection: Connection) -> set[str]:
    """Give the ids of the keys that the log cannot be verified without."""
    return {row.key_id for name in (HEAD, ANCHOR) if (row := _seal_row(connection, name)) is not None}


_E = sql.audit_events
_SEALS = sql.audit_seals


def _row_of(event: Event, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "at": event.at or now_ms(),
        "actor": event.actor,
        "action": event.action,
        "target": event.target,
        "outcome": event.outcome,
        "details": msgspec.json.encode(event.details, order="sorted").decode(),
    }


def _chained(previous: bytes, row: Mapping[str, Any]) -> bytes:
    fields = [row[name] for name in ("number", "at", "actor", "action", "target", "outcome", "details")]
    return hashlib.sha256(previous + msgspec.json.encode(fields)).digest()


def _event_of(row: Any) -> RecordedEvent:
    return RecordedEvent(
        number=row.number,
        at=row.at,
        actor=row.actor,
        action=row.action,
        target=row.target,
        outcome=row.outcome,
        details=msgspec.json.decode(row.details),
    )


def _rows_after(connection: Connection, number: int) -> Iterator[Mapping[str, Any]]:
    """Read the log in chunks, so that memory does not grow with it."""
    while True:
        chunk = select(_E).where(_E.c.number > number).order_by(_E.c.number).limit(CHUNK)
        rows = [dict(row) for row in connection.execute(chunk).mappings()]
        yield from rows
        if len(rows) < CHUNK:
            return
        number = rows[-1]["number"]


def _seal_row(connection: Connection, name: str, *, lock: bool = False) -> Any:
    query = select(_SEALS).where(_SEALS.c.name == name)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def _checked_head(connection: Connection, keys: SealingKeys) -> tuple[int, bytes]:
    """Lock the head and check its seal, so that nothing is appended to a log that someone else ended."""
    head = _seal_row(connection, HEAD, lock=True)
    if head is None:
        raise AuditBrokenError("the audit log has no head: `distributary init` makes one")
    _check_seal(keys, head)
    return head.number, bytes(head.hash)


def _write_seal(connection: Connection, keys: SealingKeys, name: str, number: int, hash: bytes) -> None:
    key_id = keys.current_id
    values = {"number": number, "hash": hash, "key_id": key_id}
    values["signature"] = _signature(keys, key_id, name, number, hash)
    if connection.execute(update(_SEALS).where(_SEALS.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(_SEALS).values(name=name, **values))


def _check_seal(keys: SealingKeys, row: Any) -> None:
    signature = _signature(keys, row.key_id, row.name, row.number, bytes(row.hash))
    if not hmac.compare_digest(signature, bytes(row.signature)):
        raise AuditBrokenError(f"the seal of the audit log's {row.name} is not ours: the log was changed")


def _signature(keys: SealingKeys, key_id: str, name: str, number: int, hash: bytes) -> bytes:
    secret = keys.secret(key_id)
    if secret is None:
        raise AuditBrokenError(
            f"the audit log is sealed with key {key_id!r}, which the key file does not hold: "
            "restore the key file of this catalog"
        )
    audit_key = hmac.digest(secret, b"distributary/audit", hashlib.sha256)
    return hmac.digest(audit_key, msgspec.json.encode([name, number, hash.hex()]), hashlib.sha256)
