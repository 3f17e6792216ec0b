"""The files of a local copy: what each is called, and how those that are missing are fetched.

A file keeps its bytes and gets a name made of its id, so the same shared file always has the same place: what
an interrupted run has fetched is found by the next one, and a file that only got a new deletion vector is not
fetched again. A file appears under its name when all its bytes are there and on disk. Sizes are checked
against what the server says, deletion vectors by their checksum and their number of rows.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from distributary.client.errors import FileDownloadError
from distributary.client.file_download import FileSource
from distributary.delta.deletion_vectors import (
    DeletionVectorDescriptor,
    dv_file_path,
    read_deletion_vector,
    z85_encode,
)
from distributary.delta.errors import CorruptDeletionVectorError
from distributary.delta.log.actions import Add
from distributary.errors import ObjectExistsError, ObjectNotFoundError
from distributary.storage.object_store import ObjectStore

AT_ONCE: Final = 8

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_VECTORS: Final = uuid.UUID("6f0f2ac5-4d4f-5f8e-9d0b-3a1a7a0c9a51")

Received = Callable[[int], None]
"""Called with every number of bytes that came."""


def data_path(file_id: str) -> str:
    """Where the data file with an id lies in a copy."""
    name = file_id if _PLAIN_ID.fullmatch(file_id) else hashlib.sha256(file_id.encode()).hexdigest()
    return f"part-{name}.parquet"


def local_add(add: Add) -> Add:
    """An add of an answer, whose path is a file's id, as the log of a copy has it."""
    vector = add.deletion_vector
    return msgspec.structs.replace(
        add, path=data_path(add.path), deletion_vector=None if vector is None else _local_vector(vector)
    )


def _local_vector(vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
    """A vector in a file of its own name beside the data; inline ones stay as they are."""
    if vector.storage_type == "i":
        return vector
    name = uuid.uuid5(_VECTORS, vector.path_or_inline_dv)
    return msgspec.structs.replace(vector, storage_type="u", path_or_inline_dv=z85_encode(name.bytes))


class FileCopier:
    """Fetches files of one answer into a copy."""

    def __init__(self, store: ObjectStore, source: FileSource) -> None:
        self._store = store
        self._source = source

    def fetch(self, adds: Sequence[Add], received: Received) -> int:
        """Fetch the files of adds, as an answer has them, that the copy lacks; gives the bytes that came."""
        data = {add.path: add.size for add in adds}
        vectors = {key: add for add in adds if (key := vector_key(add)) is not None}
        count = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                wanted = [(key, data_path(key), size) for key, size in data.items()]
                wanted += [(key, _vector_path(add), 0) for key, add in vectors.items()]
                for size in pool.map(lambda file: self._fetch_one(*file), wanted):
                    received(size)
                    count += size
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        for add in adds:
            self._check_vector(add)
        return count

    def _fetch_one(self, key: str, path: str, size: int) -> int:
        try:
            there = self._store.head(path).size
        except ObjectNotFoundError:
            there = None
        if there is not None and (not size or there == size):
            return 0
        if there is not None:
            self._store.delete(path)
        count = 0
        try:
            with self._store.open_output(path) as output:
                for part in self._checked_parts(key, size):
                    output.write(part)
                    count += len(part)
        except ObjectExistsError:
            # Another process copies the same table; the file has the same bytes.
            return 0
        return count

    def _checked_parts(self, key: str, size: int) -> Iterator[bytes]:
        received = 0
        for part in self._source.parts(key, size):
            received += len(part)
            yield part
        if size and received != size:
            raise FileDownloadError(f"file {key} has {received} bytes, and the server said {size}")

    def _check_vector(self, add: Add) -> None:
        vector = local_add(add).deletion_vector
        if vector is None:
            return
        try:
            read_deletion_vector(vector, self._store.get_range)
        except CorruptDeletionVectorError:
            if vector.storage_type == "u":
                # Not what the server described: fetched anew the next time.
                self._store.delete(dv_file_path(vector))
            raise


def vector_key(add: Add) -> str | None:
    """The id of the file that has an add's deletion vector, where it is in a file."""
    vector = add.deletion_vector
    return None if vector is None or vector.storage_type == "i" else vector.path_or_inline_dv


def _vector_path(add: Add) -> str:
    vector = local_add(add).deletion_vector
    assert vector is not None
    return dv_file_path(vector)
