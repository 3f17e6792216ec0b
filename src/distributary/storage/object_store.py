"""Open a table root: local disk, memory, S3, Azure or GCS, by its URI or path.

``open_store`` is the one way in. What the stores can do is said by ``ObjectStore`` (base_store), how a
root may be written by ``Location``, and which options a cloud takes by ``storage_options``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distributary.errors import InvalidInputError
from distributary.storage.base_store import ObjectMeta, ObjectStore
from distributary.storage.local_disk import LocalDisk
from distributary.storage.location import parse_root
from distributary.storage.memory import Memory

__all__ = ["ObjectMeta", "ObjectStore", "open_store"]

_CLOUDS = ("s3", "abfss", "az", "gs")


def open_store(
    uri_or_path: str,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> ObjectStore:
    """The store of a table root; nothing is read or written yet.

    ``allowed_roots`` are further roots that paths of the log may lead to (shallow clones).
    """
    location = parse_root(uri_or_path)
    if location.scheme == "file":
        return LocalDisk(location, allowed_roots)
    if location.scheme == "memory":
        return Memory(location, allowed_roots)
    raise InvalidInputError(f"No store for {location.scheme}:// URIs")
