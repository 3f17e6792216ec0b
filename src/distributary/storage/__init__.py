"""Object stores: the only place that knows where tables lie."""

from distributary.storage.log_paths import canonical_path, canonical_paths, resolve_canonical, resolve_path
from distributary.storage.object_store import ObjectMeta, ObjectStore, open_store

__all__ = [
    "ObjectMeta",
    "ObjectStore",
    "canonical_path",
    "canonical_paths",
    "open_store",
    "resolve_canonical",
    "resolve_path",
]
