"""The `_last_checkpoint` file: a hint where replay may start.

Implements S4 "Last Checkpoint File" with the additions of newer editions. The file is a
hint only (LR-060, LR-061): when it is missing, torn, of a wrong checksum or points nowhere,
readers list the log instead. Nothing is ever believed on its word alone.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast
from urllib.parse import quote

import msgspec

from distributary.delta.log.log_path import LAST_CHECKPOINT, MAX_VERSION
from distributary.errors import AccessDeniedError, ObjectNotFoundError, PathOutsideTableError
from distributary.storage.object_store import ObjectStore


class LastCheckpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the hint says; only `version` is needed to use it."""

    version: int
    size: int | None = None
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None


def read_last_checkpoint(store: ObjectStore) -> LastCheckpoint | None:
    """Read the hint; `None` where there is none that can be used."""
    try:
        return parse_last_checkpoint(store.get(LAST_CHECKPOINT))
    except (ObjectNotFoundError, AccessDeniedError, PathOutsideTableError):
        return None


def parse_last_checkpoint(data: bytes) -> LastCheckpoint | None:
    """Parse the hint's text; `None` where it is torn or its checksum is wrong."""
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
        hint = msgspec.convert(content, LastCheckpoint)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if "checksum" in content and content["checksum"] != hint_checksum(content):
        return None
    return hint if 0 <= hint.version <= MAX_VERSION else None


def hint_checksum(content: dict[str, Any]) -> str:
    """The MD5 of the hint's canonical form (every leaf as `path=value`, sorted)."""
    leaves = _leaves({key: value for key, value in content.items() if key != "checksum"}, ())
    return hashlib.md5(",".join(sorted(leaves)).encode(), usedforsecurity=False).hexdigest()


def _leaves(value: Any, path: tuple[str, ...]) -> list[str]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return [leaf for key, item in members.items() for leaf in _leaves(item, (*path, _quoted(key)))]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [leaf for at, item in enumerate(items) for leaf in _leaves(item, (*path, str(at)))]
    text = _quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return [f"{'+'.join(path)}={text}"]


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
