"""The key ring: one file of secret keys, the same on every server of a catalog.

Tickets, page tokens, refresh tokens and the seals of the audit log are authenticated with its current key and
name it; older keys still check what they signed until they are dropped. The file is made by `init` for its
owner alone (0600) and refused when others can read it. A running server notices a new file within a second.

Rotation over several servers goes in two steps: `keys rotate --prepare` adds a key that only checks, the file
is copied to every server, then `keys rotate` makes that key the current one.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from distributary.errors import DistributaryError

SECRET_BYTES: Final = 32
NOTICE_SECONDS: Final = 1.0

_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class KeyFileError(DistributaryError):
    """The key file is missing, cannot be used, or is readable by others."""

    code = "KEY_FILE_ERROR"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One secret key; it is never shown."""

    id: str
    secret: str
    created_at: int

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"

    __str__ = __repr__


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    current: str
    keys: tuple[Key, ...]


class KeyRing:
    """The keys of a file, followed as the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checked_at = time.monotonic()
        self._identity = _identity(path)
        self._file = _read(path)
        self._secrets = _secrets_of(self._file)

    def __repr__(self) -> str:
        return f"KeyRing({str(self.path)!r}, {len(self._secrets)} keys)"

    @property
    def current_id(self) -> str:
        """The id of the key that signs."""
        self._follow()
        return self._file.current

    @property
    def keys(self) -> Sequence[Key]:
        """Every key, oldest first."""
        self._follow()
        return self._file.keys

    def secret(self, key_id: str) -> bytes | None:
        """The secret of a key, None where the ring does not have it."""
        self._follow()
        return self._secrets.get(key_id)

    def _follow(self) -> None:
        """Read the file again when it was replaced; while it cannot be read, the keys known so far stay."""
        now = time.monotonic()
        if now - self._checked_at < NOTICE_SECONDS:
            return
        self._checked_at = now
        try:
            identity = _identity(self.path)
            if identity != self._identity:
                self._file = _read(self.path)
                self._secrets = _secrets_of(self._file)
                self._identity = identity
        except KeyFileError:
            return


def create_key_file(path: Path, *, now: int) -> KeyRing:
    """Make a key file with one key; a file that is there is never replaced."""
    key = new_key(now)
    content = _encoded(_KeyFile(version=1, current=key.id, keys=(key,)))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise KeyFileError(f"there is a key file at {path} already; it is never replaced") from error
    except OSError as error:
        raise KeyFileError(f"the key file {path} cannot be made: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path)
    return KeyRing(path)


def rotate(path: Path, *, now: int, prepare: bool = False) -> Key:
    """Make a new current key, the prepared one if there is one; ``prepare`` only adds a key that checks."""
    file = _read(path)
    prepared = file.keys[-1] if file.keys[-1].id != file.current else None
    if prepare and prepared is not None:
        return prepared
    key = prepared or new_key(now)
    keys = file.keys if prepared else (*file.keys, key)
    _replace(path, msgspec.structs.replace(file, keys=keys, current=file.current if prepare else key.id))
    return key


def drop(path: Path, key_id: str) -> None:
    """Take a key out: whatever it signed is no longer accepted."""
    require_old(KeyRing(path), key_id)
    file = _read(path)
    kept = tuple(key for key in file.keys if key.id != key_id)
    _replace(path, msgspec.structs.replace(file, keys=kept))


def require_old(ring: KeyRing, key_id: str) -> None:
    """Refuse a key that signs, or that the ring does not have."""
    if key_id == ring.current_id:
        raise KeyFileError(f"key {key_id!r} is the current one: rotate first")
    if ring.secret(key_id) is None:
        raise KeyFileError(
            f"the key file {ring.path} has no key {key_id!r}: `distributary keys list` shows the ids"
        )


def new_key(now: int) -> Key:
    """Make a key of 256 random bits."""
    secret = base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    return Key(id=f"k{secrets.token_hex(6)}", secret=secret, created_at=now)


def _read(path: Path) -> _KeyFile:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(1 << 20)
    except OSError as error:
        raise KeyFileError(
            f"the key file {path} cannot be read ({error.strerror}): `distributary init` makes one"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFileError(f"the key file {path} can be read by others: chmod 600 {path}")
    try:
        found = msgspec.json.decode(content, type=_KeyFile)
    except msgspec.DecodeError:
        raise KeyFileError(f"{path} is no key file: restore it from a backup") from None
    return _checked(found, path)


def _checked(file: _KeyFile, path: Path) -> _KeyFile:
    ids = [key.id for key in file.keys]
    if file.version != 1:
        raise KeyFileError(f"{path} was written by a newer release, which must read it too")
    usable = all(len(secret) >= SECRET_BYTES for secret in _secrets_of(file).values())
    if (
        not usable
        or file.current not in ids
        or len(set(ids)) != len(ids)
        or not all(map(_KEY_ID.fullmatch, ids))
    ):
        raise KeyFileError(f"{path} is no key file: restore it from a backup")
    return file


def _secrets_of(file: _KeyFile) -> dict[str, bytes]:
    try:
        return {key.id: base64.b64decode(key.secret, validate=True) for key in file.keys}
    except binascii.Error:
        raise KeyFileError("a key of the key file cannot be read: restore it from a backup") from None


def _encoded(file: _KeyFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def _replace(path: Path, file: _KeyFile) -> None:
    """Put a new file in the old one's place in one step, on disk before it counts."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as new:
            new.write(_encoded(file))
            new.flush()
            os.fsync(new.fileno())
        beside.replace(path)
        _sync_folder(path)
    except OSError as error:
        raise KeyFileError(f"the key file {path} cannot be written: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
