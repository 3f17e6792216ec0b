"""What only the local disk has: links, modes, temporary files, the exclusive rename."""

from __future__ import annotations

import errno
import os

import pytest

from distributary.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    PathOutsideTableError,
    UnsafeStorageError,
)
from distributary.storage import local_disk, open_store


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


@pytest.fixture
def table(tmp_path):
    folder = tmp_path / "table"
    folder.mkdir()
    return folder


def test_link_out_of_the_table_is_refused(table, outside):
    """RELIABILITY F2: neither a linked file nor a linked directory leads out."""
    (table / "file").symlink_to(outside / "secret")
    (table / "dir").symlink_to(outside)
    store = open_store(str(table))
    for key in ("file", "dir/secret"):
        for action in (store.get, store.head, store.open_file, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(PathOutsideTableError):
                action(key)
    for action in (lambda: list(store.list_from("dir")), lambda: store.put("dir/new", b"")):
        with pytest.raises(PathOutsideTableError):
            action()
    assert os.listdir(outside) == ["secret"]
    assert [meta.path for meta in store.list_all()] == ["file"]


def test_link_to_an_allowed_root_is_followed(table, outside):
    (table / "dir").symlink_to(outside)
    assert open_store(str(table), allowed_roots=[str(outside)]).get("dir/secret") == b"secret"


def test_link_inside_the_table_is_followed(table):
    (table / "a").write_bytes(b"1")
    (table / "b").symlink_to(table / "a")
    assert open_store(str(table)).get("b") == b"1"


def test_root_that_is_a_link_may_be_moved(tmp_path, table):
    (table / "a").write_bytes(b"1")
    current = tmp_path / "current"
    current.symlink_to(table)
    store = open_store(str(current))
    assert store.get("a") == b"1"
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_bytes(b"2")
    current.unlink()
    current.symlink_to(other)
    assert store.get("a") == b"2"


def test_directory_is_no_object(table):
    (table / "d").mkdir()
    store = open_store(str(table))
    with pytest.raises(ObjectNotFoundError):
        store.get("d")
    (table / "f").write_bytes(b"")
    with pytest.raises(ObjectNotFoundError):
        store.get("f/x")


def test_open_pipe_does_not_hang(table):
    os.mkfifo(table / "pipe")
    with pytest.raises(ObjectNotFoundError):
        open_store(str(table)).get("pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_denied(table):
    (table / "f").write_bytes(b"")
    (table / "f").chmod(0)
    with pytest.raises(AccessDeniedError, match="mode"):
        open_store(str(table)).get("f")


def test_writes_leave_no_temporary_files(table):
    store = open_store(str(table))
    store.put("d/a", b"1")
    store.put_if_absent("d/b", b"1")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("d/b", b"2")
    assert sorted(os.listdir(table / "d")) == ["a", "b"]


def test_without_hard_links_the_exclusive_rename_creates_once(table, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    store = open_store(str(table))
    store.put_if_absent("n", b"1")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("n", b"2")
    assert (store.get("n"), os.listdir(table)) == (b"1", ["n"])


def test_without_any_exclusive_create_the_write_is_refused(table, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(local_disk.sys, "platform", "other")
    with pytest.raises(UnsafeStorageError):
        open_store(str(table)).put_if_absent("n", b"1")
    assert os.listdir(table) == []


def test_local_path_is_where_the_file_lies(table):
    store = open_store(str(table))
    store.put("a b/c%20", b"1")
    assert store.local_path("a b/c%20").read_bytes() == b"1"
    assert open_store("memory://m").local_path("x") is None


def test_without_descriptor_names_links_are_checked_too(table, outside, monkeypatch):
    monkeypatch.setattr(local_disk, "_HAS_DESCRIPTORS", False)
    (table / "file").symlink_to(outside / "secret")
    (table / "own").write_bytes(b"1")
    store = open_store(str(table))
    assert store.open_file("own").read() == b"1"
    with pytest.raises(PathOutsideTableError):
        store.get("file")
