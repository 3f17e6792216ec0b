"""Hostile logs (RELIABILITY B1–B10): derived files may be wrong in any way, primary files fail loudly.

DISTRIBUTARY_FLIPS sets how many bits are flipped in checkpoints altogether (1,050 by default;
`make evidence ARGS=flips` takes 5,000).
"""

from __future__ import annotations

import json
import os
import random
import resource
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import distributary as ds
from distributary.delta.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    DeltaError,
    LogGapError,
)
from distributary.delta.log.log_segment import find_segment, list_log
from distributary.delta.log.snapshot import load_snapshot, refresh
from distributary.errors import ObjectNotFoundError
from distributary.storage.base_store import ObjectMeta
from distributary.storage.local_disk import LocalDisk
from distributary.storage.location import parse_root

FLIPS = int(os.environ.get("DISTRIBUTARY_FLIPS", "1050"))
KINDS = ["classic", "multi-part", "v2-json", "v2-parquet"]
LAYOUTS = [
    ("classic", {}),
    ("classic", {"data_page_version": "2.0"}),
    ("classic", {"compression": "none", "use_dictionary": False, "group": 10}),
    ("classic", {"compression": "zstd", "store_schema": True}),
    ("multi-part", {}),
    ("v2-parquet", {}),
    ("v2-json", {}),
]


# B1: the hint

_scalars = (
    st.none() | st.booleans() | st.integers(-2, 2**64) | st.floats(allow_nan=False) | st.text(max_size=5)
)
_hint = b'{"version":5,"size":30,"sizeInBytes":4000}'
_names = st.sampled_from(["version", "size", "parts", "sizeInBytes", "checksum", "v2Checkpoint", "x"])
_hints = st.one_of(
    st.binary(max_size=60),
    st.integers(0, len(_hint)).map(lambda cut: _hint[:cut]),
    (st.integers(-3, 20) | _scalars).map(lambda version: json.dumps({"version": version}).encode()),
    st.dictionaries(_names, _scalars).map(lambda value: json.dumps(value).encode()),
    st.integers(0, 8 * len(_hint) - 1).map(
        lambda at: bytes(byte ^ (1 << at % 8 if n == at // 8 else 0) for n, byte in enumerate(_hint))
    ),
)


@pytest.mark.parametrize("kind", ["classic", "multi-part"])
def test_any_hint_gives_the_same_snapshot(log, shown, kind: str) -> None:
    """LR-061, RELIABILITY B1: empty, torn, wrong, pointing to missing, older or newer versions."""
    log.create(log.add("a"))
    for number in range(1, 9):
        log.commit(log.add(f"f{number}"))
    log.checkpoint(3, kind=kind)
    log.checkpoint(7, kind=kind, hint=False)
    truth, older = log.state().shown(), log.state(5).shown()
    store = log.store

    @given(_hints)
    @settings(max_examples=200, deadline=None)
    def check(hint: bytes) -> None:
        log.hint(hint)
        latest, past = find_segment(store), find_segment(store, 5)
        assert (latest.version, latest.checkpoint and latest.checkpoint.version) == (8, 7)
        assert (past.version, past.checkpoint and past.checkpoint.version) == (5, 3)
        if hash(hint) % 16 == 0:
            assert shown(load_snapshot(store)) == truth
            assert shown(load_snapshot(store, 5)) == older

    check()


def test_hint_that_is_no_file_is_no_hint(busy_log, shown) -> None:
    """LR-061: a directory in its place."""
    (busy_log.log / "_last_checkpoint").mkdir()
    assert shown(busy_log.load()) == busy_log.state().shown()


# B2: incomplete checkpoints


@pytest.mark.parametrize("kind", ["multi-part", "v2-json", "v2-parquet"])
@pytest.mark.parametrize("older", [None, "classic", "v2-json"])
def test_incomplete_checkpoint_is_ignored(busy_log, shown, kind: str, older: str | None) -> None:
    """LR-062, CK-006, RELIABILITY B2: a missing part or sidecar: an older checkpoint, or JSON."""
    if older:
        busy_log.checkpoint(4, kind=older)
    paths = busy_log.checkpoint(9, kind=kind, parts=3)
    truth = busy_log.state().shown()
    for path in paths:
        data = path.read_bytes()
        path.unlink()
        snapshot = busy_log.load()
        assert shown(snapshot) == truth
        start = snapshot.segment.checkpoint
        assert (start.version if start else None) == (4 if older else None)
        path.write_bytes(data)
    assert busy_log.load().segment.checkpoint.version == 9


@pytest.mark.parametrize("kind", ["multi-part", "v2-json", "v2-parquet"])
def test_incomplete_checkpoint_of_a_cleaned_log_is_an_error(busy_log, shown, kind: str) -> None:
    """RELIABILITY B2: nothing can replace it; never fewer rows."""
    paths = busy_log.checkpoint(9, kind=kind, parts=3)
    busy_log.clean(9)
    for path in paths:
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(DeltaError):
            shown(busy_log.load())
        path.write_bytes(data)


# B3: damaged checkpoints


def damaged(path: Path, data: bytes, busy_log, shown, truth: dict[str, Any]) -> str:
    """What a damaged checkpoint of a cleaned log gives: the truth, or an error that names the file."""
    path.write_bytes(data)
    try:
        found = shown(load_snapshot(busy_log.store))
    except CorruptCheckpointError as error:
        return "refused" if path.name in str(error) else f"refused without its name: {error}"
    assert found == truth
    return "right"


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_checkpoint_is_never_believed(busy_log, shown, kind: str) -> None:
    """RELIABILITY B3: cut at every length class, the 4 bytes `PAR1` too; then JSON is used instead."""
    paths = busy_log.checkpoint(kind=kind)
    truth = busy_log.state().shown()
    whole = {path: path.read_bytes() for path in paths}
    for path, data in whole.items():
        size = len(data)
        for length in {
            0,
            1,
            3,
            4,
            7,
            8,
            11,
            12,
            size // 4,
            size // 2,
            size - 9,
            size - 8,
            size - 5,
            size - 4,
            size - 1,
        }:
            path.write_bytes(data[:length])
            assert shown(busy_log.load()) == truth
        path.write_bytes(data)
    busy_log.clean(10)
    for path, data in whole.items():
        if path.suffix == ".parquet":
            for length in (0, 4, 12, len(data) // 2, len(data) - 1):
                assert damaged(path, data[:length], busy_log, shown, truth) == "refused"
        path.write_bytes(data)


@pytest.mark.timeout(300 + FLIPS // 20)
@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
def test_flipped_bits_never_give_wrong_state(busy_log, shown, kind: str, layout: dict[str, Any]) -> None:
    """RELIABILITY B3: each flip gives the truth or an error that names the file; with JSON the truth.

    Half of the flips hit footers, which no checksum covers. A crash of native code would end the run.
    """
    chance = random.Random(f"{kind}{layout}")
    paths = [path for path in busy_log.checkpoint(kind=kind, **layout) if path.suffix == ".parquet"]
    truth = busy_log.state().shown()
    commits = {version: busy_log.commit_file(version).read_bytes() for version in range(10)}
    busy_log.clean(10)
    whole = {path: path.read_bytes() for path in paths}
    outcomes = {"right": 0, "refused": 0}
    for number in range(FLIPS // len(LAYOUTS)):
        path = chance.choice(paths)
        data = bytearray(whole[path])
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        at = chance.randrange(footer if number % 2 else 0, len(data))
        data[at] ^= 1 << chance.randrange(8)
        outcome = damaged(path, bytes(data), busy_log, shown, truth)
        outcomes[outcome] += 1
        if outcome == "refused" and number % 20 == 0:
            for version, text in commits.items():
                busy_log.write(version, text)
            assert ds.DeltaTable(busy_log.root).snapshot().resilient(shown) == truth
            busy_log.clean(10)
        path.write_bytes(whole[path])
    print(f"{kind} {layout}: {outcomes}")
    assert outcomes["refused"] > outcomes["right"] // 4


@pytest.mark.parametrize("kind", KINDS)
def test_zeroed_sectors_never_give_wrong_state(busy_log, shown, kind: str) -> None:
    """RELIABILITY B3: a lost 512-byte sector anywhere in a checkpoint or sidecar."""
    paths = [path for path in busy_log.checkpoint(kind=kind) if path.suffix == ".parquet"]
    truth = busy_log.state().shown()
    busy_log.clean(10)
    for path in paths:
        data = path.read_bytes()
        for start in range(0, len(data), 512):
            lost = data[:start] + bytes(len(data[start : start + 512])) + data[start + 512 :]
            damaged(path, lost, busy_log, shown, truth)
        path.write_bytes(data)


def test_damaged_json_checkpoint_is_never_believed(busy_log, shown) -> None:
    """RELIABILITY B3: a torn v2 checkpoint in JSON: the log is used instead."""
    main, *_ = busy_log.checkpoint(kind="v2-json")
    data = main.read_bytes()
    truth = busy_log.state().shown()
    for length in range(0, len(data) - 1, 37):
        main.write_bytes(data[:length])
        try:
            assert shown(busy_log.load()) == truth
        except AssertionError:
            assert data[length - 1 : length] == b"\n"  # whole lines are gone: a file no reader can doubt
            raise


@pytest.mark.parametrize("kind", KINDS)
def test_damage_found_late_leads_to_the_rest_of_the_log(busy_log, shown, kind: str) -> None:
    """RELIABILITY P3: a checkpoint that opened well and fails when a column is read."""
    paths = busy_log.checkpoint(8, kind=kind)
    truth = busy_log.state().shown()
    snapshot = ds.DeltaTable(busy_log.root).snapshot()
    for path in paths:
        if path.suffix == ".parquet":
            data = path.read_bytes()
            path.write_bytes(b"PAR1" + bytes(len(data) - 4))
    assert snapshot.num_files() == len(truth["adds"])
    assert snapshot.files().num_rows == len(truth["adds"])
    assert shown(snapshot.state) == truth
    assert snapshot.state.segment.checkpoint is None


def test_damage_found_late_is_remembered_by_the_table(busy_log, caplog) -> None:
    """RELIABILITY P3: the next snapshot starts from the state that was rebuilt."""
    (path,) = busy_log.checkpoint(8)
    table = ds.DeltaTable(busy_log.root)
    first = table.snapshot()
    data = path.read_bytes()
    path.write_bytes(b"PAR1" + bytes(len(data) - 4))
    assert first.num_files() == len(busy_log.state().adds)
    caplog.clear()
    second = table.snapshot()
    assert second.state is first.state
    assert second.num_files() == first.num_files()
    busy_log.commit(busy_log.add("later", partitionValues={"p": "1"}))
    assert table.snapshot().num_files() == first.num_files() + 1
    assert not caplog.records


def test_damage_found_late_in_a_cleaned_log_is_an_error(busy_log) -> None:
    """RELIABILITY P3: nothing can replace it, so it fails by name."""
    (path,) = busy_log.checkpoint(8)
    busy_log.clean(8)
    snapshot = ds.DeltaTable(busy_log.root).snapshot()
    data = path.read_bytes()
    path.write_bytes(b"PAR1" + bytes(len(data) - 4))
    with pytest.raises(CorruptCheckpointError, match=path.name):
        snapshot.num_files()


# B4: commits that are not what they should be

GOOD = b'{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}'
LINES: dict[str, bytes] = {
    "garbage": b"garbage",
    "bare value": b"5",
    "list": b"[]",
    "null": b"null",
    "text": b'"add"',
    "two halves": b'{"add":{"path":"b"',
    "NaN": GOOD.replace(b'"size":1', b'"size":NaN'),
    "infinity": GOOD.replace(b'"size":1', b'"size":Infinity'),
    "NaN in commitInfo": b'{"commitInfo":{"x":NaN}}',
    "lone surrogate": GOOD.replace(b'"b"', rb'"\ud800"'),
    "surrogate bytes": GOOD.replace(b'"b"', b'"\xed\xa0\x80"'),
    "not UTF-8": GOOD.replace(b'"b"', b'"\xff\xfe"'),
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "NUL bytes": b"\0" * 16,
    "NUL after": GOOD + b"\0\0\0",
    "raw control character": GOOD.replace(b'"b"', b'"b\x01"'),
    "size is text": GOOD.replace(b'"size":1', b'"size":"1"'),
    "size is fraction": GOOD.replace(b'"size":1', b'"size":1.5'),
    "size is huge": GOOD.replace(b'"size":1', b'"size":' + b"9" * 30),
    "path is null": GOOD.replace(b'"b"', b"null"),
    "path is missing": b'{"add":{"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
    "partition values are a list": GOOD.replace(b"{},", b"[],"),
    "add is a list": b'{"add":[]}',
    "key twice at top": GOOD[:-1] + b"," + GOOD[1:].replace(b'"b"', b'"c"'),
    "key twice in add": GOOD.replace(b'"path":"b"', b'"path":"b","path":"c"'),
    "size twice": GOOD.replace(b'"size":1', b'"size":1,"size":2'),
    "partition twice": GOOD.replace(b"{},", b'{"p":"1","p":"2"},'),
    "add and remove": GOOD[:-1] + b',"remove":{"path":"c","dataChange":true}}',
    "deep nesting": b'{"x":' + b"[" * 200_000,
    "deep nesting, closed": b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "stray bracket": GOOD + b"]",
    "stray text with a sign": GOOD + b' {"add"',
    "version is text": b'{"txn":{"appId":"a","version":"1"}}',
    "schema is an object": b'{"metaData":{"id":"x","schemaString":{}}}',
}  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_line_that_is_no_action_fails_with_file_and_line(busy_log, name: str, last: bool) -> None:
    """LR-005, RELIABILITY B4: loud, with file and line; never a silent skip."""
    if name in ("add and remove",):
        lines = [GOOD.replace(b'"b"', b'"first"'), LINES[name]]
    else:
        lines = [b'{"commitInfo":{}}', LINES[name], *([] if last else [GOOD.replace(b'"b"', b'"later"')])]
    busy_log.write(11, b"\n".join(lines) + b"\n")
    with pytest.raises(CorruptLogError) as caught:
        busy_log.load()
    assert caught.value.path == f"_delta_log/{11:020d}.json"
    assert f"{11:020d}.json" in str(caught.value)
    if name != "add and remove":
        assert caught.value.line is not None
        assert caught.value.line >= 2
    assert busy_log.load(10).version == 10


def test_commit_cut_at_any_byte_is_refused_or_loses_whole_lines_only(busy_log, shown) -> None:
    """RELIABILITY B4: a last line cut at every byte; a cut between lines cannot be told from a commit."""
    data = busy_log.commit_file(10).read_bytes()
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(start + 1, len(data) - 1):
        busy_log.write(10, data[:length])
        with pytest.raises(CorruptLogError) as caught:
            busy_log.load()
        assert caught.value.line == data[:start].count(b"\n") + 1
    busy_log.write(10, data.rstrip(b"\n"))
    assert shown(busy_log.load()) == busy_log.state().shown()


@pytest.mark.parametrize("content", [b"", b"\n", b"  \r\n\t", b"\n\n\n"])
def test_empty_commit_is_refused(busy_log, content: bytes) -> None:
    """RELIABILITY B4: a commit of no action is a lost write, not an empty version."""
    busy_log.write(11, content)
    with pytest.raises(CorruptLogError, match="empty") as caught:
        busy_log.load()
    assert caught.value.path == f"_delta_log/{11:020d}.json"


def test_very_long_lines_are_read_or_refused(busy_log) -> None:
    """RELIABILITY B4: a line of 20 MB is no trouble when it is sound, and loud when it is not."""
    long = b"x" * 20_000_000
    busy_log.write(11, b'{"commitInfo":{"notes":"' + long + b'"}}\n' + GOOD + b"\n")
    assert busy_log.load().files.num_files == len(busy_log.state().adds) + 1
    busy_log.write(11, GOOD + b"\n" + GOOD.replace(b'"b"', b'"' + long) + b"\n")
    with pytest.raises(CorruptLogError) as caught:
        busy_log.load()
    assert caught.value.line == 2
    assert len(str(caught.value)) < 1000


def test_many_lines_are_checked_in_reasonable_time(busy_log) -> None:
    """Explicit nulls make every line be looked at closely; the work stays linear."""
    line = GOOD.replace(b'"b"', b'"f%d","tags":null') + b"\n"
    busy_log.write(11, b"".join(line % number for number in range(20_000)))
    assert busy_log.load().files.num_files == len(busy_log.state().adds) + 20_000


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_damage_to_a_commit_is_loud_or_harmless(make_log, data: st.DataObject) -> None:
    """RELIABILITY B4: any change of bytes is a typed error, or still whole actions: never fewer unnoticed."""
    with tempfile.TemporaryDirectory() as folder:
        log = make_log(Path(folder))
        log.create(log.add("a"), log.add("b"))
        text = bytearray(log.commit_file(0).read_bytes())
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(["delete", "insert", "replace"])):
            case "delete":
                del text[at : at + data.draw(st.integers(1, 10))]
            case "insert":
                text[at:at] = data.draw(st.binary(min_size=1, max_size=5))
            case _:
                text[at] = data.draw(st.integers(0, 255))
        log.write(0, bytes(text))
        try:
            found = log.load().files.num_files
        except DeltaError:
            return
        assert found == 2 or b'"add"' not in text[text.find(b"\n") :] or text.count(b'"add"') < 2


# B5: listings and foreign files

FOREIGN = [
    "_commits_staged",
    f".{3:020d}.json.crc",
    f".{3:020d}.checkpoint.parquet.crc",
    f"{11:020d}.json.tmp",
    f"{11:020d}.json.{1:08d}.tmp",
    f".tmp-{11:020d}.json",
    f"{11:020d}.checkpoint.parquet.tmp",
    f"{12:020d}.9e8a.json",
    f"{3:020d}.{7:020d}.compacted.json",
    f"{11:020d}.{20:020d}.compacted.json",
    f"{12:020d}.crc",
    f"{13:020d}",
    "zzz.parquet",
    "0.json",
    "ü\n.json",
]


def test_foreign_files_are_ignored(busy_log, shown) -> None:
    """LR-001, RELIABILITY B5: temporary files, Hadoop's checksums, compacted logs, whatever lies there."""
    truth = busy_log.state().shown()
    for name in FOREIGN:
        (busy_log.log / name).write_bytes(b"not a log file")
    (busy_log.log / f"{11:020d}.json").mkdir()
    assert shown(busy_log.load()) == truth
    busy_log.checkpoint(6)
    assert shown(busy_log.load()) == truth


class WildListing(LocalDisk):
    """A store that lists names more than once and in any order."""

    def __init__(self, root: Path, seed: int) -> None:
        def reopen(root: str, allowed: Any) -> Any:
            raise AssertionError

        super().__init__(parse_root(str(root)), (), reopen)
        self._chance = random.Random(seed)

    def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
        found = list(super().list_from(directory, name_after))
        wild = found + self._chance.sample(found, len(found) // 2)
        self._chance.shuffle(wild)
        return iter(wild)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_duplicated_and_reordered_listings_change_nothing(busy_log, shown, kind: str | None) -> None:
    """LR-002, RELIABILITY B5: the choice of files depends on names, not on the listing."""
    if kind:
        busy_log.checkpoint(4, kind=kind, parts=3)
        busy_log.checkpoint(8, kind=kind, parts=3, hint=False)
    for seed in range(8):
        store = WildListing(busy_log.root, seed)
        for version in (None, 3, 6):
            assert shown(load_snapshot(store, version)) == busy_log.state(version).shown()


def test_stale_listing_shows_an_older_version_whole(busy_log, shown) -> None:
    """RELIABILITY B5: a listing that lacks the newest commits is an older version, never a mix."""

    class Stale(WildListing):
        def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
            return (meta for meta in super().list_from(directory, name_after) if int(meta.path[11:31]) <= 7)

    assert shown(load_snapshot(Stale(busy_log.root, 1))) == busy_log.state(7).shown()


def test_listing_with_a_hole_is_a_gap(busy_log) -> None:
    """LR-028, RELIABILITY B5: a version that is missing is an error that names it."""

    class Holed(WildListing):
        def list_from(self, directory: str, name_after: str = "") -> Iterator[ObjectMeta]:
            return (meta for meta in super().list_from(directory, name_after) if int(meta.path[11:31]) != 7)

    with pytest.raises(LogGapError, match="version 7 is missing"):
        load_snapshot(Holed(busy_log.root, 1))


# B9: cleanup and vacuum under a reader


def test_cleanup_under_readers_gives_whole_versions_or_typed_errors(log, shown) -> None:
    """LR-053, RELIABILITY B9: commits and checkpoints vanish while snapshots load and travel back."""
    log.create()
    truths = {0: log.state().shown()}
    for number in range(1, 60):
        log.commit(log.add(f"f{number}"), *([log.remove(f"f{number - 1}")] if number % 3 == 0 else []))
        truths[number] = log.state().shown()
    stop = threading.Event()

    def clean() -> None:
        for version in range(5, 60, 5):
            log.checkpoint(version, kind=KINDS[version // 5 % 4])
            log.clean(version)
        stop.set()

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    chance, whole, expired = random.Random(1), 0, 0
    table = ds.DeltaTable(log.root)
    while not stop.is_set() or whole < 3:
        version = chance.choice([None, chance.randrange(60)])
        try:
            snapshot = table.snapshot(version=version)
            found = snapshot.resilient(shown)
        except (DeltaError, ObjectNotFoundError):
            expired += 1
            continue
        assert found == truths[59 if version is None else version]
        whole += 1
    cleaner.join()
    print(f"{whole} whole, {expired} expired")
    assert shown(load_snapshot(log.store)) == truths[59]


def test_latest_version_loads_through_any_cleanup(log, shown) -> None:
    """RELIABILITY B9: whatever is cleaned between listing and reading, the newest version is found."""
    log.create()
    for number in range(1, 21):
        log.commit(log.add(f"f{number}"))
    truth = log.state().shown()
    store = log.store
    get_all = store.get_all

    def slow_get_all(paths):
        store.get_all = get_all
        log.checkpoint(20)
        log.clean(20)
        return get_all(paths)

    store.get_all = slow_get_all
    assert shown(load_snapshot(store)) == truth


def test_data_files_that_vacuum_took_are_an_error_not_fewer_rows(log) -> None:
    """RELIABILITY B9: a scan of a version whose files are gone fails by name."""
    log.create(log.data_file("a.parquet", {"id": [1], "value": ["x"]}))
    log.commit(log.data_file("b.parquet", {"id": [2], "value": ["y"]}))
    snapshot = ds.DeltaTable(log.root).snapshot()
    (log.root / "a.parquet").unlink()
    with pytest.raises(DeltaError, match=r"a\.parquet"):
        snapshot.to_arrow()


def test_commit_that_appears_while_refreshing_is_seen_whole(busy_log, shown) -> None:
    """LR-053: a reader that refreshes while a writer commits sees some prefix of the commits."""
    snapshot = busy_log.load()
    stop = threading.Event()

    def write() -> None:
        for number in range(40):
            version = busy_log.version + 1
            lines = [{"commitInfo": {}}, busy_log.add(f"w{number}"), busy_log.add(f"v{number}")]
            temporary = busy_log.log / f".{version}.tmp"
            temporary.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            os.link(temporary, busy_log.commit_file(version))
            temporary.unlink()
            busy_log.commits[version] = lines[1:]
        stop.set()

    before = len(busy_log.state().adds)
    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        snapshot = refresh(busy_log.store, snapshot)
        assert snapshot.files.num_files == before + 2 * (snapshot.version - 10)
    writer.join()
    assert shown(refresh(busy_log.store, snapshot)) == busy_log.state().shown()


# B10: memory


def test_many_files_in_bounded_memory(log, record_property) -> None:
    """RELIABILITY B10: 100,000 files: the figure is recorded, and columns not asked for are not read."""
    log.create()
    log.commits[0] += [log.add(f"p={number % 100}/file-{number:06d}.parquet") for number in range(100_000)]
    log.checkpoint(0, group=20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    snapshot = log.load()
    assert snapshot.files.num_files == 100_000
    record_property("peak_kib_for_100k_files", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    (block,) = snapshot.files.blocks
    assert set(block.rows._columns) <= {("add", ("size",)), ("add", ("path",))}


def test_listing_is_not_needed_below_the_hint(busy_log) -> None:
    """LR-060: what a listing from the hint gives is all that is looked at."""
    busy_log.checkpoint(8)
    assert set(list_log(busy_log.store, 8).commits) == {8, 9, 10}
