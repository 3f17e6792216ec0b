"""The allocator that Arrow uses while frames are made."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
from distributary.arrow_memory import frame_memory

needs_both = pytest.mark.skipif(
    not {"mimalloc", "jemalloc"} <= set(pa.supported_memory_backends()),
    reason="this Arrow has one allocator only",
)


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch):
    """Arrow as it is where nobody has chosen."""
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    before = pa.default_memory_pool()
    if "mimalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.mimalloc_memory_pool())
    yield
    pa.set_memory_pool(before)


def _used() -> str:
    return pa.default_memory_pool().backend_name


@needs_both
def test_the_last_of_several_frames_puts_the_allocator_back():
    """Frames that overlap share one change."""
    entered, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with frame_memory():
            entered.set()
            may_leave.wait(10)

    thread = threading.Thread(target=other)
    with frame_memory():
        thread.start()
        entered.wait(10)
        assert _used() == "jemalloc"
    assert _used() == "jemalloc"
    may_leave.set()
    thread.join()
    assert _used() == "mimalloc"


@needs_both
def test_a_chosen_allocator_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own variable wins, and so does an allocator that the program has set."""
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    with frame_memory():
        assert _used() == "mimalloc"
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL")
    pa.set_memory_pool(pa.system_memory_pool())
    with frame_memory():
        assert _used() == "system"


def test_a_frame_outlives_the_change(tmp_path: Path) -> None:
    """Buffers know their allocator: rows made inside are whole outside, and can be changed."""
    ids = pa.table({"id": pa.array(range(60)), "name": pa.array([f"name {n}" for n in range(60)])})
    ds.DeltaTable.create(tmp_path / "t", ids.schema).append(ids)
    frame = ds.DeltaTable(tmp_path / "t").snapshot().to_pandas()
    frame["id"] += 1
    assert int(frame["id"].sum()) == sum(range(1, 61))
    assert frame["name"].tolist() == ids["name"].to_pylist()
