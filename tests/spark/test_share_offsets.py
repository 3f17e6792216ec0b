"""Positions of streams: every file once, in an order that never changes, whatever the limits are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.client.table_answer import SharedFile
from distributary.delta.log.actions import Add
from distributary.errors import InvalidInputError
from distributary.spark.errors import ShareSchemaChangedError
from distributary.spark.share_offsets import (
    BatchLimit,
    StreamPosition,
    VersionFiles,
    advanced,
    between,
    read_offset,
)

START = StreamPosition(table_id="t", version=3, snapshot=True)


def version(number: int, sizes: list[int], *, snapshot: bool = False) -> VersionFiles:
    files = [
        Add(f"{number}-{at}", partition_values={}, size=size, modification_time=0, data_change=True)
        for at, size in enumerate(sizes)
    ]
    return VersionFiles(number, tuple(SharedFile(file, number, 0) for file in files), snapshot)


def after(position: StreamPosition, versions: list[VersionFiles]) -> list[VersionFiles]:
    return [each for each in versions if each.version >= position.version]


def batches(versions: list[VersionFiles], limit: BatchLimit, *, whole: bool = False) -> list[list[str]]:
    """What a stream reads, batch by batch."""
    position, found = START, list[list[str]]()
    while True:
        end = advanced(position, after(position, versions), limit, whole=whole)
        if end == position:
            return found
        assert (end.version, end.index) > (position.version, position.index)
        chosen = between(position, end, after(position, versions))
        assert chosen == between(position, end, after(position, versions))
        found.append([file.action.path for file in chosen])
        position = read_offset(end.to_offset())


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=5),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 20)),
    st.booleans(),
)
def test_any_limit_gives_every_file_once_and_in_order(sizes, files, size, whole):
    versions = [version(3 + at, each, snapshot=at == 0) for at, each in enumerate(sizes)]
    read = batches(versions, BatchLimit(files, size), whole=whole)
    assert [path for batch in read for path in batch] == [
        file.action.path for each in versions for file in each.files
    ]
    if files is not None and not whole:
        assert all(len(batch) <= files for batch in read)


def test_bytes_end_a_batch_and_one_file_is_always_taken():
    read = batches([version(3, [50, 6, 4, 1], snapshot=True)], BatchLimit(size=10))
    assert read == [["3-0"], ["3-1", "3-2"], ["3-3"]]


def test_version_that_cannot_be_read_ends_the_batch_before_it_and_then_the_stream():
    problem = ShareSchemaChangedError("other columns")
    versions = [version(3, [1], snapshot=True), VersionFiles(4, problem=problem)]
    end = advanced(START, versions, BatchLimit(), whole=False)
    assert (end.version, end.index, end.snapshot) == (4, 0, False)
    with pytest.raises(ShareSchemaChangedError):
        advanced(end, after(end, versions), BatchLimit(), whole=False)


@pytest.mark.parametrize("offset", [{"reservoirVersion": 3}, {**START.to_offset(), "form": 2}])
def test_offset_of_another_kind_is_refused(offset):
    with pytest.raises(InvalidInputError, match="checkpoint"):
        read_offset(offset)
