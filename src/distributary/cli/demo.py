"""`distributary demo`: a small lake made by a Spark pipeline, served to recipients, read back over HTTP.

Everything goes into one folder: the tables, and `server` with the settings of the server. What was read is
compared with what was written, at every version, both from the files and through the server, and a difference
is an error. The server then runs until it is stopped; with DEMO_EXIT=1 it is stopped at once, and the folder
is a temporary one that is removed. Where Spark is not installed the sample is made with Arrow; where the
server is not, the demo ends with the table.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.demo_output import print_rows, print_step, print_tries

if TYPE_CHECKING:
    from rich.console import Console

    from distributary.cli.sample_lake import SampleLake
    from distributary.delta.table import DeltaTable


@click.command(short_help="Make sample tables with Spark, share them, read them back.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything goes; must be empty or not exist. Default: a new temporary folder.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port of the server. Default: 8080, or a free one."
)
def demo(folder: Path | None, port: int | None) -> None:
    """Make sample Delta tables with a Spark pipeline, share them with two recipients, read them back over
    HTTP, and keep the server running to explore.

    With DEMO_EXIT=1 in the environment it checks the same and leaves nothing behind.

    \b
    Examples:
      distributary demo
      distributary demo --folder ./sample --port 8090
      DEMO_EXIT=1 distributary demo
    """
    from rich.console import Console

    console = Console(highlight=False)
    with ExitStack() as stack:
        place = _place(folder, stack)
        lake = _make_lake(console, place)
        _show_orders(console, lake)
        if importlib.util.find_spec("granian") is None:
            print_step(console, "no server is installed", "pip install 'distributary[server]'")
        else:
            _share(console, place, lake, port)
        if not _leaves():
            console.print(f"\nEverything is in {place} and stays there.", soft_wrap=True)


def _leaves() -> bool:
    return os.environ.get("DEMO_EXIT", "") not in ("", "0")


def _place(folder: Path | None, stack: ExitStack) -> Path:
    """Choose where everything goes: the folder asked for, or a temporary one."""
    if folder is not None:
        if folder.exists() and any(folder.iterdir()):
            raise click.BadParameter(f"{folder} is not empty", param_hint="--folder")
        return folder.absolute()
    if _leaves():
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distributary-demo-")))
    return Path(tempfile.mkdtemp(prefix="distributary-demo-"))


def _make_lake(console: Console, folder: Path) -> SampleLake:
    from distributary.cli.sample_lake import SampleLake, make_sample_lake
    from distributary.cli.sample_table import make_sample_table

    if importlib.util.find_spec("pyspark") is None:
        print_step(console, "a sample table", "Spark is not installed (distributary[spark]): made with Arrow")
        return SampleLake(folder, make_sample_table(folder / "orders").rows_by_version)
    from distributary.spark import session

    print_step(console, "sample tables", "a Spark pipeline creates, appends, merges, deletes, aggregates")
    with console.status("Spark is at work"):
        spark = session(conf={"spark.log.level": "ERROR"})
        try:
            return make_sample_lake(spark, folder)
        finally:
            spark.stop()


def _show_orders(console: Console, lake: SampleLake) -> None:
    from distributary.delta.table import DeltaTable

    table = DeltaTable(str(lake.orders))
    _show_history(console, table)
    _show_pruning(console, table)
    for version, expected in enumerate(lake.orders_by_version):
        _check(f"version {version}", table.snapshot(version=version).to_arrow().to_pylist(), expected)
    console.print(f"[green]✓[/] {len(lake.orders_by_version)} versions of orders read back as written")


def _show_history(console: Console, table: DeltaTable) -> None:
    import pyarrow as pa

    entries = table.history()
    columns = {
        "version": [entry.version for entry in entries],
        "timestamp": pa.array([entry.timestamp for entry in entries], pa.timestamp("ms", "UTC")),
        "operation": [entry.operation for entry in entries],
    }
    print_step(console, "history of orders", "each commit is a version that can be read")
    print_rows(console, pa.table(columns))


def _show_pruning(console: Console, table: DeltaTable) -> None:
    snapshot = table.snapshot()
    predicate = "country = 'FR' AND order_id >= 12"
    everything, needed = snapshot.files().num_rows, snapshot.files(predicate=predicate).num_rows
    rows = snapshot.to_arrow(predicate=predicate)
    print_step(console, predicate, f"{needed} of {everything} files are read, {rows.num_rows} rows match")
    print_rows(console, rows.sort_by("order_id").slice(0, 3))


def _check(what: str, read: Any, expected: Any) -> None:
    """Compare rows as read with those that were written."""
    if _sorted(read) != _sorted(expected):
        raise click.ClickException(f"{what} does not read back as it was written")


def _sorted(rows: Any) -> list[dict[str, Any]]:
    return sorted((dict(row) for row in rows), key=lambda row: row["order_id"])


def _share(console: Console, place: Path, lake: SampleLake, port: int | None) -> None:
    from distributary.cli.demo_server import DemoServer

    server = DemoServer(place / "server", console)
    server.set_up(lake.folder, port)
    with server.running():
        _read_back(console, server.profile, server.local_profile, lake)
        if _leaves():
            return
        _show_next_steps(console, server.url, server.profile, lake.orders)
        server.wait()


def _read_back(console: Console, profile: Path, local_profile: Path, lake: SampleLake) -> None:
    """Read the shared tables as recipients do, over HTTP."""
    from distributary.client import SharingClient

    print_step(console, "read back", "the recipient acme reads its shared tables over HTTP")
    client = SharingClient(profile)
    names = sorted(f"{table.share}.{table.schema}.{table.name}" for table in client.list_all_tables())
    console.print(f"  acme sees: {', '.join(names)}", soft_wrap=True)
    orders = client.table("sales.default.orders")
    for version, expected in enumerate(lake.orders_by_version):
        _check(f"shared version {version}", orders.snapshot(version=version).to_arrow().to_pylist(), expected)
    newest = lake.orders_by_version[-1]
    console.print(f"[green]✓[/] orders over HTTP, at every version; {len(newest)} rows now")
    changed = orders.changes(starting_version=len(lake.orders_by_version) - 1).to_arrow()
    console.print(f"[green]✓[/] changes of the last version: {changed.num_rows} rows")
    french = SharingClient(local_profile).table("by_country.default.orders").snapshot().to_arrow().to_pylist()
    _check("the share of one country", french, [row for row in newest if row["country"] == "FR"])
    console.print(f"[green]✓[/] bistro, whose country is FR, sees {len(french)} rows of the same table")
    print_rows(console, orders.snapshot().where("amount > 200").limit(3).to_arrow())


def _show_next_steps(console: Console, url: str, profile: Path, orders: Path) -> None:
    folder = profile.parent
    print_tries(
        console,
        f"The server runs at {url}; stop it with Ctrl-C. In another terminal:",
        (
            f"distributary ls --all --profile {profile}",
            f"distributary head {profile}#sales.default.orders --where \"country = 'FR'\" -o json",
            f"distributary changes {profile}#sales.default.orders --from 4",
            f'python -c "import distributary.client as c; '
            f"print(c.load_as_pandas('{profile}#sales.default.revenue'))\"",
            f"distributary table history {orders}",
            f"cd {folder} && distributary recipient create you --grant sales --profile you.share",
            f"cd {folder} && distributary audit list",
        ),
    )
