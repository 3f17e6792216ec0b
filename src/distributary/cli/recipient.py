"""`distributary recipient …`: who shares are granted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.catalog_options import catalog_option, config_option, open_catalog, write_entries
from distributary.cli.output import output_options
from distributary.cli.result import confirm, pairs, result_option, write_result, yes_option
from distributary.cli.time_text import Length, time_text
from distributary.cli.token_options import TokenWish, token_options

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration
    from distributary.catalog.recipients import Recipient
    from distributary.server.settings_file import LoadedSettings


@click.group(short_help="Who shares are granted to.")
def recipient() -> None:
    """Recipients: who shares are granted to. Each has tokens of its own.

    \b
    Examples:
      distributary recipient create acme --grant sales --profile acme.share
      distributary recipient rotate acme --old-expires 24h --profile acme-new.share
      distributary recipient list
    """


@recipient.command("create", short_help="Add a recipient, with a token.")
@click.argument("name", metavar="NAME")
@click.option("--comment", help="Who this is, for administrators.")
@click.option(
    "--prop", "properties", metavar="KEY=VALUE", multiple=True, help="A property that filters can read."
)
@click.option(
    "--ip", "networks", metavar="CIDR", multiple=True, help="A network it must call from; may be repeated."
)
@click.option(
    "--grant", "shares", metavar="SHARE", multiple=True, help="Grant this share at once; may be repeated."
)
@click.option("--token/--no-token", default=True, help="Whether a token is made (default).")
@token_options
@result_option
@config_option
def create_recipient(
    loaded: LoadedSettings,
    name: str,
    comment: str | None,
    properties: tuple[str, ...],
    networks: tuple[str, ...],
    shares: tuple[str, ...],
    token: bool,
    wish: TokenWish,
    result: str,
) -> None:
    """Add a recipient and make its first token, which is shown once or written into a profile file.

    \b
    Examples:
      distributary recipient create acme --profile acme.share
      distributary recipient create acme --expires 30d --ip 192.0.2.0/24 --prop country=DE --grant sales
    """
    admin = open_catalog(loaded)
    wish.check()
    _require_shares(admin, shares)
    made = admin.create_recipient(
        name, comment=comment, properties=pairs(properties, "--prop"), allowed_addresses=networks
    )
    for share in shares:
        admin.grant(share, made.name)
    facts: dict[str, Any] = {"recipient": made.name, "id": made.id, "shares": list(shares)}
    sentence = f"Made recipient {made.name}."
    if token:
        issued = admin.issue_token(made.name, expires_at=wish.expiry(loaded.settings))
        said, more = wish.deliver(issued, loaded.settings)
        sentence, facts = f"{sentence} {said}", facts | more
    write_result(sentence, facts, result)


@recipient.command("list", short_help="Every recipient.")
@output_options
@catalog_option
def list_recipients(admin: Administration, format: str, output: Path | None) -> None:
    """List the recipients with their shares and the end of their newest live token.

    \b
    Examples:
      distributary recipient list
      distributary recipient list -o json
    """
    from distributary.catalog import recipients

    with admin.read() as connection:
        entries = [_facts(admin, found) for found in recipients.list_recipients(connection)]
    columns = ("recipient", "state", "shares", "live_tokens", "token_expires", "created")
    write_entries(entries, columns, format, output)


@recipient.command("show", short_help="What the catalog has about a recipient.")
@click.argument("name", metavar="NAME")
@output_options
@catalog_option
def show_recipient(admin: Administration, name: str, format: str, output: Path | None) -> None:
    """Show a recipient: its properties, networks, shares and live tokens.

    \b
    Examples:
      distributary recipient show acme
      distributary recipient show acme -o json
    """
    facts = _facts(admin, _recipient(admin, name))
    if format == "table":
        rows = [{"what": key, "value": value} for key, value in facts.items()]
        write_entries(rows, ("what", "value"), format, output)
    else:
        write_entries([facts], tuple(facts), format, output)


@recipient.command("update", short_help="Change a recipient.")
@click.argument("name", metavar="NAME")
@click.option("--rename", metavar="NEW", help="A new name; tokens and grants stay.")
@click.option("--comment", help='A new comment; "" takes it away.')
@click.option(
    "--prop", "properties", metavar="KEY=VALUE", multiple=True, help="Set a property; may be repeated."
)
@click.option("--unset-prop", "unset", metavar="KEY", multiple=True, help="Take a property away.")
@click.option(
    "--ip", "networks", metavar="CIDR", multiple=True, help="The networks it must call from, all anew."
)
@click.option("--any-ip", is_flag=True, help="It may call from anywhere.")
@click.option("--disable/--enable", "disabled", default=None, help="Whether it may do nothing for now.")
@result_option
@catalog_option
def update_recipient(
    admin: Administration,
    name: str,
    rename: str | None,
    comment: str | None,
    properties: tuple[str, ...],
    unset: tuple[str, ...],
    networks: tuple[str, ...],
    any_ip: bool,
    disabled: bool | None,
    result: str,
) -> None:
    """Change a recipient; what it may see changes with its next request.

    \b
    Examples:
      distributary recipient update acme --prop country=FR
      distributary recipient update acme --disable
    """
    given = {"name": rename, "comment": comment, "disabled": disabled, "allowed_addresses": networks or None}
    fields: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if any_ip:
        fields["allowed_addresses"] = ()
    if properties or unset:
        kept = {k: v for k, v in _recipient(admin, name).properties.items() if k not in unset}
        fields["properties"] = kept | pairs(properties, "--prop")
    if not fields:
        raise click.UsageError("Nothing to change: give at least one option.")
    saved = admin.update_recipient(name, **fields)
    facts = {"recipient": saved.name, "changed": sorted(fields)}
    write_result(f"Changed recipient {saved.name}.", facts, result)


@recipient.command("rotate", short_help="Make a new token and end the old one.")
@click.argument("name", metavar="NAME")
@click.option(
    "--old-expires",
    "grace",
    type=Length(),
    default="24h",
    show_default=True,
    help="How long the old token stays good at most; 0 ends it now.",
)
@token_options
@result_option
@config_option
def rotate_token(loaded: LoadedSettings, name: str, grace: int, wish: TokenWish, result: str) -> None:
    """Make a new token for a recipient; the old one stays good for a while, so that it can be exchanged.

    \b
    Examples:
      distributary recipient rotate acme --profile acme-new.share
      distributary recipient rotate acme --old-expires 0
    """
    admin = open_catalog(loaded)
    wish.check()
    issued = admin.rotate_token(name, expires_at=wish.expiry(loaded.settings), grace_ms=grace)
    sentence, facts = wish.deliver(issued, loaded.settings)
    write_result(sentence, facts, result)


@recipient.command("revoke", short_help="End every token of a recipient now.")
@click.argument("name", metavar="NAME")
@yes_option
@result_option
@catalog_option
def revoke_tokens(admin: Administration, name: str, yes: bool, result: str) -> None:
    """End every token of a recipient now; its grants stay, so a new token gives access again.

    \b
    Examples:
      distributary recipient revoke acme
      distributary recipient revoke acme --yes
    """
    confirm(f"End every token of {name}?", yes)
    ended = admin.revoke_all_tokens(name)
    facts = {"recipient": name, "revoked": [token.id for token in ended]}
    write_result(f"Ended {len(ended)} tokens of {name}.", facts, result)


@recipient.command("drop", short_help="Remove a recipient.")
@click.argument("name", metavar="NAME")
@click.option("--if-exists", is_flag=True, help="Do nothing where there is none.")
@yes_option
@result_option
@catalog_option
def drop_recipient(admin: Administration, name: str, if_exists: bool, yes: bool, result: str) -> None:
    """Remove a recipient with its tokens and grants; a new one of the same name gets none of them.

    \b
    Examples:
      distributary recipient drop acme
      distributary recipient drop acme --if-exists --yes
    """
    from distributary.catalog.recipients import find_recipient

    with admin.read() as connection:
        missing = if_exists and find_recipient(connection, name) is None
    if missing:
        write_result(f"There is no recipient {name}.", {"recipient": name, "dropped": False}, result)
        return
    confirm(f"Drop recipient {name} with its tokens and grants?", yes)
    found = admin.drop_recipient(name)
    write_result(f"Dropped recipient {found.name}.", {"recipient": found.name, "dropped": True}, result)


def _require_shares(admin: Administration, names: tuple[str, ...]) -> None:
    """Find a wrong name before anything is made."""
    from distributary.catalog.shares import get_share

    with admin.read() as connection:
        for name in names:
            get_share(connection, name)


def _recipient(admin: Administration, name: str) -> Recipient:
    from distributary.catalog.recipients import get_recipient

    with admin.read() as connection:
        return get_recipient(connection, name)


def _facts(admin: Administration, found: Recipient) -> dict[str, Any]:
    from distributary.catalog import bearer_tokens, grants
    from distributary.catalog.database import now_ms

    with admin.read() as connection:
        tokens = bearer_tokens.tokens_of(connection, found)
        granted = [grant.share for grant in grants.grants_of(connection, recipient=found)]
    live = [token for token in tokens if token.state(now_ms()) == "active"]
    return {
        "recipient": found.name,
        "id": found.id,
        "state": "disabled" if found.disabled else "active" if live else "no token",
        "shares": granted,
        "live_tokens": [token.id for token in live],
        "token_expires": time_text(live[-1].expires_at) if live else None,
        "properties": dict(found.properties),
        "allowed_addresses": list(found.allowed_addresses),
        "comment": found.comment,
        "created": time_text(found.created_at),
    }
