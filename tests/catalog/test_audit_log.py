"""The audit log: every change is in it, and nothing in it can be changed unseen."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from distributary.catalog import audit_log
from distributary.catalog.audit_log import Event
from distributary.catalog.database import now_ms
from distributary.catalog.errors import AuditBrokenError, NameTakenError
from distributary.server import key_ring


def events(admin) -> list[audit_log.RecordedEvent]:
    with admin.read() as connection:
        return audit_log.list_events(connection)


def append(admin, keys, count: int) -> None:
    with admin.database.write() as connection:
        made = [
            Event(action="table.query", actor="recipient:acme", target=f"t{n}", at=1000 + n)
            for n in range(count)
        ]
        audit_log.append(connection, keys, made)


def run(admin, statement: str) -> None:
    with admin.database.write() as connection:
        connection.execute(text(statement))


def test_each_change_is_recorded_with_its_actor(admin):
    admin.create_share("s", comment="x")
    admin.create_recipient("acme")
    admin.grant("s", "acme")
    issued = admin.issue_token("acme", expires_at=now_ms() + 1_000_000)
    admin.revoke("s", "acme")
    recorded = events(admin)
    assert [event.action for event in recorded] == [
        "keys.use",
        "share.create",
        "recipient.create",
        "share.grant",
        "token.issue",
        "share.revoke",
    ]
    assert {event.actor for event in recorded[1:]} == {"test"}
    assert recorded[3].details == {"recipient": "acme"}
    assert issued.text not in repr(recorded)
    assert admin.verify_audit().events == 6


def test_change_that_fails_leaves_no_event(admin):
    admin.create_share("s")
    with pytest.raises(NameTakenError):
        admin.create_share("S")
    assert [event.action for event in events(admin)] == ["keys.use", "share.create"]


def test_events_are_found_by_action_actor_and_time(admin, keys):
    append(admin, keys, 5)
    with admin.read() as connection:
        found = audit_log.list_events(
            connection, action="table", actor="recipient:acme", since=1003, newest=10
        )
        assert [event.target for event in found] == ["t3", "t4"]
        assert [event.target for event in audit_log.list_events(connection, newest=2)] == ["t3", "t4"]
        assert audit_log.list_events(connection, action="%") == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_events SET actor = 'someone else' WHERE number = 3",
        "UPDATE audit_events SET details = '[]' WHERE number = 6",
        "UPDATE audit_events SET at = at + 1 WHERE number = 2",
        "DELETE FROM audit_events WHERE number = 3",
        "DELETE FROM audit_events WHERE number = 6",
        "DELETE FROM audit_events WHERE number = 1",
        "UPDATE audit_events SET number = 99 WHERE number = 6",
        "UPDATE audit_seals SET number = 5 WHERE name = 'head'",
        "DELETE FROM audit_seals",
    ],
)
def test_change_behind_the_catalogs_back_is_found(admin, keys, statement):
    """RELIABILITY: tampering shows, at the first event that was touched."""
    append(admin, keys, 5)
    admin.verify_audit()
    run(admin, statement)
    with pytest.raises(AuditBrokenError):
        admin.verify_audit()


def test_log_that_someone_shortened_and_rehashed_is_found_and_not_continued(admin, keys):
    """The head's seal needs a key that is not in the database."""
    append(admin, keys, 5)
    run(admin, "DELETE FROM audit_events WHERE number > 3")
    run(
        admin,
        "UPDATE audit_seals SET number = 3, hash = (SELECT hash FROM audit_events WHERE number = 3) "
        "WHERE name = 'head'",
    )
    with pytest.raises(AuditBrokenError, match="seal"):
        admin.verify_audit()
    with pytest.raises(AuditBrokenError, match="seal"):
        admin.create_share("s")


def test_retention_leaves_an_anchor_that_the_rest_is_verified_from(admin, keys):
    append(admin, keys, 10)
    run(admin, "UPDATE audit_events SET at = at")
    with admin.database.write() as connection:
        audit_log.append(connection, keys, [Event(action="late", actor="a")])
    # Event 1 is of today, so removal goes by number up to the first event that is kept.
    assert admin.remove_audit_before(now_ms() - 1_000_000) == 0
    assert admin.remove_audit_before(now_ms() + 1_000_000) == 13
    found = admin.verify_audit()
    assert (found.events, found.anchored) == (1, True)
    append(admin, keys, 3)
    assert admin.verify_audit().events == 4
    run(admin, "UPDATE audit_seals SET number = number - 1 WHERE name = 'anchor'")
    with pytest.raises(AuditBrokenError):
        admin.verify_audit()


def test_log_outlives_the_rotation_of_keys(admin, keys):
    append(admin, keys, 2)
    old = keys.current_id
    key_ring.rotate(keys.path, now=2)
    rotated = key_ring.KeyRing(keys.path)
    with admin.read() as connection:
        assert audit_log.verify(connection, rotated).events == 3
    with admin.database.write() as connection:
        audit_log.append(connection, rotated, [Event(action="x", actor="a")])
        assert audit_log.sealing_key_ids(connection) == {rotated.current_id}
    key_ring.drop(keys.path, old)
    with admin.read() as connection:
        assert audit_log.verify(connection, key_ring.KeyRing(keys.path)).events == 4


def test_log_sealed_with_a_lost_key_says_which(admin, keys, tmp_path):
    stranger = key_ring.create_key_file(tmp_path / "other", now=1)
    with admin.read() as connection, pytest.raises(AuditBrokenError, match=keys.current_id):
        audit_log.verify(connection, stranger)
    with admin.database.write() as connection:
        audit_log.reseal(connection, stranger)
        assert audit_log.verify(connection, stranger).events == 1


def test_text_that_would_break_a_line_stays_in_its_event(admin, keys):
    """RELIABILITY G5."""
    with admin.database.write() as connection:
        audit_log.append(
            connection, keys, [Event(action="x", actor="a\r\n\x1b[31m", details={"k": "\u2028\n"})]
        )
    assert events(admin)[-1].actor == "a\r\n\x1b[31m"
    admin.verify_audit()
