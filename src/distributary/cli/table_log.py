"""`distributary table schema | history | files`: what the log says of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.output import output_options, write_rows, write_text, write_value
from distributary.cli.progress import reading, working
from distributary.cli.table_options import (
    TableLocation,
    TableMoment,
    table_location,
    table_moment,
    where_option,
)
from distributary.frames import RowSource

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.delta.log.history import HistoryEntry
    from distributary.delta.log.snapshot import Snapshot
    from distributary.delta.schema.data_types import DataType, StructField, StructType
    from distributary.storage.object_store import ObjectStore


@click.command(short_help="Columns, types, comments.")
@table_moment
@output_options
def schema(moment: TableMoment, format: str, output: Path | None) -> None:
    """Show the columns of a table with their types, as a tree; -o json is Delta's own schema text.

    \b
    Examples:
      distributary table schema ./orders
      distributary table schema ./orders --version 3 -o json
    """
    from distributary.delta.schema.data_types import schema_to_json

    columns = moment.snapshot().schema
    if format == "table":
        write_text("\n".join(schema_lines(columns)) or "(no columns)", output)
    elif format in ("json", "ndjson"):
        write_text(schema_to_json(columns), output)
    else:
        write_rows(_schema_rows(columns), format, output)


def schema_lines(columns: StructType) -> Iterator[str]:
    """Draw a schema as a tree, one line a column."""
    from distributary.cli.text_table import cell_text

    for depth, name, kind, nullable, comment in _tree(columns):
        text = f"{'  ' * depth}{cell_text(name)}: {kind}{'' if nullable else ' not null'}"
        yield f"{text}  # {cell_text(comment)}" if comment else text


def _schema_rows(columns: StructType) -> pa.Table:
    import pyarrow as pa

    paths: list[str] = []
    rows: list[dict[str, Any]] = []
    for depth, name, kind, nullable, comment in _tree(columns):
        paths[depth:] = [name]
        rows.append({"column": ".".join(paths), "type": kind, "nullable": nullable, "comment": comment})
    names = [
        ("column", pa.string()),
        ("type", pa.string()),
        ("nullable", pa.bool_()),
        ("comment", pa.string()),
    ]
    return pa.Table.from_pylist(rows, pa.schema(names))


def _tree(struct: StructType, depth: int = 0) -> Iterator[tuple[int, str, str, bool, str | None]]:
    """Walk through the columns: depth, name, type, nullable, comment; elements of lists and maps too."""
    for field in struct.fields:
        yield from _field(field, depth)


def _field(field: StructField, depth: int) -> Iterator[tuple[int, str, str, bool, str | None]]:
    yield depth, field.name, _kind(field.data_type), field.nullable, field.comment
    yield from _inside(field.data_type, depth + 1)


def _inside(data_type: DataType, depth: int) -> Iterator[tuple[int, str, str, bool, str | None]]:
    from distributary.delta.schema.data_types import ArrayType, MapType, StructField, StructType

    if isinstance(data_type, StructType):
        yield from _tree(data_type, depth)
    elif isinstance(data_type, ArrayType):
        yield from _field(StructField("element", data_type.element_type, data_type.contains_null), depth)
    elif isinstance(data_type, MapType):
        yield from _field(StructField("key", data_type.key_type, False), depth)
        yield from _field(StructField("value", data_type.value_type, data_type.value_contains_null), depth)


def _kind(data_type: DataType) -> str:
    from distributary.delta.schema.data_types import ArrayType, MapType, StructType

    if isinstance(data_type, StructType):
        return "struct"
    if isinstance(data_type, ArrayType):
        return "array"
    return "map" if isinstance(data_type, MapType) else str(data_type)


@click.command(short_help="Who committed what, and when.")
@table_location
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most this many commits.")
@output_options
def history(location: TableLocation, limit: int | None, format: str, output: Path | None) -> None:
    """List the commits that the log still has, newest first; -o json gives all that their writers said.

    \b
    Examples:
      distributary table history ./orders
      distributary table history s3://lake/orders --limit 5 -o json
    """
    with working("reading the log…"):
        entries = location.table().history(limit)
    if format in ("json", "ndjson"):
        write_value([_commit(entry) for entry in entries], format, output)
    else:
        write_rows(_history_rows(entries, whole=format != "table"), format, output)


def _commit(entry: HistoryEntry) -> dict[str, Any]:
    from distributary.cli.table_show import iso_time

    return {
        "version": entry.version,
        "timestamp": iso_time(entry.timestamp),
        "operation": entry.operation,
        "commitInfo": entry.commit_info,
    }


def _history_rows(entries: list[HistoryEntry], *, whole: bool) -> pa.Table:
    """Give what people look for; programs get the rest of it as JSON in a column of its own."""
    import msgspec
    import pyarrow as pa

    def said(name: str) -> pa.Array:
        values = [entry.commit_info.get(name) for entry in entries]
        texts = [v if v is None or isinstance(v, str) else msgspec.json.encode(v).decode() for v in values]
        return pa.array(texts, pa.string())

    columns = {
        "version": pa.array([entry.version for entry in entries], pa.int64()),
        "timestamp": pa.array([entry.timestamp for entry in entries], pa.timestamp("ms", "UTC")),
        "operation": said("operation"),
        "parameters": said("operationParameters"),
        "engine": said("engineInfo"),
    }
    if whole:
        texts = [msgspec.json.encode(entry.commit_info).decode() for entry in entries]
        columns["commit_info"] = pa.array(texts, pa.string())
    return pa.table(columns)


@click.command(short_help="The data files, or those that a predicate needs.")
@table_moment
@where_option
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most this many files.")
@output_options
def files(
    moment: TableMoment, where: str | None, limit: int | None, format: str, output: Path | None
) -> None:
    """List the data files of a table; with --where, those that may hold rows for which it is true.

    A file that is left out cannot hold such a row: its partition values and statistics say so.

    \b
    Examples:
      distributary table files ./orders
      distributary table files ./orders --where "country = 'FR' AND order_id >= 12" -o ndjson
    """
    with working("reading the log…"):
        table = moment.location.table()
        snapshot = table.snapshot(moment.version, moment.timestamp)
        listing = snapshot.resilient(lambda state: _FileListing(table.store, state, where))
        everything = snapshot.num_files()
    if sys.stderr.isatty():
        click.echo(f"{listing.num_files:,} of {everything:,} files may match", err=True)
    write_rows(
        reading(listing, output, limit, without="stats" if format == "table" else None), format, output
    )


class _FileListing(RowSource):
    """The data files that a predicate needs, as rows."""

    def __init__(self, store: ObjectStore, state: Snapshot, predicate: str | None) -> None:
        from distributary.delta.scan.table_scan import TableScan

        self._state = state
        self._scan = TableScan(state, store, predicate=predicate)
        self.num_files = self._scan.pruned.files.num_files

    @property
    def arrow_schema(self) -> pa.Schema:
        from distributary.delta.scan.file_listing import FILE_SCHEMA

        return FILE_SCHEMA

    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        from distributary.delta.scan.file_listing import file_batches

        return file_batches(self._scan, self._state)
