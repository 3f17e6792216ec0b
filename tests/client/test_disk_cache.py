"""Files kept on disk between reads."""

from __future__ import annotations

import pytest

from distributary.client.disk_cache import DiskCache


def test_a_file_is_downloaded_once(server, connect, tmp_path):
    """CL-008: by id, though each answer has other URLs."""
    for _ in range(2):
        client = connect(server, cache_directory=tmp_path)
        assert client.table("s.c.sales").snapshot().where("id < 55").to_arrow().num_rows == 55
        server.life += 1
    assert len(server.downloads) == 6
    assert len(list(tmp_path.glob("*.bin"))) == 6


def test_a_damaged_file_is_downloaded_again(plain_server, connect, tmp_path):
    connect(plain_server, cache_directory=tmp_path).table("s.c.sales").snapshot().to_arrow()
    for kept in tmp_path.glob("*.bin"):
        kept.write_bytes(kept.read_bytes()[:-1])
    found = connect(plain_server, cache_directory=tmp_path).table("s.c.sales").snapshot().to_arrow()
    assert found.num_rows == 60


def test_what_was_not_used_for_long_makes_room(tmp_path):
    cache = DiskCache(tmp_path, "t", max_bytes=100)
    for number in range(10):
        cache.path(str(number), 30, lambda: [b"x" * 30])
    assert sum(kept.stat().st_size for kept in tmp_path.glob("*.bin")) <= 100


def test_a_download_that_fails_leaves_nothing(tmp_path):
    def failing():
        yield b"x"
        raise OSError("gone")

    cache = DiskCache(tmp_path, "t")
    with pytest.raises(OSError, match="gone"):
        cache.path("a", 5, failing)
    assert not list(tmp_path.iterdir())
