"""Rows of a CSV file with a header, block by block, in the types of a table.

Every column is read as text and then converted, so that a value keeps all its digits and one that does not
fit is named with its line (blank lines are not counted). Nothing between two delimiters is null; `""` is the
empty text. Columns are found by name, exact first, then ignoring case.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from distributary.cli.inferred_schema import grown_schema, schema_of_csv
from distributary.cli.input_file import Advance, ByteStream, InputFile
from distributary.cli.json_values import decoded, typed_json, value_decoder
from distributary.cli.text_values import UnreadableValueError, typed_text
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.operations.row_stream import RowStream
from distributary.delta.schema.arrow_schema import arrow_field
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructField, StructType
from distributary.errors import InvalidInputError

_LOOK_AHEAD = 1 << 20
_BLOCK = 4 << 20


def csv_schema(file: InputFile) -> StructType:
    """The columns of a CSV file, with types as its first rows have them."""
    with file.open(lambda _count: None) as stream:
        return schema_of_csv(_inferred(file, stream))


def csv_rows(file: InputFile, table: StructType | None, *, grow: bool, advance: Advance) -> RowStream:
    """The rows of a CSV file; new columns (of a table that may grow, or is not there) by their looks."""
    stream = file.open(advance)
    inferred = schema_of_csv(_inferred(file, stream))
    known = inferred if table is None else grown_schema(table, inferred) if grow else table
    fields = [_field(name, known, file) for name in inferred.names]
    schema = pa.schema([arrow_field(field) for field in fields])
    return RowStream(schema, _batches(file, stream, inferred.names, fields, schema))


def _field(name: str, known: StructType, file: InputFile) -> StructField:
    field = known.find(name)
    if field is None:
        raise SchemaMismatchError(
            f"{file.name} has a column {name!r}, which the table does not have: leave it out, or let the "
            "table grow (--merge-schema)."
        )
    return field


def _inferred(file: InputFile, stream: ByteStream) -> pa.Schema:
    """The header, and what the first rows look like to Arrow."""
    start, complete = stream.peek(_LOOK_AHEAD)
    whole_lines = start if complete else start[: start.rfind(b"\n") + 1] or start
    try:
        schema = csv.open_csv(
            io.BytesIO(whole_lines),
            csv.ReadOptions(block_size=_LOOK_AHEAD, use_threads=False),
            _parse_options(file, lambda _row: "skip"),
            csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        ).schema
        names = schema.names
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file.name} is no CSV file with a header: {error}") from error
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInputError(f"{file.name} has two columns {twice[0]!r}: rename one of them.")
    return schema


def _parse_options(file: InputFile, handler: Any) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True, invalid_row_handler=handler)


def _batches(
    file: InputFile, stream: ByteStream, names: tuple[str, ...], fields: list[StructField], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    line = 2
    for batch in _text_batches(file, stream, names):
        columns: list[pa.Array] = []
        for column, field in zip(batch.columns, fields, strict=True):
            try:
                columns.append(_typed(column, field.data_type))
            except UnreadableValueError as error:
                at = line + error.index + _line_ends(batch.slice(0, error.index))
                raise SchemaMismatchError(
                    f"{file.name}, line {at}, column {field.name}: {error.reason}"
                ) from None
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        line += batch.num_rows + _line_ends(batch)


def _text_batches(file: InputFile, stream: ByteStream, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    refused: list[Any] = []

    def refuse(row: Any) -> str:
        refused.append(row)
        return "error"

    with stream:
        try:
            yield from csv.open_csv(
                stream,
                csv.ReadOptions(block_size=_BLOCK, use_threads=False),
                _parse_options(file, refuse),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise _malformed(file, refused, error) from error


def _malformed(file: InputFile, refused: list[Any], error: Exception) -> InvalidInputError:
    if not refused:
        return InvalidInputError(f"{file.name} is no CSV file: {error}")
    row = refused[-1]
    return InvalidInputError(
        f"{file.name}, line {row.number}: {row.actual_columns} values where the header names "
        f"{row.expected_columns}: {row.text[:60]}"
    )


def _line_ends(batch: pa.RecordBatch) -> int:
    """How many line ends are inside of values."""
    return sum(pc.sum(pc.count_substring(column, "\n")).as_py() or 0 for column in batch.columns)


def _typed(texts: pa.Array, data_type: DataType) -> pa.Array:
    if not isinstance(data_type, ArrayType | MapType | StructType):
        return typed_text(texts, data_type)
    decoder = value_decoder(data_type)
    values: list[Any] = []
    for at, text in enumerate(texts.to_pylist()):
        try:
            values.append(decoded(text, decoder) if text else None)
        except ValueError as error:
            raise UnreadableValueError(at, str(error)) from None
    return typed_json(values, data_type)
