"""What every store promises, proven on each kind of store."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.errors import InvalidInputError, ObjectExistsError, ObjectNotFoundError
from distributary.storage import open_store, resolve_path

ODD_KEYS = [
    "part=a%20b/x y.parquet",
    "p=2021-09-08 11%3A11%3A11/f.parquet",
    "ts=a:b/c+d#e.parquet",
    "ü/é~!*'()&=?.x",
    "%2F/%",
    "a,b;c@d/$e",
]


def _names(metas):
    return [meta.path for meta in metas]


class TestEveryStore:
    def test_odd_keys_round_trip_exactly(self, place):
        """LR-029: an object's name is its decoded path, character by character."""
        store = place.open(" root%20+x")
        for key in ODD_KEYS:
            store.put(key, key.encode())
        assert sorted(_names(store.list_all())) == sorted(ODD_KEYS)
        for key in ODD_KEYS:
            assert store.get(key) == key.encode()
            assert store.head(key).path == key
            directory = key.rpartition("/")[0]
            assert _names(store.list_from(directory)) == [key]
        assert store.list_directories() == sorted(key.rpartition("/")[0] for key in ODD_KEYS)

    def test_root_opens_the_same_place_again(self, place):
        store = place.open("/ä b%41")
        store.put("x", b"1")
        again = open_store(store.root, place.options)
        assert again.root == store.root
        assert again.get("x") == b"1"

    def test_escaped_log_path_finds_the_object(self, place):
        """LR-003, LR-029, C-22: subdirectories; decoded once; relative and absolute are the same file."""
        store = place.open()
        key = "part=a%3Ab c/f.parquet"
        store.put(key, b"rows")
        relative = "part=a%253Ab%20c/f.parquet"
        for log_path in (relative, f"{store.root}/{relative}"):
            found, found_key = resolve_path(store, log_path)
            assert found.get(found_key) == b"rows"

    def test_moved_table_keeps_its_relative_paths(self, place):
        """LR-055: what lies below a root is found below another after copying."""
        before, after = place.open(), place.open()
        before.put("day=1/f", b"x")
        for meta in before.list_all():
            after.put(meta.path, before.get(meta.path))
        store, key = resolve_path(after, "day=1/f")
        assert store.get(key) == b"x"

    def test_ranges_stop_at_the_end(self, place):
        store = place.open()
        store.put("f", b"0123456789")
        assert store.get_range("f", 2, 3) == b"234"
        assert store.get_range("f", 8, 100) == b"89"
        assert store.get_range("f", 50, 10) == b""
        assert store.get_range("f", 3, 0) == b""
        assert store.get_ranges("f", [(9, 1), (0, 2), (4, 4)]) == [b"9", b"01", b"4567"]

    def test_get_all_keeps_the_order_asked(self, place):
        store = place.open()
        names = [f"{i:03d}" for i in range(60)]
        for name in names:
            store.put(name, name.encode())
        assert store.get_all(names[::-1]) == [name.encode() for name in names[::-1]]

    def test_get_all_with_a_missing_object_fails(self, place):
        store = place.open()
        store.put("a", b"")
        with pytest.raises(ObjectNotFoundError):
            store.get_all(["a", "b"])

    def test_list_from_starts_at_the_name_and_stays_in_the_directory(self, place):
        store = place.open()
        for name in ["00.json", "01.json", "02.json", "02/deep", "10.json", "_last", "_side/01.json"]:
            store.put(f"log/{name}", b"abc")
        store.put("log2/05.json", b"")
        assert _names(store.list_from("log", "01.json")) == [
            "log/01.json",
            "log/02.json",
            "log/10.json",
            "log/_last",
        ]
        assert _names(store.list_from("log", "02")) == ["log/02.json", "log/10.json", "log/_last"]
        assert len(_names(store.list_from("log"))) == 5
        assert _names(store.list_from("log", "~")) == []
        assert store.list_directories("log") == ["log/02", "log/_side"]
        assert store.list_directories() == ["log", "log2"]

    def test_missing_directory_is_empty(self, place):
        store = place.open()
        assert list(store.list_from("nothing")) == []
        assert list(store.list_all("nothing")) == []
        assert store.list_directories("nothing") == []

    def test_listing_of_many_pages_is_complete_and_ordered(self, place):
        store = place.open()
        names = [f"d/{i:05d}" for i in range(1100)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: store.put(name, b""), names))
        assert _names(store.list_from("d")) == names
        assert _names(store.list_from("d", "01095")) == names[1095:]

    def test_meta_tells_size_and_time(self, place):
        store = place.open()
        store.put("a/f", b"12345")
        meta = store.head("a/f")
        assert (meta.path, meta.size) == ("a/f", 5)
        assert 1_600_000_000_000 < meta.last_modified < 10_000_000_000_000
        (listed,) = store.list_all()
        assert (listed.path, listed.size) == ("a/f", 5)

    def test_missing_object_is_named_with_its_root(self, place):
        store = place.open()
        for action in (store.get, store.head, store.open_file, lambda key: store.get_range(key, 0, 5)):
            with pytest.raises(ObjectNotFoundError, match="no/such") as caught:
                action("no/such")
            assert store.root in str(caught.value)

    def test_create_once_keeps_the_first(self, place):
        store = place.open()
        store.put_if_absent("log/0.json", b"first")
        with pytest.raises(ObjectExistsError, match=r"0\.json"):
            store.put_if_absent("log/0.json", b"second")
        assert store.get("log/0.json") == b"first"
        assert _names(store.list_all()) == ["log/0.json"]

    def test_create_once_race_has_one_winner(self, place):
        store = place.open()
        barrier = threading.Barrier(4)

        def attempt(writer: int) -> int | None:
            barrier.wait()
            try:
                store.put_if_absent("n.json", str(writer).encode())
            except ObjectExistsError:
                return None
            return writer

        with ThreadPoolExecutor(4) as pool:
            winners = [writer for writer in pool.map(attempt, range(4)) if writer is not None]
        assert len(winners) == 1
        assert store.get("n.json") == str(winners[0]).encode()

    def test_put_replaces_and_delete_forgets(self, place):
        store = place.open()
        store.put("f", b"1")
        store.put("f", b"22")
        assert store.get("f") == b"22"
        store.delete("f")
        store.delete("f")
        with pytest.raises(ObjectNotFoundError):
            store.get("f")

    @pytest.mark.parametrize("key", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a\0b", "."])
    def test_keys_that_climb_are_refused(self, place, key):
        store = place.open()
        with pytest.raises(InvalidInputError):
            store.get(key)
        with pytest.raises(InvalidInputError):
            store.put(key, b"")

    def test_parquet_is_read_through_open_file(self, place):
        store = place.open()
        table = pa.table({f"c{i}": pa.array(range(20_000)) for i in range(5)})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, row_group_size=5_000)
        store.put("f.parquet", buffer.getvalue())
        for size in (None, len(buffer.getvalue())):
            for pre_buffer in (True, False):
                with store.open_file("f.parquet", size) as file:
                    read = pq.ParquetFile(file, pre_buffer=pre_buffer).read(columns=["c1", "c4"])
                assert read.equals(table.select(["c1", "c4"]))

    def test_empty_object_opens(self, place):
        store = place.open()
        store.put("empty", b"")
        with store.open_file("empty") as file:
            assert file.read() == b""
        assert store.get("empty") == b""

    def test_repr_shows_only_the_root(self, place):
        store = place.open()
        assert repr(store) == f"{type(store).__name__}({store.root!r})"
