"""One Parquet file of a checkpoint while it is written.

Rows are actions (CK-008): each call gives one kind of action, the other columns are null. Row groups hold
one kind only, so that readers skip by null counts. Pages carry checksums. Columns whose values hardly
repeat are not dictionary-encoded, which costs time and memory for nothing.

The number of a part follows from the path alone, so that every attempt puts a file into the same part.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.delta.log.checkpoint_schema import leaf_names
from distributary.delta.log.checkpoint_source import BATCH_ROWS
from distributary.errors import ObjectExistsError
from distributary.storage.object_store import ObjectStore

_CLUSTERING = b"distributary.clustering"
_CLUSTERED_BY = b"crc32(path)"
_REPEATING = (".key_value.", "storageType", "clusteringProvider")


class CheckpointFile:
    """A file that appears when its block ends; one that another attempt has finished already is left."""

    def __init__(self, store: ObjectStore, path: str, schema: pa.Schema) -> None:
        self._output = store.open_output(path)
        self._schema = schema
        self._action = ""
        self._waiting: list[pa.StructArray] = []

    def __enter__(self) -> CheckpointFile:
        leaves = leaf_names(self._schema)
        self._writer = pq.ParquetWriter(
            self._output.__enter__(),
            self._schema,
            compression="snappy",
            use_dictionary=[leaf for leaf in leaves if any(part in leaf for part in _REPEATING)],
            write_statistics=[leaf for leaf in leaves if leaf != "add.stats"],
            write_page_checksum=True,
            store_schema=False,
        )
        self._writer.add_key_value_metadata({_CLUSTERING: _CLUSTERED_BY})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._finish()
        else:
            self._abandon()
        with suppress(ObjectExistsError):
            self._output.__exit__(kind, error, traceback)

    def _finish(self) -> None:
        try:
            self.flush()
            self._writer.close()
        except BaseException as failure:
            self._abandon()
            self._output.__exit__(type(failure), failure, failure.__traceback__)
            raise

    def write_small(self, rows: list[dict[str, Any]]) -> None:
        """Write actions that are no files, all in one row group."""
        columns = [
            pa.array([_with_entries(row.get(field.name)) for row in rows], field.type)
            for field in self._schema
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))

    def write(self, action: str, rows: pa.StructArray) -> None:
        """Write file actions of one kind; they wait until a row group is full."""
        if action != self._action:
            self.flush()
        self._action = action
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_arrays(self._waiting)
        self._waiting = []
        columns = [
            rows if field.name == self._action else pa.nulls(len(rows), field.type) for field in self._schema
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))

    def _abandon(self) -> None:
        """Close the writer while its output still takes bytes; they are thrown away."""
        with suppress(pa.ArrowException, OSError, ValueError):
            self._writer.close()
        self._writer.is_open = False


def _with_entries(value: Any) -> Any:
    """Maps as lists of entries, which is what Arrow builds maps from; structs are dicts as well."""
    if not isinstance(value, dict):
        return value
    return {
        name: list(inner.items())
        if name in ("configuration", "options", "tags") and isinstance(inner, dict)
        else _with_entries(inner)
        for name, inner in value.items()
    }


def part_of(paths: pa.StringArray, parts: int) -> npt.NDArray[np.int64]:
    """The number, from 0, of the part that each path belongs to (CK-007)."""
    hashes = map(zlib.crc32, paths.cast(pa.binary()).to_pylist())
    return np.fromiter(hashes, np.int64, len(paths)) % parts


def is_clustered_by_us(store: ObjectStore, path: str) -> bool:
    """Whether a part that exists was clustered like ours; a damaged one was not."""
    try:
        metadata = pq.ParquetFile(store.open_file(path)).metadata.metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return metadata.get(_CLUSTERING) == _CLUSTERED_BY
