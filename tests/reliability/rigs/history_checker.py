"""The checker of histories: what writers were told against what the log says (P1).

A history is a list of acknowledged commits. The log must be contiguous from 0, hold every label at most
once, and hold each acknowledged one at the version that its writer was told.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Acknowledged(NamedTuple):
    """A commit that a writer was told to have happened."""

    version: int
    label: str


class Verdict(NamedTuple):
    """What a check found."""

    versions: int
    acknowledged: int
    unacknowledged: int
    faults: tuple[str, ...]


def record(history: Path, version: int, label: str) -> None:
    """Append an acknowledgement in one write, which a kill cannot cut."""
    line = json.dumps({"version": version, "label": label}) + "\n"
    descriptor = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def recorded(history: Path) -> list[Acknowledged]:
    lines = history.read_text().splitlines() if history.exists() else []
    return [Acknowledged(**json.loads(line)) for line in lines]


def check(log: Mapping[int, list[str]], acknowledged: Iterable[Acknowledged]) -> Verdict:
    """Compare a log with what its writers were told."""
    acks = list(acknowledged)
    faults: list[str] = []
    if sorted(log) != list(range(len(log))):
        faults.append(f"the versions are not contiguous: {sorted(log)[:20]}…")
    counts = Counter(label for labels in log.values() for label in labels)
    faults += [f"{label} was committed {count} times" for label, count in counts.items() if count > 1]
    told = Counter(label for _, label in acks)
    faults += [f"{label} was acknowledged {count} times" for label, count in told.items() if count > 1]
    for version, label in acks:
        if label not in log.get(version, ()):
            faults.append(f"{label} was acknowledged as version {version} and is not there")
    return Verdict(len(log), len(acks), len(counts.keys() - told.keys()), tuple(faults))
