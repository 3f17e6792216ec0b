"""`distributary table create`: an empty table with columns of one's choice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.input_file import FORMATS, input_files
from distributary.cli.result import dry_run_option, names, pairs, result_option, write_result
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    from distributary.delta.schema.data_types import StructType


@click.command(short_help="Make an empty table.")
@table_location
@click.option(
    "--schema",
    metavar="FILE|TEXT",
    help="The columns: \"id long not null, day date comment 'UTC'\", Delta's JSON, or a file of either.",
)
@click.option(
    "--like",
    type=click.Path(exists=True, dir_okay=False),
    help="Take the columns of a Parquet, Arrow, CSV or JSON file.",
)
@click.option("--format", type=click.Choice(FORMATS), help="The format of --like. Default: by its name.")
@click.option("--partition-by", metavar="A,B", help="The columns that rows are put into folders by.")
@click.option(
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    help="A table property; may be repeated. See `table property list`.",
)
@click.option("--name", help="The table's name.")
@click.option("--description", help="What the table is about.")
@click.option("--if-not-exists", is_flag=True, help="Leave a table that is there as it is.")
@dry_run_option
@result_option
def create(
    location: TableLocation,
    schema: str | None,
    like: str | None,
    format: str | None,
    partition_by: str | None,
    properties: tuple[str, ...],
    name: str | None,
    description: str | None,
    if_not_exists: bool,
    dry_run: bool,
    result: str,
) -> None:
    """Make an empty Delta table: version 0 of a new one.

    Column types are Spark's or Delta's: bigint or long, decimal(10,2), timestamp, array<int>,
    struct<name:string>.

    \b
    Examples:
      distributary table create ./orders --schema "order_id long not null, amount decimal(10,2), day date"
      distributary table create s3://lake/orders --like orders.parquet --partition-by day
      distributary table create ./orders --schema schema.json --property delta.appendOnly=true --if-not-exists
    """
    from distributary.delta.errors import TableExistsError
    from distributary.delta.operations.create import execute_create, plan_create

    store = location.store()
    plan = plan_create(
        store,
        _columns(schema, like, format),
        partition_by=names(partition_by, "--partition-by"),
        properties=pairs(properties, "--property"),
        name=name,
        description=description,
    )
    facts = {"location": store.root, "columns": len(plan.schema), "dryRun": dry_run}
    if dry_run:
        write_result(str(plan), {"version": None, "created": False, **facts}, result)
        return
    try:
        version, created = execute_create(store, plan).version, True
    except TableExistsError:
        if not if_not_exists:
            raise TableExistsError(
                f"There is a Delta table at {store.root} already. Append to it, or add --if-not-exists."
            ) from None
        version, created = location.table().version(), False
    sentence = f"created {plan}" if created else f"{store.root} is there already, at version {version}"
    write_result(sentence, {"version": version, "created": created, **facts}, result)


def _columns(schema: str | None, like: str | None, format: str | None) -> StructType:
    if (schema is None) == (like is None):
        raise click.UsageError("Give the columns with --schema, or a file that has them with --like.")
    if schema is not None:
        return _declared(schema)
    from distributary.cli.row_files import file_schema
    from distributary.delta.schema.schema_evolution import without_reserved_metadata

    assert like is not None
    return without_reserved_metadata(file_schema(input_files([like], format, None)[0]))


def _declared(text: str) -> StructType:
    """A schema from its text, or from the file of that name."""
    from distributary.delta.schema.data_types import parse_schema
    from distributary.delta.schema.type_text import parse_columns_text

    try:
        found = Path(text).read_text(encoding="utf-8") if _is_file(text) else text
    except (OSError, UnicodeError) as error:
        raise click.BadParameter(f"{text} cannot be read: {error}", param_hint="--schema") from error
    if found.lstrip().startswith("{"):
        return parse_schema(found)
    if not any(sign.isspace() for sign in found.strip()):
        raise click.BadParameter(
            f"there is no file {text!r}, and it is no list of columns such as 'id long, name string'",
            param_hint="--schema",
        )
    return parse_columns_text(found.strip())


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
