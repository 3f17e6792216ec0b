"""The names by which Hadoop knows the files of a table.

A path of a log is a percent-encoded reference (see storage.log_paths); Hadoop's ``Path`` takes decoded text
and has its own names for schemes (``s3a`` for ``s3``). Only files inside the table's root and the roots
that the store allows are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from distributary.storage.location import Location, parse_root
from distributary.storage.log_paths import canonical_paths, resolve_canonical, resolve_path
from distributary.storage.object_store import ObjectStore

_HADOOP_SCHEMES: Final[Mapping[str, str]] = {"s3": "s3a"}
# What a plain key below the root never has: an absolute URI, or a character that no path may have.
_NEEDS_CARE = r"://|[\\\x00]"


def hadoop_uri(root: str) -> str:
    """The path text, decoded, by which Hadoop knows a root or a URI."""
    return _hadoop_text(parse_root(root))


def hadoop_path(store: ObjectStore, log_path: str) -> str:
    """The path text of the file that a path of the log names."""
    where, key = resolve_path(store, log_path)
    return f"{_hadoop_text(where.location)}/{key}"


def index_paths(store: ObjectStore, log_paths: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The files of log paths as the file index takes them.

    Keys below the store's root, or whole path texts after a slash, which no key starts with.
    """
    canonical = canonical_paths(store.root, log_paths)
    if isinstance(canonical, pa.ChunkedArray):
        canonical = canonical.combine_chunks()
    careful = pc.match_substring_regex(canonical, _NEEDS_CARE)
    if not careful.true_count:
        return canonical
    named = [_named(store, text) for text in canonical.filter(careful).to_pylist()]
    return pc.replace_with_mask(canonical, careful, pa.array(named, pa.string()))


def _named(store: ObjectStore, canonical: str) -> str:
    where, key = resolve_canonical(store, canonical)
    return key if where is store else f"/{_hadoop_text(where.location)}/{key}"


def _hadoop_text(location: Location) -> str:
    scheme = _HADOOP_SCHEMES.get(location.scheme, location.scheme)
    authority = f"//{location.authority}" if location.authority else ""
    return f"{scheme}:{authority}/{location.path}".rstrip("/")
