"""Snapshots and rendered lines between requests: fresh, shared, rebuilt when they are gone."""

from __future__ import annotations

import itertools
import shutil
import threading
import time

import pyarrow as pa
import pytest

from distributary import DeltaTable
from distributary.delta.statistics import json_statistics
from distributary.server import predicate_hints, snapshot_cache
from distributary.server.rendered_cache import RenderedCache
from distributary.server.snapshot_cache import SnapshotCache
from distributary.sharing.table_policy import TablePolicy


def test_a_commit_is_seen_by_the_next_query(provider, orders):
    """REST-151, REST-174: the latest version is looked for at each request."""
    assert provider.version("orders") == 1
    orders.append(orders.snapshot().to_arrow())
    assert provider.version("orders") == 2
    assert len(provider.query("orders").files) == 12


def test_staleness_saves_looking_for_the_latest_version(provider, orders):
    provider.cache = SnapshotCache(staleness=3600)
    assert provider.version("orders") == 1
    orders.append(orders.snapshot().to_arrow())
    assert provider.version("orders") == 1


def test_a_table_made_anew_at_the_same_place_is_another_table(provider, orders):
    """REST-179: nothing of the old table is shown."""
    before = provider.query("orders")
    shutil.rmtree(provider.folder / "orders")
    provider.create("orders", pa.table({"id": [1]}))
    found = provider.query("orders")
    assert found.all("metaData")[0]["id"] != before.all("metaData")[0]["id"]
    assert len(found.files) == 1


def test_many_requests_at_once_load_a_table_once(provider, orders, monkeypatch):
    loads = []
    started, first = threading.Barrier(8), threading.Event()
    load = snapshot_cache.load_snapshot

    def counted(store, *given):
        loads.append(given)
        first.wait(5)
        return load(store, *given)

    monkeypatch.setattr(snapshot_cache, "load_snapshot", counted)
    policy = TablePolicy(location=str(provider.folder / "orders"))
    cache = SnapshotCache()
    versions = []

    def ask():
        started.wait()
        versions.append(cache.latest(policy).version)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    first.set()
    for thread in threads:
        thread.join()
    assert versions == [1] * 8
    assert len(loads) == 1


def test_statistics_of_an_unchanged_snapshot_are_decoded_once(provider, orders, monkeypatch):
    """ST-008: also after a refresh the rows of the checkpoint are not decoded again."""
    orders.alter.set_properties({"delta.checkpoint.writeStatsAsStruct": "false"})
    orders.checkpoint()
    decoded = []
    read = json_statistics._StatisticsDecoder.columns

    def counted(self, block):
        decoded.append(len(block))
        return read(self, block)

    monkeypatch.setattr(json_statistics._StatisticsDecoder, "columns", counted)
    body = {"predicateHints": ["id > 20"]}
    provider.query("orders", body)
    first = sum(decoded)
    assert len(provider.query("orders", body).files) == 4
    provider.query("orders", {"predicateHints": ["id > 20"], "limitHint": 4})
    assert sum(decoded) == first
    orders.append(orders.snapshot().to_arrow(predicate="country = 'FR'"))
    assert len(provider.query("orders", body).files) == 5
    assert sum(decoded) - first < first


@pytest.fixture
def large(provider, logs):
    """Ten thousand files and some more in a checkpoint, and a commit after it."""
    adds = [
        logs.add(f"p={at % 5}/{at:06d}.parquet", {"p": str(at % 5)}, {"numRecords": 1})
        for at in range(10_500)
    ]
    path = provider.write_log(
        "large", [logs.protocol, logs.metadata([("id", "long"), ("p", "string")], ["p"]), *adds]
    )
    table = DeltaTable(path)
    table.checkpoint()
    gone = {"remove": {"path": "p=0/000000.parquet", "deletionTimestamp": 1, "dataChange": True}}
    import msgspec

    (path / "_delta_log" / f"{1:020d}.json").write_bytes(
        b"\n".join(msgspec.json.encode(action) for action in (gone, logs.add("p=1/new.parquet", {"p": "1"})))
    )
    return "large"


def files_of(answer):
    return sorted(file["url"] for file in answer.files)


def test_lines_of_large_tables_are_kept_in_files_and_shared(provider, large, tmp_path):
    """REST-176: all files, whether lines were rendered here, by another worker, or must be again."""
    first = provider.query(large)
    assert len(first.files) == 10_500
    assert not any("000000.parquet" in url for url in files_of(first))
    chunks = list((tmp_path / "cache").rglob("*.arrow"))
    assert len(chunks) == 2
    other = SnapshotCache(rendered=RenderedCache(tmp_path / "cache"))
    provider.cache = other
    assert files_of(provider.query(large)) == files_of(first)
    chunks[1].unlink()
    assert files_of(provider.query(large)) == files_of(first)
    chunks[0].write_bytes(b"damaged")
    assert files_of(provider.query(large)) == files_of(first)
    shutil.rmtree(tmp_path / "cache")
    assert files_of(provider.query(large)) == files_of(first)


def test_pruned_lines_are_those_of_the_whole_answer(provider, large):
    whole = {line["url"]: line for line in provider.query(large).files}
    found = provider.query(large, {"predicateHints": ["p = '1'"]}).files
    assert len(found) == 2_101
    assert all(whole[line["url"]] == line for line in found)


def test_a_cache_over_its_budget_forgets_what_was_not_used_longest(provider, large, tmp_path):
    provider.cache = SnapshotCache(rendered=RenderedCache(tmp_path / "small", max_bytes=1))
    assert len(provider.query(large).files) == 10_500
    assert list((tmp_path / "small").rglob("*.arrow")) == []
    assert len(provider.query(large).files) == 10_500


def test_rendered_lines_hold_nothing_of_a_recipient(provider, large, tmp_path):
    """DESIGN: no URL, no filter, no recipient in the cache."""
    provider.query(large, partition_filter="p = '1'")
    data = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*.arrow"))
    assert b"files.example" not in data
    assert oct((tmp_path / "cache").stat().st_mode)[-3:] == "700"


class _CountedClock:
    """A clock that tells when it was asked so many times."""

    def __init__(self, times: int, reached: threading.Event) -> None:
        self._left = times
        self._reached = reached
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._reached.set()
            return time.monotonic()


def test_a_store_that_does_not_answer_is_asked_once_for_all_who_wait(provider, orders, monkeypatch):
    """REST-011: everybody who waited for the look gets its error; the next request looks again."""
    from distributary.errors import StorageUnreachableError
    from distributary.sharing.error_response import ServiceUnavailableError

    calls = []
    go = threading.Event()
    load = snapshot_cache.load_snapshot
    clock = _CountedClock(6, go)  # five requests have come, and one of them has begun to look

    def failing(store, *given):
        calls.append(given)
        assert go.wait(30)
        raise StorageUnreachableError("no answer from s3://hidden")

    monkeypatch.setattr(snapshot_cache, "load_snapshot", failing)
    monkeypatch.setattr(snapshot_cache, "time", clock)
    policy = TablePolicy(location=str(provider.folder / "orders"))
    cache = SnapshotCache()
    errors = []

    def ask():
        try:
            cache.latest(policy)
        except ServiceUnavailableError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 5
    assert not any("hidden" in text for text in errors)
    assert len(calls) <= 2
    monkeypatch.setattr(snapshot_cache, "load_snapshot", load)
    assert cache.latest(policy).version == 1


def test_hints_whose_work_would_be_too_much_are_ignored(provider, large, monkeypatch):
    """FLT-004: many comparisons over many files are not made; the other hints still count."""
    monkeypatch.setattr(predicate_hints, "MAX_COMPARISONS", 100_000)
    heavy = " OR ".join(f"id > {at}" for at in range(50))
    found = provider.query(large, {"predicateHints": [heavy, "p = '1'"], "limitHint": 1})
    assert len(found.files) == 2_101


def test_tables_beyond_the_memory_of_the_cache_are_forgotten_and_read_again(provider, large):
    """DESIGN 3: snapshots have a budget; what was not asked for longest goes first, the last one never."""
    provider.create("orders", pa.table({"id": [1, 2]}))
    clock = itertools.count(10, 10)  # each look at the clock finds it time to weigh
    roomy = provider.cache = SnapshotCache(now=lambda: next(clock))
    provider.query(large)
    kept = roomy.table(provider.policy(large, {}))
    provider.query("orders")
    assert kept.nbytes > 10_500 * 100
    assert roomy.table(provider.policy(large, {})) is kept
    narrow = provider.cache = SnapshotCache(max_bytes=100_000, now=lambda: next(clock))
    first = provider.query(large)
    held = narrow.table(provider.policy(large, {}))
    provider.query("orders")
    assert narrow.table(provider.policy(large, {})) is not held
    assert files_of(provider.query(large)) == files_of(first)
