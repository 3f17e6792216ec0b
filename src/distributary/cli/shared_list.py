"""`distributary ls | describe`: what a recipient may see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.output import output_options, write_rows, write_text, write_value
from distributary.cli.profile_options import Recipient, recipient_options

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.client.shared_table import SharedTable
    from distributary.client.sharing_client import SharingClient


@click.command(short_help="Shares, schemas and tables that are shared with you.")
@click.argument("name", required=False, metavar="[SHARE[.SCHEMA]]")
@click.option("-a", "--all", "everything", is_flag=True, help="Every table below, by its whole name.")
@recipient_options
@output_options
def ls(recipient: Recipient, name: str | None, everything: bool, format: str, output: Path | None) -> None:
    """List the shares, the schemas of a share, or the tables of a schema.

    \b
    Examples:
      distributary ls
      distributary ls sales.eu --profile acme
      distributary ls --all -o ndjson
    """
    with recipient.client() as client:
        rows = _tables(client, name) if everything else _children(client, name)
    write_rows(rows, format, output)


@click.command(short_help="A shared table's columns and version.")
@click.argument("table", metavar="SHARE.SCHEMA.TABLE")
@recipient_options
@output_options
def describe(recipient: Recipient, table: str, format: str, output: Path | None) -> None:
    """Show a shared table: version, size where the server tells, partitioning and columns.

    \b
    Examples:
      distributary describe sales.eu.orders
      distributary describe acme.share#sales.eu.orders -o json
    """
    shared = recipient.table(table)
    facts = _facts(shared)
    if format in ("json", "ndjson"):
        write_value(facts, format, output)
        return
    if format == "table" and output is None:
        write_text(
            "\n".join(f"{name:<12} {_shown(value)}" for name, value in facts.items() if name != "columns")
        )
    write_rows(_columns(facts["columns"]), format, output)


def _children(client: SharingClient, name: str | None) -> pa.Table:
    import pyarrow as pa

    from distributary.sharing.error_response import ResourceNotFoundError

    if name is None:
        shares = client.list_shares()
        comments = pa.array([share.comment for share in shares], pa.string())
        return pa.table(
            {"share": pa.array([share.name for share in shares], pa.string()), "comment": comments}
        )
    try:
        schemas = [schema.name for schema in client.list_schemas(name)]
        return pa.table({"schema": pa.array(schemas, pa.string())})
    except ResourceNotFoundError:
        if "." not in name:
            raise
    tables = [table.name for table in client.list_tables(name)]
    return pa.table({"table": pa.array(tables, pa.string())})


def _tables(client: SharingClient, share: str | None) -> pa.Table:
    import pyarrow as pa

    found = client.list_all_tables(share)
    return pa.table(
        {"table": pa.array([f"{each.share}.{each.schema}.{each.name}" for each in found], pa.string())}
    )


def _facts(shared: SharedTable) -> dict[str, Any]:
    known, told = shared.metadata, shared.information
    return {
        "table": str(shared.name),
        "version": shared.version(),
        "id": known.id,
        "description": known.description,
        "partitions": list(known.partitioning),
        "files": told.num_files,
        "bytes": told.size,
        "access": list(told.access_modes or ("url",)),
        "columns": [
            {
                "name": column.name,
                "type": str(column.data_type),
                "nullable": column.nullable,
                "comment": column.metadata.get("comment"),
            }
            for column in shared.schema.fields
        ],
    }


def _columns(columns: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    kinds = {"name": pa.string(), "type": pa.string(), "nullable": pa.bool_(), "comment": pa.string()}
    return pa.table({name: pa.array([each[name] for each in columns], kind) for name, kind in kinds.items()})


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
