"""One data file while it is written: Parquet out, an `add` action at the end.

The name holds a random UUID, so files never collide and are never overwritten (LW-009). The object appears
whole when it is finished and is durable then; nothing reads it before a commit names it. Pages carry
checksums; the Arrow schema is not stored, since the table's schema is what counts.
"""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.delta.commit.file_layout import FileLayout
from distributary.delta.commit.partition_split import log_path
from distributary.delta.log.actions import Add, PartitionValues
from distributary.delta.statistics.collection import IndexedColumn, StatisticsCollector
from distributary.storage.object_store import ObjectStore

_UNCOMPRESSED = ("none", "uncompressed")
_EXTENSIONS = {"gzip": "gz", "none": "", "uncompressed": ""}
_ARROW_CODECS = {"lz4_raw": "lz4"}


class FileFormat(msgspec.Struct, frozen=True):
    """How data files are encoded."""

    codec: str
    page_version: str
    columns: tuple[IndexedColumn, ...]
    layout: FileLayout
    data_change: bool = True

    @property
    def extension(self) -> str:
        """The end of a file's name, which tells its codec as Spark's names do."""
        codec = _EXTENSIONS.get(self.codec, self.codec)
        return f"c000.{codec}.parquet" if codec else "c000.parquet"

    def writer(self, output: IO[bytes], footers: list[pq.FileMetaData]) -> pq.ParquetWriter:
        """A Parquet writer; closing it leaves the footer in `footers`."""
        codec = "none" if self.codec in _UNCOMPRESSED else _ARROW_CODECS.get(self.codec, self.codec)
        return pq.ParquetWriter(
            output,
            self.layout.schema,
            compression=codec,
            data_page_version=self.page_version,
            write_page_checksum=True,
            store_schema=False,
            metadata_collector=footers,
        )


class DataFile:
    """A Parquet file that is being written; used by one thread at a time."""

    def __init__(
        self,
        store: ObjectStore,
        directory: str,
        number: int,
        partition_values: PartitionValues,
        file_format: FileFormat,
    ) -> None:
        self.key = f"{directory}part-{number:05d}-{uuid.uuid4()}.{file_format.extension}"
        self._partition_values = partition_values
        self._format = file_format
        self._collector = StatisticsCollector(file_format.columns)
        self._footers: list[pq.FileMetaData] = []
        self._opened: AbstractContextManager[IO[bytes]] = store.open_output(self.key)
        self._output: IO[bytes] = self._opened.__enter__()
        self._writer: Any = None
        with self._failing():
            self._writer = file_format.writer(self._output, self._footers)

    def write(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Add one row group of logical rows; returns the size of the file so far."""
        with self._failing():
            physical = [self._format.layout.physical(batch) for batch in batches]
            for batch in physical:
                self._collector.observe(batch)
            rows = pa.Table.from_batches(physical, self._format.layout.schema)
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
            return self._output.tell()

    def finish(self) -> Add:
        """Complete the file and make it durable."""
        with self._failing():
            self._writer.close()
            size = self._output.tell()
        self._opened.__exit__(None, None, None)
        footer = self._footers[0]
        return Add(
            path=log_path(self.key),
            partition_values=self._partition_values,
            size=size,
            modification_time=time.time_ns() // 1_000_000,
            data_change=self._format.data_change,
            stats=self._collector.statistics(footer, self._format.layout.schema),
        )

    def abandon(self) -> None:
        """Give the file up; nothing of it stays."""
        self._release()
        error = _AbandonedError()
        with contextlib.suppress(_AbandonedError):
            self._opened.__exit__(_AbandonedError, error, None)

    @contextlib.contextmanager
    def _failing(self) -> Any:
        """On an error the output is closed and removed, and the store says what went wrong."""
        try:
            yield
        except BaseException:
            self._release()
            if not self._opened.__exit__(*sys.exc_info()):
                raise

    def _release(self) -> None:
        """A writer that is given up must not write its footer when it is collected."""
        if self._writer is not None:
            self._writer.is_open = False


class _AbandonedError(Exception):
    """Tells an output that it is not wanted."""
