"""Files of rows as one stream for a table: CSV, JSON, NDJSON, Parquet and Arrow, never held whole.

Several files become one stream, and so one commit; they must have the same columns. CSV and JSON are
converted to the table's types here; Parquet and Arrow have types of their own, which the writer checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.cli.csv_rows import csv_rows, csv_schema
from distributary.cli.input_file import STDIN, Advance, ByteStream, InputFile, spooled
from distributary.cli.json_rows import json_rows, json_schema
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.operations.row_stream import RowStream
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.data_types import StructType
from distributary.errors import InvalidInputError

_BATCH_ROWS = 65_536
_ARROW_FILE_MAGIC = b"ARROW1"


def file_schema(file: InputFile) -> StructType:
    """The columns of a file; of CSV and JSON as its first rows look."""
    if file.format == "csv":
        return csv_schema(file)
    if file.format in ("json", "ndjson"):
        return json_schema(file)
    return delta_schema(_typed_rows(file, lambda _count: None).schema)


def read_rows(
    files: Sequence[InputFile], table: StructType | None, *, grow: bool, advance: Advance
) -> pa.RecordBatchReader:
    """The rows of files for a table with these columns, or without one as the first file has them."""
    first = _rows(files[0], table, grow=grow, advance=advance)
    return pa.RecordBatchReader.from_batches(
        first.schema, _chained(first, files, table, grow=grow, advance=advance)
    )


def _chained(
    first: RowStream, files: Sequence[InputFile], table: StructType | None, *, grow: bool, advance: Advance
) -> Iterator[pa.RecordBatch]:
    yield from first.batches
    # Without a table, later files are read as the first one looked.
    known = table if table is not None and not grow else _joined(table, delta_schema(first.schema))
    for file in files[1:]:
        rows = _rows(file, known, grow=False, advance=advance)
        yield from _same_columns(rows, first.schema, file, files[0])


def _joined(table: StructType | None, first: StructType) -> StructType:
    """The columns of a table that grows by those of the first file."""
    if table is None:
        return first
    return StructType((*table.fields, *(field for field in first.fields if table.find(field.name) is None)))


def _rows(file: InputFile, table: StructType | None, *, grow: bool, advance: Advance) -> RowStream:
    if file.format == "csv":
        return csv_rows(file, table, grow=grow, advance=advance)
    if file.format in ("json", "ndjson"):
        return json_rows(file, table, grow=grow, advance=advance)
    return _typed_rows(file, advance)


def _same_columns(
    rows: RowStream, schema: pa.Schema, file: InputFile, first: InputFile
) -> Iterator[pa.RecordBatch]:
    different = sorted(set(schema.names) ^ set(rows.schema.names))
    if different:
        raise SchemaMismatchError(
            f"{file.name} has other columns than {first.name}: {', '.join(different[:5])}. Append files with "
            "different columns one by one."
        )
    for batch in rows.batches:
        ordered = batch.select(schema.names)
        yield ordered if ordered.schema.equals(schema) else _cast(ordered, schema, file)


def _cast(batch: pa.RecordBatch, schema: pa.Schema, file: InputFile) -> pa.RecordBatch:
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            f"{file.name} has other types than the file before it: {error}. Append the files one by one."
        ) from error


def _typed_rows(file: InputFile, advance: Advance) -> RowStream:
    try:
        return _parquet(file, advance) if file.format == "parquet" else _arrow(file, advance)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _parquet(file: InputFile, advance: Advance) -> RowStream:
    source = file.open_seekable()
    parquet = _opened(pq.ParquetFile, source)
    share = (file.size or 0) / max(parquet.metadata.num_rows, 1)
    batches = parquet.iter_batches(_BATCH_ROWS)
    return RowStream(
        parquet.schema_arrow, _guarded(file, source, batches, lambda rows: advance(int(rows * share)))
    )


def _arrow(file: InputFile, advance: Advance) -> RowStream:
    """A stream, or a file with a footer, told apart by how they begin."""
    stream = file.open(advance)
    if not stream.peek(len(_ARROW_FILE_MAGIC))[0].startswith(_ARROW_FILE_MAGIC):
        reader = pa.ipc.open_stream(stream)
        return RowStream(reader.schema, _guarded(file, stream, iter(reader)))
    source = _seekable(file, stream)
    reader = _opened(pa.ipc.open_file, source)
    batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
    return RowStream(reader.schema, _guarded(file, source, batches))


def _opened(reader: Callable[[Any], Any], source: Any) -> Any:
    """What reads a source; the source is closed where it cannot be read."""
    try:
        return reader(source)
    except BaseException:
        source.close()
        raise


def _seekable(file: InputFile, stream: ByteStream) -> Any:
    """The file itself, or a copy on disk of what comes through a pipe."""
    return file.open_seekable() if file.path != STDIN else spooled(stream)


def _guarded(
    file: InputFile,
    source: Any,
    batches: Iterator[pa.RecordBatch],
    advance: Advance = lambda _rows: None,
) -> Iterator[pa.RecordBatch]:
    """The batches, with damage of the file told as such, and the file closed after the last."""
    with closing(source):
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(file, error) from error
            if batch is None:
                return
            advance(batch.num_rows)
            yield batch


def _unreadable(file: InputFile, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"{file.name} is no readable {file.format.capitalize()} file: {error}")
