"""`distributary table head | count | changes`: the rows of a table, streamed."""

from __future__ import annotations

from pathlib import Path

import click

from distributary.cli.output import output_options, write_rows
from distributary.cli.progress import reading, working
from distributary.cli.table_options import (
    TableLocation,
    TableMoment,
    change_span_options,
    columns_option,
    table_location,
    table_moment,
    where_option,
)


@click.command(short_help="Some rows.")
@table_moment
@where_option
@columns_option
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="At most this many rows.",
)
@click.option("--all", "everything", is_flag=True, help="Every row, whatever --limit says.")
@output_options
def head(
    moment: TableMoment,
    where: str | None,
    columns: list[str] | None,
    limit: int,
    everything: bool,
    format: str,
    output: Path | None,
) -> None:
    """Write some rows of a table, or all of them; their order is not promised.

    Only what is needed is read: files that cannot match --where are left out, and reading stops with the last
    row that is wanted.

    \b
    Examples:
      distributary table head ./orders
      distributary table head ./orders --where "amount > 100" --columns order_id,amount -n 5
      distributary table head s3://lake/orders --version 12 --all -o parquet --output orders.parquet
    """
    most = None if everything else limit
    with working("reading the log…"):
        rows = moment.snapshot().rows(columns, where, most)
    write_rows(reading(rows, output), format, output)


@click.command(short_help="How many rows.")
@table_moment
@where_option
@output_options
def count(moment: TableMoment, where: str | None, format: str, output: Path | None) -> None:
    """Count the rows of a table; from the log alone where its statistics allow.

    As a table it is the bare number, for scripts.

    \b
    Examples:
      distributary table count ./orders
      distributary table count ./orders --where "country = 'FR'" --timestamp 2024-03-03
    """
    import pyarrow as pa

    with working("counting…"):
        rows = moment.snapshot().count(where)
    if format == "table" and output is None:
        click.echo(str(rows))
    else:
        write_rows(pa.table({"count": pa.array([rows], pa.int64())}), format, output)


@click.command(short_help="What changed between two versions.")
@table_location
@change_span_options
@where_option
@columns_option
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most this many rows.")
@output_options
def changes(
    location: TableLocation,
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
    """Write the rows that changed between two versions or times, both included.

    Each row says how it changed (_change_type), in which version and when. The table must have
    delta.enableChangeDataFeed.

    \b
    Examples:
      distributary table changes ./orders --from 3
      distributary table changes ./orders --from 3 --to 7 --where "_change_type = 'delete'" -o ndjson
    """
    if (first is None) == (from_timestamp is None):
        raise click.UsageError("Give --from or --from-timestamp: where the changes begin.")
    if last is not None and to_timestamp is not None:
        raise click.UsageError("Give --to or --to-timestamp, not both.")
    with working("reading the log…"):
        changed = location.table().changes(
            first,
            last,
            starting_timestamp=from_timestamp,
            ending_timestamp=to_timestamp,
            columns=columns,
            predicate=where,
        )
    write_rows(reading(changed, output, limit), format, output)
