"""`distributary share …`: shares, and the tables in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.catalog_options import catalog_option, write_entries
from distributary.cli.output import output_options
from distributary.cli.result import confirm, pairs, result_option, write_result, yes_option
from distributary.cli.share_table import add_folder, add_table, remove_table, update_table
from distributary.cli.time_text import time_text

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration
    from distributary.catalog.shares import Share


@click.group(short_help="Shares, and the tables in them.")
def share() -> None:
    """Shares: named sets of tables that are granted to recipients.

    \b
    Examples:
      distributary share create sales --comment "Orders of the EU shops"
      distributary share add-table sales s3://lake/orders --as eu.orders
      distributary share show sales
    """


for table_command in (add_table, update_table, remove_table, add_folder):
    share.add_command(table_command)


@share.command("create", short_help="Add an empty share.")
@click.argument("name", metavar="NAME")
@click.option("--comment", help="What the share holds, for its recipients.")
@click.option("--display-name", help="The name that user interfaces show.")
@click.option(
    "--property", "properties", metavar="KEY=VALUE", multiple=True, help="A property; may be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing where there is one of this name.")
@result_option
@catalog_option
def create_share(
    admin: Administration,
    name: str,
    comment: str | None,
    display_name: str | None,
    properties: tuple[str, ...],
    if_not_exists: bool,
    result: str,
) -> None:
    """Add an empty share, which nobody is granted yet.

    \b
    Examples:
      distributary share create sales
      distributary share create sales --comment "Orders of the EU shops" --property owner=finance
    """
    from distributary.catalog.shares import find_share

    with admin.read() as connection:
        found = find_share(connection, name) if if_not_exists else None
    if found is not None:
        write_result(f"Share {found.name} is there already.", {"share": found.name, "created": False}, result)
        return
    fields = {"comment": comment, "display_name": display_name, "properties": pairs(properties, "--property")}
    made = admin.create_share(name, **fields)
    facts = {"share": made.name, "id": made.id, "created": True}
    write_result(
        f"Made share {made.name}. Next: distributary share add-table {made.name} PATH", facts, result
    )


@share.command("list", short_help="Every share.")
@output_options
@catalog_option
def list_shares(admin: Administration, format: str, output: Path | None) -> None:
    """List the shares with the numbers of their tables and recipients.

    \b
    Examples:
      distributary share list
      distributary share list -o json
    """
    from distributary.catalog import grants, shares

    with admin.read() as connection:
        entries = [
            {
                "share": found.name,
                "tables": len(shares.list_tables(connection, found)),
                "recipients": len(grants.grants_of(connection, share=found)),
                "comment": found.comment,
                "created": time_text(found.created_at),
            }
            for found in shares.list_shares(connection)
        ]
    write_entries(entries, ("share", "tables", "recipients", "comment", "created"), format, output)


@share.command("show", short_help="The tables of a share and their rules.")
@click.argument("name", metavar="NAME")
@output_options
@catalog_option
def show_share(admin: Administration, name: str, format: str, output: Path | None) -> None:
    """Show the tables of a share: names, locations, and the rules they are served by.

    \b
    Examples:
      distributary share show sales
      distributary share show sales -o json
    """
    import msgspec

    from distributary.catalog.shares import get_share, list_tables

    with admin.read() as connection:
        tables = list_tables(connection, get_share(connection, name))
    entries = [
        {"schema": table.schema, "table": table.name, "comment": table.comment, "id": table.shown_id}
        | msgspec.structs.asdict(table.policy)
        for table in tables
    ]
    columns = (
        "schema",
        "table",
        "location",
        "history_shared",
        "start_version",
        "change_feed",
        "access_modes",
    )
    rest = ("auxiliary_locations", "partition_filter", "comment", "id")
    write_entries(entries, (*columns, *rest), format, output)


@share.command("update", short_help="Change the name or the description of a share.")
@click.argument("name", metavar="NAME")
@click.option("--rename", metavar="NEW", help="A new name; tables and grants stay.")
@click.option("--comment", help='A new comment; "" takes it away.')
@click.option("--display-name", help='A new display name; "" takes it away.')
@click.option(
    "--property", "properties", metavar="KEY=VALUE", multiple=True, help="Set a property; may be repeated."
)
@click.option("--unset-property", "unset", metavar="KEY", multiple=True, help="Take a property away.")
@result_option
@catalog_option
def update_share(
    admin: Administration,
    name: str,
    rename: str | None,
    comment: str | None,
    display_name: str | None,
    properties: tuple[str, ...],
    unset: tuple[str, ...],
    result: str,
) -> None:
    """Change the name or the description of a share; its id, tables and grants stay.

    \b
    Examples:
      distributary share update sales --rename sales_eu
      distributary share update sales --comment "All shops" --property owner=finance
    """
    given = {"name": rename, "comment": comment, "display_name": display_name}
    fields: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if properties or unset:
        kept = {k: v for k, v in _share(admin, name).properties.items() if k not in unset}
        fields["properties"] = kept | pairs(properties, "--property")
    if not fields:
        raise click.UsageError("Nothing to change: give --rename, --comment, --display-name or --property.")
    saved = admin.update_share(name, **fields)
    write_result(f"Changed share {saved.name}.", {"share": saved.name, "changed": sorted(fields)}, result)


@share.command("drop", short_help="Remove a share with its grants.")
@click.argument("name", metavar="NAME")
@click.option("--if-exists", is_flag=True, help="Do nothing where there is none.")
@yes_option
@result_option
@catalog_option
def drop_share(admin: Administration, name: str, if_exists: bool, yes: bool, result: str) -> None:
    """Remove a share with its tables and grants; the tables themselves are not touched.

    A new share of the same name is another share: nobody is granted it.

    \b
    Examples:
      distributary share drop sales
      distributary share drop sales --if-exists --yes
    """
    from distributary.catalog.shares import find_share

    with admin.read() as connection:
        missing = if_exists and find_share(connection, name) is None
    if missing:
        write_result(f"There is no share {name}.", {"share": name, "dropped": False}, result)
        return
    confirm(f"Drop share {name} with all its grants?", yes)
    found = admin.drop_share(name)
    write_result(f"Dropped share {found.name}.", {"share": found.name, "dropped": True}, result)


@share.command("grants", short_help="Who may read a share.")
@click.argument("name", metavar="NAME")
@output_options
@catalog_option
def list_grants(admin: Administration, name: str, format: str, output: Path | None) -> None:
    """List the recipients that a share is granted to.

    \b
    Examples:
      distributary share grants sales
      distributary share grants sales -o csv
    """
    from distributary.catalog.grants import grants_of
    from distributary.catalog.shares import get_share

    with admin.read() as connection:
        found = grants_of(connection, share=get_share(connection, name))
    entries = [{"recipient": grant.recipient, "since": time_text(grant.granted_at)} for grant in found]
    write_entries(entries, ("recipient", "since"), format, output)


def _share(admin: Administration, name: str) -> Share:
    from distributary.catalog.shares import get_share

    with admin.read() as connection:
        return get_share(connection, name)
