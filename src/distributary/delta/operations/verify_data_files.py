"""Verifying that the files which a snapshot names are there, and as long as it says.

Existence and sizes come from one listing of the table's root, compared as columns; only files under other
allowed roots are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, dv_file_path
from distributary.delta.errors import CorruptDeletionVectorError, InvalidPartitionValueError
from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.verification_report import TOLD_ONE_BY_ONE, Findings
from distributary.delta.scan.table_scan import partition_column
from distributary.errors import ObjectNotFoundError, PathOutsideTableError
from distributary.storage.log_paths import canonical_paths, resolve_path
from distributary.storage.object_store import ObjectMeta, ObjectStore

_LISTED_AT_ONCE = 65_536
_NOT_OURS = -1
_FRAME = 8


class StoredSizes:
    """The sizes of the objects that log paths name."""

    def __init__(self, store: ObjectStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._paths, self._sizes = _listed(store)

    def of(self, log_paths: pa.ChunkedArray) -> pa.Array:
        """The size of each object: null where there is none, -1 where it may not be looked at."""
        canonical = _combined(canonical_paths(self._store.root, log_paths))
        found = self._sizes.take(pc.index_in(canonical, value_set=self._paths))
        elsewhere = pc.match_substring(canonical, "://")
        if not pc.any(elsewhere).as_py():
            return found
        asked = [self._ask(path) for path in _combined(log_paths).filter(elsewhere).to_pylist()]
        return pc.replace_with_mask(found, elsewhere, pa.array(asked, pa.int64()))

    def _ask(self, log_path: str) -> int | None:
        try:
            store, key = resolve_path(self._store, log_path)
            return store.head(key).size
        except PathOutsideTableError as error:
            self._findings.add("PATH_OUTSIDE_TABLE", log_path, str(error))
            return _NOT_OURS
        except ObjectNotFoundError:
            return None


def _listed(store: ObjectStore) -> tuple[pa.Array, pa.Array]:
    """Key and size of every object below the root, never as one Python list."""
    objects: Iterator[ObjectMeta] = store.list_all()
    paths, sizes = [pa.array([], pa.string())], [pa.array([], pa.int64())]
    while chunk := list(islice(objects, _LISTED_AT_ONCE)):
        paths.append(pa.array([meta.path for meta in chunk], pa.string()))
        sizes.append(pa.array([meta.size for meta in chunk], pa.int64()))
    return pa.concat_arrays(paths), pa.concat_arrays(sizes)


def _combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def check_data_files(store: ObjectStore, snapshot: Snapshot, findings: Findings) -> FileSelection:
    """Find files that are missing or of another size; gives those that can be opened."""
    files = snapshot.files
    findings.checked("data_files", files.num_files)
    stored = StoredSizes(store, findings)
    _check_unique(files, store.root, findings)
    _check_partition_values(snapshot, findings)
    _check_vector_files(files, stored, findings)
    return _check_sizes(files, stored, findings)


def _check_sizes(files: FileSelection, stored: StoredSizes, findings: Findings) -> FileSelection:
    found = stored.of(files.column("path"))
    missing = found.is_null()
    for path in _first_paths(files, missing, "DATA_FILE_MISSING", findings):
        findings.add("DATA_FILE_MISSING", path, "the data file is not there; restore it from a backup")
    present = pc.greater_equal(found.fill_null(_NOT_OURS), 0)
    other = pc.and_(present, pc.not_equal(found.fill_null(_NOT_OURS), _combined(files.column("size"))))
    told = files.filter(_first(other, "DATA_FILE_SIZE", findings))
    actual = stored.of(told.column("path")).to_pylist()
    for path, says, has in zip(
        told.column("path").to_pylist(), told.column("size").to_pylist(), actual, strict=True
    ):
        findings.add("DATA_FILE_SIZE", path, f"the data file has {has:,} bytes, the log says {says:,}")
    return files.filter(present)


def _first_paths(files: FileSelection, mask: pa.BooleanArray, code: str, findings: Findings) -> list[str]:
    return files.filter(_first(mask, code, findings)).column("path").to_pylist()


def _first(mask: pa.BooleanArray, code: str, findings: Findings) -> np.ndarray:
    """The mask with only as many files as are told one by one; the others are counted."""
    chosen = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    findings.add_untold(code, max(len(chosen) - TOLD_ONE_BY_ONE, 0))
    first = np.zeros(len(mask), np.bool_)
    first[chosen[:TOLD_ONE_BY_ONE]] = True
    return first


def _check_unique(files: FileSelection, root: str, findings: Findings) -> None:
    counts = pc.value_counts(_combined(canonical_paths(root, files.column("path"))))
    for repeated in counts.filter(pc.greater(counts.field("counts"), 1)).to_pylist():
        findings.add("DUPLICATE_FILE", repeated["values"], f"the file is active {repeated['counts']} times")


def _check_partition_values(snapshot: Snapshot, findings: Findings) -> None:
    mode = snapshot.mapping_mode
    for name in snapshot.metadata.partitioning:
        try:
            partition_column(snapshot.files, snapshot.schema, name, mode)
        except InvalidPartitionValueError as error:
            findings.add("INVALID_PARTITION_VALUE", name, str(error))


def _check_vector_files(files: FileSelection, stored: StoredSizes, findings: Findings) -> None:
    """Find deletion vector files that are missing or too short for the vectors in them."""
    ends: dict[str, int] = {}
    for vector in files.deletion_vectors():
        if vector is not None:
            findings.checked("deletion_vectors")
            _note_end(vector, ends, findings)
    sizes = stored.of(pa.chunked_array([pa.array(list(ends), pa.string())])).to_pylist()
    for (path, end), size in zip(ends.items(), sizes, strict=True):
        if size is None:
            findings.add("DELETION_VECTOR_MISSING", path, "the deletion vector file is not there")
        elif _NOT_OURS < size < end:
            findings.add(
                "CORRUPT_DELETION_VECTOR", path, f"the file has {size:,} bytes, the log needs {end:,}"
            )


def _note_end(vector: DeletionVectorDescriptor, ends: dict[str, int], findings: Findings) -> None:
    if vector.storage_type == "i":
        return
    try:
        path = dv_file_path(vector)
    except CorruptDeletionVectorError as error:
        findings.add("CORRUPT_DELETION_VECTOR", vector.unique_id[:80], str(error))
        return
    offset = 1 if vector.offset is None else vector.offset
    ends[path] = max(ends.get(path, 0), offset + vector.size_in_bytes + _FRAME)
