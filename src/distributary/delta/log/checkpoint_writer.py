"""Writing a checkpoint: one file, several parts, or v2 with sidecars.

Implements S4 "Checkpoints" and "Last Checkpoint File" for writers (CK-001 to CK-015), and v2 checkpoints of
newer editions. The state is streamed from the columns of the previous checkpoint and the commits since, in
row groups of bounded size; nothing is visible before it is whole.

Guarantees: a checkpoint is written only for a version whose commit is there (CK-002), holds the whole
reconciled state of that version (CK-003, CK-009), and is announced in `_last_checkpoint` last. A sound
checkpoint that exists is kept as it is, since readers may be in the middle of it. The parts of a multi-part
checkpoint are clustered by a hash of the path (CK-007), so that parts of repeated attempts fit together;
parts that somebody else clustered in another way are never mixed with ours.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import msgspec
import pyarrow as pa

from distributary.delta.errors import CorruptCheckpointError
from distributary.delta.log.actions import Sidecar
from distributary.delta.log.checkpoint_actions import small_actions
from distributary.delta.log.checkpoint_file import CheckpointFile, is_clustered_by_us, part_of
from distributary.delta.log.checkpoint_reader import read_checkpoint, sidecar_path
from distributary.delta.log.checkpoint_schema import (
    CheckpointLayout,
    checkpoint_layout,
)
from distributary.delta.log.checkpoint_source import add_batches, remove_batches
from distributary.delta.log.last_checkpoint import LastCheckpoint, hint_checksum, read_last_checkpoint
from distributary.delta.log.log_path import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    LogFileKind,
    checkpoint_path,
    commit_path,
    multi_part_checkpoint_path,
)
from distributary.delta.log.log_segment import Checkpoint, list_log
from distributary.delta.log.protocol_support import features_of
from distributary.delta.log.snapshot import Snapshot, load_snapshot, without_checkpoint
from distributary.errors import InvalidInputError
from distributary.storage.object_store import ObjectStore

CheckpointKind = Literal["auto", "single", "multi-part", "v2"]
TopFormat = Literal["parquet", "json"]

FILES_PER_PART = 500_000
"""File actions in one part or sidecar, where the caller does not say how many parts there are."""

_KINDS = {
    LogFileKind.CHECKPOINT: "single",
    LogFileKind.MULTI_PART_CHECKPOINT: "multi-part",
    LogFileKind.UUID_CHECKPOINT: "v2",
}


class CheckpointInfo(msgspec.Struct, frozen=True):
    """A checkpoint that is there now: its files, sidecars included, and what it holds."""

    version: int
    kind: str
    paths: tuple[str, ...]
    num_actions: int
    num_adds: int
    size_in_bytes: int
    parts: int | None = None
    written: bool = True


def write_checkpoint(
    store: ObjectStore,
    snapshot: Snapshot,
    *,
    kind: CheckpointKind = "auto",
    parts: int | None = None,
    now: int | None = None,
    top_format: TopFormat = "parquet",
) -> CheckpointInfo:
    """Write a checkpoint of a snapshot's version, unless a sound one of that kind exists.

    `parts` is the number of parts, or of sidecars; `now` (ms) decides which tombstones have expired;
    `top_format` is the format of the top-level file of a v2 checkpoint.
    """
    chosen = _chosen_kind(snapshot, kind, parts)
    _check_committed(store, snapshot)
    moment = time.time_ns() // 1_000_000 if now is None else now
    found = _existing(store, snapshot, chosen)
    if found is None:
        found = _write_from_sound_state(store, snapshot, _Plan(chosen, parts, moment, top_format))
    _announce(store, found)
    return found


class _Plan(msgspec.Struct, frozen=True):
    kind: str
    parts: int | None
    now: int
    top_format: TopFormat


def _chosen_kind(snapshot: Snapshot, kind: CheckpointKind, parts: int | None) -> str:
    """The kind to write; refuses what the table's protocol does not allow (C-33)."""
    snapshot.check_writable()
    if parts is not None and parts < 1:
        raise InvalidInputError(f"A checkpoint cannot have {parts} parts: ask for 1 or more")
    v2 = "v2Checkpoint" in features_of(snapshot.protocol)
    if kind == "v2" and not v2:
        raise InvalidInputError(
            f"{snapshot.root} does not have the feature v2Checkpoint: add it, or write another kind"
        )
    if kind == "multi-part" and v2:
        raise InvalidInputError(
            f"{snapshot.root} has the feature v2Checkpoint, which forbids multi-part checkpoints"
        )
    if kind == "auto":
        return "v2" if v2 and snapshot.properties.checkpoint_policy == "v2" else "single"
    return kind


def _check_committed(store: ObjectStore, snapshot: Snapshot) -> None:
    """The version's commit must be there (CK-002), or a checkpoint of it that the snapshot was read from."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None or checkpoint.version != snapshot.version:
        store.head(commit_path(snapshot.version))


def _write_from_sound_state(store: ObjectStore, snapshot: Snapshot, plan: _Plan) -> CheckpointInfo:
    """Write, going down the ladder where the checkpoint that the state comes from proves damaged."""
    while True:
        try:
            return _write(store, snapshot, plan)
        except CorruptCheckpointError:
            if snapshot.segment.checkpoint is None:
                raise
            snapshot = without_checkpoint(store, snapshot)


def _write(store: ObjectStore, snapshot: Snapshot, plan: _Plan) -> CheckpointInfo:
    layout = checkpoint_layout(snapshot)
    if plan.kind == "v2":
        return _write_v2(store, snapshot, layout, plan)
    small = small_actions(snapshot, plan.now)
    if plan.kind == "single":
        paths = [checkpoint_path(snapshot.version)]
    else:
        parts = _free_number_of_parts(store, snapshot, plan.parts or _default_parts(snapshot))
        paths = [multi_part_checkpoint_path(snapshot.version, part, parts) for part in range(1, parts + 1)]
    num_files = _write_files(store, snapshot, layout, paths, plan.now, small)
    parts = len(paths) if plan.kind == "multi-part" else None
    return _info(store, snapshot, plan.kind, paths, len(small) + num_files, parts)


def _write_v2(
    store: ObjectStore, snapshot: Snapshot, layout: CheckpointLayout, plan: _Plan
) -> CheckpointInfo:
    """Sidecars first, then the file that names them."""
    count = plan.parts or _default_parts(snapshot)
    paths = [f"{SIDECAR_DIRECTORY}/{uuid.uuid4()}.parquet" for _ in range(count)]
    top = f"{LOG_DIRECTORY}/{snapshot.version:020d}.checkpoint.{uuid.uuid4()}.{plan.top_format}"
    try:
        num_files = _write_files(store, snapshot, layout, paths, plan.now, None)
        small = [
            {"checkpointMetadata": {"version": snapshot.version}},
            *small_actions(snapshot, plan.now),
            *({"sidecar": msgspec.to_builtins(_sidecar(store, path))} for path in paths),
        ]
        _write_top(store, top, layout, small, plan.top_format)
    except BaseException:
        for path in paths:
            store.delete(path)
        raise
    return _info(store, snapshot, "v2", [top, *paths], len(small) + num_files, None)


def _write_top(
    store: ObjectStore,
    path: str,
    layout: CheckpointLayout,
    small: list[dict[str, Any]],
    top_format: TopFormat,
) -> None:
    if top_format == "json":
        store.put_if_absent(path, msgspec.json.Encoder().encode_lines(small))
        return
    with CheckpointFile(store, path, layout.top_schema()) as file:
        file.write_small(small)


def _sidecar(store: ObjectStore, path: str) -> Sidecar:
    meta = store.head(path)
    return Sidecar(path.rpartition("/")[2], meta.size, meta.last_modified)


def _write_files(
    store: ObjectStore,
    snapshot: Snapshot,
    layout: CheckpointLayout,
    paths: Sequence[str],
    now: int,
    small: list[dict[str, Any]] | None,
) -> int:
    """Write the file actions over `paths`, clustered by path; `small` actions go into the first one."""
    schema = layout.file_schema() if small is None else layout.whole_schema()
    cutoff = now - round(snapshot.properties.deleted_file_retention.total_seconds() * 1000)
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(CheckpointFile(store, path, schema)) for path in paths]
        if small:
            files[0].write_small(small)
        for action, batches in (
            ("add", add_batches(snapshot, layout)),
            ("remove", remove_batches(snapshot, cutoff)),
        ):
            for batch in batches:
                count += len(batch)
                for part, rows in _clustered(batch, len(files)):
                    files[part].write(action, rows)
            for file in files:
                file.flush()
    return count


def _clustered(batch: pa.StructArray, parts: int) -> Iterator[tuple[int, pa.StructArray]]:
    """The rows of each part, from 0 (CK-007)."""
    if parts == 1:
        yield 0, batch
        return
    number = part_of(batch.field("path"), parts)
    order = pa.array(number.argsort(kind="stable"))
    sorted_rows = batch.take(order)
    start = 0
    for part in range(parts):
        size = int((number == part).sum())
        if size:
            yield part, sorted_rows.slice(start, size)
        start += size


def _default_parts(snapshot: Snapshot) -> int:
    return max(1, -(-snapshot.files.num_files // FILES_PER_PART))


def _free_number_of_parts(store: ObjectStore, snapshot: Snapshot, parts: int) -> int:
    """The number asked for, or the next one of which no part exists that another engine made."""
    prefix = f"{snapshot.version:020d}.checkpoint."
    names = [meta.path for meta in store.list_from(LOG_DIRECTORY, prefix) if f"/{prefix}" in meta.path]
    while any(
        name.endswith(f".{parts:010d}.parquet") and not is_clustered_by_us(store, name) for name in names
    ):
        parts += 1
    return parts


def _existing(store: ObjectStore, snapshot: Snapshot, kind: str) -> CheckpointInfo | None:
    """A sound checkpoint of this version and kind; a damaged one is removed to make room.

    It goes only after the version was rebuilt without it: what looks damaged may be hard to reach
    for a moment, and may be all that is left of the table.
    """
    for point in list_log(store, snapshot.version).checkpoints:
        if point.version != snapshot.version or _KINDS[point.files[0].kind] != kind:
            continue
        try:
            return _known(store, snapshot, point, kind)
        except CorruptCheckpointError:
            load_snapshot(store, snapshot.version, point.names)
            for file in point.files:
                store.delete(file.path)
    return None


def _known(store: ObjectStore, snapshot: Snapshot, point: Checkpoint, kind: str) -> CheckpointInfo:
    contents = read_checkpoint(store, point)
    sidecars = map(sidecar_path, contents.sidecars)
    size = sum(file.size for file in point.files) + sum(side.size_in_bytes for side in contents.sidecars)
    return CheckpointInfo(
        version=point.version,
        kind=kind,
        paths=(*(file.path for file in point.files), *sidecars),
        num_actions=sum(rows.num_rows for rows in contents.rows),
        num_adds=snapshot.files.num_files,
        size_in_bytes=size,
        parts=len(point.files) if kind == "multi-part" else None,
        written=False,
    )


def _info(
    store: ObjectStore, snapshot: Snapshot, kind: str, paths: Sequence[str], size: int, parts: int | None
) -> CheckpointInfo:
    return CheckpointInfo(
        version=snapshot.version,
        kind=kind,
        paths=tuple(paths),
        num_actions=size,
        num_adds=snapshot.files.num_files,
        size_in_bytes=sum(store.head(path).size for path in paths),
        parts=parts,
    )


def _announce(store: ObjectStore, info: CheckpointInfo) -> None:
    """Point `_last_checkpoint` here (CK-015), unless it points to a newer checkpoint already."""
    current = read_last_checkpoint(store)
    if (
        current is not None
        and current.version >= info.version
        and (current.version > info.version or not info.written)
    ):
        return
    hint = LastCheckpoint(
        version=info.version,
        size=info.num_actions,
        parts=info.parts,
        size_in_bytes=info.size_in_bytes,
        num_of_add_files=info.num_adds,
    )
    content: dict[str, Any] = msgspec.to_builtins(hint)
    content["checksum"] = hint_checksum(content)
    store.put(LAST_CHECKPOINT, msgspec.json.encode(content))
