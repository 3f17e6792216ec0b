"""The names of log files: what is a commit, a checkpoint, a checksum, and what is nothing."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from distributary.delta.log.log_path import (
    LogFileKind,
    checkpoint_path,
    commit_path,
    multi_part_checkpoint_path,
    parse_log_path,
)

versions = st.integers(0, 2**63 - 1)


def name_of(path: str) -> str:
    directory, _, name = path.rpartition("/")
    assert directory == "_delta_log"
    return name


@given(versions)
def test_commit_names_round_trip(version: int) -> None:
    """LR-001: twenty digits, zero padded, `.json`, in `_delta_log`."""
    name = name_of(commit_path(version))
    assert len(name) == 25
    parsed = parse_log_path(name)
    assert parsed is not None
    assert (parsed.kind, parsed.version) == (LogFileKind.COMMIT, version)


@given(versions)
def test_checkpoint_names_round_trip(version: int) -> None:
    """CK-004: the single-file name."""
    parsed = parse_log_path(name_of(checkpoint_path(version)))
    assert parsed is not None
    assert (parsed.kind, parsed.version) == (LogFileKind.CHECKPOINT, version)


@given(versions, st.integers(1, 10**10 - 1), st.integers(1, 10**10 - 1))
def test_multi_part_names_round_trip(version: int, part: int, parts: int) -> None:
    """CK-005: ten digits each for part and total."""
    parsed = parse_log_path(name_of(multi_part_checkpoint_path(version, part, parts)))
    assert parsed is not None
    assert parsed.kind is LogFileKind.MULTI_PART_CHECKPOINT
    assert (parsed.version, parsed.part, parsed.parts) == (version, part, parts)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{5:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", LogFileKind.UUID_CHECKPOINT),
        (f"{5:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", LogFileKind.UUID_CHECKPOINT),
        (f"{5:020d}.crc", LogFileKind.CHECKSUM),
        (f"{5:020d}.{9:020d}.compacted.json", LogFileKind.COMPACTION),
    ],
)
def test_names_of_newer_editions_are_known(name: str, kind: LogFileKind) -> None:
    parsed = parse_log_path(name)
    assert parsed is not None
    assert (parsed.kind, parsed.version) == (kind, 5)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "_SUCCESS",
        "5.json",
        f"{5:019d}.json",
        f"{5:021d}.json",
        "9" * 20 + ".json",
        f"{5:020d}.json.tmp",
        f".{5:020d}.json.crc",
        f"{5:020d}.json.crc",
        f"{5:020d}.JSON",
        f" {5:020d}.json",
        f"{5:020d}.json\n",
        f"{5:020d}.checkpoint.json",
        f"{5:020d}.checkpoint.parquet.crc",
        f"{5:020d}.checkpoint.1.2.parquet",
        f"{5:020d}.checkpoint.{1:010d}.parquet.tmp",
        f"{5:020d}.9d6f3b2e.json",
        f"{5:020d}.compacted.json",
        "٠" * 20 + ".json",
        "",
    ],
)
def test_foreign_names_are_nothing(name: str) -> None:
    """LR-001: only the names of the specification are log files."""
    assert parse_log_path(name) is None
