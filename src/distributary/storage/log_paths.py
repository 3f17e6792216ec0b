"""Paths of a Delta log: which object an ``add.path`` or ``remove.path`` names, and whether it may.

A path of a log is a URI reference (LR-029, C-22): percent-decoded once, relative to the table root or
absolute. Two paths are the same file when their canonical forms are equal: the decoded key where the
file lies inside the table root, otherwise its decoded absolute URI. A relative key never contains
``//``, so the two forms cannot be confused.

The guard (RELIABILITY F2): a path is opened only where it lies inside the table root or inside a root
that the caller allowed. ``..`` never counts as inside the table root, however it is escaped; with an
allowed root it may lead there (shallow clones do this). Backslashes and NUL are refused everywhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import PathOutsideTableError
from distributary.storage.location import (
    Location,
    is_absolute_uri,
    parse_root,
    parse_uri,
    percent_decoded,
    tidy,
)

if TYPE_CHECKING:
    from distributary.storage.base_store import ObjectStore

_NEEDS_CARE = r"[%:]|^/|//|(^|/)\.\.?(/|$)|/$"
_SLICE = 8_192  # rows looked at together: their bytes stay in the processor's cache
_DOT, _SLASH = b"./"


def resolve_path(store: ObjectStore, log_path: str) -> tuple[ObjectStore, str]:
    """The store and key of the object that a log path names, refused outside the permitted roots."""
    return _permitted(store, _referenced(_root(store.root), log_path), log_path)


def resolve_canonical(store: ObjectStore, canonical: str) -> tuple[ObjectStore, str]:
    """The store and key of a path in its canonical form (``canonical_path``), which is not decoded again."""
    if "://" not in canonical:
        return _permitted(store, _root(store.root).joined(canonical), canonical)
    scheme, _, rest = canonical.partition("://")
    authority, _, path = rest.partition("/")
    return _permitted(store, Location(scheme, authority, path), canonical)


def canonical_path(root: str, log_path: str) -> str:
    """The form of a log path in which equal files are equal texts; it never fails and opens nothing."""
    if not log_path:
        return ""
    table = _root(root)
    location = _referenced(table, log_path)
    climbed = _without_climbing(location)
    key = table.key_of(climbed or location)
    if key is None:
        return (climbed or location).text
    return location.text if ".." in location.path.split("/") else key


def canonical_paths(root: str, log_paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The canonical form of each path, nulls kept; rows that are canonical already cost next to nothing."""
    chunks = log_paths.chunks if isinstance(log_paths, pa.ChunkedArray) else [log_paths]
    slices = [chunk.slice(start, _SLICE) for chunk in chunks for start in range(0, len(chunk), _SLICE)]
    directories: dict[str, str] = {}
    settled = [_settled(root, part, directories) for part in slices]
    if all(after is before for after, before in zip(settled, slices, strict=True)):
        return log_paths
    if isinstance(log_paths, pa.ChunkedArray):
        return pa.chunked_array(settled, log_paths.type)
    return pa.concat_arrays(settled)


def _settled(root: str, paths: pa.Array, directories: dict[str, str]) -> pa.Array:
    """The canonical forms of a slice: the slice itself where nothing is to be done."""
    if not _may_need_care(paths):
        return paths
    careful = pc.call_function(
        "match_substring_regex", [paths], pc.MatchSubstringOptions(_NEEDS_CARE)
    ).fill_null(False)
    forms = [_canonical_in(root, path, directories) for path in paths.filter(careful).to_pylist()]
    if not forms:
        return paths
    return pc.call_function("replace_with_mask", [paths, careful, pa.array(forms, paths.type)])


def _may_need_care(paths: pa.Array) -> bool:
    """Whether a slice has a byte that a canonical path lacks; may say yes too often, never no wrongly."""
    if paths.type not in (pa.string(), pa.large_string()) or not len(paths):
        return bool(len(paths))
    width = np.int32 if paths.type == pa.string() else np.int64
    offsets = np.frombuffer(paths.buffers()[1], width)[paths.offset : paths.offset + len(paths) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return False
    text = paths.buffers()[2].slice(first, last - first).to_pybytes()
    if b"%" in text or b":" in text:
        return True
    data = np.frombuffer(text, np.uint8)
    slashes = data == _SLASH
    if (slashes[:-1] & (slashes[1:] | (data[1:] == _DOT))).any():
        return True
    ends = data[np.clip(offsets - first, 1, None) - 1]
    starts = data[np.clip(offsets[:-1] - first, None, len(data) - 1)]
    return bool((starts == _SLASH).any() or (starts == _DOT).any() or (ends == _SLASH).any())


def _canonical_in(root: str, path: str, directories: dict[str, str]) -> str:
    """``canonical_path``, with the form of each directory worked out once."""
    directory, slash, name = path.rpartition("/")
    if not slash or not name.strip(".") or "%" in name or "://" in path[-len(name) - 3 :]:
        return canonical_path(root, path)
    form = directories.get(directory)
    if form is None:
        form = directories[directory] = canonical_path(root, f"{directory}/x")[:-1]
    return form + name


@lru_cache(maxsize=256)
def _root(root: str) -> Location:
    return parse_root(root)


def _referenced(table: Location, log_path: str) -> Location:
    """The place that a log path names, seen from the table root; ``..`` is kept."""
    if is_absolute_uri(log_path):
        return parse_uri(log_path)
    decoded = percent_decoded(log_path)
    if decoded.startswith("/"):
        return Location(table.scheme, table.authority, tidy(decoded))
    return table.joined(tidy(decoded))


def _without_climbing(location: Location) -> Location | None:
    """The place after its ``..`` segments are followed, or None where they climb out of the store."""
    segments: list[str] = []
    for segment in location.path.split("/"):
        if segment != "..":
            segments.append(segment)
        elif segments:
            segments.pop()
        else:
            return None
    return Location(location.scheme, location.authority, "/".join(segments))


def _permitted(store: ObjectStore, location: Location, log_path: str) -> tuple[ObjectStore, str]:
    """The store and key for a place, where one of the store's roots permits it."""
    if "\\" in location.path or "\0" in location.path:
        raise _outside(store, log_path)
    climbed = _without_climbing(location)
    key = _root(store.root).key_of(location)
    if key is not None and climbed == location:
        return store, key
    for allowed in store.allowed_roots:
        key = None if climbed is None else _root(allowed).key_of(climbed)
        if key is not None:
            return store.sibling(allowed), key
    raise _outside(store, log_path)


def _outside(store: ObjectStore, log_path: str) -> PathOutsideTableError:
    shown = log_path if len(log_path) <= 200 else log_path[:200] + "…"
    return PathOutsideTableError(
        f"The log of {store.root} names a file outside the table: {shown!r}. It is not opened. "
        "If this table is a clone whose source you trust, allow that root (allowed_roots)."
    )
