"""`distributary table …`: look at a Delta table at a path or URI, write it, and care for it."""

from __future__ import annotations

import click

from distributary.cli.table_alter import alter
from distributary.cli.table_constraint import constraint
from distributary.cli.table_copy import clone, convert
from distributary.cli.table_create import create
from distributary.cli.table_log import files, history, schema
from distributary.cli.table_maintain import analyze, checkpoint, restore, vacuum
from distributary.cli.table_property import property
from distributary.cli.table_rows import changes, count, head
from distributary.cli.table_show import show
from distributary.cli.table_verify import verify
from distributary.cli.table_write import append, overwrite


@click.group(
    short_help="Read, write and care for a Delta table.",
    epilog="PATH is a local path or a URI: s3://, abfss://, gs://, file://.",
)
def table() -> None:
    """Read, write and care for the Delta table at a path or URI.

    \b
    Examples:
      distributary table show ./orders
      distributary table head s3://lake/orders --where "country = 'FR'" -o csv
      distributary table append ./orders new_orders.csv
    """


for command in (
    *(show, schema, history, files, head, count, changes, verify),
    *(create, append, overwrite, alter, constraint, property),
    *(checkpoint, vacuum, restore, analyze, clone, convert),
):
    table.add_command(command)
