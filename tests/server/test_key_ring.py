"""The key ring: a file for its owner alone, rotation in one or two steps, and servers that notice."""

from __future__ import annotations

import stat

import pytest

from distributary.server import key_ring
from distributary.server.key_ring import KeyFileError, KeyRing, create_key_file


@pytest.fixture
def path(tmp_path):
    create_key_file(tmp_path / "keys", now=1)
    return tmp_path / "keys"


@pytest.fixture
def notices_at_once(monkeypatch):
    monkeypatch.setattr(key_ring, "NOTICE_SECONDS", 0)


def test_key_file_is_for_its_owner_and_never_replaced(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="never replaced"):
        create_key_file(path, now=2)
    assert path.read_bytes() == before
    secret = KeyRing(path).secret(KeyRing(path).current_id)
    assert secret is not None
    assert len(secret) == 32


def test_key_file_that_others_can_read_is_refused(path):
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        KeyRing(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"x", b'{"version":1,"current":"a","keys":[]}'])
def test_file_that_is_no_key_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match="restore"):
        KeyRing(path)


def test_old_keys_check_until_they_are_dropped(path, notices_at_once):
    """RELIABILITY F5."""
    ring = KeyRing(path)
    old, secret = ring.current_id, ring.secret(ring.current_id)
    new = key_ring.rotate(path, now=2)
    assert (ring.current_id, ring.secret(old)) == (new.id, secret)
    assert new.id != old
    key_ring.drop(path, old)
    assert ring.secret(old) is None
    for key in (new.id, "unknown"):
        with pytest.raises(KeyFileError):
            key_ring.drop(path, key)


def test_prepared_key_checks_and_becomes_the_current_one(path, notices_at_once):
    ring = KeyRing(path)
    first = ring.current_id
    prepared = key_ring.rotate(path, now=2, prepare=True)
    assert ring.current_id == first
    assert ring.secret(prepared.id) is not None
    assert key_ring.rotate(path, now=3, prepare=True).id == prepared.id
    assert key_ring.rotate(path, now=4).id == prepared.id
    assert ring.current_id == prepared.id
    assert len(ring.keys) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ring_keeps_its_keys_while_the_file_is_away(path, notices_at_once):
    ring = KeyRing(path)
    current = ring.current_id
    path.rename(path.with_name("away"))
    assert ring.current_id == current
    with pytest.raises(KeyFileError, match="distributary init"):
        KeyRing(path)


def test_no_text_of_a_key_shows_its_secret(path):
    """RELIABILITY P7."""
    ring = KeyRing(path)
    for key in ring.keys:
        assert key.secret not in repr(ring) + repr(key) + str(key)
