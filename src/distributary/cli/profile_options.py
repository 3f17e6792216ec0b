"""Which sharing server a recipient's command talks to: the profile, and how the server is reached.

Profiles that were added are kept in the user's configuration directory, one file each, which nobody else can
read. `--profile` names one of them, or a file; without it the environment says, then the one that was added,
where there is just one. A table may also be written ``<profile>#<share>.<schema>.<table>``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.errors import InvalidInputError

if TYPE_CHECKING:
    from distributary.client.shared_table import SharedTable
    from distributary.client.sharing_client import SharingClient
    from distributary.sharing.profile import Profile

Command = TypeVar("Command", bound=Callable[..., Any])

SUFFIX = ".share"
_VARIABLES = ("DELTA_SHARING_PROFILE", "DELTA_SHARING_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who asks, and how."""

    profile: str | None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    def client(self, profile: str | None = None) -> SharingClient:
        """A client for the profile chosen."""
        from distributary.client.sharing_client import SharingClient

        return SharingClient(chosen_profile(profile or self.profile), progress=False, **self.settings)

    def table(self, name: str) -> SharedTable:
        """A table by its name, which may have a profile before it."""
        profile, _, table = name.rpartition("#")
        return self.client(profile or None).table(table)


def profiles_directory() -> Path:
    """Where added profiles are kept."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "distributary" / "profiles"


def added_profiles() -> dict[str, Path]:
    """The profiles that were added, by name."""
    return {path.stem: path for path in sorted(profiles_directory().glob(f"*{SUFFIX}"))}


def chosen_profile(name: str | None) -> str | None:
    """The place of a profile; None leaves it to the environment."""
    added = added_profiles()
    if name is not None:
        return str(added[name]) if name in added else name
    if any(os.environ.get(variable) for variable in _VARIABLES):
        return None
    if len(added) == 1:
        return str(next(iter(added.values())))
    if added:
        raise InvalidInputError(f"there are several profiles: choose one with --profile ({', '.join(added)})")
    raise InvalidInputError(
        "there is no profile yet: `distributary profile add FILE`, or --profile FILE, with the file that the "
        "provider gave you"
    )


def named_profile(name: str | None) -> Profile:
    """A profile by its name or place."""
    from distributary.client.credentials import load_profile

    return load_profile(chosen_profile(name))


def recipient_options(command: Command) -> Command:
    """Add the profile and the ways to reach its server to a command, which gets them as one `Recipient`."""

    @click.option("--profile", metavar="NAME|FILE", help="A profile that was added, or a profile file.")
    @click.option(
        "--cacert", metavar="FILE", help="Trust the authorities in this file, instead of the system's."
    )
    @click.option(
        "--insecure", is_flag=True, help="Do not verify certificates. Anybody on the way can read along."
    )
    @click.option(
        "--access", type=click.Choice(["auto", "url", "dir"]), default="auto", help="How files are read."
    )
    @functools.wraps(command)
    def run(profile: str | None, cacert: str | None, insecure: bool, access: str, **rest: Any) -> Any:
        settings: dict[str, Any] = {"access": access}
        if cacert is not None:
            settings["ca_file"] = cacert
        if insecure:
            click.secho("certificates are not verified (--insecure)", fg="red", err=True)
            settings["verify"] = False
        return command(Recipient(profile, settings), **rest)

    return run  # pyright: ignore[reportReturnType]  # click's options keep the callable's place
