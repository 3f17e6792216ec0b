"""`distributary grant SHARE RECIPIENT` and `distributary revoke SHARE RECIPIENT`: who may read what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distributary.cli.catalog_options import catalog_option
from distributary.cli.result import result_option, write_result

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration


@click.command(short_help="Let a recipient read a share.")
@click.argument("share", metavar="SHARE")
@click.argument("recipient", metavar="RECIPIENT")
@result_option
@catalog_option
def grant(admin: Administration, share: str, recipient: str, result: str) -> None:
    """Let a recipient read a share, with all tables that are in it and that will be.

    \b
    Examples:
      distributary grant sales acme
      distributary grant sales acme -o json
    """
    new = admin.grant(share, recipient)
    for table, names in sorted(admin.missing_properties(share, recipient).items()):
        wanted = ", ".join(sorted(names))
        click.echo(
            f"{table}: {recipient} sees no rows, since its filter reads {wanted}, which it does not "
            f"have; set it: distributary recipient update {recipient} --prop {sorted(names)[0]}=…",
            err=True,
        )
    for table, problem in sorted(admin.unfit_properties(share, recipient).items()):
        click.echo(f"{table}: {problem}", err=True)
    sentence = f"{recipient} may read {share}." if new else f"{recipient} could read {share} already."
    write_result(sentence, {"share": share, "recipient": recipient, "changed": new}, result)


@click.command(short_help="Take a share away from a recipient.")
@click.argument("share", metavar="SHARE")
@click.argument("recipient", metavar="RECIPIENT")
@result_option
@catalog_option
def revoke(admin: Administration, share: str, recipient: str, result: str) -> None:
    """Take a share away from a recipient; it holds for the next request.

    Downloads of local files stop within a second; URLs of cloud stores that were given out end by themselves
    (lifetimes.url_seconds).

    \b
    Examples:
      distributary revoke sales acme
      distributary revoke sales acme -o json
    """
    ended = admin.revoke(share, recipient)
    sentence = f"{recipient} may no longer read {share}." if ended else f"{recipient} could not read {share}."
    write_result(sentence, {"share": share, "recipient": recipient, "changed": ended}, result)
