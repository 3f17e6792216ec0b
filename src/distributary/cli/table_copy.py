"""`distributary table clone | convert`: a Delta table from another table, or from Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distributary.cli.progress import bar, working
from distributary.cli.result import dry_run_option, pairs, result_option, write_result
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    from distributary.delta.schema.data_types import DataType


@click.command(short_help="Copy a table, or make a shallow clone of it.")
@table_location
@click.argument("target", metavar="TARGET")
@click.option("--shallow", is_flag=True, help="Copy no data: the clone names the files of its source.")
@click.option("--version", type=click.IntRange(min=0), help="Clone this version. Default: the latest.")
@click.option("--timestamp", metavar="TIME", help="Clone the table as it was at this time: ISO 8601.")
@dry_run_option
@result_option
def clone(
    location: TableLocation,
    target: str,
    shallow: bool,
    version: int | None,
    timestamp: str | None,
    dry_run: bool,
    result: str,
) -> None:
    """Make a new table at TARGET with the contents of the table at PATH; storage options hold for both.

    A shallow clone lives as long as its source keeps the files (mind vacuum), and is read with --allow-root.

    \b
    Examples:
      distributary table clone ./orders ./orders_copy
      distributary table clone s3://lake/orders s3://lab/orders --shallow --version 12 --dry-run
    """
    from distributary.delta.operations.clone import execute_clone, plan_clone
    from distributary.storage.object_store import open_store

    if version is not None and timestamp is not None:
        raise click.UsageError("Give --version or --timestamp, not both.")
    source = location.table()
    allowed = (source.uri,) if shallow else ()
    place = open_store(target, location.storage_options, allowed)
    with working("reading the log…"):
        plan = plan_clone(source.snapshot(version, timestamp).state, place, shallow=shallow)
    facts = {
        "location": place.root,
        "source": source.uri,
        "sourceVersion": plan.source.version,
        "shallow": shallow,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "dryRun": dry_run,
    }
    if dry_run:
        write_result(str(plan), {"version": None, **facts}, result)
        return
    with bar("copying", plan.bytes, bytes=True) as advance:
        done = execute_clone(source.store, place, plan, advance)
    write_result(f"version {done.version}: {plan}", {"version": done.version, **facts}, result)


@click.command(short_help="Make a table of a folder of Parquet files.")
@table_location
@click.option(
    "--partition-type",
    "types",
    metavar="COLUMN=TYPE",
    multiple=True,
    help="The type of a partition folder, e.g. day=date; may be repeated. Default: string.",
)
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, help="A table property.")
@click.option("--name", help="The table's name.")
@dry_run_option
@result_option
def convert(
    location: TableLocation,
    types: tuple[str, ...],
    properties: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    result: str,
) -> None:
    """Make a Delta table of a folder of Parquet files, in place; no file is moved or rewritten.

    Folders named COLUMN=VALUE become partition columns.

    \b
    Examples:
      distributary table convert ./events --partition-type day=date
      distributary table convert s3://lake/events --dry-run
    """
    from distributary.delta.operations.convert import execute_convert, plan_convert

    partition_types = _types(types)
    wanted = pairs(properties, "--property")
    store = location.store()
    with working("reading the footers…"):
        plan = plan_convert(store, partition_types=partition_types)
    facts = {
        "location": store.root,
        "files": len(plan.files),
        "bytes": sum(file.size for file in plan.files),
        "columns": len(plan.schema),
        "partitionColumns": list(plan.partitioning),
        "dryRun": dry_run,
    }
    if dry_run:
        write_result(str(plan), {"version": None, **facts}, result)
        return
    with bar("reading files", len(plan.files)) as advance:
        done = execute_convert(store, plan, properties=wanted, name=name, progress=advance)
    write_result(f"version {done.version}: {plan}", {"version": done.version, **facts}, result)


def _types(texts: tuple[str, ...]) -> dict[str, DataType]:
    from distributary.delta.schema.type_text import parse_type_text

    return {name: parse_type_text(text) for name, text in pairs(texts, "--partition-type").items()}
