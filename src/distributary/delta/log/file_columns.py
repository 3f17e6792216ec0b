"""File actions between structs and flat Arrow columns.

The column names are the leaves of an action in the log (`path`, `deletionVector.offset`),
the same as in a checkpoint, so that rows from commits and from checkpoints line up.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.log.actions import Add, Remove
from distributary.delta.log.checkpoint_footer import FILE_LEAVES, STRING_MAP, Leaf
from distributary.delta.log.checkpoint_rows import ParquetRows

_ADD_ATTRIBUTES: dict[Leaf, str] = {
    ("path",): "path",
    ("size",): "size",
    ("modificationTime",): "modification_time",
    ("dataChange",): "data_change",
    ("stats",): "stats",
    ("baseRowId",): "base_row_id",
    ("defaultRowCommitVersion",): "default_row_commit_version",
    ("clusteringProvider",): "clustering_provider",
}
_VECTOR_ATTRIBUTES: dict[Leaf, str] = {
    ("deletionVector", "storageType"): "storage_type",
    ("deletionVector", "pathOrInlineDv"): "path_or_inline_dv",
    ("deletionVector", "offset"): "offset",
    ("deletionVector", "sizeInBytes"): "size_in_bytes",
    ("deletionVector", "cardinality"): "cardinality",
}


def adds_to_table(adds: Sequence[Add]) -> pa.Table:
    """The adds as flat columns, one row each."""
    columns: dict[str, pa.Array] = {}
    for leaf, attribute in _ADD_ATTRIBUTES.items():
        columns[".".join(leaf)] = pa.array(map(attrgetter(attribute), adds), FILE_LEAVES[leaf])
    vectors = [add.deletion_vector for add in adds]
    for leaf, attribute in _VECTOR_ATTRIBUTES.items():
        values = [None if vector is None else getattr(vector, attribute) for vector in vectors]
        columns[".".join(leaf)] = pa.array(values, FILE_LEAVES[leaf])
    columns["partitionValues"] = _string_maps([add.partition_values or {} for add in adds])
    columns["tags"] = _string_maps([add.tags for add in adds])
    return pa.table(columns)


def _string_maps(maps: Sequence[dict[str, str | None] | None]) -> pa.Array:
    return pa.array([None if found is None else list(found.items()) for found in maps], STRING_MAP)


def map_values(maps: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    """The value that each map has for a key, null where it has none."""
    chunks = [_map_values(chunk, key) for chunk in maps.chunks]
    return pa.chunked_array(chunks, pa.string())


def _map_values(maps: pa.Array, key: str) -> pa.Array:
    aligned = _aligned_values(maps, key)
    return pc.map_lookup(maps, key, "first") if aligned is None else aligned


def _aligned_values(maps: pa.Array, key: str) -> pa.Array | None:
    """The values where every map has the same number of entries in the same order, else `None`.

    Writers put the partition columns in one order, so this is the usual case; it is far
    quicker than looking into each map.
    """
    rows = len(maps)
    if rows == 0 or maps.null_count:
        return None
    first, last = maps.offsets[0].as_py(), maps.offsets[rows].as_py()
    width, rest = divmod(last - first, rows)
    if rest or width == 0 or not _evenly_spaced(maps.offsets, width):
        return None
    keys, items = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    for position in range(width):
        if keys[position].as_py() != key:
            continue
        if width == 1:
            same, values = keys, items
        else:
            at = pa.array(range(position, last - first, width), pa.int64())
            same, values = keys.take(at), items.take(at)
        return values if pc.all(pc.equal(same, key)).as_py() else None
    return None


def _evenly_spaced(offsets: pa.Array, width: int) -> bool:
    positions: Any = offsets.to_numpy(zero_copy_only=False)
    return bool((positions[1:] - positions[:-1] == width).all())


def removes_of(rows: ParquetRows) -> list[Remove]:
    """The tombstones of a checkpoint file as structs."""
    present = rows.present("remove")
    leaves = [leaf for leaf in FILE_LEAVES if rows.has("remove", leaf)]
    columns: dict[Leaf, list[Any]] = {
        leaf: rows.column("remove", leaf, present, keep=False).to_pylist(maps_as_pydicts="strict")
        for leaf in leaves
    }
    return [
        _remove({leaf: values[at] for leaf, values in columns.items()})
        for at in range(len(columns.get(("path",), ())))
    ]


def _remove(fields: dict[Leaf, Any]) -> Remove:
    vector = None
    if fields.get(("deletionVector", "storageType")) is not None:
        values: dict[str, Any] = {name: fields.get(leaf) for leaf, name in _VECTOR_ATTRIBUTES.items()}
        vector = DeletionVectorDescriptor(**values)
    return Remove(
        path=fields["path",],
        data_change=bool(fields.get(("dataChange",))),
        deletion_timestamp=fields.get(("deletionTimestamp",)),
        extended_file_metadata=fields.get(("extendedFileMetadata",)),
        partition_values=fields.get(("partitionValues",)),
        size=fields.get(("size",)),
        tags=fields.get(("tags",)),
        deletion_vector=vector,
        base_row_id=fields.get(("baseRowId",)),
        default_row_commit_version=fields.get(("defaultRowCommitVersion",)),
    )
