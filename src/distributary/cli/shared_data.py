"""`distributary head | cat | changes | download`: rows of shared tables, streamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.output import output_options, write_rows
from distributary.cli.profile_options import Recipient, recipient_options
from distributary.cli.progress import reading, working
from distributary.cli.result import result_option, write_result
from distributary.cli.table_options import change_span_options, columns_option, where_option
from distributary.errors import InvalidInputError

if TYPE_CHECKING:
    from distributary.client.shared_rows import SharedRows
    from distributary.client.shared_snapshot import SharedSnapshot

Command = TypeVar("Command", bound=Callable[..., Any])
Rows = TypeVar("Rows", bound="SharedRows")

FILE_FORMATS = ("parquet", "csv", "json", "ndjson", "arrow")


def _table_argument(command: Command) -> Command:
    command = click.argument("table", metavar="SHARE.SCHEMA.TABLE")(command)
    return recipient_options(command)


def _moment_options(command: Command) -> Command:
    command = click.option("--timestamp", metavar="TIME", help="The table as it was at this time: ISO 8601.")(
        command
    )
    return click.option("--version", type=click.IntRange(min=0), help="The table at this version.")(command)


@click.command(short_help="Some rows of a shared table.")
@_table_argument
@_moment_options
@where_option
@columns_option
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=10, show_default=True, help="At most so many rows."
)
@output_options
def head(
    recipient: Recipient,
    table: str,
    version: int | None,
    timestamp: str | None,
    where: str | None,
    columns: list[str] | None,
    limit: int,
    format: str,
    output: Path | None,
) -> None:
    """Write some rows of a shared table; only the files that hold them are read.

    \b
    Examples:
      distributary head sales.eu.orders
      distributary head sales.eu.orders --where "amount > 100" --columns order_id,amount -n 5
    """
    rows = _snapshot(recipient, table, version, timestamp, where, columns).limit(limit)
    write_rows(reading(rows, output), format, output)


@click.command(short_help="All rows of a shared table.")
@_table_argument
@_moment_options
@where_option
@columns_option
@output_options
def cat(
    recipient: Recipient,
    table: str,
    version: int | None,
    timestamp: str | None,
    where: str | None,
    columns: list[str] | None,
    format: str,
    output: Path | None,
) -> None:
    """Write the rows of a shared table to stdout, as they come and in bounded memory.

    \b
    Examples:
      distributary cat sales.eu.orders -o csv > orders.csv
      distributary cat sales.eu.orders --where "day = '2024-03-03'" -o ndjson | jq .amount
    """
    rows = _snapshot(recipient, table, version, timestamp, where, columns)
    write_rows(reading(rows, output), format, output)


@click.command(short_help="What changed in a shared table.")
@_table_argument
@change_span_options
@where_option
@columns_option
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many rows.")
@output_options
def changes(
    recipient: Recipient,
    table: str,
    first: int | None,
    last: int | None,
    from_timestamp: str | None,
    to_timestamp: str | None,
    where: str | None,
    columns: list[str] | None,
    limit: int | None,
    format: str,
    output: Path | None,
) -> None:
    """Write the rows of a shared table that changed between two versions or times, both included.

    \b
    Examples:
      distributary changes sales.eu.orders --from 3
      distributary changes sales.eu.orders --from 3 --to 7 --where "_change_type = 'delete'" -o ndjson
    """
    changed = recipient.table(table).changes(
        first, last, starting_timestamp=from_timestamp, ending_timestamp=to_timestamp
    )
    rows = _narrowed(changed, where, columns)
    write_rows(reading(rows if limit is None else rows.limit(limit), output), format, output)


@click.command(short_help="A shared table into a file.")
@_table_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--as", "kind", type=click.Choice(FILE_FORMATS), help="The file's format. Default: by its name."
)
@_moment_options
@where_option
@columns_option
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many rows.")
@result_option
def download(
    recipient: Recipient,
    table: str,
    file: Path,
    kind: str | None,
    version: int | None,
    timestamp: str | None,
    where: str | None,
    columns: list[str] | None,
    limit: int | None,
    result: str,
) -> None:
    """Write a shared table into one file; it appears when it is complete.

    \b
    Examples:
      distributary download sales.eu.orders orders.parquet
      distributary download sales.eu.orders orders.csv --where "country = 'FR'"
    """
    import pyarrow as pa

    rows = _snapshot(recipient, table, version, timestamp, where, columns)
    rows = rows if limit is None else rows.limit(limit)
    count = 0
    with working(f"downloading {table}…") as tell:
        reader = rows.to_record_batch_reader()

        def counted():
            nonlocal count
            for batch in reader:
                count += batch.num_rows
                tell(f"{count:,} rows")
                yield batch

        stream = pa.RecordBatchReader.from_batches(reader.schema, counted())
        write_rows(stream, kind or _kind_of(file), file)
    facts = {"file": str(file), "rows": count, "bytes": file.stat().st_size}
    write_result(f"wrote {count:,} rows to {file} ({facts['bytes']:,} bytes)", facts, result)


def _kind_of(file: Path) -> str:
    kind = {".jsonl": "ndjson", ".feather": "arrow", ".arrows": "arrow"}.get(file.suffix, file.suffix[1:])
    if kind not in FILE_FORMATS:
        raise InvalidInputError(f"{file}: which format? Give --as {'|'.join(FILE_FORMATS)}")
    return kind


def _snapshot(
    recipient: Recipient,
    table: str,
    version: int | None,
    timestamp: str | None,
    where: str | None,
    columns: list[str] | None,
) -> SharedSnapshot:
    return _narrowed(recipient.table(table).snapshot(version, timestamp), where, columns)


def _narrowed(rows: Rows, where: str | None, columns: list[str] | None) -> Rows:
    if where is not None:
        rows = rows.where(where)
    return rows if columns is None else rows.select(*columns)
