"""Log cleanup takes what has expired and never what a reader of a promised version needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pyarrow.parquet as pq
import pytest

from distributary.delta.errors import DeltaError
from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.log.checksum import write_checksum
from distributary.delta.log.cleanup import (
    CleanupPlan,
    LogDirectory,
    cleanup_cutoff,
    execute_cleanup,
    expired_version,
    plan_cleanup,
    prepare_cleanup,
)
from distributary.delta.log.log_path import LogPath, parse_log_path
from distributary.delta.log.log_segment import Checkpoint, arrange, choose_segment
from distributary.delta.log.snapshot import load_snapshot
from distributary.delta.table_properties import TableProperties
from distributary.storage.object_store import ObjectMeta

DAY = 24 * 60 * 60 * 1000
NOW = 20_000 * DAY + DAY // 2
DEFAULT = TableProperties.from_configuration({})


def _properties(**configuration: str) -> TableProperties:
    return TableProperties.from_configuration({f"delta.{name}": text for name, text in configuration.items()})


def _age(path: Path, days: float) -> None:
    moment = NOW - round(days * DAY)
    os.utime(path, ns=(moment * 1_000_000, moment * 1_000_000))


def _aged(log: Any, days: float) -> None:
    """Make each commit a day younger than the one before; the last one is `days` old."""
    last = log.version
    for path in log.log.iterdir():
        if path.name[:20].isdigit():
            _age(path, days + last - int(path.name[:20]))


def _names(plan: CleanupPlan) -> list[str]:
    return [path.rpartition("/")[2] for path in plan.paths]


def _clean(log: Any, **configuration: str) -> CleanupPlan:
    plan = prepare_cleanup(log.store, _properties(**configuration), NOW)
    assert execute_cleanup(log.store, plan) == len(plan.paths)
    return plan


def _checkpointed(log: Any, *versions: int) -> None:
    for version in versions:
        write_checkpoint(log.store, log.load(version), now=NOW)


class TestRetention:
    """Which versions expire."""

    def test_expired_versions_go_and_later_ones_stay_readable(self, busy_log: Any, shown: Any) -> None:
        """30 days by default: version 7 was current at midnight then, and is read from checkpoint 6."""
        _checkpointed(busy_log, 3, 6, 9)
        for version in range(11):
            write_checksum(busy_log.store, busy_log.load(version))
        _aged(busy_log, 28)
        before = {version: shown(busy_log.load(version)) for version in range(7, 11)}
        plan = _clean(busy_log)
        assert plan.kept_from == 6
        kept = {int(path.name[:20]) for path in busy_log.log.iterdir() if path.name[:20].isdigit()}
        assert kept == {6, 7, 8, 9, 10}
        assert busy_log.commit_file(6).exists()
        assert {version: shown(busy_log.load(version)) for version in range(7, 11)} == before

    def test_nothing_goes_within_the_retention(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 5, 10)
        _aged(busy_log, 1)
        assert _clean(busy_log).paths == ()

    def test_shorter_retention_is_obeyed(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 5, 10)
        _aged(busy_log, 1)
        assert _clean(busy_log, logRetentionDuration="interval 2 days").kept_from == 5

    def test_cleanup_can_be_switched_off(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 5, 10)
        _aged(busy_log, 100)
        plan = _clean(busy_log, enableExpiredLogCleanup="false")
        assert plan.paths == ()
        assert "enableExpiredLogCleanup" in str(plan)

    def test_cutoff_is_the_midnight_before(self) -> None:
        assert cleanup_cutoff(NOW, timedelta(days=30)) == (20_000 - 30) * DAY

    def test_version_of_the_cutoff_itself_has_expired(self) -> None:
        commits = [_log_path("0", DAY), _log_path("1", 2 * DAY), _log_path("2", 2 * DAY + 1)]
        assert expired_version(commits, 2 * DAY) == 1

    def test_clock_that_went_back_does_not_expire_a_younger_version(self) -> None:
        """Times count as strictly increasing, as everywhere in history."""
        assert expired_version([_log_path("0", 3 * DAY), _log_path("1", DAY)], 2 * DAY) is None


class TestSafety:
    """What cleanup rests on."""

    def test_without_a_checkpoint_nothing_goes(self, busy_log: Any) -> None:
        _aged(busy_log, 100)
        assert _clean(busy_log).paths == ()

    def test_incomplete_checkpoint_replaces_nothing(self, busy_log: Any) -> None:
        busy_log.checkpoint(8, kind="multi-part", parts=3)[1].unlink()
        _aged(busy_log, 100)
        assert _clean(busy_log).paths == ()

    @pytest.mark.parametrize("damage", ["torn", "bit"])
    def test_damaged_checkpoint_replaces_nothing(self, busy_log: Any, damage: str, shown: Any) -> None:
        """A torn footer, or one flipped bit in a page: the older checkpoint stays, with what follows it."""
        _checkpointed(busy_log, 4, 8)
        path = busy_log.log / "00000000000000000008.checkpoint.parquet"
        _damage(path, damage)
        _aged(busy_log, 100)
        before = shown(load_snapshot(busy_log.store, without=frozenset({path.name})))
        assert _clean(busy_log).kept_from == 4
        path.unlink()
        assert shown(busy_log.load()) == before

    def test_missing_sidecar_makes_a_checkpoint_useless(self, busy_log: Any) -> None:
        busy_log.checkpoint(8, kind="v2-parquet")[-1].unlink()
        _aged(busy_log, 100)
        assert _clean(busy_log).kept_from is None

    def test_protected_checkpoints_stay(self, busy_log: Any) -> None:
        """All of the history before the protected version goes at once, or nothing does."""
        _checkpointed(busy_log, 4, 8)
        _aged(busy_log, 100)
        assert _clean(busy_log, requireCheckpointProtectionBeforeVersion="9").paths == ()
        assert _clean(busy_log, requireCheckpointProtectionBeforeVersion="8").kept_from == 8

    def test_oldest_goes_first_and_a_commit_before_its_checkpoint(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 2, 6)
        write_checksum(busy_log.store, busy_log.load(2))
        _aged(busy_log, 100)
        names = _names(_clean(busy_log))
        assert [int(name[:20]) for name in names] == sorted(int(name[:20]) for name in names)
        assert [name[20:] for name in names if int(name[:20]) == 2] == [
            ".json",
            ".crc",
            ".checkpoint.parquet",
        ]

    def test_plan_prints_itself_and_does_nothing(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 4, 8)
        _aged(busy_log, 100)
        plan = prepare_cleanup(busy_log.store, DEFAULT, NOW)
        assert "version 10 and later stay readable from checkpoint 8" in str(plan)
        assert "_delta_log/00000000000000000000.json" in str(plan)
        assert busy_log.commit_file(0).exists()


class TestLeftovers:
    """Sidecars, compactions and temporary files."""

    def test_sidecar_that_no_checkpoint_names_goes_after_a_day(self, busy_log: Any) -> None:
        kept = busy_log.checkpoint(10, kind="v2-parquet")[1:]
        gone = busy_log.checkpoint(3, kind="v2-json")[1:]
        young = busy_log.log / "_sidecars" / "young.parquet"
        young.write_bytes(b"half")
        _aged(busy_log, 100)
        for path in (*kept, *gone):
            _age(path, 2)
        _age(young, 0.9)
        _clean(busy_log)
        assert all(path.exists() for path in (*kept, young))
        assert not any(path.exists() for path in gone)

    def test_unreadable_checkpoint_keeps_all_sidecars(self, busy_log: Any) -> None:
        """It may name any of them."""
        sidecars = busy_log.checkpoint(3, kind="v2-parquet")[1:]
        busy_log.checkpoint(8)
        _aged(busy_log, 0)
        torn = busy_log.log / "00000000000000000009.checkpoint.aaaa.parquet"
        torn.write_bytes(b"torn")
        busy_log.log.joinpath("_sidecars", "x.parquet").write_bytes(b"")
        for path in (*sidecars, busy_log.log / "_sidecars" / "x.parquet"):
            _age(path, 2)
        assert _clean(busy_log).paths == ()

    def test_compaction_that_starts_before_the_checkpoint_goes(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 6)
        for start, end in ((2, 4), (6, 8), (7, 9)):
            (busy_log.log / f"{start:020d}.{end:020d}.compacted.json").write_text("{}")
        _aged(busy_log, 100)
        _clean(busy_log)
        assert [path.name[19] for path in busy_log.log.glob("*.compacted.json")] == ["7"]

    def test_old_temporary_files_of_writers_go(self, busy_log: Any) -> None:
        old = [f".{'a' * 32}.tmp", "_commit_0a-1b.json.tmp", ".00000000000000000003.json.5f.tmp"]
        foreign = ["notes.txt", "_commit_x.json", ".hidden", "00000000000000000003.json.tmp"]
        for name in (*old, *foreign):
            (busy_log.log / name).write_bytes(b"")
            _age(busy_log.log / name, 1.1)
        young = busy_log.log / f".{'b' * 32}.tmp"
        young.write_bytes(b"")
        _age(young, 0.9)
        assert sorted(_names(_clean(busy_log))) == sorted(old)

    def test_hidden_checksum_goes_with_its_file(self, busy_log: Any) -> None:
        _checkpointed(busy_log, 6)
        _aged(busy_log, 100)
        for version in (2, 7):
            (busy_log.log / f".{version:020d}.json.crc").write_bytes(b"")
        plan = _clean(busy_log)
        assert [name for name in _names(plan) if name.startswith(".")] == [".00000000000000000002.json.crc"]


def _damage(path: Path, how: str) -> None:
    """Cut a file in half, or flip one bit in the last page of a column of paths."""
    data = bytearray(path.read_bytes())
    if how == "torn":
        path.write_bytes(bytes(data[: len(data) // 2]))
        return
    footer = pq.read_metadata(path)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    chunk = next(c for c in chunks if c.path_in_schema == "add.path" and c.statistics.has_min_max)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start + chunk.total_compressed_size - 2] ^= 1
    path.write_bytes(bytes(data))


def _log_path(version: str, moment: int) -> LogPath:
    parsed = parse_log_path(f"{int(version):020d}.json", 1, moment)
    assert parsed is not None
    return parsed


@st.composite
def _directories(draw: st.DrawFn) -> tuple[LogDirectory, frozenset[str]]:
    """A log with checkpoints of all kinds, some incomplete or damaged, and times that may go back."""
    first, last = draw(st.integers(0, 3)), draw(st.integers(4, 14))
    missing = draw(st.sets(st.integers(first, last), max_size=1))
    names = [f"{version:020d}.json" for version in range(first, last + 1) if version not in missing]
    for version in draw(st.sets(st.integers(0, last), max_size=5)) | {first}:
        kind = draw(st.sampled_from(["single", "parts", "incomplete", "uuid"]))
        if kind == "single":
            names.append(f"{version:020d}.checkpoint.parquet")
        elif kind == "uuid":
            names.append(f"{version:020d}.checkpoint.80a083e8-7026.json")
        else:
            some = (1, 2) if kind == "parts" else (2,)
            names += [f"{version:020d}.checkpoint.{part:010d}.0000000002.parquet" for part in some]
    for version in draw(st.sets(st.integers(first, last), max_size=3)):
        names += [f"{version:020d}.crc", f"{version:020d}.{version + 2:020d}.compacted.json"]
    times = st.integers(NOW - 20 * DAY, NOW)
    moments = sorted(draw(st.lists(times, min_size=last + 1, max_size=last + 1)))
    if draw(st.booleans()):
        moments = draw(st.permutations(moments))
    files = [parse_log_path(name, 1, moments[int(name[:20])]) for name in names]
    damaged = frozenset(draw(st.sets(st.sampled_from(names), max_size=2)))
    return LogDirectory(tuple(file for file in files if file is not None)), damaged


def _readable(files: Sequence[LogPath], damaged: frozenset[str], version: int) -> bool:
    """Whether the ladder finds a way to a version past damaged checkpoints."""
    points = [file.name for file in files if "checkpoint" in file.name]
    try:
        choose_segment(arrange(files), version, damaged & frozenset(points), "table")
    except DeltaError:
        return False
    return True


@hypothesis.given(case=_directories(), days=st.integers(0, 20), protected=st.integers(0, 5))
@hypothesis.settings(max_examples=300)
def test_every_promised_version_stays_readable_at_every_moment(
    case: tuple[LogDirectory, frozenset[str]], days: int, protected: int
) -> None:
    """Whatever prefix of the plan was carried out, the version of the cutoff and all later ones are there."""
    directory, damaged = case
    properties = _properties(
        logRetentionDuration=f"interval {days} days", requireCheckpointProtectionBeforeVersion=str(protected)
    )

    def is_sound(point: Checkpoint) -> bool:
        return not point.names & damaged

    plan = plan_cleanup(directory, properties, NOW, is_sound, lambda _: set())
    listing = arrange(directory.files)
    expired = expired_version(listing.commits.values(), cleanup_cutoff(NOW, timedelta(days=days)))
    if expired is None:
        assert plan.paths == ()
        return
    promised = [
        version
        for version in range(expired, listing.latest_version + 1)
        if _readable(directory.files, damaged, version)
    ]
    for done in range(len(plan.paths) + 1):
        gone = set(plan.paths[:done])
        left = [file for file in directory.files if file.path not in gone]
        assert [version for version in promised if not _readable(left, damaged, version)] == []
    commits = {
        path.version
        for path in directory.files
        if path.path not in plan.paths and path.name.endswith(".json")
    }
    assert plan.kept_from is None or min(commits, default=0) >= plan.kept_from


@hypothesis.given(
    ages=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3 * DAY)),
    named=st.sets(st.sampled_from("abcdef")),
)
def test_sidecar_stays_while_it_is_named_or_young(ages: dict[str, int], named: set[str]) -> None:
    sidecars = tuple(ObjectMeta(name, 1, NOW - age) for name, age in sorted(ages.items()))
    plan = plan_cleanup(LogDirectory((), sidecars), DEFAULT, NOW, lambda _: True, lambda _: named)
    assert set(plan.paths) == {name for name, age in ages.items() if age > DAY and name not in named}
