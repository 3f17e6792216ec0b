"""The file actions of a snapshot as batches of structs, ready for a checkpoint.

A checkpoint holds the reconciled state (CK-003): the active files, and the tombstones that have not
expired (RET-002). Both come batch by batch from the columns of the previous checkpoint and from the
commits since, so that a table of millions of files is copied in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.log.actions import Remove
from distributary.delta.log.active_files import FileBlock, key_of
from distributary.delta.log.checkpoint_footer import FILE_LEAVES, Leaf
from distributary.delta.log.checkpoint_rows import Mask, ParquetRows
from distributary.delta.log.checkpoint_schema import DELETION_VECTOR, REMOVE, CheckpointLayout
from distributary.delta.log.file_columns import map_values
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.schema.partition_values import parse_partition_column
from distributary.delta.statistics.statistics_text import render_statistics
from distributary.storage.log_paths import canonical_paths

BATCH_ROWS = 50_000
"""File actions that are held at a time."""

_STATS_PARSED = "stats_parsed"
_ADD_FIELDS = (*dict.fromkeys(leaf[0] for leaf in FILE_LEAVES), _STATS_PARSED)


def add_batches(snapshot: Snapshot, layout: CheckpointLayout) -> Iterator[pa.StructArray]:
    """The active files of a snapshot as `add` structs; `dataChange` is false (CK-017)."""
    for block in snapshot.files.blocks:
        for actions in _block_batches(block):
            yield _add_structs(actions, layout)


def remove_batches(snapshot: Snapshot, cutoff: int) -> Iterator[pa.StructArray]:
    """The tombstones whose deletion is later than `cutoff` (RET-003, C-16), as `remove` structs."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is not None and any(file.name.endswith(".json") for file in checkpoint.files):
        yield from _slices(_unexpired(snapshot.tombstones(), cutoff))
        return
    for rows in snapshot.files.checkpoint_rows:
        yield from _older_removes(snapshot, rows, cutoff)
    recent = [action for action in snapshot.files.actions.values() if isinstance(action, Remove)]
    yield from _slices(_unexpired(recent, cutoff))


class _FileActions:
    """Some rows of one kind of file action, by their leaves."""

    def __init__(self, structs: pa.StructArray) -> None:
        self._structs = structs
        self.num_rows = len(structs)

    def leaf(self, *leaf: str) -> pa.Array:
        """A leaf in its plain type; null where the source does not have it."""
        expected = FILE_LEAVES[leaf]
        found = self._found(leaf)
        if found is None or pa.types.is_null(found.type):
            return pa.nulls(self.num_rows, expected)
        return found if found.type == expected else found.cast(expected)

    def statistics(self) -> pa.StructArray | None:
        """The typed statistics, where the source has them."""
        found = self._found((_STATS_PARSED,))
        return found if found is not None and pa.types.is_struct(found.type) else None

    def vectors(self) -> pa.StructArray:
        """The deletion vectors, null for files without one."""
        parts = [self.leaf("deletionVector", field.name) for field in DELETION_VECTOR.fields]
        return pa.StructArray.from_arrays(parts, fields=DELETION_VECTOR.fields, mask=pc.is_null(parts[0]))

    def _found(self, leaf: Leaf) -> pa.Array | None:
        kind = self._structs.type
        for name in leaf:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                return None
            kind = kind.field(name).type
        return pc.struct_field(self._structs, list(leaf))


def _block_batches(block: FileBlock) -> Iterator[_FileActions]:
    if isinstance(block.rows, ParquetRows):
        for structs in _selected(block.rows, "add", _ADD_FIELDS, block.selection):
            yield _FileActions(structs)
        return
    for start in range(0, block.num_files, BATCH_ROWS):
        yield _FileActions(_struct_of(block, start))


def _struct_of(block: FileBlock, start: int) -> pa.StructArray:
    """The flat columns of a block in memory as one struct, as a checkpoint has it."""
    plain = [leaf for leaf in FILE_LEAVES if len(leaf) == 1 and block.rows.has("add", leaf)]
    arrays = {leaf[0]: _slice(block.column(leaf), start) for leaf in plain}
    parts = [_slice(block.column(("deletionVector", part.name)), start) for part in DELETION_VECTOR.fields]
    arrays["deletionVector"] = pa.StructArray.from_arrays(parts, fields=DELETION_VECTOR.fields)
    return pa.StructArray.from_arrays(list(arrays.values()), list(arrays))


def _slice(column: pa.ChunkedArray, start: int) -> pa.Array:
    return column.slice(start, BATCH_ROWS).combine_chunks()


def _selected(
    rows: ParquetRows, action: str, fields: Sequence[str], selection: Mask | None
) -> Iterator[pa.StructArray]:
    """The selected rows of an action, batch by batch."""
    start = 0
    for structs in rows.batches(action, fields, BATCH_ROWS):
        keep = None if selection is None else selection[start : start + len(structs)]
        start += len(structs)
        if keep is None or keep.all():
            yield structs
        elif keep.any():
            yield structs.filter(pa.array(keep))


def _add_structs(actions: _FileActions, layout: CheckpointLayout) -> pa.StructArray:
    columns = {
        leaf[0]: actions.leaf(*leaf)
        for leaf in FILE_LEAVES
        if len(leaf) == 1 and leaf[0] not in ("stats", "dataChange")
    }
    columns["deletionVector"] = actions.vectors()
    columns["dataChange"] = pa.repeat(pa.scalar(False), actions.num_rows)
    columns.update(_statistics(actions, layout))
    if layout.partition_columns:
        columns["partitionValues_parsed"] = _partition_values(columns["partitionValues"], layout)
    kind = layout.add_type
    return pa.StructArray.from_arrays([columns[field.name] for field in kind.fields], fields=kind.fields)


def _statistics(actions: _FileActions, layout: CheckpointLayout) -> dict[str, pa.Array]:
    """Statistics in the forms that the layout asks for, each made from the other where it is missing."""
    found: dict[str, pa.Array] = {}
    if not layout.stats_as_json and layout.statistics is None:
        return found
    texts, typed = actions.leaf("stats"), actions.statistics()
    if layout.stats_as_json:
        found["stats"] = texts
        if typed is not None and texts.null_count:
            found["stats"] = pc.coalesce(texts, render_statistics(typed))
    if layout.statistics is not None:
        found[_STATS_PARSED] = _typed_statistics(texts, typed, layout)
    return found


def _typed_statistics(
    texts: pa.StringArray, typed: pa.StructArray | None, layout: CheckpointLayout
) -> pa.StructArray:
    """Typed statistics of each file: the ones it has, else those of its text."""
    statistics = layout.statistics
    assert statistics is not None
    if typed is None:
        return statistics.parse(pa.chunked_array([texts]))
    adapted = statistics.adapt(typed)
    untyped = pc.is_valid(texts)
    if statistics.covers(typed.type):
        untyped = pc.and_(untyped, pc.is_null(pc.struct_field(typed, ["numRecords"])))
    if untyped.true_count == 0:
        return adapted
    spoken = statistics.parse(pa.chunked_array([pc.if_else(untyped, texts, pa.scalar(None, pa.string()))]))
    return pc.if_else(pc.and_(untyped, pc.is_valid(spoken)), spoken, adapted)


def _partition_values(maps: pa.MapArray, layout: CheckpointLayout) -> pa.StructArray:
    columns = pa.chunked_array([maps])
    values = [
        parse_partition_column(
            map_values(columns, column.physical_name), column.field.data_type, column=column.field.name
        )
        for column in layout.partition_columns
    ]
    arrays = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    return pa.StructArray.from_arrays(arrays, fields=layout.partition_type.fields)


def _older_removes(snapshot: Snapshot, rows: ParquetRows, cutoff: int) -> Iterator[pa.StructArray]:
    """The tombstones of the previous checkpoint that no later commit touched."""
    present = rows.present("remove")
    if present is not None and not present.any():
        return
    for structs in _selected(rows, "remove", [field.name for field in REMOVE.fields], present):
        actions = _FileActions(structs)
        later = pc.greater(actions.leaf("deletionTimestamp"), cutoff).fill_null(False)
        keep = later.to_numpy(zero_copy_only=False) & _untouched(snapshot, actions)
        if keep.any():
            yield _remove_structs(_FileActions(structs.filter(pa.array(keep))))


def _untouched(snapshot: Snapshot, actions: _FileActions) -> Mask:
    """Which removes no commit after the checkpoint names."""
    later = snapshot.files.actions
    keep = np.ones(actions.num_rows, np.bool_)
    if not later:
        return keep
    paths = canonical_paths(snapshot.root, actions.leaf("path"))
    named = pc.is_in(paths, value_set=pa.array({path for path, _ in later}, pa.string()))
    touched = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    vectors = actions.vectors().take(pa.array(touched)).to_pylist()
    names = actions.leaf("path").take(pa.array(touched)).to_pylist()
    for at, name, fields in zip(touched, names, vectors, strict=True):
        vector = None if fields is None else msgspec.convert(fields, DeletionVectorDescriptor)
        keep[at] = key_of(snapshot.root, name, vector) not in later
    return keep


def _remove_structs(actions: _FileActions) -> pa.StructArray:
    columns = {
        field.name: actions.leaf(field.name)
        for field in REMOVE.fields
        if field.name not in ("dataChange", "deletionVector")
    }
    columns["deletionVector"] = actions.vectors()
    columns["dataChange"] = pa.repeat(pa.scalar(False), actions.num_rows)
    return pa.StructArray.from_arrays([columns[field.name] for field in REMOVE.fields], fields=REMOVE.fields)


def _unexpired(removes: Iterable[Remove], cutoff: int) -> list[Remove]:
    return [remove for remove in removes if (remove.deletion_timestamp or 0) > cutoff]


def _slices(removes: Sequence[Remove]) -> Iterator[pa.StructArray]:
    for start in range(0, len(removes), BATCH_ROWS):
        yield pa.array([_remove_fields(remove) for remove in removes[start : start + BATCH_ROWS]], REMOVE)


def _remove_fields(remove: Remove) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(remove)
    values = remove.partition_values
    return {
        **fields,
        "dataChange": False,
        "partitionValues": None if values is None else list(values.items()),
    }
