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
from distributary.storage.storage_options import CLOUDS, check_options

__all__ = ["ObjectMeta", "ObjectStore", "open_store"]

_SCHEMES = "file, s3, s3a, abfss, abfs, az, gs and memory"


def open_store(
    uri_or_path: str,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> ObjectStore:
    """The store of a table root; nothing is read or written yet.

    ``allowed_roots`` are further roots that paths of the log may lead to (shallow clones).
    """
    location = parse_root(uri_or_path)
    options = dict(storage_options or {})

    def reopen(root: str, allowed: Sequence[str]) -> ObjectStore:
        return open_store(root, options, allowed)

    if location.scheme in CLOUDS:
        # obstore is loaded only where a cloud is asked for: local tables open without its import time.
        from distributary.storage.cloud_clients import open_cloud

        return open_cloud(location, options, allowed_roots, reopen)
    check_options(options)
    if location.scheme == "file":
        return LocalDisk(location, allowed_roots, reopen)
    if location.scheme == "memory":
        return Memory(location, allowed_roots, reopen)
    raise InvalidInputError(f"There is no store for {location.scheme}:// URIs: use one of {_SCHEMES}")
