"""Rendered lines kept between queries: in memory for small tables, else in files that all workers share.

Lines belong to the rows of a checkpoint, not to a version: after a refresh only the files of later commits
are rendered. Rows are rendered in their order, chunk by chunk, by whoever needs a chunk first. A chunk of
a large table is an Arrow IPC file in the cache directory, written beside and renamed, read by memory map;
files of tables that were not asked for longest are deleted when the directory grows over its budget.

The directory is a cache: deleting it at any time costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import pyarrow as pa

from distributary.delta.log.active_files import FileBlock
from distributary.delta.log.checkpoint_rows import ParquetRows
from distributary.server.rendered_lines import CHUNK_FILES, LineForm, rendered_chunks
from distributary.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)

_IN_MEMORY = 2_000
_TOUCH_EVERY = 60.0
_FEW_FILES = 2_000
_PATIENCE = 3
_QUICKLY_RENDERED = 200_000


class RenderedCache:
    """Where rendered lines are kept; without a directory they are kept in memory."""

    def __init__(self, directory: Path | None = None, max_bytes: int = 4 << 30) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = Lock()
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def rows(self, store: ObjectStore, block: FileBlock, form: LineForm, identity: str) -> RenderedRows:
        """The lines of all files of a block; `identity` tells rows of commits apart (table, version)."""
        key = f"lines {form.digest}"
        with self._lock:
            found: RenderedRows | None = block.rows.kept.get(key)
            if found is None:
                found = RenderedRows(store, block, form, self._place(block, form, identity), self.evict)
                block.rows.kept[key] = found
        return found

    def evict(self) -> None:
        """Delete what was not used longest until the directory is within its budget."""
        if self._directory is None or not self._directory.is_dir():
            return
        found = sorted(_usage(entry) for entry in self._directory.iterdir() if entry.is_dir())
        total = sum(size for _, size, _ in found)
        for _, size, path in found:
            if total <= self._max_bytes:
                return
            shutil.rmtree(path, ignore_errors=True)
            total -= size

    def _place(self, block: FileBlock, form: LineForm, identity: str) -> Path | None:
        if self._directory is None or block.num_files <= _IN_MEMORY:
            return None
        rows = block.rows.identity if isinstance(block.rows, ParquetRows) else "commits"
        name = hashlib.sha256(f"{identity}\0{rows}\0{form.digest}".encode()).hexdigest()
        return self._directory / name[:40]


class RenderedRows:
    """The lines of all files of a block, rendered as far as they were asked for."""

    def __init__(
        self, store: ObjectStore, block: FileBlock, form: LineForm, place: Path | None, on_complete: object
    ) -> None:
        self._store = store
        self._block = block
        self._form = form
        self._place = place
        self._on_complete = on_complete
        self._memory: dict[int, pa.RecordBatch] = {}
        self._lock = Lock()
        self._pending: Iterator[tuple[int, pa.RecordBatch]] | None = None
        self._touched = 0.0
        self._direct = 0
        self.num_chunks = -(-block.num_files // CHUNK_FILES)

    @property
    def nbytes(self) -> int:
        """The bytes of the lines that are kept in memory."""
        return sum(batch.nbytes for batch in [*self._memory.values()])

    def prefers_direct(self, num_files: int, last_chunk: int) -> bool:
        """Whether a few lines are better rendered by themselves than with all that come before them."""
        few = num_files <= _FEW_FILES and self._block.num_files > _QUICKLY_RENDERED
        if not few or self._direct >= _PATIENCE or self._known(last_chunk) is not None:
            return False
        self._direct += 1
        return True

    def chunk(self, number: int) -> pa.RecordBatch:
        """The lines of files `number` × 10,000 and following."""
        found = self._known(number)
        if found is not None:
            return found
        with self._lock:
            found = self._known(number)
            return self._rendered_to(number) if found is None else found

    def _rendered_to(self, number: int) -> pa.RecordBatch:
        """Render on to a chunk; from the start where its file was deleted meanwhile."""
        if self._pending is None:
            self._pending = enumerate(rendered_chunks(self._store, self._block, self._form))
        for at, batch in self._pending:
            self._keep(at, batch)
            if at == number:
                if at == self.num_chunks - 1:
                    self._pending = None
                    self._complete()
                return batch
        self._pending = None
        return self._rendered_to(number)

    def _keep(self, number: int, batch: pa.RecordBatch) -> None:
        if self._place is None:
            self._memory[number] = batch
        elif self._known(number) is None:
            try:
                _write(self._file(number), batch)
            except OSError as error:
                _log.warning("rendered lines are not cached: %s", error)

    def _known(self, number: int) -> pa.RecordBatch | None:
        if self._place is None:
            return self._memory.get(number)
        try:
            batch = _read(self._file(number))
        except (OSError, pa.ArrowInvalid):
            return None
        if time.monotonic() - self._touched > _TOUCH_EVERY:
            self._touched = time.monotonic()
            os.utime(self._place)
        return batch

    def _complete(self) -> None:
        if self._place is not None and callable(self._on_complete):
            self._on_complete()

    def _file(self, number: int) -> Path:
        assert self._place is not None
        return self._place / f"{number:06d}.arrow"


def _write(path: Path, batch: pa.RecordBatch) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
    try:
        with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _read(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).get_batch(0)


def _usage(entry: Path) -> tuple[float, int, Path]:
    """When a table's lines were last used, how large they are, and where."""
    try:
        size = sum(file.stat().st_size for file in entry.iterdir())
        return entry.stat().st_mtime, size, entry
    except OSError:
        return 0.0, 0, entry
