"""How rows leave the command line: `-o table|json|ndjson|csv|parquet|arrow`, to stdout or into a file.

Rows come as an Arrow table or a record batch reader and are written batch by batch, so memory does not
grow with their number. Every value keeps its exact text: in JSON, decimals are strings with their scale
(a JSON number would be rounded by most readers), dates and timestamps are ISO 8601, binary is base64, NaN and
the infinities are strings, and a map is a list of [key, value]; CSV and the text table write nested values as
that JSON. A file given with ``--output`` appears only when it is complete.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import click

from distributary.errors import InvalidInputError

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

    Rows: TypeAlias = pa.Table | pa.RecordBatchReader

FORMATS = ("table", "json", "ndjson", "csv", "parquet", "arrow")
BATCH_ROWS = 8192

Command = TypeVar("Command", bound=Callable[..., Any])


def output_options(command: Command) -> Command:
    """Add ``-o/--format`` and ``--output`` to a command; it gets them as ``format`` and ``output``."""
    command = click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write to this file instead of stdout.",
    )(command)
    return click.option(
        "-o",
        "--format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How rows are written.",
    )(command)


def write_rows(rows: Rows, format: str, output: Path | None = None) -> None:
    """Write rows to stdout or into a file; Parquet and Arrow are refused on a terminal."""
    on_terminal = output is None and sys.stdout.isatty()
    if format in ("parquet", "arrow") and on_terminal:
        raise InvalidInputError(
            f"{format.capitalize()} is not for a terminal: add --output FILE or redirect stdout"
        )
    with _sink(output) as sink:
        if format == "table":
            from distributary.cli.text_table import write_text_table

            write_text_table(rows, sink, width=_terminal_width() if on_terminal else None)
        else:
            _WRITERS[format](rows, sink)


def write_text(text: str, output: Path | None = None) -> None:
    """Write a text and a line end to stdout or into a file."""
    with _sink(output) as sink:
        sink.write(text.encode() + b"\n")


def write_value(value: Any, format: str, output: Path | None = None) -> None:
    """Write one value as indented JSON, or as NDJSON: one line, or one for each item of a list."""
    import msgspec

    if format == "json":
        write_text(msgspec.json.format(encode_json(value), indent=2).decode(), output)
        return
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    with _sink(output) as sink:
        for item in items:
            sink.write(encode_json(item) + b"\n")


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Give the rows of a batch as values that JSON can say, exactly."""
    columns = [_json_values(column) for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if columns else []


def batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Cut rows into batches of a bounded size."""
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        yield from rows.to_batches(max_chunksize=BATCH_ROWS)
        return
    for batch in rows:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def text_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn the columns that have no text of their own (nested, binary) into strings."""
    import pyarrow as pa

    columns = [
        pa.array([None if v is None else _as_text(v) for v in _json_values(column)], pa.string())
        if _needs_text(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def encode_json(value: Any) -> bytes:
    """Write one value as JSON on one line."""
    import msgspec

    return msgspec.json.encode(value)


def _write_ndjson(rows: Rows, sink: IO[bytes]) -> None:
    for batch in batches(rows):
        sink.write(b"".join(encode_json(row) + b"\n" for row in json_rows(batch)))


def _write_json(rows: Rows, sink: IO[bytes]) -> None:
    separator = b"[\n"
    for batch in batches(rows):
        for row in json_rows(batch):
            sink.write(separator + encode_json(row))
            separator = b",\n"
    sink.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def _write_csv(rows: Rows, sink: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import csv

    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in rows.schema], schema=rows.schema)
    with csv.CSVWriter(sink, text_batch(empty).schema) as writer:
        for batch in batches(rows):
            writer.write_batch(text_batch(batch))


def _write_parquet(rows: Rows, sink: IO[bytes]) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(sink, rows.schema, compression="zstd") as writer:
        for batch in batches(rows):
            writer.write_batch(batch)


def _write_arrow(rows: Rows, sink: IO[bytes]) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in batches(rows):
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[Rows, IO[bytes]], None]] = {
    "json": _write_json,
    "ndjson": _write_ndjson,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}


@contextmanager
def _sink(output: Path | None) -> Generator[IO[bytes]]:
    """Open stdout's bytes, or a file that gets its name only when everything is in it."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as sink:
            yield sink
        unfinished.replace(output)
    except OSError as error:
        raise InvalidInputError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _json_values(column: pa.Array) -> list[Any]:
    values = column.cast(_textual_type(column.type)).to_pylist()
    convert = _json_converter(column.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _textual_type(data_type: pa.DataType) -> pa.DataType:
    """Replace dates and timestamps by strings at any depth: Arrow knows years that Python does not."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_temporal(data_type):
        return pa.string()
    if t.is_dictionary(data_type):
        return _textual_type(data_type.value_type)
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_textual_type(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(_textual_type(data_type.key_type), _textual_type(data_type.item_type))
    if t.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_textual_type(data_type.value_type)))
    return data_type


def _json_converter(data_type: pa.DataType) -> Callable[[Any], Any] | None:
    """Find how a value of this type becomes one that JSON can say; None when it already is one."""
    import pyarrow.types as t

    if t.is_timestamp(data_type):
        return _iso_text
    if t.is_floating(data_type):
        return _json_float
    if t.is_binary(data_type) or t.is_large_binary(data_type) or t.is_fixed_size_binary(data_type):
        return _base64
    if t.is_decimal(data_type):
        return _decimal_text
    if t.is_dictionary(data_type):
        return _json_converter(data_type.value_type)
    if t.is_list(data_type) or t.is_large_list(data_type):
        return _list_converter(_json_converter(data_type.value_type))
    if t.is_map(data_type):
        return _map_converter(_json_converter(data_type.key_type), _json_converter(data_type.item_type))
    if t.is_struct(data_type):
        return _struct_converter({field.name: _json_converter(field.type) for field in data_type})
    return None


def _iso_text(text: str) -> str:
    return text.replace(" ", "T", 1)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decimal_text(value: Decimal) -> str:
    return f"{value:f}"


def _json_float(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _apply(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _list_converter(element: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return lambda values: [_apply(element, value) for value in values]


def _map_converter(
    key: Callable[[Any], Any] | None, item: Callable[[Any], Any] | None
) -> Callable[[Any], Any]:
    return lambda entries: [[_apply(key, k), _apply(item, v)] for k, v in entries]


def _struct_converter(fields: dict[str, Callable[[Any], Any] | None]) -> Callable[[Any], Any]:
    return lambda value: {name: _apply(fields[name], child) for name, child in value.items()}


def _needs_text(data_type: pa.DataType) -> bool:
    import pyarrow.types as t

    return t.is_nested(data_type) or t.is_binary(data_type) or t.is_large_binary(data_type)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()
