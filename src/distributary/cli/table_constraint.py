"""`distributary table constraint add | drop | list`: conditions that every row must satisfy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from distributary.cli.output import output_options, write_rows
from distributary.cli.progress import working
from distributary.cli.table_alter import change_options, make_change
from distributary.cli.table_options import TableLocation, table_location


@click.group(short_help="Conditions that every row must satisfy.")
def constraint() -> None:
    """CHECK constraints: conditions that every row must satisfy, for every writer.

    \b
    Examples:
      distributary table constraint add ./orders positive "amount > 0"
      distributary table constraint list ./orders
    """


@constraint.command("add", short_help="Add a constraint.")
@table_location
@click.argument("name", metavar="NAME")
@click.argument("expression", metavar="SQL")
@change_options
def add_constraint(location: TableLocation, name: str, expression: str, **how: Any) -> None:
    """Add a constraint; refused while there is a row that does not satisfy it.

    \b
    Examples:
      distributary table constraint add ./orders positive "amount > 0"
      distributary table constraint add ./orders known "country IN ('DE', 'FR', 'NL')" --dry-run
    """
    make_change(location, lambda table: table.add_constraint(name, expression), **how)


@constraint.command("drop", short_help="Drop a constraint.")
@table_location
@click.argument("name", metavar="NAME")
@click.option("--if-exists", is_flag=True, help="Do nothing where there is none.")
@change_options
def drop_constraint(location: TableLocation, name: str, if_exists: bool, **how: Any) -> None:
    """Drop a constraint.

    \b
    Examples:
      distributary table constraint drop ./orders positive
      distributary table constraint drop ./orders positive --if-exists --dry-run
    """
    make_change(location, lambda table: table.drop_constraint(name, if_exists=if_exists), **how)


@constraint.command("list", short_help="The constraints of a table.")
@table_location
@output_options
def list_constraints(location: TableLocation, format: str, output: Path | None) -> None:
    """List what a table demands of its rows: CHECK constraints, and columns that are NOT NULL.

    \b
    Examples:
      distributary table constraint list ./orders
      distributary table constraint list s3://lake/orders -o json
    """
    import pyarrow as pa

    with working("reading the log…"):
        snapshot = location.table().snapshot()
    checks = snapshot.state.properties.constraints.items()
    columns = [field.name for field in snapshot.schema.fields if not field.nullable]
    rows = [("check", name, text) for name, text in sorted(checks)]
    rows += [("not null", name, f"{name} IS NOT NULL") for name in columns]
    names = ("kind", "name", "expression")
    values = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(names)}
    write_rows(pa.table(values), format, output)
