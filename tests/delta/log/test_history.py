"""Versions and times: travel by time never goes backwards, whatever the clocks did."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

import distributary as ds
from distributary.delta.errors import CorruptLogError, VersionNotFoundError
from distributary.delta.log.history import Timeline, history, increasing, timeline
from distributary.delta.log.snapshot import load_snapshot

START = 1_700_000_000_000
NOW = 4_000_000_000_000


def with_in_commit_times(log, times: list[int], enabled_at: int = 0, since: int | None = None) -> None:
    """A table whose commits carry their own times from a version on."""
    config = {"delta.enableInCommitTimestamps": "true"}
    if enabled_at:
        config["delta.inCommitTimestampEnablementVersion"] = str(enabled_at)
        config["delta.inCommitTimestampEnablementTimestamp"] = str(
            times[enabled_at] if since is None else since
        )
    for version, moment in enumerate(times):
        actions = [log.protocol(), log.metadata()] if version == 0 else [log.add(f"f{version}")]
        if version == enabled_at:
            actions = [
                log.protocol(1, 7, writerFeatures=["inCommitTimestamp"]),
                log.metadata(configuration=config),
            ]
        log.commit(*actions)
        if version >= enabled_at:
            path = log.commit_file(version)
            lines = path.read_text().splitlines()
            info = json.loads(lines[0])
            info["commitInfo"]["inCommitTimestamp"] = moment
            path.write_text("\n".join([json.dumps(info), *lines[1:]]) + "\n")
        log.set_time(version, moment)


@given(st.lists(st.integers(0, 10**13), min_size=1))
def test_file_times_are_made_strictly_increasing(times: list[int]) -> None:
    """RELIABILITY B8: backwards, equal and future times; each at least one millisecond after the last."""
    adjusted = increasing(times)
    assert all(before < after for before, after in pairwise(adjusted))
    assert all(moment >= real for moment, real in zip(adjusted, times, strict=True))
    assert adjusted[0] == times[0]


_times = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(_times, st.integers(0, 20), st.integers(0, 12), st.none() | st.integers(0, 60), st.data())
def test_travel_by_time_is_monotonic(
    times: list[int], first: int, at: int, since: int | None, data: st.DataObject
) -> None:
    """RELIABILITY B8: a later time never gives an earlier version, with or without in-commit times."""
    mixed = at < len(times)
    inside = (
        sorted(data.draw(st.sets(st.integers(1, 60), min_size=len(times) - at, max_size=len(times) - at)))
        if mixed
        else []
    )
    moments = dict(zip(range(first + at, first + len(times)), inside, strict=True))
    line = Timeline(
        versions=tuple(range(first, first + len(times))),
        file_times=increasing(times),
        in_commit_from=first + at if mixed else None,
        in_commit_since=(inside[0] if since is None or since > inside[0] else since) if mixed else None,
        read_in_commit_time=moments.__getitem__,
    )  # fmt: skip
    found = []
    for moment in range(62):
        try:
            found.append(line.version_at(moment, now=NOW))
        except VersionNotFoundError:
            assert not found, "a later time is refused though an earlier one was not"
    assert found == sorted(found)
    starts = [start for moment in range(62) if (start := line.first_version_from(moment)) is not None]
    assert starts == sorted(starts)
    assert line.version_at(NOW - 1, now=NOW) == line.versions[-1]


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(-1, 10**6 + 1))
def test_version_at_equals_a_walk_over_all_versions(moments: set[int], asked: int) -> None:
    """The newest version at or before a time; the oldest at or after it."""
    times = sorted(moments)
    line = Timeline(tuple(range(len(times))), tuple(times), None, None, lambda version: 0)
    before = [version for version, moment in enumerate(times) if moment <= asked]
    after = [version for version, moment in enumerate(times) if moment >= asked]
    assert line.first_version_from(asked) == (after[0] if after else None)
    if before:
        assert line.version_at(asked, now=NOW) == before[-1]
    else:
        with pytest.raises(VersionNotFoundError):
            line.version_at(asked, now=NOW)


def test_future_times_are_refused_and_past_ones_give_the_last_version(log) -> None:
    """What held at a time is known once it has passed."""
    log.create()
    log.commit(log.add("a"))
    for version in (0, 1):
        log.set_time(version, START + version)
    line = timeline(log.store, log.load())
    assert line.version_at(START + 10**6, now=START + 10**7) == 1
    with pytest.raises(VersionNotFoundError, match="future"):
        line.version_at(START + 10**6, now=START + 10)
    with pytest.raises(VersionNotFoundError, match="oldest"):
        line.version_at(START - 1)


@pytest.mark.parametrize("shift", [-(10**9), 0, 3])
def test_files_with_backward_equal_or_close_times_stay_in_order(log, shift: int) -> None:
    """RELIABILITY B8: the order of versions is the order of travel."""
    log.create()
    for number in range(1, 6):
        log.commit(log.add(f"f{number}"))
    for version in range(6):
        log.set_time(version, START + version * shift)
    line = timeline(log.store, log.load())
    moments = [line.time_of(version) for version in range(6)]
    assert moments == sorted(set(moments))
    assert [line.version_at(moment) for moment in moments] == list(range(6))


def test_in_commit_times_survive_a_copy(log, tmp_path) -> None:
    """RELIABILITY B8: a copied table has new file times; the times in the commits still count."""
    with_in_commit_times(log, [START + 1000 * version for version in range(5)])
    copy = tmp_path / "copy"
    shutil.copytree(log.root, copy, copy_function=shutil.copyfile)
    for root in (log.root, copy):
        table = ds.DeltaTable(root)
        found = [(entry.version, entry.timestamp) for entry in table.history()]
        assert found == [(version, START + 1000 * version) for version in range(4, -1, -1)]
        line = timeline(table.store, load_snapshot(table.store))
        assert line.version_at(START + 2500) == 2


def test_in_commit_times_count_from_their_enablement(log) -> None:
    """RELIABILITY B8: file times before, in-commit times from the enabling version on."""
    with_in_commit_times(log, [START + 1000 * version for version in range(6)], enabled_at=3)
    for version in range(6):
        log.set_time(version, START + (1000 * version if version < 3 else 10**8 - version))
    line = timeline(log.store, log.load())
    assert [line.time_of(version) for version in range(6)] == [START + 1000 * version for version in range(6)]
    assert [line.version_at(START + 1000 * v + 1) for v in range(6)] == [0, 1, 2, 3, 4, 5]
    assert line.first_version_from(START + 2001) == 3


def test_copied_table_with_late_enablement_travels_by_its_in_commit_times(log) -> None:
    """From the enablement on only later versions count, though older files look newer."""
    with_in_commit_times(log, [START + 1000 * version for version in range(6)], enabled_at=3)
    for version in range(6):
        log.set_time(version, START + 10**9 + version)
    line = timeline(log.store, log.load())
    assert line.version_at(START + 3000) == 3
    assert line.version_at(START + 4500) == 4
    assert line.first_version_from(START + 4500) == 5
    with pytest.raises(VersionNotFoundError):
        line.version_at(START + 2999)


def test_commit_without_the_required_time_is_corrupt(log) -> None:
    with_in_commit_times(log, [START, START + 1000])
    log.commit(log.add("x"))
    with pytest.raises(CorruptLogError, match="inCommitTimestamp"):
        timeline(log.store, log.load()).time_of(2)


def test_history_shows_what_writers_said_newest_first(busy_log) -> None:
    """LR-048: provenance is shown where it is there, and nothing else needs it."""
    entries = history(busy_log.store, busy_log.load())
    assert [entry.version for entry in entries] == list(range(10, -1, -1))
    assert {entry.operation for entry in entries} == {"WRITE"}
    assert [entry.version for entry in history(busy_log.store, busy_log.load(), 3)] == [10, 9, 8]
    assert [entry.version for entry in history(busy_log.store, busy_log.load(4))] == [4, 3, 2, 1, 0]


def test_cleaned_log_shows_only_versions_that_can_be_rebuilt(busy_log) -> None:
    """Travel by time leads to no version whose start is gone."""
    for version in range(11):
        busy_log.set_time(version, START + version)
    busy_log.checkpoint(6)
    busy_log.clean(4)
    line = timeline(busy_log.store, busy_log.load())
    assert line.versions == (6, 7, 8, 9, 10)
    assert busy_log.load(line.version_at(START + 6)).version == 6
    with pytest.raises(VersionNotFoundError):
        line.version_at(START + 5)
    with pytest.raises(VersionNotFoundError):
        line.time_of(5)


def test_history_with_a_hole_before_the_checkpoint(busy_log) -> None:
    """Commits on the far side of a gap are not offered."""
    busy_log.checkpoint(6)
    busy_log.commit_file(3).unlink()
    assert timeline(busy_log.store, busy_log.load()).versions == (6, 7, 8, 9, 10)


@given(st.integers(-(2**62), 2**62))
def test_any_number_can_be_asked_for_as_a_time(moment: int) -> None:
    """A time far outside the calendar is refused or answered, never a crash."""
    assume(moment != 5)
    line = Timeline((0,), (5,), None, None, lambda version: 0)
    if moment < 5:
        with pytest.raises(VersionNotFoundError):
            line.version_at(moment)
    else:
        assert line.version_at(moment, now=2**63) == 0
