"""What the `table` commands have in common: which table, at which version, with which storage options.

A table is a path or URI. Storage options come from the environment, from a file (``--storage-options-file``,
``-`` for stdin) and from flags, later ones winning; secrets are refused as flags, because other users of the
machine can read a command line and shells keep it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from distributary.errors import InvalidInputError

if TYPE_CHECKING:
    from distributary.delta.table import DeltaTable
    from distributary.delta.table_snapshot import TableSnapshot
    from distributary.storage.object_store import ObjectStore

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table as a user names it."""

    path: str
    storage_options: Mapping[str, str] = field(repr=False)
    allowed_roots: tuple[str, ...]

    def table(self) -> DeltaTable:
        """Open the table; nothing is read yet."""
        from distributary.delta.table import DeltaTable

        return DeltaTable(self.path, self.storage_options, allowed_roots=self.allowed_roots)

    def store(self) -> ObjectStore:
        """Open the table's root alone."""
        from distributary.storage.object_store import open_store

        return open_store(self.path, self.storage_options, self.allowed_roots)


@dataclass(frozen=True, slots=True)
class TableMoment:
    """A table at a version or a time; the latest version when neither is given."""

    location: TableLocation
    version: int | None
    timestamp: str | None

    def snapshot(self) -> TableSnapshot:
        """Load the table as it was at that moment."""
        return self.location.table().snapshot(self.version, self.timestamp)


def table_location(command: Command) -> Command:
    """Add PATH and the storage options to a command, which gets them as one `TableLocation`."""

    @click.argument("path", metavar="PATH")
    @click.option(
        "--storage-option",
        "flags",
        metavar="KEY=VALUE",
        multiple=True,
        help="An option of the store, e.g. aws_region=eu-west-1; may be repeated. Secrets are refused here.",
    )
    @click.option(
        "--storage-options-file",
        "file",
        type=click.File("r", encoding="utf-8"),
        help="Read options of the store, secrets too, from a file: JSON, or KEY=VALUE lines; - is stdin.",
    )
    @click.option(
        "--allow-root",
        "allowed_roots",
        metavar="URI",
        multiple=True,
        help="Another root that the table's files may lie under (shallow clones); may be repeated.",
    )
    @functools.wraps(command)
    def run(
        path: str, flags: Sequence[str], file: IO[str] | None, allowed_roots: tuple[str, ...], **rest: Any
    ) -> Any:
        options = {**_from_file(file), **_from_flags(flags)}
        return command(TableLocation(path, options, allowed_roots), **rest)

    return run  # pyright: ignore[reportReturnType]  # click's options keep the callable's place


def table_moment(command: Command) -> Command:
    """Add PATH, the storage options, ``--version`` and ``--timestamp``, as one `TableMoment`."""

    @table_location
    @click.option(
        "--version", type=click.IntRange(min=0), help="The table at this version. Default: the latest."
    )
    @click.option(
        "--timestamp",
        metavar="TIME",
        help="The table as it was at this time: ISO 8601; UTC where it has no zone.",
    )
    @functools.wraps(command)
    def run(location: TableLocation, version: int | None, timestamp: str | None, **rest: Any) -> Any:
        if version is not None and timestamp is not None:
            raise click.UsageError("Give --version or --timestamp, not both.")
        return command(TableMoment(location, version, timestamp), **rest)

    return run  # pyright: ignore[reportReturnType]


def where_option(command: Command) -> Command:
    """Add ``--where``, a predicate."""
    return click.option("--where", metavar="SQL", help="Only rows for which this is true.")(command)


def change_span_options(command: Command) -> Command:
    """Add the versions or times between which changes are asked for."""
    for option in (
        click.option("--to-timestamp", metavar="TIME", help="Changes committed at or before this time."),
        click.option("--from-timestamp", metavar="TIME", help="Changes committed at or after this time."),
        click.option("--to", "last", type=click.IntRange(min=0), help="The last one. Default: the latest."),
        click.option(
            "--from", "first", type=click.IntRange(min=0), help="The first version whose changes are given."
        ),
    ):
        command = option(command)
    return command


def columns_option(command: Command) -> Command:
    """Add ``--columns``, a list of names; a name with a comma in it is quoted by backticks."""
    return click.option(
        "--columns",
        metavar="A,B",
        callback=lambda _context, _option, text: _names(text),
        help="Only these columns, in this order; `a,b` in backticks is one name.",
    )(command)


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    found = re.findall(r"\s*(`(?:[^`]|``)*`|[^,]*)\s*(?:,|$)", text)[: text.count(",") + 1]
    names = [name[1:-1].replace("``", "`") if name.startswith("`") else name.strip() for name in found]
    wanted = [name for name in names if name]
    if not wanted:
        raise click.BadParameter("names no column")
    return wanted


def _from_flags(flags: Sequence[str]) -> dict[str, str]:
    from distributary.storage.storage_options import is_secret_option

    options = dict(_pair(flag, "--storage-option") for flag in flags)
    for name in options:
        if is_secret_option(name):
            raise InvalidInputError(
                f"{name} is a secret, and a command line is not the place for it: other users can read it. "
                f"Set {name.upper()} in the environment, or use --storage-options-file"
            )
    return options


def _from_file(file: IO[str] | None) -> dict[str, str]:
    if file is None:
        return {}
    text = file.read()
    if text.lstrip().startswith("{"):
        return _from_json(text, file.name)
    lines = (line.strip() for line in text.splitlines())
    return dict(_pair(line, file.name) for line in lines if line and not line.startswith("#"))


def _from_json(text: str, name: str) -> dict[str, str]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, str], strict=False)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"{name} is no JSON object of texts: {error}") from error


def _pair(text: str, where: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise InvalidInputError(f"{where}: an option is written KEY=VALUE")
    return name.strip(), value.strip()
