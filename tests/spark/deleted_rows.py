"""Deletion vectors put into a table by hand, so that reading them is tested without our own delete."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyroaring import BitMap64

import distributary as ds
from distributary.delta.deletion_vectors import inline_descriptor


def delete_rows(path: Path, rows: Mapping[int, Sequence[int]]) -> None:
    """Commit a deletion vector for some files (by their position) of a table that allows them."""
    table = ds.DeltaTable(path)
    adds = table.snapshot().state.files.adds()
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 0, "operation": "DELETE"}}]
    for at, numbers in rows.items():
        add = json.loads(msgspec.json.encode(adds[at]))
        vector = json.loads(msgspec.json.encode(inline_descriptor(BitMap64(numbers))))
        removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
        removed |= {"extendedFileMetadata": True, "size": add["size"]}
        removed["partitionValues"] = add["partitionValues"]
        actions.append({"remove": removed})
        actions.append({"add": {**{k: v for k, v in add.items() if v is not None}, "deletionVector": vector}})
    entry = path / "_delta_log" / f"{table.version() + 1:020d}.json"
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions))
