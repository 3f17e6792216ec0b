"""A2: a disk that forgets, as a power loss makes it forget.

`Recorder` stands in for the `os` and `open` of `local_disk` and writes down what the store does to the
disk, while doing it. `states` then gives what the disk may hold after a power loss at any moment:

- the bytes of a file are durable when it was fsynced; of later writes any 512-byte sectors may be there,
  with or without the new size (the rest reads as zeros);
- a name (create, link, rename, unlink, mkdir) is durable when its directory was fsynced; of later
  changes any subset may be there, in whatever order the disk liked;
- what is in a directory is gone when the name of the directory is.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

SECTOR = 512
_MOST_EXHAUSTIVE = 5


class Op(NamedTuple):
    """One thing that happened: to which directory and name, to which file, and with which bytes."""

    kind: str
    directory: str = ""
    name: str = ""
    file: int = -1
    offset: int = 0
    data: bytes = b""
    target: str = ""


class Turns:
    """Lets threads run one at a time, from one recorded step to the next, in an order by chance."""

    def __init__(self, threads: int, seed: int) -> None:
        self._luck = random.Random(seed)
        self._alive = threads
        self._waiting: set[int] = set()
        self._next: int | None = None
        self._changed = threading.Condition()

    def step(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._waiting.add(me)
            self._choose()
            self._changed.wait_for(lambda: self._next == me)
            self._waiting.discard(me)
            self._next = None

    def done(self) -> None:
        with self._changed:
            self._alive -= 1
            self._choose()

    def _choose(self) -> None:
        if self._waiting and self._next is None and len(self._waiting) == self._alive:
            self._next = self._luck.choice(sorted(self._waiting))
            self._changed.notify_all()


class Stall:
    """Stops the first thread to come at one of its steps, until the other one is done."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._steps = 0
        self._slow: int | None = None
        self._other_is_done = threading.Event()
        self._stalled = threading.Event()

    def step(self) -> None:
        me = threading.get_ident()
        if self._slow is None:
            self._slow = me
        if me != self._slow:
            self._stalled.wait(60)
            return
        self._steps += 1
        if self._steps == self._at:
            self._stalled.set()
            self._other_is_done.wait(60)

    def done(self) -> None:
        if threading.get_ident() == self._slow:
            self._stalled.set()
        else:
            self._other_is_done.set()


class Recorder:
    """The module `os` for a store below one directory, which writes down every change."""

    def __init__(self, root: Path, turns: Turns | Stall | None = None) -> None:
        self.root = str(root)
        self.ops: list[Op] = []
        self._turns = turns
        self._lock = threading.RLock()
        self._files: dict[str, int] = {}
        self._descriptors: dict[int, str] = {}
        self._numbers = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def acknowledge(self, version: int, label: str) -> None:
        self._record(Op("ack", name=label, file=version))

    def open(self, path: Any, flags: Any, *rest: Any, **more: Any) -> Any:
        """Both `os.open` and the built-in: a text mode makes a file to write."""
        if isinstance(flags, str):
            return _RecordedFile(self, path, flags)
        descriptor = os.open(path, flags, *rest, **more)
        self._descriptors[descriptor] = str(path)
        return descriptor

    def fsync(self, descriptor: int) -> None:
        path = self._descriptors[descriptor]
        self._step()
        with self._lock:
            os.fsync(descriptor)
            if os.path.isdir(path):
                self._record(Op("sync directory", path))
            else:
                self._record(Op("sync", file=self._files[path]))

    def link(self, source: str, target: str) -> None:
        self._step()
        with self._lock:
            os.link(source, target)
            self._files[target] = self._files[source]
            self._record(Op("link", *_split(target), file=self._files[target]))

    def replace(self, source: str, target: str) -> None:
        self._step()
        with self._lock:
            os.replace(source, target)
            self._files[target] = self._files.pop(source)
            directory, name = _split(source)
            self._record(Op("rename", directory, name, self._files[target], target=_split(target)[1]))

    def unlink(self, path: str) -> None:
        self._step()
        with self._lock:
            os.unlink(path)
            self._files.pop(path, None)
            self._record(Op("unlink", *_split(path)))

    def mkdir(self, path: str) -> None:
        self._step()
        with self._lock:
            os.mkdir(path)
            self._record(Op("mkdir", *_split(path)))

    def created(self, path: str, descriptor: int) -> None:
        self._step()
        with self._lock:
            self._files[path] = next(self._numbers)
            self._descriptors[descriptor] = path
            self._record(Op("create", *_split(path), file=self._files[path]))

    def written(self, path: str, offset: int, data: bytes) -> None:
        with self._lock:
            self._record(Op("write", file=self._files[path], offset=offset, data=data))

    def _record(self, op: Op) -> None:
        with self._lock:
            self.ops.append(op)

    def _step(self) -> None:
        if self._turns is not None:
            self._turns.step()


class _RecordedFile:
    """A file that is written, write by write."""

    def __init__(self, recorder: Recorder, path: str, mode: str) -> None:
        self._file = open(path, mode, buffering=0)  # noqa: SIM115
        self._recorder, self._path = recorder, path
        recorder.created(path, self._file.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        content = bytes(data)
        offset = self._file.tell()
        self._file.write(content)
        self._recorder.written(self._path, offset, content)
        return len(content)

    def __enter__(self) -> _RecordedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def _split(path: str) -> tuple[str, str]:
    return os.path.dirname(path), os.path.basename(path)


class State(NamedTuple):
    """What the disk may hold after a crash, and what writers had been told by then."""

    files: dict[str, bytes]
    directories: frozenset[str]
    acknowledged: tuple[tuple[int, str], ...]

    def write_to(self, old: str, new: Path) -> None:
        """Make the state real, with one root in place of the recorded one."""
        for directory in sorted(self.directories):
            (new / os.path.relpath(directory, old)).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (new / os.path.relpath(path, old)).write_bytes(content)


class _Disk:
    """What is durable and what is pending after some operations."""

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.writes: dict[int, list[Op]] = {}
        self.names: dict[str, dict[str, int]] = {}
        self.pending: dict[str, list[Op]] = {}
        self.acknowledged: list[tuple[int, str]] = []

    def apply(self, op: Op) -> None:
        if op.kind == "ack":
            self.acknowledged.append((op.file, op.name))
        elif op.kind == "write":
            self.writes.setdefault(op.file, []).append(op)
        elif op.kind == "sync":
            self.content[op.file] = _whole(self.content.get(op.file, b""), self.writes.pop(op.file, []))
        elif op.kind == "sync directory":
            names = self.names.setdefault(op.directory, {})
            _renamed(names, self.pending.pop(op.directory, []))
        else:
            self.pending.setdefault(op.directory, []).append(op)

    def choices(self) -> int:
        """How many things may or may not have reached the disk."""
        return sum(map(len, self.pending.values())) + sum(map(len, self.writes.values()))

    def state(self, root: str, kept: Sequence[bool], luck: random.Random) -> State:
        chosen = iter(kept)
        names = {directory: dict(entries) for directory, entries in self.names.items()}
        for directory, ops in self.pending.items():
            _renamed(names.setdefault(directory, {}), [op for op in ops if next(chosen)])
        content = dict(self.content)
        for file, ops in self.writes.items():
            content[file] = _torn(content.get(file, b""), [(op, next(chosen)) for op in ops], luck)
        files: dict[str, bytes] = {}
        directories: set[str] = set()
        _walk(root, names, content, files, directories)
        return State(files, frozenset(directories), tuple(self.acknowledged))


_DIRECTORY = -2


def _renamed(names: dict[str, int], ops: Sequence[Op]) -> None:
    for op in ops:
        if op.kind in ("create", "link"):
            names[op.name] = op.file
        elif op.kind == "mkdir":
            names[op.name] = _DIRECTORY
        elif op.kind == "unlink":
            names.pop(op.name, None)
        elif op.kind == "rename":
            names.pop(op.name, None)
            names[op.target] = op.file


def _whole(before: bytes, writes: Sequence[Op]) -> bytes:
    content = bytearray(before)
    for op in writes:
        content[op.offset : op.offset + len(op.data)] = op.data
    return bytes(content)


def _torn(before: bytes, writes: Sequence[tuple[Op, bool]], luck: random.Random) -> bytes:
    """The file with whole writes, or sectors of writes, lost; its size may have grown all the same."""
    content = bytearray(before)
    for op, kept in writes:
        if kept:
            content = bytearray(_whole(bytes(content), [op]))
            continue
        if luck.random() < 0.5:
            continue
        end = op.offset + len(op.data)
        content.extend(bytes(max(0, end - len(content))))
        for start in range(0, len(op.data), SECTOR):
            if luck.random() < 0.5:
                sector = op.data[start : start + SECTOR]
                content[op.offset + start : op.offset + start + len(sector)] = sector
    return bytes(content)


def _walk(
    directory: str,
    names: dict[str, dict[str, int]],
    content: dict[int, bytes],
    files: dict[str, bytes],
    directories: set[str],
) -> None:
    directories.add(directory)
    for name, file in names.get(directory, {}).items():
        path = f"{directory}/{name}"
        if file == _DIRECTORY:
            _walk(path, names, content, files, directories)
        else:
            files[path] = content.get(file, b"")


def states(ops: Sequence[Op], root: str, sample: int, seed: int = 0) -> Iterator[State]:
    """Every prefix, with nothing pending kept, everything, and subsets (all of them where they are few)."""
    luck = random.Random(seed)
    disk = _Disk()
    for op in (None, *ops):
        if op is not None:
            disk.apply(op)
        bits = disk.choices()
        if bits <= _MOST_EXHAUSTIVE:
            subsets: list[tuple[bool, ...]] = list(itertools.product((False, True), repeat=bits))
        else:
            subsets = [(False,) * bits, (True,) * bits]
            subsets += [tuple(luck.random() < 0.5 for _ in range(bits)) for _ in range(sample)]
        for kept in subsets:
            yield disk.state(root, kept, luck)
