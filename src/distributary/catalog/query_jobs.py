"""The jobs of asynchronous queries: kept in the database, so that any worker can run one and any can answer.

A recipient starts a query with an idempotency key; starting it again with the same key and request gives the
same job, with another request a conflict. A worker claims a job for a time (its lease) and renews it while it
runs; when a worker dies the lease ends and another claims the job. The result is whatever bytes the worker
stores, in the database or as the name of a file.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from distributary.catalog import sql_schema as sql
from distributary.catalog.errors import NameTakenError

WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"

_ID: Final = re.compile(r"[0-9a-f-]{36}")


class QueryJob(msgspec.Struct, frozen=True, kw_only=True):
    """One asynchronous query, at any stage."""

    id: str
    recipient_id: str
    table_id: str
    request: bytes
    state: str
    attempts: int
    created_at: int
    expires_at: int
    result: bytes | None = None
    error_code: str | None = None
    error_message: str | None = None


def start_job(
    connection: Connection,
    *,
    recipient_id: str,
    table_id: str,
    idempotency_key: str,
    request: bytes,
    now: int,
    expires_at: int,
) -> QueryJob:
    """Keep a new job, or give the one that was started with the same key and request."""
    # Any text can be a key; its hash is short and holds nothing that a database refuses.
    key = hashlib.sha256(idempotency_key.encode("utf-8", "surrogatepass")).hexdigest()
    owner = {"recipient_id": recipient_id, "table_id": table_id, "idempotency_key": key}
    found = _same(connection, owner)
    if found is None:
        values = {"id": str(uuid.uuid4()), "request": request, "state": WAITING, "attempts": 0}
        try:
            with connection.begin_nested():
                connection.execute(
                    insert(_J).values(created_at=now, expires_at=expires_at, **owner, **values)
                )
        except IntegrityError:
            pass  # Another process started it in this moment: theirs is found below.
        found = _same(connection, owner)
    if found is None or not hmac.compare_digest(found.request, request):
        raise NameTakenError("this idempotency key was used for another query of this table")
    return found


def find_job(connection: Connection, id: str, *, recipient_id: str, table_id: str) -> QueryJob | None:
    """Find a recipient's own job of a table; another's is as if it were not there."""
    if not _ID.fullmatch(id):
        return None
    own = (_J.c.id == id) & (_J.c.recipient_id == recipient_id) & (_J.c.table_id == table_id)
    row = connection.execute(select(_J).where(own)).one_or_none()
    return None if row is None else _job_of(row)


def has_open_jobs(connection: Connection, now: int) -> bool:
    """Tell whether a job waits or lost its worker: a look that takes no lock."""
    silent = and_(_J.c.state == RUNNING, _J.c.lease_until < now)
    open_jobs = select(_J.c.id).where(or_(_J.c.state == WAITING, silent), _J.c.expires_at > now).limit(1)
    return connection.execute(open_jobs).first() is not None


def claim_job(
    connection: Connection, worker: str, *, now: int, lease_ms: int, most_attempts: int = 3
) -> QueryJob | None:
    """Take the oldest job that waits, or whose worker went silent; None when there is nothing to do."""
    silent = and_(_J.c.state == RUNNING, _J.c.lease_until < now)
    free = or_(_J.c.state == WAITING, silent) & (_J.c.expires_at > now)
    oldest = select(_J).where(free).order_by(_J.c.created_at, _J.c.id).limit(1)
    row = connection.execute(oldest.with_for_update(skip_locked=True)).one_or_none()
    if row is None:
        return None
    if row.attempts >= most_attempts:
        _fail(connection, row.id, "INTERNAL_ERROR", "the query was tried too often and never came to an end")
        return None
    values = {
        "state": RUNNING,
        "attempts": row.attempts + 1,
        "lease_owner": worker,
        "lease_until": now + lease_ms,
    }
    connection.execute(update(_J).where(_J.c.id == row.id).values(values))
    return msgspec.structs.replace(_job_of(row), state=RUNNING, attempts=row.attempts + 1)


def renew_lease(connection: Connection, job: QueryJob, worker: str, *, now: int, lease_ms: int) -> bool:
    """Keep a claimed job; False when it is this worker's no longer, which must then stop."""
    return connection.execute(_mine(job, worker).values(lease_until=now + lease_ms)).rowcount > 0


def finish_job(connection: Connection, job: QueryJob, worker: str, result: bytes) -> bool:
    """Store a result; False when the job is this worker's no longer, and nothing was stored."""
    done = _mine(job, worker).values(state=DONE, result=result, lease_owner=None, lease_until=None)
    return connection.execute(done).rowcount > 0


def fail_job(connection: Connection, job: QueryJob, worker: str, error_code: str, message: str) -> bool:
    """Store why a job failed, in words that the recipient may read."""
    failed = _mine(job, worker).values(
        state=FAILED, error_code=error_code, error_message=message, lease_owner=None, lease_until=None
    )
    return connection.execute(failed).rowcount > 0


def remove_expired_jobs(connection: Connection, now: int) -> list[QueryJob]:
    """Forget jobs whose time is over; gives them, so that files of results can go too."""
    rows = connection.execute(select(_J).where(_J.c.expires_at <= now)).all()
    connection.execute(delete(_J).where(_J.c.id.in_([row.id for row in rows])))
    return [_job_of(row) for row in rows]


_J = sql.query_jobs


def _same(connection: Connection, owner: dict[str, str]) -> QueryJob | None:
    same = and_(*(_J.c[name] == value for name, value in owner.items()))
    row = connection.execute(select(_J).where(same)).one_or_none()
    return None if row is None else _job_of(row)


def _mine(job: QueryJob, worker: str) -> Any:
    return update(_J).where(_J.c.id == job.id, _J.c.state == RUNNING, _J.c.lease_owner == worker)


def _fail(connection: Connection, id: str, error_code: str, message: str) -> None:
    values = {"state": FAILED, "error_code": error_code, "error_message": message, "lease_until": None}
    connection.execute(update(_J).where(_J.c.id == id).values(values))


def _job_of(row: Any) -> QueryJob:
    return QueryJob(
        id=row.id,
        recipient_id=row.recipient_id,
        table_id=row.table_id,
        request=bytes(row.request),
        state=row.state,
        attempts=row.attempts,
        created_at=row.created_at,
        expires_at=row.expires_at,
        result=None if row.result is None else bytes(row.result),
        error_code=row.error_code,
        error_message=row.error_message,
    )
