"""Rows of a JSON file: one object a line (NDJSON), or an array of objects, or objects one after another.

Either way the file is read in blocks and never held whole. Errors name the line. A column that the table
fills by itself (generated, or with a default) is left to the table where the first rows do not have it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from distributary.cli.inferred_schema import grown_schema, schema_of_json
from distributary.cli.input_file import Advance, ByteStream, InputFile
from distributary.cli.json_values import row_columns, row_type
from distributary.cli.text_values import UnreadableValueError, shown
from distributary.delta.commit.table_rules import GENERATION_KEY
from distributary.delta.commit.write_validation import DEFAULT_KEY
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.operations.row_stream import RowStream
from distributary.delta.schema.arrow_schema import arrow_field
from distributary.delta.schema.data_types import StructField, StructType
from distributary.errors import InvalidInputError

_BLOCK = 1 << 20
_LARGEST_ROW = 256 << 20
_BETWEEN = re.compile(r"[\s,]*")
_CUT_SHORT = 16
"""So close to the end of what was read, an error may only mean that the rest is missing."""


class Block(NamedTuple):
    """Some rows as JSON texts, and the line on which each begins."""

    rows: list[bytes]
    lines: Sequence[int]


def json_schema(file: InputFile) -> StructType:
    """The columns of a JSON file, with types as its first rows have them."""
    with file.open(lambda _count: None) as stream:
        first = next(_blocks(file, stream), None)
        return StructType() if first is None else _inferred(file, first)


def json_rows(file: InputFile, table: StructType | None, *, grow: bool, advance: Advance) -> RowStream:
    """The rows of a JSON file; new columns (of a table that may grow, or is not there) by their looks."""
    stream = file.open(advance)
    blocks = _blocks(file, stream)
    first = next(blocks, Block([], []))
    known = table
    if table is None or grow:
        inferred = _inferred(file, first)
        known = inferred if table is None else grown_schema(table, inferred)
    assert known is not None
    keys = _keys(file, first, known)
    fields = [field for field in known.fields if field.name in keys or not _filled_by_table(field)]
    schema = pa.schema([arrow_field(field) for field in fields])
    rows = _Rows(file, fields, [keys.get(field.name, field.name) for field in fields], schema)
    return RowStream(schema, _batches(stream, chain([first], blocks), rows))


def _batches(stream: ByteStream, blocks: Iterator[Block], rows: _Rows) -> Iterator[pa.RecordBatch]:
    with stream:
        for block in blocks:
            if block.rows:
                yield rows.batch(block)


class _Rows:
    """Blocks of JSON texts as batches."""

    def __init__(
        self, file: InputFile, fields: list[StructField], keys: list[str], schema: pa.Schema
    ) -> None:
        self._file = file
        self._fields = fields
        self._schema = schema
        self._decoder = msgspec.json.Decoder(row_type(fields, keys))

    def batch(self, block: Block) -> pa.RecordBatch:
        """Decode the rows of a block into columns."""
        decode = self._decoder.decode
        rows: list[Any] = []
        try:
            for text in block.rows:
                rows.append(decode(text))
            return pa.RecordBatch.from_arrays(row_columns(rows, self._fields), schema=self._schema)
        except msgspec.ValidationError as error:
            where = f"{self._file.name}, line {block.lines[len(rows)]}"
            raise SchemaMismatchError(f"{where}: {_explained(str(error))}") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _malformed(self._file, block.lines[len(rows)], block.rows[len(rows)], error) from error
        except UnreadableValueError as error:
            where = f"{self._file.name}, line {block.lines[error.index]}"
            raise SchemaMismatchError(f"{where}, {error.reason}") from None


def _explained(message: str) -> str:
    """The decoder's words, with the column in ours and a way out."""
    text = re.sub(r" - at `\$\.?([^`]*)`$", r" (in \1)", message)
    if "unknown field" in text:
        text += ". Leave it out, or let the table grow (--merge-schema), if it is in the first rows"
    return text


def _filled_by_table(field: StructField) -> bool:
    return GENERATION_KEY in field.metadata or DEFAULT_KEY in field.metadata


def _inferred(file: InputFile, first: Block) -> StructType:
    rows: list[Any] = []
    try:
        for text in first.rows:
            rows.append(msgspec.json.decode(text, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _malformed(file, first.lines[len(rows)], first.rows[len(rows)], error) from error
    return schema_of_json(rows)


def _keys(file: InputFile, first: Block, known: StructType) -> dict[str, str]:
    """The columns that the first rows have, and the keys under which they have them."""
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    keys: dict[str, str] = {}
    for text, line in zip(first.rows, first.lines, strict=True):
        try:
            for key in decoder.decode(text):
                field = known.find(key)
                if field is not None:
                    keys.setdefault(field.name, key)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _malformed(file, line, text, error) from error
    return keys


def _malformed(file: InputFile, line: int, text: bytes, error: Exception) -> InvalidInputError:
    start = shown(text[:60].decode(errors="replace"))
    return InvalidInputError(f"{file.name}, line {line}: no JSON object of columns ({error}): {start}")


def _blocks(file: InputFile, stream: ByteStream) -> Iterator[Block]:
    return _lines(file, stream) if file.format == "ndjson" else _values(file, stream)


def _lines(file: InputFile, stream: ByteStream) -> Iterator[Block]:
    """Whole lines, a block at a time; blank ones are passed over."""
    line, parts, at_end = 1, list[bytes](), False
    while not at_end:
        chunk, at_end = stream.take(_BLOCK)
        head, end, tail = (chunk, b"\n", b"") if at_end else chunk.rpartition(b"\n")
        if not end:
            parts.append(chunk)
            if sum(map(len, parts)) > _LARGEST_ROW:
                raise InvalidInputError(f"{file.name}, line {line}: the line is too long to be a row")
            continue
        texts = b"".join((*parts, head)).split(b"\n")
        yield _numbered(texts, line)
        line, parts = line + len(texts), [tail]


def _numbered(texts: list[bytes], line: int) -> Block:
    if all(texts):
        return Block(texts, range(line, line + len(texts)))
    kept = [(text, at) for at, text in enumerate(texts, line) if text.strip()]
    return Block([text for text, _ in kept], [at for _, at in kept])


def _values(file: InputFile, stream: ByteStream) -> Iterator[Block]:
    """The objects of an array, or objects one after another, a block at a time."""
    splitter = _Splitter(file)
    at_end = False
    while not at_end:
        chunk, at_end = stream.take(_BLOCK)
        yield splitter.feed(chunk, at_end=at_end)


class _Splitter:
    """Cuts a stream of JSON into the texts of its objects."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._line = 1
        self._array: bool | None = None
        self._closed = False
        self._needed = 0

    def feed(self, chunk: bytes, *, at_end: bool) -> Block:
        """The objects that are complete with these bytes."""
        self._text += self._decoded(chunk, at_end)
        rows, lines = list[bytes](), list[int]()
        if len(self._text) >= self._needed or at_end:
            position = self._skip(0)
            while (end := self._end(position, at_end)) is not None:
                rows.append(self._text[position:end].encode())
                lines.append(self._line)
                self._line += self._text.count("\n", position, end)
                position = self._skip(end)
            self._text = self._text[position:]
            self._needed = 0 if rows else 2 * len(self._text)
        if at_end and self._array and not self._closed:
            raise self._refused("the array does not end: is the file complete?")
        return Block(rows, lines)

    def _skip(self, position: int) -> int:
        """Where the next object begins, or the text ends."""
        while True:
            found = _BETWEEN.match(self._text, position)
            assert found is not None
            self._line += found[0].count("\n")
            position = found.end()
            sign = self._text[position : position + 1]
            if self._array is None and sign:
                self._array = sign == "["
                if not self._array:
                    return position
            elif self._array and not self._closed and sign == "]":
                self._closed = True
            else:
                return position
            position += 1

    def _end(self, position: int, at_end: bool) -> int | None:
        """Where the object that begins here ends; None where more must be read."""
        if position == len(self._text):
            return None
        if self._text[position] != "{" or self._closed:
            raise self._refused("only objects can be rows, alone or in one array", position)
        try:
            return self._scan(self._text, position)[1]
        except RecursionError as error:
            raise self._refused("it is nested too deeply", position) from error
        except json.JSONDecodeError as error:
            left = len(self._text) - error.pos
            cut = error.msg.startswith("Unterminated string") or left <= _CUT_SHORT
            if at_end or not cut or len(self._text) - position > _LARGEST_ROW:
                self._line += self._text.count("\n", position, error.pos)
                raise self._refused(error.msg, position) from error
            return None

    def _decoded(self, chunk: bytes, at_end: bool) -> str:
        try:
            return self._decoder.decode(chunk, at_end)
        except UnicodeDecodeError as error:
            raise self._refused(f"it is not UTF-8: {error.reason}") from error

    def _refused(self, why: str, position: int = 0) -> InvalidInputError:
        start = shown(self._text[position : position + 60])
        return InvalidInputError(f"{self._file.name}, line {self._line}: {why}: {start}")
