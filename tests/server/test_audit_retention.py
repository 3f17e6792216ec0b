"""The retention of the audit log: old events go, which is told, and the rest can still be verified."""

from __future__ import annotations

import io

import pytest

from distributary.catalog import audit_log
from distributary.catalog.administration import Administration, initialise
from distributary.catalog.audit_log import Event
from distributary.catalog.database import Database, now_ms
from distributary.server.audit_retention import AuditRetention
from distributary.server.event_log import EventLog
from distributary.server.key_ring import create_key_file

DAY = 86_400_000


@pytest.fixture
def keys(tmp_path):
    return create_key_file(tmp_path / "keys", now=1)


@pytest.fixture
def database(tmp_path, keys):
    opened = Database(f"sqlite:///{tmp_path / 'catalog.db'}")
    initialise(opened, keys)
    with opened.write() as connection:
        audit_log.remove_before(connection, keys, now_ms() + DAY)  # what `initialise` noted is of today
        for age in (40, 31, 2):
            event = Event(
                action="table.query", actor="recipient:acme", target=f"{age}", at=now_ms() - age * DAY
            )
            audit_log.append(connection, keys, [event])
    yield opened
    opened.close()


def left(database, keys, days: int) -> list[str]:
    log = EventLog(io.BytesIO())
    AuditRetention(database, keys, log, days).remove_old()
    log.close()
    admin = Administration(database, keys, actor="test")
    admin.verify_audit()
    with admin.read() as connection:
        return [event.target or event.action for event in audit_log.list_events(connection)]


def test_events_older_than_the_limit_are_removed_and_the_rest_verifies(database, keys):
    assert left(database, keys, 30) == ["2", "audit.remove"]
    assert left(database, keys, 30) == ["2", "audit.remove"]


def test_without_a_limit_every_event_stays(database, keys):
    assert left(database, keys, 0) == ["40", "31", "2"]
