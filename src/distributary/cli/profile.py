"""`distributary profile`: the credentials that providers gave to this user."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import click

from distributary.cli.output import output_options, write_rows
from distributary.cli.profile_options import (
    SUFFIX,
    Recipient,
    added_profiles,
    named_profile,
    profiles_directory,
    recipient_options,
)
from distributary.cli.result import result_option, write_result
from distributary.errors import InvalidInputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@click.group(short_help="Credentials of sharing servers.")
def profile() -> None:
    """Keep the profile files of sharing servers, so that commands find them by name.

    \b
    Examples:
      distributary profile add acme.share
      distributary profile check acme
    """


@profile.command(short_help="Keep a profile file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="How commands call it. Default: the file's own name.")
@click.option("--replace", is_flag=True, help="Replace a profile of the same name.")
@result_option
def add(file: Path, name: str | None, replace: bool, result: str) -> None:
    """Keep a profile file where commands find it by name, readable for nobody else.

    \b
    Examples:
      distributary profile add ~/Downloads/acme.share
      distributary profile add config.share --name acme
    """
    from distributary.sharing.profile import read_profile, write_profile

    found, known = read_profile(file), name or file.stem
    if _NAME.fullmatch(known) is None:
        raise InvalidInputError(f"{known!r} cannot be a name: use letters, digits, '.', '_' and '-' (--name)")
    target = profiles_directory() / f"{known}{SUFFIX}"
    if target.exists() and not replace:
        raise InvalidInputError(f"there is a profile {known} already: --replace it, or give another --name")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_profile(found, target)
    facts = {"name": known, "endpoint": found.endpoint, "path": str(target)}
    write_result(f"added {known} for {found.endpoint}; try: distributary ls --profile {known}", facts, result)


@profile.command("list", short_help="The profiles that were added.")
@output_options
def list_profiles(format: str, output: Path | None) -> None:
    """List the profiles that were added: server, kind and end, never a secret.

    \b
    Examples:
      distributary profile list
      distributary profile list -o json
    """
    import pyarrow as pa

    names = list(added_profiles())
    found = [named_profile(name) for name in names]
    rows = {
        "name": pa.array(names, pa.string()),
        "endpoint": pa.array([each.endpoint for each in found], pa.string()),
        "type": pa.array([each.auth_type for each in found], pa.string()),
        "expires": pa.array([each.expiration_time for each in found], pa.string()),
    }
    write_rows(pa.table(rows), format, output)


@profile.command(short_help="Whether a profile works.")
@click.argument("name", required=False, metavar="[NAME|FILE]")
@recipient_options
@result_option
def check(recipient: Recipient, name: str | None, result: str) -> None:
    """Ask a server whether it knows the profile, and which shares it may see.

    \b
    Examples:
      distributary profile check acme
      distributary profile check ./acme.share -o json
    """
    with recipient.client(name) as client:
        shares = [share.name for share in client.list_shares()]
        known = client.profile
    facts: dict[str, Any] = {"endpoint": known.endpoint, "type": known.auth_type, "shares": shares}
    facts["expires"] = known.expiration_time
    seen = ", ".join(shares) or "no share yet"
    write_result(
        f"{known.endpoint} knows this profile{_time_left(known.expires_at)}; it sees {seen}", facts, result
    )


def _time_left(end: datetime.datetime | None) -> str:
    if end is None:
        return ""
    days = (end - datetime.datetime.now(datetime.UTC)).days
    return f" (for {days} more days)" if days >= 0 else " (it has expired)"
