"""`distributary share add-table | update-table | remove-table | add-folder`: which tables a share has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.catalog_options import catalog_option
from distributary.cli.progress import working
from distributary.cli.result import confirm, result_option, write_result, yes_option

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration

Command = TypeVar("Command", bound=Callable[..., Any])


def policy_options(command: Command) -> Command:
    """Add the rules of a table; the command gets those that were given as ``policy``."""

    @click.option(
        "--history/--no-history", "history_shared", default=None, help="Whether older versions can be read."
    )
    @click.option("--start-version", type=click.IntRange(min=0), help="The oldest version that can be read.")
    @click.option("--change-feed/--no-change-feed", default=None, help="Whether changes can be asked for.")
    @click.option(
        "--access",
        "access_modes",
        type=click.Choice(("url", "dir")),
        multiple=True,
        help="How files are reached: url (default), dir, or both by repeating it.",
    )
    @click.option(
        "--auxiliary-location",
        "auxiliary_locations",
        metavar="URI",
        multiple=True,
        help="Another root of the table's files (shallow clones); may be repeated.",
    )
    @click.option(
        "--partition",
        "partition_filter",
        metavar="SQL",
        help="Share only these partitions: a predicate over partition columns; recipient.NAME is a property "
        'of the recipient. "" takes the filter away.',
    )
    @functools.wraps(command)
    def run(**options: Any) -> Any:
        names = ("history_shared", "start_version", "change_feed", "access_modes", "auxiliary_locations")
        given = {name: options.pop(name) for name in names}
        policy = {name: value for name, value in given.items() if value not in (None, ())}
        text = options.pop("partition_filter")
        return command(
            policy=policy | ({} if text is None else {"partition_filter": text or None}), **options
        )

    return run  # pyright: ignore[reportReturnType]


def check_option(command: Command) -> Command:
    """Add ``--no-check``."""
    return click.option(
        "--check/--no-check", default=True, help="Whether the table is opened first (default)."
    )(command)


@click.command("add-table", short_help="Share a table.")
@click.argument("share", metavar="SHARE")
@click.argument("location", metavar="PATH")
@click.option(
    "--as", "name", metavar="SCHEMA.TABLE", help="Its name. Default: default.<last part of the path>."
)
@click.option("--comment", help="What the table holds, for administrators.")
@policy_options
@check_option
@result_option
@catalog_option
def add_table(
    admin: Administration,
    share: str,
    location: str,
    name: str | None,
    comment: str | None,
    policy: dict[str, Any],
    check: bool,
    result: str,
) -> None:
    """Share the Delta table at a path or URI under a name; every recipient of the share can read it at once.

    \b
    Examples:
      distributary share add-table sales s3://lake/orders --as eu.orders
      distributary share add-table sales ./orders --partition "country = recipient.country" --no-history
    """
    from distributary.sharing.table_policy import TablePolicy

    schema, table = _split(name) if name is not None else ("default", _last_part(location))
    with working("reading the table's log…"):
        made = admin.add_table(
            share, schema, table, TablePolicy(location=location, **policy), comment=comment, check=check
        )
    facts = {"table": made.full_name, "id": made.id, "location": made.policy.location}
    write_result(f"Shared {made.policy.location} as {made.full_name}.", facts, result)


@click.command("update-table", short_help="Change the rules of a shared table.")
@click.argument("share", metavar="SHARE")
@click.argument("table", metavar="SCHEMA.TABLE")
@click.option("--rename", metavar="NEW", help="A new name in the same schema.")
@click.option("--location", metavar="PATH", help="A new path or URI of the table.")
@click.option("--comment", help='A new comment; "" takes it away.')
@policy_options
@check_option
@result_option
@catalog_option
def update_table(
    admin: Administration,
    share: str,
    table: str,
    rename: str | None,
    location: str | None,
    comment: str | None,
    policy: dict[str, Any],
    check: bool,
    result: str,
) -> None:
    """Change the rules of a shared table; they hold for the next request of every recipient.

    \b
    Examples:
      distributary share update-table sales eu.orders --no-history
      distributary share update-table sales eu.orders --partition "country IN ('DE', 'FR')"
    """
    given = {"name": rename, "comment": comment}
    fields = {key: value for key, value in given.items() if value is not None}
    if location is not None:
        policy = policy | {"location": location}
    if not fields and not policy:
        raise click.UsageError("Nothing to change: give at least one option.")
    schema, name = _split(table)
    with working("reading the table's log…"):
        saved = admin.update_table(share, schema, name, policy=policy, check=check, **fields)
    changed = sorted((*fields, *policy))
    write_result(f"Changed {saved.full_name}.", {"table": saved.full_name, "changed": changed}, result)


@click.command("remove-table", short_help="Take a table out of a share.")
@click.argument("share", metavar="SHARE")
@click.argument("table", metavar="SCHEMA.TABLE")
@yes_option
@result_option
@catalog_option
def remove_table(admin: Administration, share: str, table: str, yes: bool, result: str) -> None:
    """Take a table out of a share; the table itself is not touched.

    \b
    Examples:
      distributary share remove-table sales eu.orders
      distributary share remove-table sales eu.orders --yes -o json
    """
    schema, name = _split(table)
    confirm(f"Take {table} out of share {share}?", yes)
    found = admin.remove_table(share, schema, name)
    write_result(
        f"Took {found.full_name} out of the share.", {"table": found.full_name, "id": found.id}, result
    )


@click.command("add-folder", short_help="Share every table below a folder.")
@click.argument("share", metavar="SHARE")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@policy_options
@result_option
@catalog_option
def add_folder(admin: Administration, share: str, folder: Path, policy: dict[str, Any], result: str) -> None:
    """Share every Delta table below a folder that the share does not have yet.

    The schema is the path between folder and table joined by _ (or `default`), the name is the directory's.

    \b
    Examples:
      distributary share add-folder sales ./lake
      distributary share add-folder sales /data/lake --no-history -o json
    """
    from distributary.sharing.table_policy import TablePolicy

    added = admin.add_folder(share, folder, TablePolicy(location=str(folder), **policy))
    for found, made in added:
        if found.renamed:
            click.echo(f"{found.path}: its name was taken, it is shared as {made.full_name}", err=True)
    names = [made.full_name for _, made in added]
    listed = ": " + ", ".join(names) if names else ""
    write_result(f"Shared {len(names)} tables{listed}.", {"share": share, "tables": names}, result)


def _split(text: str) -> tuple[str, str]:
    schema, period, name = text.partition(".")
    if not period or not schema or not name:
        raise click.BadParameter(f"{text!r} is not SCHEMA.TABLE")
    return schema, name


def _last_part(location: str) -> str:
    from distributary.catalog.table_folder import legal_name
    from distributary.storage.location import parse_root

    return legal_name(parse_root(location).path.rpartition("/")[2])
