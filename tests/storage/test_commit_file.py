"""The contract of creating log entries, on every kind of store: one writer wins, and knows that it did.

GCS has no stand-in that can take part: fake-gcs-server refuses the puts of the client library, condition or
not, so the condition on GCS (`ifGenerationMatch=0`) rests on the library and on the probe.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

import distributary.storage.commit_file as commit_file
from distributary.errors import EntryUnconfirmedError, ObjectExistsError, StorageUnreachableError
from distributary.storage import ObjectStore, open_store
from distributary.storage.commit_file import check_create_once, create_commit


def test_racing_writers_have_one_winner_whose_entry_is_there(place) -> None:
    """LW-001, A3: sixteen writers, ten entries."""
    root = place.open().root
    stores = [open_store(root, place.options) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        for version in range(10):
            gate = threading.Barrier(16)
            path = f"_delta_log/{version:020d}.json"

            def write(store: ObjectStore, path: str = path, gate: threading.Barrier = gate) -> str | None:
                label = uuid.uuid4().hex
                gate.wait()
                try:
                    create_commit(store, path, f'{{"id":"{label}"}}\n'.encode(), label)
                except ObjectExistsError:
                    return None
                return label

            winners = [label for label in pool.map(write, stores) if label]
            assert len(winners) == 1
            assert winners[0].encode() in stores[0].get(path)


def test_probe_leaves_nothing_behind(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: the object by which a store is tried out is removed."""
    monkeypatch.setattr(commit_file, "_probed", set())
    store = place.open()
    check_create_once(store)
    assert list(store.list_all()) == []


def test_disk_that_cannot_even_be_read_back_leaves_the_outcome_open(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9: a failed write whose entry cannot be looked for is not said to have failed."""
    store = open_store(str(tmp_path))

    def fail(*_: object) -> None:
        raise StorageUnreachableError("no")

    monkeypatch.setattr(type(store), "put_if_absent", fail)
    monkeypatch.setattr(type(store), "get", fail)
    with pytest.raises(EntryUnconfirmedError):
        create_commit(store, "_delta_log/x.json", b"id", "id")
