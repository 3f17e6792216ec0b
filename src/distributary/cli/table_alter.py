"""`distributary table alter …`: columns, features, name and description of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.progress import working
from distributary.cli.result import dry_run_option, result_option, write_result
from distributary.cli.table_options import TableLocation, table_location

if TYPE_CHECKING:
    from distributary.delta.operations.alter_table import Alteration, TableAlteration

Command = TypeVar("Command", bound=Callable[..., Any])

place_options = (
    click.option("--first", is_flag=True, help="Before all other columns."),
    click.option("--after", metavar="COLUMN", help="Behind this column. Default: behind all."),
)
column_argument = click.argument("column", metavar="COLUMN")


def change_options(command: Command) -> Command:
    """Add what every change has: ``--dry-run`` and ``-o``."""
    return dry_run_option(result_option(command))


def make_change(
    location: TableLocation,
    change: Callable[[TableAlteration], Alteration],
    *,
    dry_run: bool,
    result: str,
) -> None:
    """Make one change of a table, or only plan it, and say what it was."""
    table = location.table()
    with working("checking the table…"):
        made = change(table.alter.dry_run() if dry_run else table.alter)
    nothing = made.plan.changes_nothing
    facts = {
        "location": table.uri,
        "version": made.version,
        "changed": not (nothing or dry_run),
        "operation": made.plan.operation.name,
        "parameters": made.plan.operation.parameters,
        "dryRun": dry_run,
    }
    done = str(made) if nothing or dry_run else f"version {made.version}: {made}"
    write_result(done, facts, result)


@click.group(
    short_help="Change columns, features, name, description.",
    epilog="COLUMN may be nested: address.zip; names with a dot stand in backticks.",
)
def alter() -> None:
    """Change a table without touching its rows: columns, features, name and description.

    \b
    Examples:
      distributary table alter add-column ./orders note string --comment "by the customer"
      distributary table alter rename-column ./orders note remark --dry-run
    """


@alter.command("add-column", short_help="Add a column.")
@table_location
@column_argument
@click.argument("type", metavar="TYPE")
@click.option("--comment", help="What the column holds.")
@place_options[0]
@place_options[1]
@change_options
def add_column(
    location: TableLocation,
    column: str,
    type: str,
    comment: str | None,
    first: bool,
    after: str | None,
    **how: Any,
) -> None:
    """Add a column; it is null in the rows that are there.

    \b
    Examples:
      distributary table alter add-column ./orders note string --after customer
      distributary table alter add-column ./orders address.zip string --dry-run
    """
    _check_place(first, after)
    make_change(
        location,
        lambda table: table.add_column(column, type, comment=comment, first=first, after=after),
        **how,
    )


@alter.command("rename-column", short_help="Rename a column.")
@table_location
@column_argument
@click.argument("new_name", metavar="NAME")
@change_options
def rename_column(location: TableLocation, column: str, new_name: str, **how: Any) -> None:
    """Rename a column; the table must have delta.columnMapping.mode = name.

    \b
    Examples:
      distributary table alter rename-column ./orders note remark
      distributary table alter rename-column ./orders address.zip postcode --dry-run
    """
    make_change(location, lambda table: table.rename_column(column, new_name), **how)


@alter.command("drop-column", short_help="Drop columns.")
@table_location
@click.argument("columns", metavar="COLUMN...", nargs=-1, required=True)
@change_options
def drop_column(location: TableLocation, columns: tuple[str, ...], **how: Any) -> None:
    """Drop columns; the table must have delta.columnMapping.mode = name.

    Their values stay in the files, and so in older versions, until the files are rewritten.

    \b
    Examples:
      distributary table alter drop-column ./orders note
      distributary table alter drop-column ./orders note address.zip --dry-run
    """
    make_change(location, lambda table: table.drop_column(*columns), **how)


@alter.command("move-column", short_help="Give a column another place.")
@table_location
@column_argument
@place_options[0]
@place_options[1]
@change_options
def move_column(location: TableLocation, column: str, first: bool, after: str | None, **how: Any) -> None:
    """Give a column another place among its siblings: first, after another, or last.

    \b
    Examples:
      distributary table alter move-column ./orders amount --first
      distributary table alter move-column ./orders amount --after customer
    """
    _check_place(first, after)
    make_change(location, lambda table: table.move_column(column, first=first, after=after), **how)


@alter.command("set-comment", short_help="Say what a column holds.")
@table_location
@column_argument
@click.argument("comment", metavar="TEXT")
@change_options
def set_comment(location: TableLocation, column: str, comment: str, **how: Any) -> None:
    """Set the comment of a column; an empty text takes it away.

    \b
    Examples:
      distributary table alter set-comment ./orders amount "in euros, with tax"
      distributary table alter set-comment ./orders amount ""
    """
    make_change(location, lambda table: table.comment_column(column, comment or None), **how)


@alter.command("set-not-null", short_help="Demand a value in a column.")
@table_location
@column_argument
@change_options
def set_not_null(location: TableLocation, column: str, **how: Any) -> None:
    """Demand a value in a column; refused while there is a row without one.

    \b
    Examples:
      distributary table alter set-not-null ./orders order_id
      distributary table alter set-not-null ./orders customer --dry-run
    """
    make_change(location, lambda table: table.set_not_null(column), **how)


@alter.command("set-nullable", short_help="Let a column be null.")
@table_location
@column_argument
@change_options
def set_nullable(location: TableLocation, column: str, **how: Any) -> None:
    """Let a column be null.

    \b
    Examples:
      distributary table alter set-nullable ./orders customer
      distributary table alter set-nullable ./orders address.zip -o json
    """
    make_change(location, lambda table: table.drop_not_null(column), **how)


@alter.command("widen", short_help="Give a column a wider type.")
@table_location
@column_argument
@click.argument("type", metavar="TYPE")
@change_options
def widen(location: TableLocation, column: str, type: str, **how: Any) -> None:
    """Give a column a wider type; the table must have delta.enableTypeWidening = true.

    \b
    Examples:
      distributary table alter widen ./orders quantity long
      distributary table alter widen ./orders amount "decimal(12,2)" --dry-run
    """
    make_change(location, lambda table: table.widen_column(column, type), **how)


@alter.command("set-default", short_help="Set, or take away, the default of a column.")
@table_location
@column_argument
@click.argument("expression", metavar="[SQL]", required=False)
@change_options
def set_default(location: TableLocation, column: str, expression: str | None, **how: Any) -> None:
    """Set what later writes that leave a column out put there; without SQL the default is taken away.

    The table must support allowColumnDefaults (`table alter add-feature`).

    \b
    Examples:
      distributary table alter set-default ./orders ordered_at "current_timestamp()"
      distributary table alter set-default ./orders ordered_at
    """
    make_change(location, lambda table: table.set_default(column, expression), **how)


@alter.command("add-feature", short_help="Let a table support features.")
@table_location
@click.argument("features", metavar="FEATURE...", nargs=-1, required=True)
@change_options
def add_feature(location: TableLocation, features: tuple[str, ...], **how: Any) -> None:
    """Let a table support features of the protocol; a property or a column then switches them on.

    Engines that do not know a feature can no longer write the table, or not even read it.

    \b
    Examples:
      distributary table alter add-feature ./orders allowColumnDefaults
      distributary table alter add-feature ./orders v2Checkpoint timestampNtz --dry-run
    """
    make_change(location, lambda table: table.add_feature(*features), **how)


@alter.command("describe", short_help="Set the name or the description of a table.")
@table_location
@click.option("--name", help="The table's name; an empty text takes it away.")
@click.option("--description", help="What the table is about; an empty text takes it away.")
@change_options
def describe(location: TableLocation, name: str | None, description: str | None, **how: Any) -> None:
    """Set the name or the description of a table.

    \b
    Examples:
      distributary table alter describe ./orders --description "Orders of the web shop"
      distributary table alter describe ./orders --name orders
    """
    if (name is None) == (description is None):
        raise click.UsageError("Give --name or --description (one of them).")
    if name is not None:
        make_change(location, lambda table: table.set_name(name or None), **how)
    else:
        make_change(location, lambda table: table.set_comment(description or None), **how)


def _check_place(first: bool, after: str | None) -> None:
    if first and after is not None:
        raise click.UsageError("Give --first or --after, not both.")
