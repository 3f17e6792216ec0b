"""`distributary token …`: the bearer tokens of recipients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.catalog_options import catalog_option, config_option, open_catalog, write_entries
from distributary.cli.output import output_options
from distributary.cli.result import confirm, result_option, write_result, yes_option
from distributary.cli.time_text import time_text
from distributary.cli.token_options import TokenWish, token_options

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration
    from distributary.catalog.bearer_tokens import BearerToken
    from distributary.server.settings_file import LoadedSettings

COLUMNS = ("token", "recipient", "state", "created", "expires", "revoked")


@click.group(short_help="The bearer tokens of recipients.")
def token() -> None:
    """Bearer tokens: what recipients show to be let in. The catalog keeps hashes; a token is shown once.

    \b
    Examples:
      distributary token list
      distributary token create acme --profile acme.share
      distributary token revoke 3f9a0c1d2e4b5a69
    """


@token.command("create", short_help="Make another token for a recipient.")
@click.argument("recipient", metavar="RECIPIENT")
@token_options
@result_option
@config_option
def create_token(loaded: LoadedSettings, recipient: str, wish: TokenWish, result: str) -> None:
    """Make another token for a recipient, which has at most two that are live.

    \b
    Examples:
      distributary token create acme --profile acme.share
      distributary token create acme --expires 7d -o json
    """
    admin = open_catalog(loaded)
    wish.check()
    issued = admin.issue_token(recipient, expires_at=wish.expiry(loaded.settings))
    sentence, facts = wish.deliver(issued, loaded.settings)
    write_result(sentence, facts, result)


@token.command("list", short_help="The tokens, and whether they are good.")
@click.argument("recipient", metavar="[RECIPIENT]", required=False)
@output_options
@catalog_option
def list_tokens(admin: Administration, recipient: str | None, format: str, output: Path | None) -> None:
    """List the tokens of a recipient, or of all: their ids and states, never the tokens.

    \b
    Examples:
      distributary token list
      distributary token list acme -o json
    """
    from distributary.catalog.bearer_tokens import tokens_of
    from distributary.catalog.recipients import get_recipient

    with admin.read() as connection:
        owner = None if recipient is None else get_recipient(connection, recipient)
        found = tokens_of(connection, owner)
    write_entries([_facts(one) for one in found], COLUMNS, format, output)


@token.command("show", short_help="One token.")
@click.argument("id", metavar="ID")
@output_options
@catalog_option
def show_token(admin: Administration, id: str, format: str, output: Path | None) -> None:
    """Show what is known of a token, by its id: the part between `dst_` and the next `_`.

    \b
    Examples:
      distributary token show 3f9a0c1d2e4b5a69
      distributary token show 3f9a0c1d2e4b5a69 -o json
    """
    from distributary.catalog.bearer_tokens import get_token

    with admin.read() as connection:
        found = get_token(connection, id)
    write_entries([_facts(found)], COLUMNS, format, output)


@token.command("revoke", short_help="End a token now.")
@click.argument("id", metavar="ID")
@yes_option
@result_option
@catalog_option
def revoke_token(admin: Administration, id: str, yes: bool, result: str) -> None:
    """End a token now: requests with it are refused within a second.

    \b
    Examples:
      distributary token revoke 3f9a0c1d2e4b5a69
      distributary token revoke 3f9a0c1d2e4b5a69 --yes
    """
    confirm(f"End token {id}?", yes)
    ended = admin.revoke_token(id)
    write_result(f"Ended token {ended.id} of {ended.recipient}.", _facts(ended), result)


def _facts(found: BearerToken) -> dict[str, Any]:
    from distributary.catalog.database import now_ms

    return {
        "token": found.id,
        "recipient": found.recipient,
        "state": found.state(now_ms()),
        "created": time_text(found.created_at),
        "expires": time_text(found.expires_at),
        "revoked": time_text(found.revoked_at),
    }
