"""Which files `optimize` writes anew, and which of them together.

A bin is a set of files of one partition whose rows go into files of about the target size. Small files are
gathered until a bin is full; files that are large enough stay as they are, except those of which more than a
twentieth of the rows is deleted. A bin of one file is worth writing only where rows of it are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from distributary.delta.log.actions import Add
from distributary.delta.statistics.json_statistics import parse_file_statistics

DEFAULT_TARGET: Final = 256 << 20
_MOST_DELETED: Final = 0.05


class FileBin(msgspec.Struct, frozen=True):
    """Files of one partition, by their place in the selection, that are written anew together."""

    ordinals: tuple[int, ...]
    size: int


def compaction_bins(adds: Sequence[Add], target: int) -> list[FileBin]:
    """The bins of a compaction."""
    chosen = [at for at, add in enumerate(adds) if add.size < target or _is_worn(add)]
    bins = [found for group in _by_partition(adds, chosen) for found in _packed(adds, group, target)]
    return [found for found in bins if len(found.ordinals) > 1 or _is_worn(adds[min(found.ordinals)])]


def purge_bins(adds: Sequence[Add], target: int) -> list[FileBin]:
    """The bins that rid a table of deletion vectors: just the files that have one."""
    chosen = [at for at, add in enumerate(adds) if add.deletion_vector is not None]
    return [found for group in _by_partition(adds, chosen) for found in _packed(adds, group, target)]


def partition_bins(adds: Sequence[Add], chosen: Sequence[int] | None = None) -> list[FileBin]:
    """One bin for each partition, of all files or of those chosen."""
    places = range(len(adds)) if chosen is None else chosen
    return [
        FileBin(tuple(group), sum(adds[at].size for at in group)) for group in _by_partition(adds, places)
    ]


def num_rows(add: Add) -> int | None:
    """The rows of a file that are not deleted, where its statistics tell."""
    count = (parse_file_statistics(add.stats) or {}).get("numRecords")
    if not isinstance(count, int):
        return None
    return count - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def _is_worn(add: Add) -> bool:
    """Whether so many rows are deleted that a file should be written anew."""
    if add.deletion_vector is None:
        return False
    left = num_rows(add)
    deleted = add.deletion_vector.cardinality
    return left is None or deleted > _MOST_DELETED * (left + deleted)


def _by_partition(adds: Sequence[Add], chosen: Sequence[int]) -> list[list[int]]:
    groups: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for at in chosen:
        values = adds[at].partition_values or {}
        groups.setdefault(tuple(sorted(values.items())), []).append(at)
    return list(groups.values())


def _packed(adds: Sequence[Add], group: Sequence[int], target: int) -> Iterator[FileBin]:
    """Files from small to large, bin after bin."""
    gathered: list[int] = []
    size = 0
    for at in sorted(group, key=lambda at: (adds[at].size, at)):
        if gathered and size + adds[at].size > target:
            yield FileBin(tuple(gathered), size)
            gathered, size = [], 0
        gathered.append(at)
        size += adds[at].size
    if gathered:
        yield FileBin(tuple(gathered), size)
