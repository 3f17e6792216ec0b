"""A remote object as a file: right bytes from many threads, few requests."""

from __future__ import annotations

import io
import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from distributary.storage.ranged_file import READ_AHEAD, RangedFile


class Counted:
    """An object in memory that counts how often it is asked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def fetch(self, offset: int, length: int) -> bytes:
        self.requests.append((offset, length))
        return self.data[offset : offset + length]

    def file(self) -> pa.PythonFile:
        return pa.PythonFile(RangedFile(self.fetch, len(self.data)), mode="r")


def _parquet(rows: int) -> bytes:
    randomness = random.Random(1)
    buffer = io.BytesIO()
    columns = {f"c{i}": [randomness.random() for _ in range(rows)] for i in range(4)}
    pq.write_table(pa.table(columns), buffer, compression="none", use_dictionary=False)
    return buffer.getvalue()


def test_small_parquet_file_costs_one_request():
    counted = Counted(_parquet(1_000))
    assert pq.read_table(counted.file()).num_rows == 1_000
    assert len(counted.requests) == 1


def test_footer_costs_one_request_and_a_column_one_more():
    counted = Counted(_parquet(100_000))
    file = pq.ParquetFile(counted.file(), pre_buffer=True)
    assert len(counted.requests) == 1
    assert file.read(columns=["c0"]).num_rows == 100_000
    assert len(counted.requests) == 2
    assert sum(length for _, length in counted.requests) < len(counted.data) / 2


def test_large_reads_fetch_just_what_is_asked():
    counted = Counted(bytes(5 * READ_AHEAD))
    file = counted.file()
    file.seek(10)
    file.read(2 * READ_AHEAD)
    assert counted.requests == [(10, 2 * READ_AHEAD)]


def test_threads_do_not_move_each_others_position():
    data = random.Random(2).randbytes(6 * READ_AHEAD)
    file = RangedFile(Counted(data).fetch, len(data))

    def read(seed: int) -> bool:
        randomness = random.Random(seed)
        right = True
        for _ in range(200):
            offset, length = randomness.randrange(len(data)), randomness.randrange(2 * READ_AHEAD)
            file.seek(offset)
            right = right and file.read(length) == data[offset : offset + length]
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 320), st.integers(-1, 320)), max_size=10))
def test_reads_give_what_an_ordinary_file_gives(data, reads):
    file, model = RangedFile(Counted(data).fetch, len(data)), io.BytesIO(data)
    for offset, length in reads:
        assert file.seek(offset) == model.seek(offset)
        assert file.read(length) == model.read(length)
        assert file.tell() == model.tell() or offset > len(data)
    assert file.seek(0, io.SEEK_END) == len(data)
