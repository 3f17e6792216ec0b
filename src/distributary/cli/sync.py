"""`distributary sync`: a local Delta copy of a shared table, kept up to date."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.profile_options import Recipient, recipient_options
from distributary.cli.progress import Tell, working
from distributary.cli.result import result_option, write_result
from distributary.cli.table_options import TableLocation, table_location
from distributary.errors import DistributaryError

if TYPE_CHECKING:
    from distributary.client.shared_table import SharedTable
    from distributary.client.sync import Copying, SyncResult
    from distributary.storage.object_store import ObjectStore

# The exit code of what may pass by itself: the network, a server that is busy or starts anew.
_MAY_PASS = 6


def _as_keyword(command: Callable[..., None]) -> Callable[..., None]:
    """Hand on the recipient by name: the place of the copy comes first."""

    @functools.wraps(command)
    def run(recipient: Recipient, **rest: Any) -> None:
        command(recipient=recipient, **rest)

    return run


@click.command(short_help="A local Delta copy of a shared table.")
@recipient_options
@_as_keyword
@click.argument("table", metavar="SHARE.SCHEMA.TABLE")
@table_location
@click.option("--follow", is_flag=True, help="Go on: look for new versions until interrupted.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="Seconds between two looks of --follow.",
)
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=0),
    help="The version with which a new copy begins. Default: the latest.",
)
@click.option("--compare", is_flag=True, help="Compare with the latest version, file by file, when done.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Who fetches the files: this process, or the workers of a Spark session (extra `spark`).",
)
@result_option
def sync(
    location: TableLocation,
    recipient: Recipient,
    table: str,
    follow: bool,
    interval: float,
    first: int | None,
    compare: bool,
    engine: str,
    result: str,
) -> None:
    """Make a copy of a shared table at PATH, or bring the one that is there up to date.

    The copy is a Delta table of its own, with one commit for each shared version. A run that was interrupted
    is taken up where it was.

    \b
    Examples:
      distributary sync sales.eu.orders ./orders
      distributary sync sales.eu.orders s3://lab/orders --follow --interval 60
      distributary sync sales.eu.orders s3://lab/orders --engine spark
    """
    shared, store = recipient.table(table), location.store()
    copying = _spark_copying(shared, store, location) if engine == "spark" else None
    while True:
        try:
            _run(shared, store, copying, first, compare, result, quiet=follow)
        except DistributaryError as error:
            if not follow or error.exit_code != _MAY_PASS:
                raise
            click.echo(f"{error.code}: {error}; trying again in {interval:g} s", err=True)
        if not follow:
            return
        time.sleep(interval)


def _spark_copying(shared: SharedTable, store: ObjectStore, location: TableLocation) -> Copying:
    from distributary.spark import session

    return shared.copying_by(session("distributary sync"), store, location.storage_options)


def _run(
    shared: SharedTable,
    store: ObjectStore,
    copying: Copying | None,
    first: int | None,
    compare: bool,
    result: str,
    *,
    quiet: bool,
) -> None:
    with working(f"copying {shared.name}…") as tell:
        found = shared.sync_run(store, _counted(tell), copying).finish(first, compare=compare)
    if found.commits or not quiet:
        write_result(_sentence(found), _facts(found), result)


def _counted(tell: Tell) -> Callable[[int], None]:
    count = 0

    def received(size: int) -> None:
        nonlocal count
        count += size
        tell(f"{count:,} bytes")

    return received


def _sentence(found: SyncResult) -> str:
    if not found.commits:
        return f"{found.path} is up to date: version {found.shared_version} of {found.table}"
    return (
        f"{found.path} has version {found.shared_version} of {found.table} now (its own version is "
        f"{found.version}): {found.commits:,} commits, {found.added_files:,} files came, "
        f"{found.removed_files:,} went, {found.downloaded_bytes:,} bytes downloaded"
    )


def _facts(found: SyncResult) -> dict[str, str | int]:
    return {
        "table": found.table,
        "path": found.path,
        "sharedVersion": found.shared_version,
        "version": found.version,
        "commits": found.commits,
        "addedFiles": found.added_files,
        "removedFiles": found.removed_files,
        "downloadedBytes": found.downloaded_bytes,
    }
