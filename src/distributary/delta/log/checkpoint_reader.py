"""Reading a checkpoint of any kind: single file, multi-part, v2 with sidecars.

Implements S4 "Checkpoints" (CK-003 to CK-009) and v2 checkpoints of newer editions. The
small actions are decoded at once; file actions stay in their files as `FileRows`, read
column by column when asked for. A checkpoint that cannot be trusted raises
`CorruptCheckpointError` naming the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from distributary.delta.errors import CorruptCheckpointError, CorruptLogError
from distributary.delta.log.actions import (
    CommitActions,
    DomainMetadata,
    LogLine,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
    Sidecar,
    collect_actions,
    decode_commit,
)
from distributary.delta.log.checkpoint_footer import KNOWN_COLUMNS
from distributary.delta.log.checkpoint_rows import FileRows, ParquetRows, TableRows
from distributary.delta.log.file_columns import adds_to_table
from distributary.delta.log.log_path import SIDECAR_DIRECTORY, LogPath
from distributary.delta.log.log_segment import Checkpoint
from distributary.errors import ObjectNotFoundError, PathOutsideTableError
from distributary.storage.object_store import ObjectStore

_SMALL_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


class CheckpointContents(msgspec.Struct, frozen=True):
    """The state that a checkpoint holds."""

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]
    rows: tuple[FileRows, ...]
    removes: tuple[Remove, ...] = ()
    sidecars: tuple[Sidecar, ...] = ()


def read_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointContents:
    """Read the small actions of a checkpoint and open the files of its file actions."""
    try:
        return _read(store, checkpoint)
    except (ObjectNotFoundError, CorruptLogError, PathOutsideTableError) as error:
        raise CorruptCheckpointError(f"checkpoint of version {checkpoint.version}: {error}") from error


def _read(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointContents:
    rows: list[FileRows] = []
    small: list[CommitActions] = []
    for file in checkpoint.files:
        if file.name.endswith(".json"):
            actions = decode_commit(store.get(file.path), checkpoint.version, file.path)
            rows.append(TableRows(adds_to_table(actions.adds)))
        else:
            parquet = _open_rows(store, file)
            actions = _small_actions(parquet, checkpoint.version)
            rows.append(parquet)
        small.append(actions)
    sidecars = [sidecar for actions in small for sidecar in actions.sidecars]
    rows.extend(_open_sidecars(store, sidecars))
    return _contents(checkpoint.version, small, rows, sidecars)


def _open_rows(store: ObjectStore, file: LogPath) -> ParquetRows:
    rows = ParquetRows(store, file.path, file.size or None, file.etag)
    if not KNOWN_COLUMNS & set(rows.schema.names):
        raise CorruptCheckpointError(f"checkpoint file {file.path} has none of a checkpoint's columns")
    return rows


def _open_sidecars(store: ObjectStore, sidecars: Sequence[Sidecar]) -> list[ParquetRows]:
    return [ParquetRows(store, sidecar_path(sidecar), sidecar.size_in_bytes or None) for sidecar in sidecars]


def sidecar_path(sidecar: Sidecar) -> str:
    """The key of a sidecar below the table's root: its name is a URI reference."""
    name = unquote(sidecar.path).rpartition(f"{SIDECAR_DIRECTORY}/")[2]
    if not name or "/" in name or name in (".", "..") or "\0" in name:
        raise CorruptCheckpointError(
            f"a checkpoint names a sidecar outside {SIDECAR_DIRECTORY}: {sidecar.path!r}"
        )
    return f"{SIDECAR_DIRECTORY}/{name}"


def _small_actions(rows: ParquetRows, version: int) -> CommitActions:
    found = [_line(name, fields, rows.path) for name, fields in rows.structs(_SMALL_ACTIONS)]
    return collect_actions(found, version, rows.path)


def _line(name: str, fields: dict[str, Any], path: str) -> LogLine:
    try:
        return msgspec.convert({name: _without_nulls(fields)}, LogLine)
    except msgspec.ValidationError as error:
        raise CorruptCheckpointError(f"checkpoint file {path}: {name}: {error}") from error


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if key == "format" and value else value
        for key, value in fields.items()
        if value is not None
    }


def _contents(
    version: int, small: list[CommitActions], rows: list[FileRows], sidecars: list[Sidecar]
) -> CheckpointContents:
    protocols = [actions.protocol for actions in small if actions.protocol is not None]
    metadata = [actions.metadata for actions in small if actions.metadata is not None]
    if len(protocols) != 1 or len(metadata) != 1:
        raise CorruptCheckpointError(
            f"checkpoint of version {version} has {len(protocols)} protocol and {len(metadata)} metaData "
            "actions, not one of each"
        )
    marks = [actions.checkpoint_metadata for actions in small if actions.checkpoint_metadata is not None]
    if any(mark.version != version for mark in marks):
        raise CorruptCheckpointError(f"checkpoint of version {version} says that it is of another version")
    return CheckpointContents(
        version=version,
        protocol=protocols[0],
        metadata=metadata[0],
        transactions=tuple(txn for actions in small for txn in actions.transactions),
        domains=tuple(domain for actions in small for domain in actions.domains),
        rows=tuple(rows),
        removes=tuple(remove for actions in small for remove in actions.removes),
        sidecars=tuple(sidecars),
    )
