"""Verifying the log by its names and small files: gaps, sets of parts, compactions, `_last_checkpoint`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from distributary.delta.errors import CorruptLogError, TableNotFoundError
from distributary.delta.log.actions import decode_commit
from distributary.delta.log.last_checkpoint import LastCheckpoint, parse_last_checkpoint
from distributary.delta.log.log_path import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    LogFileKind,
    LogPath,
    commit_path,
    parse_log_path,
)
from distributary.delta.log.log_segment import LogListing, arrange
from distributary.delta.operations.verification_report import Findings
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import ObjectStore


def list_log_files(store: ObjectStore) -> list[LogPath]:
    """Every file of the log that is one of the log's kinds."""
    found = (
        parse_log_path(meta.path.rpartition("/")[2], meta.size, meta.last_modified)
        for meta in store.list_from(LOG_DIRECTORY)
    )
    paths = [path for path in found if path is not None]
    if arrange(paths).latest_version < 0:
        raise TableNotFoundError(f"no Delta table at {store.root}: there is no log under {LOG_DIRECTORY}")
    return paths


def check_gaps(listing: LogListing, findings: Findings) -> None:
    """Find versions that must be there and are not (LR-028).

    Cleaning up removes the oldest commits, so the log may begin later than at 0; but then at or before a
    checkpoint, or right after one. From its beginning on, no version may be missing.
    """
    first = min(listing.commits, default=listing.latest_version + 1)
    newest_checkpoint = max((point.version for point in listing.checkpoints), default=-1)
    begin = min(first, newest_checkpoint + 1)
    missing = [
        version for version in range(begin, listing.latest_version + 1) if version not in listing.commits
    ]
    for start, end in _runs(missing):
        which = f"version {start} is" if start == end else f"versions {start} to {end} are"
        findings.add(
            "LOG_GAP",
            commit_path(start),
            f"{which} missing; restore the file from a backup or a replica of the log",
        )


def _runs(versions: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(versions), key=lambda pair: pair[1] - pair[0]):
        members = [version for _, version in run]
        yield members[0], members[-1]


def check_parts(paths: Sequence[LogPath], findings: Findings) -> None:
    """Find multi-part checkpoints of which parts are missing (CK-006)."""
    sets: dict[tuple[int, int], set[int]] = defaultdict(set)
    for path in paths:
        if path.kind is LogFileKind.MULTI_PART_CHECKPOINT:
            sets[path.version, path.parts].add(path.part)
    for (version, parts), found in sorted(sets.items()):
        missing = sorted(set(range(1, parts + 1)) - found)
        if missing:
            named = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
            findings.add(
                "INCOMPLETE_CHECKPOINT",
                f"{LOG_DIRECTORY}/{version:020d}.checkpoint.*.{parts:010d}.parquet",
                f"of its {parts} parts these are missing: {named}; readers leave the whole set aside",
            )


def check_compactions(store: ObjectStore, paths: Sequence[LogPath], findings: Findings) -> None:
    """Find compacted logs that do not parse."""
    for path in paths:
        if path.kind is LogFileKind.COMPACTION:
            findings.checked("compactions")
            try:
                decode_commit(store.get(path.path), path.version, path.path)
            except CorruptLogError as error:
                findings.add("CORRUPT_COMPACTION", path.path, f"{error}; it can be deleted")


def check_last_checkpoint(store: ObjectStore, listing: LogListing, findings: Findings) -> None:
    """Find a hint that is torn, fails its own checksum or points where no checkpoint is (LR-061)."""
    try:
        data = store.get(LAST_CHECKPOINT)
    except ObjectNotFoundError:
        return
    findings.checked("last_checkpoint")
    hint = parse_last_checkpoint(data)
    trouble = (
        "is torn, is no JSON object with a version, or does not match its own checksum"
        if hint is None
        else _hint_trouble(hint, listing)
    )
    if trouble is not None:
        findings.add("LAST_CHECKPOINT_INVALID", LAST_CHECKPOINT, f"it {trouble}; it can be deleted")


def _hint_trouble(hint: LastCheckpoint, listing: LogListing) -> str | None:
    found = [point for point in listing.checkpoints if point.version == hint.version]
    if not found:
        return f"points to version {hint.version}, which has no complete checkpoint"
    parts = hint.parts or 1
    if not any(len(point.files) == parts for point in found):
        return f"says that the checkpoint of version {hint.version} has {parts} parts, which is not so"
    return None
