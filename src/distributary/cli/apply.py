"""`distributary apply` and `distributary export`: the catalog as one YAML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.catalog_options import catalog_option
from distributary.cli.output import write_text, write_value
from distributary.cli.progress import working
from distributary.cli.result import confirm, dry_run_option, result_option, yes_option

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration
    from distributary.catalog.share_file import ShareFile
    from distributary.catalog.share_plan import Change


@click.command(short_help="Make the catalog say what a YAML file says.")
@click.option(
    "-f",
    "--file",
    "path",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file; - is stdin. The reference server's configuration file is one.",
)
@click.option("--prune", is_flag=True, help="Also drop what the file does not name.")
@click.option(
    "--check/--no-check", default=True, help="Whether new and changed tables are opened first (default)."
)
@dry_run_option
@yes_option
@result_option
@catalog_option
def apply(
    admin: Administration, path: Path, prune: bool, check: bool, dry_run: bool, yes: bool, result: str
) -> None:
    """Make the catalog say what a YAML file says: shares, tables, recipients, grants; all of it or nothing.

    Applying a file again changes nothing. What the file does not name stays, unless --prune is given; where
    it lists the shares of a recipient, that list is complete.

    \b
    Examples:
      distributary apply -f shares.yaml --dry-run
      distributary apply -f delta-sharing-server.yaml
    """
    from distributary.catalog.share_plan import apply_share_file, check_tables, plan_share_file

    file = _read(path)
    with admin.read() as connection:
        plan = plan_share_file(connection, file, prune=prune)
    lost = [change for change in plan if change.action.endswith((".drop", ".remove", ".revoke"))]
    if dry_run:
        if check:
            check_tables(admin, file)
    else:
        if lost:
            confirm(f"{len(lost)} of {len(plan)} changes take something away. Go on?", yes)
        with working("applying…"):
            plan = apply_share_file(admin, file, prune=prune, check=check)
    _warn(file)
    _write(plan, dry_run, result)


@click.command(short_help="Write the catalog as YAML.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of stdout."
)
@catalog_option
def export(admin: Administration, output: Path | None) -> None:
    """Write shares, tables, recipients and grants as YAML, for `apply`; no token is in it.

    \b
    Examples:
      distributary export > shares.yaml
      distributary export --output shares.yaml
    """
    from distributary.catalog.share_file import exported, share_file_text

    with admin.read() as connection:
        file = exported(connection)
    write_text(share_file_text(file).rstrip("\n"), output)


def _read(path: Path) -> ShareFile:
    from distributary.catalog.share_file import parse_share_file, read_share_file

    if str(path) == "-":
        return parse_share_file(sys.stdin.buffer.read(), "stdin", Path.cwd())
    return read_share_file(path)


def _warn(file: ShareFile) -> None:
    if file.authorization is not None and len(file.authorization.bearer_token) < 32:
        click.echo(
            "the token in this file is short enough to be guessed; give its recipients tokens of their own: "
            "distributary recipient create NAME --profile NAME.share",
            err=True,
        )


def _write(plan: list[Change], dry_run: bool, result: str) -> None:
    import msgspec

    if result != "table":
        changes = [msgspec.to_builtins(change) for change in plan]
        write_value({"dry_run": dry_run, "changes": changes}, result)
        return
    from distributary.cli.text_table import cell_text

    for change in plan:
        write_text(cell_text(str(change)))
    count = f"{len(plan)} changes" if plan else "Nothing to change"
    write_text(f"{count}{' to make' if dry_run and plan else ' made' if plan else ''}.")
