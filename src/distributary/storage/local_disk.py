"""Tables on the local disk, through the operating system's own calls.

Keys are file names exactly as the disk has them. A file is created exactly once by writing a temporary
file, fsync, and ``link`` to the final name (DESIGN, Commit); where a file system has no hard links,
``renameat2(RENAME_NOREPLACE)``; where it has neither, the write is refused. Temporary files start with
a dot, so that no reader takes them for data. A directory is durable before anything in it is
acknowledged, no matter which process made it.

Symbolic links that lead out of the root and its allowed roots are refused. The check looks at the file
that was really opened (on Linux by its descriptor), so that nothing can be swapped in between.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

import pyarrow as pa

from distributary.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    PathOutsideTableError,
    StorageError,
    UnsafeStorageError,
)
from distributary.storage.base_store import ObjectMeta, ObjectStore, Reopen, checked_key
from distributary.storage.location import Location, parse_root

_DESCRIPTORS = "/proc/self/fd"
_HAS_DESCRIPTORS = os.path.isdir(_DESCRIPTORS)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100


class LocalDisk(ObjectStore):
    """The files below one directory."""

    def __init__(self, location: Location, allowed_roots: Sequence[str], reopen: Reopen) -> None:
        super().__init__(location, allowed_roots, reopen)
        self._directory = "/" + location.path
        self._permitted = self._real_roots()
        self._durable: set[str] = set()
        self._settled: str | None = None

    def get(self, path: str) -> bytes:
        descriptor = self._opened(path)
        try:
            return _read_all(descriptor)
        except OSError as error:
            self._fail(error, path)
        finally:
            _close(descriptor)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.get_ranges(path, [(offset, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        descriptor = self._opened(path)
        try:
            return [_read_range(descriptor, offset, length) for offset, length in ranges]
        except OSError as error:
            self._fail(error, path)
        finally:
            _close(descriptor)

    def head(self, path: str) -> ObjectMeta:
        descriptor = self._opened(path)
        try:
            return _meta(path, os.fstat(descriptor))
        except OSError as error:
            self._fail(error, path)
        finally:
            _close(descriptor)

    def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        for entry in self._entries(directory, name_after):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._fail(error, prefix + entry.name)
            if stat.S_ISREG(status.st_mode):
                yield _meta(prefix + entry.name, status)

    def list_all(self, directory: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        for entry in self._entries(directory):
            if entry.is_dir(follow_symlinks=False):
                yield from self.list_all(prefix + entry.name)
            elif entry.is_file():
                try:
                    yield _meta(prefix + entry.name, entry.stat())
                except FileNotFoundError:
                    continue

    def list_directories(self, directory: str = "") -> list[str]:
        prefix = f"{directory}/" if directory else ""
        return [prefix + entry.name for entry in self._entries(directory) if entry.is_dir()]

    def open_file(self, path: str, size: int | None = None) -> pa.NativeFile:
        del size
        descriptor = self._opened(path)
        try:
            if _HAS_DESCRIPTORS:
                return _mapped(f"{_DESCRIPTORS}/{descriptor}", descriptor)
            return _mapped(self._full(path), descriptor)
        finally:
            os.close(descriptor)

    def put(self, path: str, data: bytes) -> None:
        final = self._writable(path)
        temporary = self._temporary(final, path, data)
        try:
            os.replace(temporary, final)
            _sync_directory(final)
        except OSError as error:
            _discard(temporary)
            self._fail(error, path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        final = self._writable(path)
        temporary = self._temporary(final, path, data)
        try:
            _create_once(temporary, final)
            _sync_directory(final)
        except OSError as error:
            self._fail(error, path)
        finally:
            _discard(temporary)
        self._settled = path

    def settle(self, path: str) -> None:
        if path == self._settled:
            return
        try:
            _sync_directory(self._full(path))
        except OSError as error:
            self._fail(error, path)
        self._settled = path

    def put_hint(self, path: str, data: bytes) -> None:
        temporary = _temporary_name(self._writable(path))
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            _create_once(temporary, self._full(path))
        except OSError as error:
            self._fail(error, path)
        finally:
            _discard(temporary)

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        final = self._writable(path)
        temporary = _temporary_name(final)
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _create_once(temporary, final)
            _sync_directory(final)
        except OSError as error:
            self._fail(error, path)
        finally:
            _discard(temporary)

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._writable(path, make=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(error, path)

    def local_path(self, path: str) -> Path:
        return Path(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._directory}/{checked_key(path)}"

    def _opened(self, path: str) -> int:
        """A descriptor of the file, after its real place was checked."""
        full = self._full(path)
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self._fail(error, path)
        try:
            self._check_real(_real_path(descriptor, full), path)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ObjectNotFoundError(f"{path} in {self.root} is no file")
        except OSError as error:
            _close(descriptor)
            self._fail(error, path)
        except BaseException:
            _close(descriptor)
            raise
        return descriptor

    def _entries(self, directory: str, name_after: str = "") -> list[os.DirEntry[str]]:
        """The entries of a directory from a name onwards, in name order; none where it is missing."""
        full = self._full(directory) if directory else self._directory
        try:
            with os.scandir(full) as entries:
                found = [entry for entry in entries if entry.name >= name_after]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._fail(error, directory)
        self._check_real(os.path.realpath(full), directory)
        found.sort(key=_name)
        return found

    def _writable(self, path: str, make: bool = True) -> str:
        """The full name of a file to write, its directory made and checked."""
        full = self._full(path)
        directory = os.path.dirname(full)
        self._check_real(os.path.realpath(directory), path)
        if make:
            try:
                self._prepare(directory)
            except OSError as error:
                self._fail(error, path)
        return full

    def _prepare(self, directory: str) -> None:
        """Have a directory that survives a power loss.

        One that is there may have been made by another process a moment ago, so its name is made
        durable before this store first writes into it.
        """
        if directory in self._durable and os.path.isdir(directory):
            return
        _make_directory(directory)
        self._durable.add(directory)

    def _temporary(self, final: str, path: str, data: bytes) -> str:
        """A new file beside the final one that holds the data and is on the disk."""
        temporary = _temporary_name(final)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _discard(temporary)
            self._fail(error, path)
        return temporary

    def _check_real(self, real: str, path: str) -> None:
        """Refuse a real place outside the permitted roots; the root itself may have been re-linked."""
        if real.startswith(self._permitted) or real + "/" in self._permitted:
            return
        self._permitted = self._real_roots()
        if not (real.startswith(self._permitted) or real + "/" in self._permitted):
            raise PathOutsideTableError(
                f"{path} in {self.root} is a symbolic link out of the table. It is not opened. "
                "If you trust its target, allow that root (allowed_roots)."
            )

    def _real_roots(self) -> tuple[str, ...]:
        allowed = [parse_root(root) for root in self.allowed_roots]
        places = [self.location, *(place for place in allowed if place.scheme == "file")]
        return tuple(os.path.realpath("/" + place.path).rstrip("/") + "/" for place in places)

    def _fail(self, error: OSError, path: str) -> NoReturn:
        """Raise the typed error for a failure of the operating system."""
        where = f"{path} in {self.root}" if path else self.root
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise ObjectNotFoundError(f"There is no {where}: check the path") from error
        if isinstance(error, FileExistsError):
            raise ObjectExistsError(f"{where} exists already; it is not overwritten") from error
        if isinstance(error, PermissionError):
            raise AccessDeniedError(
                f"{where} may not be opened ({error.strerror}): check the owner and mode of the file"
            ) from error
        raise StorageError(f"{where}: {error.strerror or error}") from error


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, etag)


def _real_path(descriptor: int, full: str) -> str:
    """The place of an opened file after all links."""
    return os.readlink(f"{_DESCRIPTORS}/{descriptor}") if _HAS_DESCRIPTORS else os.path.realpath(full)


def _mapped(name: str, descriptor: int) -> pa.NativeFile:
    """A memory map of an open file; an empty file cannot be mapped."""
    return pa.memory_map(name) if os.fstat(descriptor).st_size else pa.BufferReader(b"")


def _read_all(descriptor: int) -> bytes:
    return _read_range(descriptor, 0, os.fstat(descriptor).st_size)


def _read_range(descriptor: int, offset: int, length: int) -> bytes:
    """``length`` bytes from ``offset``, or fewer at the end (one pread gives at most 2 GiB)."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    while data and (read := sum(map(len, parts))) < length:
        data = os.pread(descriptor, length - read, offset + read)
        parts.append(data)
    return b"".join(parts)


def _close(descriptor: int) -> None:
    """Close a file that was only read: nothing can be lost with it."""
    with suppress(OSError):
        os.close(descriptor)


def _temporary_name(final: str) -> str:
    return f"{os.path.dirname(final)}/.{uuid.uuid4().hex}.tmp"


def _discard(temporary: str) -> None:
    """Remove a temporary file where that works; clean-up sweeps what is left, by its age."""
    with suppress(OSError):
        os.unlink(temporary)


def _create_once(temporary: str, final: str) -> None:
    """Give a finished file its final name, in one step that only one writer can win."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        # A network file system may repeat a request whose answer was lost: then it is our own link.
        if not os.path.samefile(temporary, final):
            raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _rename_without_replacing(temporary, final)


def _rename_without_replacing(temporary: str, final: str) -> None:
    """``renameat2`` with RENAME_NOREPLACE, where the system and the file system have it."""
    rename = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    )
    if rename is None:
        raise _unsafe(final)
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE) == 0:
        return
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise _unsafe(final)
    raise OSError(number, os.strerror(number), final)


def _unsafe(final: str) -> UnsafeStorageError:
    return UnsafeStorageError(
        f"The file system of {final} has neither hard links nor an exclusive rename, so two writers could "
        "overwrite each other. Keep the table on another file system."
    )


def _make_directory(directory: str) -> None:
    """Make a directory and those above it, each durable before anything is put into it.

    The first one that is there already may be another process's, made a moment ago and not durable yet;
    where this process may not look into the directory above it, it is none that it could have raced for.
    """
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    with suppress(PermissionError):
        _sync_directory(directory)
    for made in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(made)
        _sync_directory(made)


def _sync_directory(final: str) -> None:
    """Make the name itself durable."""
    descriptor = os.open(os.path.dirname(final), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
