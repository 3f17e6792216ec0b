"""A table whose commits carry labels instead of data: each label is the path of one fabricated file.

What a rig wants to know is whether a commit is there, whole, once. So every commit adds one file of a
unique name and ten rows; `labels_of` reads the log back with plain json, none of our own reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.commit.transaction import CommitResult, commit
from distributary.delta.log.actions import Add, Metadata, Protocol
from distributary.delta.log.snapshot import Snapshot
from distributary.storage.object_store import ObjectStore

ROWS = 10
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)


def metadata(configuration: Mapping[str, str] | None = None, table_id: str = "table") -> Metadata:
    return Metadata(table_id, SCHEMA, partition_columns=["p"], configuration=dict(configuration or {}))


def file(label: str, partition: str = "a", *, data_change: bool = True, low: int = 0, high: int = 9) -> Add:
    stats = {"numRecords": ROWS, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    return Add(label, {"p": partition}, 100, 1_700_000_000_000, data_change, stats=json.dumps(stats))


def creation(configuration: Mapping[str, str] | None = None, *files: Add) -> StagedCommit:
    actions: tuple[StagedAction, ...] = (Protocol(1, 2), metadata(configuration), *files)
    return StagedCommit(Operation("CREATE TABLE"), actions)


def create(store: ObjectStore, configuration: Mapping[str, str] | None = None, *files: Add) -> CommitResult:
    return commit(store, None, creation(configuration, *files))


def addition(label: str) -> StagedCommit:
    return StagedCommit(Operation("WRITE", {"mode": "Append"}), (file(label),), blind_append=True)


def append(store: ObjectStore, snapshot: Snapshot, label: str) -> CommitResult:
    return commit(store, snapshot, addition(label))


def labels_in(entry: bytes) -> list[str]:
    """The labels of one log entry; an entry that is not whole JSON lines is an error."""
    if not entry.endswith(b"\n"):
        raise ValueError(f"the entry is cut: …{entry[-40:]!r}")
    actions = [json.loads(line) for line in entry.splitlines()]
    if "commitInfo" not in actions[0]:
        raise ValueError("the entry does not begin with commitInfo")
    return [action["add"]["path"] for action in actions if "add" in action]


def labels_of(log: Path) -> dict[int, list[str]]:
    """The labels of each version of a log on disk."""
    names = sorted(path for path in log.glob("*.json") if len(path.stem) == 20 and path.stem.isdigit())
    return {int(path.stem): labels_in(path.read_bytes()) for path in names}


def labels_in_store(store: ObjectStore) -> dict[int, list[str]]:
    """The labels of each version of a log in any store."""
    names = [meta.path for meta in store.list_from("_delta_log") if meta.path.endswith(".json")]
    entries = store.get_all(names)
    return {
        int(name[-25:-5]): labels_in(entry)
        for name, entry in zip(names, entries, strict=True)
        if name[-25:-5].isdigit()
    }
