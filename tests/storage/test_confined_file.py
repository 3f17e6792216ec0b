"""Files are opened beneath a directory and nowhere else (RELIABILITY F1)."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from distributary.errors import ObjectNotFoundError
from distributary.storage.confined_file import open_confined

SECRET = b"outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with one file, and forbidden things around and inside it."""
    table = tmp_path / "data"
    (table / "day=1").mkdir(parents=True)
    (table / "day=1" / "part.parquet").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "data_evil").mkdir()
    (tmp_path / "data_evil" / "part.parquet").write_bytes(SECRET)
    (table / "link").symlink_to(tmp_path / "secret")
    (table / "folder_link").symlink_to(tmp_path)
    (table / "inner_link").symlink_to("day=1/part.parquet")
    os.mkfifo(table / "pipe")
    return table


def content(root: Path, key: str) -> bytes | None:
    try:
        file = open_confined(str(root), key)
    except ObjectNotFoundError:
        return None
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def test_file_inside_is_read(root):
    assert content(root, "day=1/part.parquet") == b"inside"


def test_root_that_is_itself_a_link_is_followed(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    assert content(tmp_path / "alias", "day=1/part.parquet") == b"inside"


@pytest.mark.parametrize(
    "key",
    [
        "../secret",
        "day=1/../../secret",
        "..",
        ".",
        "",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "day=1//part.parquet",
        "./day=1/part.parquet",
        "..\\secret",
        "day=1\\part.parquet",
        "%2e%2e/secret",
        "%252e%252e/secret",
        "day=1/part.parquet\0",
        "link",
        "folder_link/secret",
        "inner_link",
        "pipe",
        "day=1",
        "day=1/",
        "../data_evil/part.parquet",
        "day=1/part.parquet/x",
        "a" * 5000,
        "file:///etc/passwd",
        "missing",
    ],
)
def test_anything_else_is_not_there(root, key):
    assert content(root, key) is None


def test_device_files_are_refused(tmp_path):
    assert content(Path("/dev"), "null") is None
    assert content(Path("/dev"), "zero") is None


def test_generated_paths_never_leave(root):
    """RELIABILITY F1: ten thousand generated paths, no read outside."""
    pieces = ["..", ".", "", "day=1", "part.parquet", "link", "folder_link", "secret", "etc", "passwd"]
    pieces += ["%2e%2e", "..%2f", "\\..", "..;", "data_evil", "data", "\0", "…", "~", "\u2024\u2024"]
    chooser = random.Random(1)
    for _ in range(10_000):
        key = "/".join(chooser.choice(pieces) for _ in range(chooser.randint(1, 6)))
        assert content(root, key) in (None, b"inside")


def test_swap_of_a_file_for_a_link_while_opening_never_leaves(root, tmp_path):
    target = root / "swapped"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for make in (
                lambda place: place.write_bytes(b"inside"),
                lambda p: p.symlink_to(tmp_path / "secret"),
            ):
                beside = root / "beside"
                beside.unlink(missing_ok=True)
                make(beside)
                beside.replace(target)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = {content(root, "swapped") for _ in range(3000)}
    finally:
        stop.set()
        swapper.join()
    assert seen <= {None, b"inside"}


def test_no_descriptor_stays_open(root):
    before = len(os.listdir("/proc/self/fd"))
    for key in ("day=1/part.parquet", "link", "pipe", "folder_link/secret", "day=1", "missing/x"):
        content(root, key)
    assert len(os.listdir("/proc/self/fd")) == before
