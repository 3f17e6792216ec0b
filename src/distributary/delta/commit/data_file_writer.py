"""Arrow rows → the data files of one commit.

Implements the writer's side of S4 "Data Files" (LW-006 to LW-009, LW-013) and of partitioning. Rows are
divided by partition, gathered into row groups, and encoded on a few threads; a file is complete at the
table's target size. Nothing is visible before a commit names the files; when writing fails, those that were
written are removed as far as the store allows, and the rest is left for vacuum.

Memory is bounded: rows wait for their row group and then for a thread, both within a budget. When many
partitions wait at once, their rows are copied together (a slice would keep its whole batch alive) and the
largest go out first; no more than a number of files is open at a time. Threads that have nothing to do get
the largest partition early.

Files of one partition are filled one after the other, so that sorted rows stay together; a second one is
begun only when the first has more than its share of rows waiting.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from distributary.delta.commit.data_file import DataFile, FileFormat
from distributary.delta.commit.encoder_threads import EncoderThreads, Lane
from distributary.delta.commit.file_layout import FileLayout
from distributary.delta.commit.partition_split import (
    PartitionTexts,
    partition_directory,
    random_directory,
    split_by_partition,
)
from distributary.delta.log.actions import Add, AddCdcFile
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name
from distributary.delta.schema.data_types import StructType
from distributary.delta.statistics.collection import ColumnPath, indexed_columns
from distributary.delta.table_properties import (
    PARQUET_FORMAT_VERSION,
    RANDOMIZE_FILE_PREFIXES,
    TARGET_FILE_SIZE,
    TableProperties,
)
from distributary.errors import StorageError
from distributary.storage.log_paths import resolve_path
from distributary.storage.object_store import ObjectStore

DEFAULT_FILE_SIZE = 128 << 20
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20


class WriterSettings(msgspec.Struct, frozen=True):
    """How much a writer may use at once."""

    threads: int = min(os.cpu_count() or 1, 4)
    max_waiting_bytes: int = 256 << 20
    max_open_files: int = 128
    max_open_uploads: int = 16


class _OpenFile(msgspec.Struct, eq=False):
    """A file under way; `assigned` is counted by the giver of rows, the rest by the thread that encodes."""

    number: int
    lane: Lane
    assigned: int = 0
    taken: int = 0
    size: int = 0
    file: DataFile | None = None

    @property
    def waiting(self) -> int:
        """Bytes of rows that are not yet encoded."""
        return self.assigned - self.taken


class _Partition(msgspec.Struct, eq=False):
    """The rows of one partition that wait for their row group, and its open files."""

    texts: PartitionTexts
    batches: list[pa.RecordBatch] = []
    num_rows: int = 0
    num_bytes: int = 0
    files: list[_OpenFile] = []


class DataFileWriter:
    """Writes the data files of one commit; used once."""

    def __init__(
        self,
        store: ObjectStore,
        schema: StructType,
        partitioning: Sequence[str],
        mode: ColumnMappingMode,
        properties: TableProperties,
        *,
        data_change: bool = True,
        required_statistics: frozenset[ColumnPath] = frozenset(),
        settings: WriterSettings | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or WriterSettings()
        self._columns = [schema.field(name) for name in partitioning]
        self._names = [physical_name(field, mode) for field in self._columns]
        self._random = properties.get(RANDOMIZE_FILE_PREFIXES)
        self._target = properties.get(TARGET_FILE_SIZE) or DEFAULT_FILE_SIZE
        self._group_bytes = max(min(_GROUP_BYTES, self._target), 1)
        self._format = FileFormat(
            codec=properties.compression_codec,
            page_version="2.0" if properties.get(PARQUET_FORMAT_VERSION).startswith("2") else "1.0",
            columns=indexed_columns(schema, partitioning, mode, properties, required_statistics),
            layout=FileLayout(schema, partitioning, mode),
            data_change=data_change,
        )
        self._partitions: dict[PartitionTexts, _Partition] = {}
        self._files: list[_OpenFile] = []
        self._recent: dict[int, tuple[_Partition, _OpenFile]] = {}
        self._adds: list[tuple[int, Add]] = []
        self._threads = EncoderThreads(self._settings.threads, self._settings.max_waiting_bytes)
        self._gathered = self._held = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Add]:
        """Write all rows, given in the table's logical columns; returns the files in the order begun."""
        try:
            for batch in batches:
                for part in _pieces(batch, self._group_bytes):
                    self._take(part)
            for partition in self._partitions.values():
                self._emit(partition)
                for file in list(partition.files):
                    self._finish(partition, file)
            self._threads.join()
        except BaseException:
            self._abandon()
            raise
        return [add for _, add in sorted(self._adds, key=lambda pair: pair[0])]

    def _take(self, rows: pa.RecordBatch) -> None:
        self._held += rows.nbytes
        for texts, part in split_by_partition(rows, self._columns):
            partition = self._partitions.setdefault(texts, _Partition(texts))
            partition.batches.append(part)
            partition.num_rows += part.num_rows
            partition.num_bytes += part.nbytes
            self._gathered += part.nbytes
            if partition.num_bytes >= self._group_bytes or partition.num_rows >= _GROUP_ROWS:
                self._emit(partition)
        if self._held > self._settings.max_waiting_bytes:
            self._make_room()
        elif self._columns and self._threads.idle:
            largest = max(self._partitions.values(), key=lambda partition: partition.num_bytes)
            if largest.num_bytes >= self._group_bytes // 4:
                self._emit(largest)

    def _make_room(self) -> None:
        """The largest partitions go out until half is free; the others let go of the batches they came in."""
        left = self._settings.max_waiting_bytes // 2
        for partition in sorted(self._partitions.values(), key=lambda partition: partition.num_bytes):
            if partition.num_bytes <= left:
                left -= partition.num_bytes
                partition.batches = _own_memory(partition.batches)
            else:
                self._emit(partition)
        self._held = self._gathered

    def _emit(self, partition: _Partition) -> None:
        """Hand the waiting rows to a thread, as one row group."""
        if not partition.num_rows:
            return
        batches, size = partition.batches, partition.num_bytes
        partition.batches, partition.num_rows, partition.num_bytes = [], 0, 0
        self._gathered -= size
        self._held = self._held if self._gathered else 0
        file = self._file_for(partition)
        self._threads.reserve(size)
        file.assigned += size
        file.lane.submit(lambda: self._encode(file, batches, size))

    def _file_for(self, partition: _Partition) -> _OpenFile:
        """The last file of a partition, or another where it is full or has much to do already."""
        ratio = self._threads.ratio
        if not ratio and partition.files and partition.files[-1].waiting >= self._target:
            ratio = self._threads.first_ratio()
        for file in list(partition.files):
            if file.size + file.waiting * ratio >= self._target:
                self._finish(partition, file)
        share = self._settings.max_waiting_bytes // self._settings.threads
        if not partition.files:
            return self._open(partition)
        if partition.files[-1].waiting < share:
            return self._used(partition, partition.files[-1])
        if len(partition.files) < self._settings.threads:
            return self._open(partition)
        return self._used(partition, min(partition.files, key=lambda file: file.waiting))

    def _open(self, partition: _Partition) -> _OpenFile:
        limit = self._settings.max_open_uploads if self._store.is_remote else self._settings.max_open_files
        while len(self._recent) >= max(limit, 1):
            self._finish(*next(iter(self._recent.values())))
        file = _OpenFile(len(self._files), self._threads.lane())
        self._files.append(file)
        partition.files.append(file)
        file.lane.submit(lambda: self._begin(file, partition.texts))
        return self._used(partition, file)

    def _used(self, partition: _Partition, file: _OpenFile) -> _OpenFile:
        """Remember that a file was used last: those unused for longest are closed first."""
        self._recent.pop(file.number, None)
        self._recent[file.number] = (partition, file)
        return file

    def _finish(self, partition: _Partition, file: _OpenFile) -> None:
        partition.files.remove(file)
        self._recent.pop(file.number, None)
        file.lane.submit(lambda: self._end(file))

    def _begin(self, file: _OpenFile, texts: PartitionTexts) -> None:
        directory = f"{random_directory()}/" if self._random else partition_directory(self._names, texts)
        values = dict(zip(self._names, texts, strict=True))
        file.file = DataFile(self._store, directory, file.number, values, self._format)

    def _encode(self, file: _OpenFile, batches: list[pa.RecordBatch], size: int) -> None:
        assert file.file is not None
        before = file.size
        file.size = file.file.write(batches)
        file.taken += size
        batches.clear()
        self._threads.release(size, file.size - before)

    def _end(self, file: _OpenFile) -> None:
        assert file.file is not None
        self._adds.append((file.number, file.file.finish()))
        file.file = None

    def _abandon(self) -> None:
        self._threads.stop()
        for file in self._files:
            if file.file is not None:
                with contextlib.suppress(Exception):
                    file.file.abandon()
        remove_data_files(self._store, [add for _, add in self._adds])


def remove_data_files(store: ObjectStore, files: Iterable[Add | AddCdcFile]) -> None:
    """Delete files that no commit names, as far as the store allows; vacuum finds the rest."""
    for file in files:
        with contextlib.suppress(StorageError):
            place, key = resolve_path(store, file.path)
            place.delete(key)


def num_records(adds: Iterable[Add]) -> int:
    """How many rows new files hold."""
    counts: Iterator[Mapping[str, int]] = (msgspec.json.decode(add.stats or "{}") for add in adds)
    return sum(count.get("numRecords", 0) for count in counts)


def _pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slices of a batch that fit into row groups."""
    fitting = max(most_bytes * batch.num_rows // max(batch.nbytes, 1), 1)
    length = min(fitting, _GROUP_ROWS)
    for start in range(0, batch.num_rows, length):
        yield batch.slice(start, length)


def _own_memory(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows, copied: a slice would keep the whole batch alive that it was cut from."""
    if not batches:
        return []
    rows = pa.concat_batches(batches)
    return [rows if len(batches) > 1 else rows.take(pa.array(range(rows.num_rows), pa.int64()))]
