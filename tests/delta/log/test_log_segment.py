"""Which files of the log make up a version: pure choice over names."""

from __future__ import annotations

import pytest

from distributary.delta.errors import LogGapError, TableNotFoundError, VersionNotFoundError
from distributary.delta.log.log_path import parse_log_path
from distributary.delta.log.log_segment import LogListing, arrange, choose_segment, find_segment

NOTHING: frozenset[str] = frozenset()


def listing(*names: str) -> LogListing:
    return arrange(path for name in names if (path := parse_log_path(name)) is not None)


def commits(first: int, last: int) -> list[str]:
    return [f"{version:020d}.json" for version in range(first, last + 1)]


def single(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, total: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{total:010d}.parquet"


def choose(names: list[str], version: int | None = None, without: frozenset[str] = NOTHING):
    return choose_segment(listing(*names), version, without, "file:///t")


def test_commits_alone_are_replayed_from_zero() -> None:
    """LR-002: versions from 0, contiguous and in order, whatever order the store lists them in."""
    segment = choose(list(reversed(commits(0, 5))))
    assert (segment.version, segment.checkpoint) == (5, None)
    assert [path.version for path in segment.commits] == [0, 1, 2, 3, 4, 5]


def test_newest_checkpoint_at_or_before_the_version_is_the_start() -> None:
    """LR-063: the newest one at or before the target, and the commits after it."""
    names = [*commits(0, 25), single(10), single(20)]
    for target, start in ((None, 20), (25, 20), (20, 20), (19, 10), (10, 10), (9, None)):
        segment = choose(names, target)
        assert (segment.checkpoint.version if segment.checkpoint else None) == start
        first = 0 if start is None else start + 1
        last = 25 if target is None else target
        assert [path.version for path in segment.commits] == list(range(first, last + 1))


def test_incomplete_multi_part_checkpoint_is_left_aside() -> None:
    """LR-062, CK-006: every fragment must be there; else an older start is used."""
    names = [*commits(0, 25), single(10)]
    whole = [part(20, at, 3) for at in (1, 2, 3)]
    found = choose([*names, *whole]).checkpoint
    assert found is not None
    assert [file.part for file in found.files] == [1, 2, 3]
    for missing in range(3):
        rest = [name for at, name in enumerate(whole) if at != missing]
        older = choose([*names, *rest]).checkpoint
        assert older is not None
        assert older.version == 10


def test_fragments_of_different_totals_are_not_mixed() -> None:
    """CK-005, CK-006: parts of 2 and parts of 3 are two different checkpoints."""
    names = [*commits(0, 12), part(10, 1, 2), part(10, 2, 3), part(10, 3, 3)]
    assert choose(names).checkpoint is None
    found = choose([*names, part(10, 2, 2)]).checkpoint
    assert found is not None
    assert {file.parts for file in found.files} == {2}


@pytest.mark.parametrize("name", [part(3, 1, 9_999_999_999), part(3, 0, 0), part(3, 0, 1), part(3, 2, 1)])
def test_impossible_fragment_numbers_are_left_aside(name: str) -> None:
    """CK-005: parts count from 1 to total; a huge total costs nothing."""
    assert choose([*commits(0, 4), name]).checkpoint is None


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_missing_version_is_a_gap(missing: int) -> None:
    """LR-002, LR-028: the error names the version that is missing."""
    names = [name for name in commits(0, 5) if not name.startswith(f"{missing:020d}")]
    with pytest.raises(LogGapError, match=f"version {missing} is missing") as caught:
        choose(names)
    assert caught.value.path == f"_delta_log/{missing:020d}.json"


def test_gap_before_the_checkpoint_does_not_matter() -> None:
    """LR-028: only versions between the start and the target count."""
    names = [*commits(0, 3), *commits(8, 12), single(9)]
    assert choose(names).version == 12
    assert choose(names, 2).version == 2
    with pytest.raises(LogGapError, match="version 4 is missing"):
        choose(names, 8)


def test_foreign_commit_of_a_huge_version_is_a_gap_at_once() -> None:
    """LR-028: found without counting to it."""
    with pytest.raises(LogGapError, match="version 3 is missing"):
        choose([*commits(0, 2), f"{2**63 - 1:020d}.json"])


def test_versions_outside_the_log_are_not_found() -> None:
    """A version that is not there yet, not any more, or negative."""
    with pytest.raises(VersionNotFoundError, match="latest is 3"):
        choose(commits(0, 3), 4)
    with pytest.raises(VersionNotFoundError):
        choose(commits(0, 3), -1)
    with pytest.raises(VersionNotFoundError, match="oldest version is 10"):
        choose([*commits(9, 12), single(10)], 8)
    with pytest.raises(TableNotFoundError):
        choose([])


def test_unusable_checkpoints_are_stepped_over() -> None:
    """LR-061: the ladder goes to an older checkpoint, then to JSON from 0."""
    names = [*commits(0, 25), single(10), *(part(20, at, 2) for at in (1, 2))]
    older = choose(names, None, frozenset([part(20, 2, 2)])).checkpoint
    assert older is not None
    assert older.version == 10
    assert choose(names, None, frozenset([part(20, 2, 2), single(10)])).checkpoint is None


def test_compacted_logs_are_no_commits() -> None:
    """A compacted log neither counts as a commit nor hides one."""
    names = [*commits(0, 4), f"{1:020d}.{3:020d}.compacted.json", f"{5:020d}.{9:020d}.compacted.json"]
    assert choose(names).version == 4


def test_hint_saves_listing_and_a_newer_checkpoint_wins(busy_log) -> None:
    """LR-060, LR-061: the listing starts at the hint; a newer checkpoint found there is used."""
    busy_log.checkpoint(4)
    busy_log.checkpoint(8, hint=False)
    asked: list[str] = []
    store = busy_log.store
    listed = store.list_from
    store.list_from = lambda directory, name="": asked.append(name) or listed(directory, name)
    segment = find_segment(store)
    assert asked == [f"{4:020d}"]
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 8
    assert [path.version for path in segment.commits] == [9, 10]


@pytest.mark.parametrize("hinted", [0, 3, 7, 11, 10**6, 2**63 - 1])
def test_hint_that_points_nowhere_falls_back_to_listing(busy_log, hinted: int) -> None:
    """LR-061: stale, or pointing to a missing checkpoint."""
    busy_log.checkpoint(5, hint=False)
    busy_log.hint({"version": hinted, "size": 3})
    segment = find_segment(busy_log.store)
    assert segment.version == 10
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 5
