"""ServedTable: a snapshot under a policy: the files, schema, sizes and lines that a recipient may see.

`SnapshotFiles` is what a snapshot gives whoever asks: bounds, lines, needed features, kept between
requests. `ServedTable` is that under one `TablePolicy`: a partition filter hides files wherever they could
show (files, sizes, counts, predicates), and a filter that cannot be applied hides everything behind an
error, never nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.active_files import FileBlock
from distributary.delta.log.history import Timeline, timeline
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.kept_bounds import KeptBounds, KeptRows, kept_rows
from distributary.delta.scan.table_scan import bound_predicate
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.column_mapping import physical_name
from distributary.delta.schema.data_types import StructType
from distributary.errors import DistributaryError
from distributary.expressions.tree import Expression, columns_of
from distributary.server.rendered_cache import RenderedCache, RenderedRows
from distributary.server.rendered_lines import CHUNK_FILES, LineForm, rendered_chunks
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.error_response import InternalError
from distributary.sharing.reader_features import needed_features, supports_deletion_vectors
from distributary.sharing.table_policy import TablePolicy
from distributary.storage.object_store import ObjectStore

Indices = np.ndarray[Any, np.dtype[np.int64]]
_FIRST_LINES = 32


class SnapshotFiles:
    """The files of a snapshot, with what answers need of them, worked out once."""

    def __init__(self, store: ObjectStore, snapshot: Snapshot, cache: RenderedCache) -> None:
        self.store = store
        self.snapshot = snapshot
        self._cache = cache
        self.served: dict[str, ServedTable] = {}

    @cached_property
    def bounds(self) -> KeptBounds:
        """Partition values and statistics as typed columns."""
        return KeptBounds(self.snapshot)

    @cached_property
    def columns(self) -> pa.Schema:
        """The table's columns as predicates see them."""
        return arrow_schema(self.snapshot.schema)

    @cached_property
    def positions(self) -> Indices:
        """The position of each file."""
        return np.arange(self.snapshot.files.num_files)

    @cached_property
    def sizes(self) -> pa.ChunkedArray:
        """The bytes of each file."""
        return self.snapshot.files.column("size")

    @cached_property
    def order(self) -> Indices:
        """The files in the order of their paths: the same however the log was read, as pages need it."""
        paths = self.snapshot.files.column("path").combine_chunks()
        return pc.sort_indices(paths).to_numpy()

    @cached_property
    def needed_features(self) -> frozenset[str]:
        """The table features that a client must know to read the files."""
        snapshot = self.snapshot
        may_have = supports_deletion_vectors(snapshot.protocol)
        return needed_features(
            snapshot.protocol,
            snapshot.metadata,
            snapshot.schema,
            has_deletion_vectors=may_have and snapshot.files.has_deletion_vectors(),
        )

    @cached_property
    def timeline(self) -> Timeline:
        """The times of the versions up to this one."""
        return timeline(self.store, self.snapshot)

    @cached_property
    def identity(self) -> str:
        """A text that differs where the log that was replayed is another one."""
        segment = self.snapshot.segment
        names = sorted(segment.checkpoint.names) if segment.checkpoint else []
        tip = segment.tip
        last = None if tip is None else (tip.path, tip.size, tip.last_modified, tip.etag)
        parts = (self.store.root, self.snapshot.metadata.id, self.snapshot.version, names, last)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def lines(self, form: LineForm, chosen: Indices) -> Iterator[pa.RecordBatch]:
        """The rendered lines of files, given by their ascending positions."""
        start = 0
        for block in self.snapshot.files.blocks:
            low, high = np.searchsorted(chosen, (start, start + block.num_files))
            if low < high:
                yield from self._block_lines(block, form, chosen[low:high] - start)
            start += block.num_files

    def _block_lines(self, block: FileBlock, form: LineForm, chosen: Indices) -> Iterator[pa.RecordBatch]:
        kept = kept_rows(block.rows, self.snapshot)
        places = kept.positions(block)
        rows = chosen if places is None else places[chosen]
        rendered = self._cache.rows(self.store, kept.block, form, self._rows_identity(kept))
        if rendered.prefers_direct(len(rows), int(rows[-1]) // CHUNK_FILES):
            yield from rendered_chunks(self.store, _narrowed(kept.block, rows), form)
        else:
            yield from _taken(rendered, rows)

    def _rows_identity(self, kept: KeptRows) -> str:
        """Rows of commits belong to this very snapshot, those of a checkpoint to the table."""
        if hasattr(kept.block.rows, "identity"):
            return f"{self.store.root} {self.snapshot.metadata.id}"
        return self.identity


class ServedTable:
    """A snapshot as one policy shows it."""

    def __init__(self, files: SnapshotFiles, policy: TablePolicy) -> None:
        self.files = files
        self.policy = policy
        self.first_lines: dict[tuple[Hashable, ...], bytes] = {}
        """The lines that answers begin with, by what they depend on."""

    def remember_first_lines(self, key: tuple[Hashable, ...], lines: bytes) -> None:
        """Keep lines for the next answers, but not for every list of features that clients think of."""
        if len(self.first_lines) >= _FIRST_LINES:
            self.first_lines.clear()
        self.first_lines[key] = lines

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is shown."""
        return self.files.snapshot

    @property
    def store(self) -> ObjectStore:
        """Where the table lies."""
        return self.files.store

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self.snapshot.version

    @property
    def protocol(self) -> Protocol:
        """The table's protocol."""
        return self.snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        """The table's metadata."""
        return self.snapshot.metadata

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return self.snapshot.schema

    @cached_property
    def visible(self) -> Indices | None:
        """The positions of the files that exist for the recipient; None for all of them."""
        if self.policy.partition_filter is None:
            return None
        bound = bound_filter(self.policy.partition_filter, self.schema, self.metadata.partitioning)
        decision = self.files.bounds.decide(bound)
        if not decision.may_match.equals(decision.all_match):
            raise unusable_filter()
        return np.flatnonzero(decision.may_match.to_numpy(zero_copy_only=False))

    @property
    def positions(self) -> Indices:
        """The positions of the files that exist for the recipient."""
        return self.files.positions if self.visible is None else self.visible

    @cached_property
    def num_files(self) -> int:
        """How many files there are."""
        return self.snapshot.files.num_files if self.visible is None else len(self.visible)

    @cached_property
    def size(self) -> int:
        """How many bytes the files have."""
        sizes = self.files.sizes
        shown = sizes if self.visible is None else sizes.take(pa.array(self.visible))
        return pc.sum(shown).as_py() or 0

    def form(self, response_format: ResponseFormat, file_ids: ResponseFormat | None) -> LineForm:
        """How lines of this table look in a format."""
        mode = self.snapshot.mapping_mode
        names = self.metadata.partitioning
        physical = [physical_name(self.schema.field(name), mode) for name in names]
        wire = names if response_format == "parquet" else physical
        return LineForm(response_format, file_ids or response_format, tuple(zip(wire, physical, strict=True)))


def bound_filter(text: str, schema: StructType, partitioning: Sequence[str]) -> Expression:
    """A partition filter bound to a schema; one that reads anything but partition columns is unusable."""
    try:
        bound = bound_predicate(text, schema)
    except DistributaryError as error:
        raise unusable_filter() from error
    columns = set() if bound is None else columns_of(bound)
    known = {(name,) for name in partitioning}
    if bound is None or not columns <= known:
        raise unusable_filter()
    return bound


def unusable_filter() -> InternalError:
    """The refusal of a table whose partition filter cannot be applied: it shows nothing at all."""
    return InternalError("What is shared of this table cannot be worked out. Tell its provider.")


def _narrowed(block: FileBlock, rows: Indices) -> FileBlock:
    keep = np.zeros(block.num_files, np.bool_)
    keep[rows] = True
    return block.narrow(keep)


def _taken(rendered: RenderedRows, rows: Indices) -> Iterator[pa.RecordBatch]:
    """The lines at ascending positions, chunk by chunk."""
    if rendered.num_chunks == 1:
        batch = rendered.chunk(0)
        yield batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        return
    numbers = rows // CHUNK_FILES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
        batch = rendered.chunk(int(numbers[low]))
        within = rows[low:high] - numbers[low] * CHUNK_FILES
        yield batch if len(within) == batch.num_rows else batch.take(pa.array(within))
