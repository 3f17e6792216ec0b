"""Row ids of new files in tables that track rows.

Implements the writer's part of "Row Tracking" that every commit must keep up: each new file
gets a range of row ids above the high-water mark, and the version that first had it; the
mark itself is domain metadata. Files that already carry ids keep them.
"""

from __future__ import annotations

import msgspec

from distributary.delta.commit.staged_commit import StagedAction
from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.actions import Add, DomainMetadata, Protocol
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.statistics.json_statistics import parse_file_statistics

DOMAIN = "delta.rowTracking"
FEATURE = "rowTracking"


def tracks_rows(protocol: Protocol) -> bool:
    """Whether new files need row ids."""
    return FEATURE in (protocol.writer_features or ())


def with_row_ids(
    actions: tuple[StagedAction, ...], base: Snapshot | None, version: int
) -> tuple[StagedAction, ...]:
    """The actions with row ids on every new file, and the mark raised."""
    mark = _high_water_mark(base)
    numbered: list[StagedAction] = []
    last = mark
    for action in actions:
        if isinstance(action, Add) and action.base_row_id is None:
            count = _record_count(action)
            action = msgspec.structs.replace(action, base_row_id=last + 1, default_row_commit_version=version)
            last += count
        elif isinstance(action, Add) and action.default_row_commit_version is None:
            action = msgspec.structs.replace(action, default_row_commit_version=version)
        numbered.append(action)
    if last > mark:
        configuration = msgspec.json.encode({"rowIdHighWaterMark": last}).decode()
        numbered.append(DomainMetadata(DOMAIN, configuration, removed=False))
    return tuple(numbered)


def _high_water_mark(base: Snapshot | None) -> int:
    domain = None if base is None else base.domains.get(DOMAIN)
    if domain is None:
        return -1
    return int(msgspec.json.decode(domain.configuration)["rowIdHighWaterMark"])


def _record_count(add: Add) -> int:
    count = (parse_file_statistics(add.stats) or {}).get("numRecords")
    if not isinstance(count, int):
        raise UnsupportedFeatureError(
            f"{add.path} has no numRecords in its statistics, which a table with row tracking needs",
            features=(FEATURE,),
        )
    return count
