"""A8 and A9: file systems that refuse, fill up or fail, at every system call of a commit."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from rigs import syscall_rig
from rigs.plain_table import append, create, labels_of
from rigs.syscall_rig import ERRORS, TYPED, UNKNOWN, faults_of, run_faults

import distributary.storage.local_disk as local_disk
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import CommitStateUnknownError
from distributary.errors import StorageError, UnsafeStorageError
from distributary.storage.object_store import open_store

needs_strace = pytest.mark.skipif(syscall_rig.missing() is not None, reason=str(syscall_rig.missing()))
CASES = [("create", "EIO"), ("append with checkpoint", "EIO"), *(("append", error) for error in ERRORS)]


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize(("scenario", "error"), CASES)
def test_error_at_every_system_call_is_typed_and_never_acknowledged(
    memory_path: Path, scenario: str, error: str
) -> None:
    """LW-001, A9: exhaustive; acknowledged means there, refused means not there, unknown is said."""
    outcomes = run_faults(memory_path, scenario, error)
    assert [fault for outcome in outcomes for fault in faults_of(outcome, error)] == []
    if error == "EIO":
        assert {TYPED} <= {outcome.code for outcome in outcomes}
    if error == "EIO" and scenario == "append":
        assert {UNKNOWN} <= {outcome.code for outcome in outcomes}


@pytest.mark.parametrize("failing", ["file", "directory"])
def test_fsync_that_fails_once_is_never_retried_and_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A9: after a failed fsync the pages may be gone although a second fsync says yes."""
    store = open_store(str(tmp_path))
    snapshot = append(store, create(store).snapshot, "before").snapshot
    calls: list[int] = []

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}") == (failing == "directory") and not calls:
            calls.append(descriptor)
            raise OSError(errno.EIO, "lost")
        os.fsync(descriptor)

    monkeypatch.setattr(local_disk, "os", _with(fsync=fsync))
    with pytest.raises(StorageError if failing == "file" else CommitStateUnknownError):
        append(store, snapshot, "label")
    monkeypatch.undo()
    there = labels_of(tmp_path / "_delta_log")
    assert sorted(there) == ([0, 1] if failing == "file" else [0, 1, 2])
    assert calls


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS])
def test_file_system_without_hard_links_uses_an_exclusive_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A8, LW-001: renameat2 with RENAME_NOREPLACE creates once, too."""
    monkeypatch.setattr(local_disk, "os", _with(link=_refusal(code)))
    store = open_store(str(tmp_path))
    snapshot = create(store).snapshot
    append(store, snapshot, "one")
    assert append(store, snapshot, "two").version == 2
    assert labels_of(tmp_path / "_delta_log") == {0: [], 1: ["one"], 2: ["two"]}


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_system_with_neither_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A8: two writers could overwrite each other, so nothing is written at all."""
    import ctypes

    class Libc:
        def renameat2(self, *arguments: object) -> int:
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(local_disk, "os", _with(link=_refusal(errno.EPERM)))
    monkeypatch.setattr(local_disk.ctypes, "CDLL", lambda *_, **__: Libc())
    with pytest.raises(UnsafeStorageError, match="neither hard links"):
        create(open_store(str(tmp_path)))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_link_whose_own_answer_was_lost_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: a network file system may repeat a link that was made, and say that it exists."""

    def link(source: str, target: str) -> None:
        os.link(source, target)
        raise FileExistsError(errno.EEXIST, "exists", target)

    store = open_store(str(tmp_path))
    snapshot = create(store).snapshot
    monkeypatch.setattr(local_disk, "os", _with(link=link))
    assert append(store, snapshot, "label").version == 1
    assert labels_of(tmp_path / "_delta_log") == {0: [], 1: ["label"]}


def test_commit_that_cannot_be_looked_at_afterwards_is_still_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what landed is not denied because of a later failure, be it the snapshot or care for the log."""
    store = open_store(str(tmp_path))
    snapshot = create(store).snapshot

    look = type(store).head

    def fail(*_: object, **__: object) -> None:
        raise StorageError("no")

    def fail_for_the_new_entry(self: Any, path: str) -> Any:
        return fail() if path.endswith("1.json") else look(self, path)

    monkeypatch.setattr(type(store), "head", fail_for_the_new_entry)
    monkeypatch.setattr("distributary.delta.commit.post_commit.write_checksum", fail)
    result = append(store, snapshot, "label")
    monkeypatch.undo()
    assert result.version == 1
    assert commit(store, result.snapshot, _addition("next")).version == 2


def _addition(label: str):
    from rigs.plain_table import addition

    return addition(label)


def _refusal(code: int):
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


def _with(**replaced: object) -> object:
    class Replaced:
        def __getattr__(self, name: str) -> object:
            return replaced[name] if name in replaced else getattr(os, name)

    return Replaced()
