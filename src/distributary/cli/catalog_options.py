"""What the administration commands have in common: which catalog, who acts, and how entries are listed."""

from __future__ import annotations

import functools
import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.errors import MissingExtraError

if TYPE_CHECKING:
    from distributary.catalog.administration import Administration
    from distributary.server.settings_file import LoadedSettings

Command = TypeVar("Command", bound=Callable[..., Any])


def config_option(command: Command) -> Command:
    """Add ``--config``; the command gets the loaded settings as ``loaded``."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file of settings. Default: ./distributary.yaml, then the user's own.",
    )
    @functools.wraps(command)
    def run(config: Path | None, **rest: Any) -> Any:
        return command(loaded=load(config), **rest)

    return run  # pyright: ignore[reportReturnType]  # click's options keep the callable's place


def catalog_option(command: Command) -> Command:
    """Add ``--config``; the command gets the catalog as ``admin``, an `Administration`."""

    @config_option
    @functools.wraps(command)
    def run(loaded: LoadedSettings, **rest: Any) -> Any:
        admin = open_catalog(loaded)
        try:
            return command(admin=admin, **rest)
        finally:
            admin.database.close()

    return run  # pyright: ignore[reportReturnType]


def load(config: Path | None, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Gather the settings."""
    try:
        from distributary.server.settings_file import load_settings
    except ModuleNotFoundError as error:
        raise MissingExtraError("server", "This command") from error
    return load_settings(config, flags=flags)


def open_catalog(loaded: LoadedSettings) -> Administration:
    """Open the configured catalog, which `init` must have made."""
    try:
        from distributary.catalog.administration import Administration
        from distributary.catalog.database import Database
        from distributary.catalog.migration import require_current
        from distributary.server.key_ring import KeyRing
    except ModuleNotFoundError as error:
        raise MissingExtraError("server", "This command") from error
    settings = loaded.settings
    database = Database(settings.database)
    require_current(database)
    return Administration(
        database,
        KeyRing(settings.key_path),
        actor=actor(),
        storage_options=settings.storage_options,
        longest_token_days=settings.lifetimes.longest_bearer_token_days,
    )


def actor() -> str:
    """Name who acts, for the audit log."""
    with suppress(OSError, KeyError):
        return f"cli:{getpass.getuser()}"
    return f"cli:{os.getuid()}"


def write_entries(
    entries: Sequence[Mapping[str, Any]], columns: Sequence[str], format: str, output: Path | None
) -> None:
    """Write entries as rows; numbers and truth values keep their types, lists and maps become JSON."""
    import pyarrow as pa

    from distributary.cli.output import write_rows

    arrays = {name: _column([entry.get(name) for entry in entries]) for name in columns}
    write_rows(pa.table(arrays), format, output)


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    from distributary.cli.output import encode_json

    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pa.array(values, pa.bool_())
    if known and all(isinstance(value, int) for value in known):
        return pa.array(values, pa.int64())
    texts = [
        value if value is None or isinstance(value, str) else encode_json(value).decode() for value in values
    ]
    return pa.array(texts, pa.string())
