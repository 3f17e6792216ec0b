"""What the commands that make tokens have in common: how long a token lives, and where it goes.

A token is shown once: in a profile file that only its owner can read and that never replaces another
without being told to, or in the command's result.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.time_text import Moment, time_text
from distributary.errors import DistributaryError, InvalidInputError

if TYPE_CHECKING:
    from distributary.catalog.bearer_tokens import IssuedToken
    from distributary.server.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


class ProfileExistsError(DistributaryError):
    """There is a profile file at this path, which is not replaced without being told to."""

    code = "PROFILE_EXISTS"
    exit_code = 5


@dataclass(frozen=True, slots=True)
class TokenWish:
    """How long a token is to live, and the profile file that it goes into."""

    expires_at: int | None
    profile: Path | None
    overwrite: bool

    def expiry(self, settings: Settings) -> int:
        """Give the end of the token's life: as asked, or by default."""
        from distributary.catalog.bearer_tokens import DAY_MS
        from distributary.catalog.database import now_ms

        if self.expires_at is not None:
            return self.expires_at
        return now_ms() + settings.lifetimes.bearer_token_days * DAY_MS

    def check(self) -> None:
        """Refuse a path that is taken before a token is made for it."""
        if self.profile is None:
            return
        if self.profile.exists() and not self.overwrite:
            raise ProfileExistsError(
                f"there is a file {self.profile} already: choose another, or add --overwrite"
            )
        if not self.profile.absolute().parent.is_dir():
            raise InvalidInputError(
                f"there is no folder {self.profile.absolute().parent} for the profile file"
            )

    def deliver(self, made: IssuedToken, settings: Settings) -> tuple[str, dict[str, Any]]:
        """Write the profile, if one is asked for; gives a sentence and facts, with the token if not."""
        facts: dict[str, Any] = {
            "recipient": made.token.recipient,
            "token_id": made.token.id,
            "expires_at": time_text(made.token.expires_at),
            "endpoint": settings.endpoint,
        }
        until = f"good until {facts['expires_at']}"
        if self.profile is None:
            return f"Token, {until}, shown only now: {made.text}", facts | {"token": made.text}
        _write_profile(self.profile, made, settings.endpoint, overwrite=self.overwrite)
        return f"Profile for {settings.endpoint}, {until}: {self.profile}", facts | {
            "profile": str(self.profile)
        }


def token_options(command: Command) -> Command:
    """Add ``--expires``, ``--profile`` and ``--overwrite``; the command gets them as ``wish``."""

    @click.option(
        "--expires",
        type=Moment(),
        metavar="TIME",
        help="End of the token's life: 30d, or a date. Default: lifetimes.bearer_token_days.",
    )
    @click.option(
        "--profile",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the token into this profile file instead of showing it.",
    )
    @click.option("--overwrite", is_flag=True, help="Replace a profile file that is there.")
    @functools.wraps(command)
    def run(expires: int | None, profile: Path | None, overwrite: bool, **rest: Any) -> Any:
        return command(wish=TokenWish(expires, profile, overwrite), **rest)

    return run  # pyright: ignore[reportReturnType]


def _write_profile(path: Path, made: IssuedToken, endpoint: str, *, overwrite: bool) -> None:
    import datetime

    from distributary.sharing.profile import bearer_profile, encode_profile, write_profile

    end = made.token.expires_at
    expires = None if end is None else datetime.datetime.fromtimestamp(end / 1000, datetime.UTC)
    profile = bearer_profile(endpoint, made.text, expires)
    if overwrite:
        write_profile(profile, path)
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ProfileExistsError(
            f"there is a file {path} already: choose another, or add --overwrite"
        ) from error
    with os.fdopen(handle, "wb") as file:
        file.write(encode_profile(profile))
