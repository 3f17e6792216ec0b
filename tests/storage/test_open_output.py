"""Large objects, written as a stream: whole or not at all, and never over another one."""

from __future__ import annotations

import pytest

from distributary.errors import ObjectExistsError, StorageError


@pytest.mark.parametrize("size", [0, 100_000, 40 << 20], ids=["empty", "small", "large"])
def test_streamed_object_reads_back_whole(place, size):
    """The large one is beyond what a cloud store holds in memory, so it goes up in parts."""
    store = place.open()
    content = (bytes(range(256)) * (size // 256 + 1))[:size]
    with store.open_output("a/b.bin") as output:
        for start in range(0, size, 1 << 20):
            output.write(content[start : start + (1 << 20)])
    assert store.get("a/b.bin") == content


def test_stream_is_invisible_until_it_ends(place):
    store = place.open()
    with store.open_output("d/a.bin") as output:
        output.write(b"half")
        assert [meta.path for meta in store.list_from("d", "a")] == []
    assert store.get("d/a.bin") == b"half"


def test_error_while_writing_leaves_nothing(place):
    store = place.open()

    def write_half() -> None:
        with store.open_output("d/a.bin") as output:
            output.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert list(store.list_all()) == []


@pytest.mark.parametrize("size", [3, 40 << 20], ids=["small", "large"])
def test_existing_object_is_not_replaced(place, size):
    store = place.open()
    store.put("a.bin", b"first")
    with pytest.raises(ObjectExistsError), store.open_output("a.bin") as output:
        output.write(bytes(size))
    assert store.get("a.bin") == b"first"


def test_full_disk_is_a_typed_error_and_leaves_nothing(tmp_path, monkeypatch):
    import os

    from distributary.storage import open_store

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with (
        pytest.raises(StorageError, match="No space left"),
        open_store(str(tmp_path)).open_output("a") as out,
    ):
        out.write(b"x")
    assert list(tmp_path.iterdir()) == []
