"""Bearer tokens: made once, kept as hashes, ended by time, rotation and revocation."""

from __future__ import annotations

import random
import re

import pytest
from sqlalchemy import inspect, text

from distributary.catalog import bearer_tokens
from distributary.catalog.bearer_tokens import DAY_MS, authenticate, token_hash, verify
from distributary.catalog.database import now_ms
from distributary.catalog.errors import InvalidEntryError, NameTakenError


def soon() -> int:
    return now_ms() + DAY_MS


@pytest.fixture
def acme(admin):
    return admin.create_recipient("acme", properties={"country": "DE"})


def test_token_authenticates_its_recipient_and_no_other_text_does(admin, acme):
    """DM-007, REST-001, REST-008."""
    issued = admin.issue_token("acme", expires_at=soon())
    assert re.fullmatch(r"dst_[0-9a-f]{16}_[0-9a-f]{64}", issued.text)
    assert authenticate(admin.database, issued.text) == acme
    found = verify(admin.database, issued.text)
    assert found is not None
    assert (found.token_id, found.expires_at) == (issued.token.id, issued.token.expires_at)
    for wrong in (
        "",
        "x",
        issued.text[:-1],
        issued.text + "0",
        issued.text.upper(),
        "\ud800",
        "dst_",
        "\x00",
    ):
        assert authenticate(admin.database, wrong) is None


def test_forged_tokens_are_never_accepted(admin, acme):
    """REST-018: RELIABILITY D3, bit flips of a real token and random ones."""
    issued = admin.issue_token("acme", expires_at=soon())
    chance = random.Random(7)
    real = list(issued.text)
    for _ in range(300):
        flipped = real.copy()
        place = chance.randrange(len(flipped))
        flipped[place] = chance.choice([c for c in "0123456789abcdef_-~" if c != flipped[place]])
        assert authenticate(admin.database, "".join(flipped)) is None
    for _ in range(100):
        made_up = f"dst_{issued.token.id}_{chance.randbytes(32).hex()}"
        assert authenticate(admin.database, made_up) is None


def test_expired_and_revoked_tokens_end_at_once(admin, acme):
    """RELIABILITY D1, D2: the end is exclusive to the millisecond."""
    issued = admin.issue_token("acme", expires_at=soon())
    end = issued.token.expires_at
    assert end is not None
    assert authenticate(admin.database, issued.text, now=end - 1) == acme
    assert authenticate(admin.database, issued.text, now=end) is None
    ended = admin.revoke_token(issued.token.id)
    assert authenticate(admin.database, issued.text) is None
    assert admin.revoke_token(issued.token.id).revoked_at == ended.revoked_at


def test_dropped_recipient_takes_its_tokens_along(admin, acme):
    issued = admin.issue_token("acme", expires_at=soon())
    admin.drop_recipient("acme")
    admin.create_recipient("acme")
    assert authenticate(admin.database, issued.text) is None


def test_rotation_shortens_the_old_token_and_never_lengthens_it(admin, acme):
    """RELIABILITY D7."""
    first = admin.issue_token("acme", expires_at=soon())
    second = admin.rotate_token("acme", expires_at=soon(), grace_ms=60_000)
    now = now_ms()
    assert authenticate(admin.database, first.text) == acme
    assert authenticate(admin.database, second.text) == acme
    assert authenticate(admin.database, first.text, now=now + 60_001) is None
    third = admin.rotate_token("acme", expires_at=soon(), grace_ms=100 * DAY_MS)
    assert authenticate(admin.database, first.text) is None
    with admin.read() as connection:
        ends = {token.id: token.expires_at for token in bearer_tokens.tokens_of(connection)}
    assert ends[second.token.id] == second.token.expires_at
    fourth = admin.rotate_token("acme", expires_at=soon(), grace_ms=0)
    assert [authenticate(admin.database, t.text) for t in (first, second, third)] == [None] * 3
    assert authenticate(admin.database, fourth.text) == acme
    with pytest.raises(InvalidEntryError, match="negative"):
        admin.rotate_token("acme", expires_at=soon(), grace_ms=-1)


def test_recipient_has_at_most_two_live_tokens(admin, acme):
    """RELIABILITY 1.8."""
    admin.issue_token("acme", expires_at=soon())
    admin.issue_token("acme", expires_at=soon())
    with pytest.raises(NameTakenError, match="rotate"):
        admin.issue_token("acme", expires_at=soon())
    assert len(admin.revoke_all_tokens("acme")) == 2
    admin.issue_token("acme", expires_at=soon())


def test_life_of_a_token_is_bounded(admin, acme):
    for end in (None, now_ms() + 366 * DAY_MS, now_ms() - 1):
        with pytest.raises(InvalidEntryError):
            admin.issue_token("acme", expires_at=end)


def test_token_of_another_server_is_taken_over(admin, acme):
    """Recipients of a reference server keep their token."""
    admin.take_over_token("acme", "faaie590d541265bcab1f2de9813274bf233")
    assert authenticate(admin.database, "faaie590d541265bcab1f2de9813274bf233") == acme
    assert authenticate(admin.database, "faaie590d541265bcab1f2de9813274bf23") is None
    with pytest.raises(NameTakenError, match="in use"):
        admin.take_over_token("acme", "faaie590d541265bcab1f2de9813274bf233")


def test_database_holds_no_token_and_nothing_shows_one(admin, acme):
    """PF-009: RELIABILITY D8, P7."""
    issued = admin.issue_token("acme", expires_at=soon())
    secret = issued.text.rsplit("_", 1)[1]
    assert secret not in repr(issued) + str(issued) + repr(issued.token)
    with admin.read() as connection:
        for table in inspect(connection).get_table_names():
            rows = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert secret not in repr(rows)
            assert bytes.fromhex(secret) not in [
                bytes(v) for row in rows for v in row if isinstance(v, bytes)
            ]
        stored = connection.execute(text("SELECT secret_hash FROM bearer_tokens")).scalar_one()
    assert bytes(stored) == token_hash(issued.text)
