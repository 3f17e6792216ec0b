"""Rows to be written, whatever library they come from.

Taken are Arrow tables, batches and readers, anything with the Arrow C stream interface (pandas, Polars,
DuckDB and others have it), and iterables of record batches. Nothing is copied and streams stay streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from distributary.errors import InvalidInputError


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that gives its rows by the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Rows = pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream | Iterable[pa.RecordBatch]


class RowStream(NamedTuple):
    """The columns of the rows, and the rows as they come."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def row_stream(data: Rows) -> RowStream:
    """The rows of any source, once."""
    source: Any = data
    if isinstance(source, pa.Table):
        return RowStream(source.schema, iter(source.to_batches()))
    if isinstance(source, pa.RecordBatch):
        return RowStream(source.schema, iter([source]))
    if isinstance(source, pa.RecordBatchReader):
        return RowStream(source.schema, iter(source))
    if isinstance(source, ArrowStream):
        reader: Any = pa.RecordBatchReader.from_stream(source)
        return RowStream(reader.schema, iter(reader))
    return _batches(source)


def _batches(data: Any) -> RowStream:
    found: Iterator[Any] = iter(data if isinstance(data, Iterable) else [data])
    first: Any = next(found, None)
    if not isinstance(first, pa.RecordBatch):
        what = "nothing, not even columns" if first is None else type(first).__name__
        raise InvalidInputError(
            f"Rows to write must be an Arrow table, batches, a reader or a frame with the Arrow C stream "
            f"interface; this gave {what}."
        )
    return RowStream(first.schema, chain([first], found))
