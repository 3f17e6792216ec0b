"""Jobs of asynchronous queries: one for a key, run by one worker at a time, taken over when it dies."""

from __future__ import annotations

import pytest

from distributary.catalog import query_jobs
from distributary.catalog.errors import NameTakenError
from distributary.sharing.table_policy import TablePolicy


@pytest.fixture
def owner(admin) -> dict[str, str]:
    admin.create_share("s")
    table = admin.add_table("s", "a", "t", TablePolicy(location="/lake/t"), check=False)
    return {"recipient_id": admin.create_recipient("acme").id, "table_id": table.id}


def begin(admin, owner, key: str = "k", request: bytes = b"{}", now: int = 1000):
    with admin.database.write() as connection:
        return query_jobs.start_job(
            connection, **owner, idempotency_key=key, request=request, now=now, expires_at=now + 10_000
        )


def claim(admin, worker: str, now: int):
    with admin.database.write() as connection:
        return query_jobs.claim_job(connection, worker, now=now, lease_ms=100)


def test_same_key_and_request_is_the_same_job(admin, owner):
    job = begin(admin, owner)
    assert begin(admin, owner).id == job.id
    assert begin(admin, owner, key="other").id != job.id
    assert begin(admin, owner, key="\x00\ud800" * 1000).id != job.id
    with pytest.raises(NameTakenError, match="idempotency"):
        begin(admin, owner, request=b'{"limitHint":1}')


def test_job_is_run_by_one_worker_and_answered_by_any(admin, owner):
    job = begin(admin, owner)
    claimed = claim(admin, "w1", 1001)
    assert claimed is not None
    assert claim(admin, "w2", 1002) is None
    with admin.database.write() as connection:
        assert query_jobs.renew_lease(connection, claimed, "w1", now=1050, lease_ms=100) is True
        assert query_jobs.finish_job(connection, claimed, "w2", b"theirs") is False
        assert query_jobs.finish_job(connection, claimed, "w1", b"rows") is True
    with admin.read() as connection:
        found = query_jobs.find_job(connection, job.id, **owner)
        assert found is not None
        assert (found.state, found.result) == (query_jobs.DONE, b"rows")
        assert query_jobs.find_job(connection, job.id, recipient_id="x", table_id=owner["table_id"]) is None
        assert query_jobs.find_job(connection, "\x00", **owner) is None


def test_job_of_a_dead_worker_is_taken_over_but_not_for_ever(admin, owner):
    job = begin(admin, owner)
    for attempt in (1, 2, 3):
        taken = claim(admin, f"w{attempt}", 1000 + attempt * 200)
        assert taken is not None
        assert taken.attempts == attempt
    with admin.database.write() as connection:
        assert query_jobs.finish_job(connection, taken, "w1", b"late") is False
    assert claim(admin, "w4", 2000) is None
    with admin.read() as connection:
        found = query_jobs.find_job(connection, job.id, **owner)
    assert found is not None
    assert (found.state, found.error_code) == (query_jobs.FAILED, "INTERNAL_ERROR")


def test_failure_and_expiry_end_a_job(admin, owner):
    begin(admin, owner)
    claimed = claim(admin, "w", 1001)
    assert claimed is not None
    with admin.database.write() as connection:
        assert (
            query_jobs.fail_job(connection, claimed, "w", "INVALID_PARAMETER_VALUE", "no such version")
            is True
        )
        assert [job.id for job in query_jobs.remove_expired_jobs(connection, 11_000)] == [claimed.id]
    with admin.read() as connection:
        assert query_jobs.find_job(connection, claimed.id, **owner) is None


def test_jobs_end_with_their_recipient(admin, owner):
    job = begin(admin, owner)
    admin.drop_recipient("acme")
    with admin.read() as connection:
        assert query_jobs.find_job(connection, job.id, **owner) is None
    assert claim(admin, "w", 1001) is None
