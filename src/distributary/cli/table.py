"""`distributary table …`: look at a Delta table at a path or URI."""

from __future__ import annotations

import click

from distributary.cli.table_log import files, history, schema
from distributary.cli.table_rows import changes, count, head
from distributary.cli.table_show import show
from distributary.cli.table_verify import verify


@click.group(
    short_help="Look at a Delta table: rows, files, history, health.",
    epilog="PATH is a local path or a URI: s3://, abfss://, gs://, file://.",
)
def table() -> None:
    """Look at the Delta table at a path or URI: rows, schema, files, history, health.

    \b
    Examples:
      distributary table show ./orders
      distributary table head s3://lake/orders --where "country = 'FR'" -o csv
    """


for command in (show, schema, history, files, head, count, changes, verify):
    table.add_command(command)
