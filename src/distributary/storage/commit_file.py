"""Creating a log entry exactly once, and knowing that it is ours.

A commit is one object that must be created by one writer only. Every store has a way:
a hard link on disks, a conditional put on object stores. What no store has is a reliable
answer: a response can be lost after the object landed, and a client's own retry then sees
"exists already". So each entry carries an id of its writer; whenever the answer is not a
plain yes, the entry is read back and the ids are compared.

Guarantees: `create_commit` returns only when the entry is there and is ours (and, on a
disk, durable). `ObjectExistsError` means that another writer's entry is there. Any other
error means that nothing landed, except `EntryUnconfirmedError`: the outcome is not known.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from contextlib import suppress

from distributary.errors import (
    AccessDeniedError,
    EntryUnconfirmedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
    UnsafeStorageError,
)
from distributary.storage.base_store import ObjectStore

ATTEMPTS = 6
_FIRST_PAUSE = 0.05
# Answers after which nothing can have landed, when they are the first answer.
_REFUSED = (AccessDeniedError, ObjectNotFoundError, UnsafeStorageError)

_probed: set[str] = set()
_probing = threading.Lock()


def create_commit(
    store: ObjectStore, path: str, data: bytes, commit_id: str, *, follows: str | None = None
) -> None:
    """Create a log entry that contains `commit_id`, exactly once.

    The entry that it `follows` is durable before it, so that no power loss leaves a gap.
    """
    check_create_once(store)
    if follows is not None:
        store.settle(follows)
    if not store.is_remote:
        _create_on_disk(store, path, data, commit_id)
    else:
        _create_remotely(store, path, data, commit_id)


def _create_on_disk(store: ObjectStore, path: str, data: bytes, commit_id: str) -> None:
    """A disk answers truly; but a name that could not be made durable must not be acknowledged."""
    try:
        store.put_if_absent(path, data)
    except ObjectExistsError:
        raise
    except StorageError as error:
        if _may_be_ours(store, path, commit_id):
            raise EntryUnconfirmedError(
                f"{path} in {store.root} was written, but the disk failed before it was durable: {error}"
            ) from error
        raise


def _create_remotely(store: ObjectStore, path: str, data: bytes, commit_id: str) -> None:
    pause = _FIRST_PAUSE
    failure: StorageError | None = None
    for attempt in range(ATTEMPTS):
        try:
            store.put_if_absent(path, data)
            return
        except StorageError as error:
            failure = error
        if attempt == 0 and isinstance(failure, _REFUSED):
            raise failure
        try:
            ours = _owner(store, path, commit_id)
        except StorageError:
            ours = None
        if ours is True:
            return
        if ours is False:
            raise ObjectExistsError(f"{path} in {store.root} was written by another writer") from failure
        # Not there (yet): the same entry may be sent again, for only one of them can be created.
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause *= 2
    raise EntryUnconfirmedError(
        f"{store.root} did not confirm {path} in {ATTEMPTS} attempts: {failure}"
    ) from failure


def _may_be_ours(store: ObjectStore, path: str, commit_id: str) -> bool:
    try:
        return _owner(store, path, commit_id) is True
    except StorageError:
        return True


def _owner(store: ObjectStore, path: str, commit_id: str) -> bool | None:
    """Whether the entry is ours; `None` where there is none."""
    try:
        return commit_id.encode() in store.get(path)
    except ObjectNotFoundError:
        return None


def check_create_once(store: ObjectStore) -> None:
    """Refuse a store that overwrites an object which should have been created once.

    Disks and memory are known; a remote store is tried out, once for each bucket and process.
    """
    if not store.is_remote:
        return
    bucket = store.bucket
    with _probing:
        if bucket in _probed:
            return
        _probe(store)
        _probed.add(bucket)


def _probe(store: ObjectStore) -> None:
    """Create an object of a name that nobody else uses, twice: the second time must be refused."""
    path = f"_delta_log/.probe-{uuid.uuid4().hex}.tmp"
    _put_surely(store, path, b"first")
    refused = _put_surely(store, path, b"second")
    with suppress(StorageError):
        store.delete(path)
    if not refused:
        raise UnsafeStorageError(
            f"{store.root} ignores create-once requests (If-None-Match: *), so two writers could overwrite "
            "each other's commits. Keep the table on a store that honours them."
        )


def _put_surely(store: ObjectStore, path: str, data: bytes) -> bool:
    """Send until there is an answer; whether it says that the object exists already."""
    pause = _FIRST_PAUSE
    for attempt in range(ATTEMPTS):
        try:
            store.put_if_absent(path, data)
            return False
        except ObjectExistsError:
            return True
        except (StorageUnreachableError, ThrottledError):
            if attempt == ATTEMPTS - 1:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause *= 2
    raise AssertionError("unreachable: the last attempt returns or raises")
