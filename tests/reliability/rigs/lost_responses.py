"""A5: commits whose answers are lost on the way, against what the log holds in the end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from distributary.delta.errors import CommitConflictError
from distributary.delta.log.snapshot import load_snapshot
from distributary.storage.object_store import open_store
from rigs.fault_proxy import FaultProxy, Request
from rigs.history_checker import Acknowledged, check
from rigs.plain_table import append, create, labels_in_store

KINDS = ("drop", "reset", "cut", "late", "twice")


class LostResponses(NamedTuple):
    """How many commits lost their answer, and what was wrong: duplicates, losses, false conflicts."""

    commits: int
    struck: int
    faults: list[str]


def commit_with_losses(
    proxy: FaultProxy, uri: str, options: Mapping[str, str], commits: int, kinds: tuple[str, ...] = KINDS
) -> LostResponses:
    """Append one after the other, the first answer to each commit being lost; no other writer is there."""
    store = open_store(uri, {**options, "aws_endpoint": proxy.endpoint})
    proxy.fault = lambda request: None
    snapshot = create(store).snapshot
    faults: list[str] = []
    acknowledged: list[Acknowledged] = []
    turns = itertools.cycle(kinds)
    for number in range(commits):
        proxy.fault = _first_commit(next(turns))
        label = f"label-{number}"
        try:
            result = append(store, snapshot, label)
        except CommitConflictError as error:
            faults.append(f"a false conflict: {error}")
            snapshot = load_snapshot(store)
            continue
        if result.version != snapshot.version + 1:
            faults.append(f"{label} became version {result.version} instead of {snapshot.version + 1}")
        acknowledged.append(Acknowledged(result.version, label))
        snapshot = result.snapshot
    proxy.fault = lambda request: None
    faults += check(labels_in_store(store), acknowledged).faults
    return LostResponses(commits, proxy.struck, faults)


def _first_commit(kind: str):
    """Strike the first request that creates a log entry."""
    left = [kind]

    def fault(request: Request) -> str | None:
        return left.pop() if request.is_commit and left else None

    return fault
