"""`distributary demo`: make a small sample table, read it back in every way there is, show what to try next.

With DEMO_EXIT=1 the folder is a temporary one and is removed; without it, the table stays for experiments.
Either way each version that was read is compared with what was written, and a difference is an error.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from distributary.cli.sample_table import SampleTable
    from distributary.delta.table import DeltaTable


@click.command(short_help="Make a small sample table and read it back.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to put the sample; must be empty or not exist. Default: a new temporary folder.",
)
def demo(folder: Path | None) -> None:
    """Make a small sample Delta table, read it back at every version, and show what to try next.

    With DEMO_EXIT=1 in the environment nothing stays behind.

    \b
    Examples:
      distributary demo
      distributary demo --folder ./sample
      DEMO_EXIT=1 distributary demo
    """
    from rich.console import Console

    from distributary.cli.sample_table import make_sample_table
    from distributary.delta.table import DeltaTable

    console = Console(highlight=False)
    with ExitStack() as stack:
        sample = make_sample_table(_place(folder, stack) / "orders")
        table = DeltaTable(str(sample.path))
        _show_table(console, table)
        _show_history(console, table)
        _show_pruning(console, table)
        _check_every_version(console, table, sample)
        if not _leaves():
            _show_next_steps(console, sample.path)


def _leaves() -> bool:
    return os.environ.get("DEMO_EXIT", "") not in ("", "0")


def _place(folder: Path | None, stack: ExitStack) -> Path:
    """Choose where the sample goes: the folder asked for, or a temporary one."""
    if folder is not None:
        if folder.exists() and any(folder.iterdir()):
            raise click.BadParameter(f"{folder} is not empty", param_hint="--folder")
        return folder.absolute()
    if _leaves():
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distributary-demo-")))
    return Path(tempfile.mkdtemp(prefix="distributary-demo-"))


def _show_table(console: Console, table: DeltaTable) -> None:
    snapshot = table.snapshot()
    rows = snapshot.to_arrow()
    console.print(f"[bold]orders[/] at version {snapshot.version}: {rows.num_rows} rows, newest first")
    _print_rows(console, rows.sort_by([("ordered_at", "descending")]).slice(0, 5))


def _show_history(console: Console, table: DeltaTable) -> None:
    import pyarrow as pa

    entries = table.history()
    console.print("[bold]history[/]")
    _print_rows(
        console,
        pa.table(
            {
                "version": [entry.version for entry in entries],
                "timestamp": pa.array([entry.timestamp for entry in entries], pa.timestamp("ms", "UTC")),
                "operation": [entry.operation for entry in entries],
            }
        ),
    )


def _show_pruning(console: Console, table: DeltaTable) -> None:
    snapshot = table.snapshot()
    predicate = "country = 'FR' AND order_id >= 12"
    everything, needed = snapshot.files().num_rows, snapshot.files(predicate=predicate).num_rows
    rows = snapshot.to_arrow(predicate=predicate)
    console.print(
        f"[bold]{predicate}[/]: {needed} of {everything} files are read, {rows.num_rows} rows match"
    )
    _print_rows(console, rows.sort_by("order_id").slice(0, 3))


def _check_every_version(console: Console, table: DeltaTable, sample: SampleTable) -> None:
    """Compare every version as read with what was written."""
    for version, expected in enumerate(sample.rows_by_version):
        read = table.snapshot(version=version).to_arrow().to_pylist()
        if _sorted(read) != _sorted(expected):
            raise click.ClickException(f"version {version} does not read back as it was written")
        console.print(f"[green]✓[/] version {version}: {len(read)} rows read back as written")


def _sorted(rows: Any) -> list[dict[str, Any]]:
    return sorted((dict(row) for row in rows), key=lambda row: row["order_id"])


def _print_rows(console: Console, rows: pa.Table) -> None:
    from rich.table import Table

    from distributary.cli.output import batches, json_rows
    from distributary.cli.text_table import cell_text

    shown = Table(box=None, padding=(0, 2), header_style="dim")
    for name in rows.column_names:
        shown.add_column(name)
    for batch in batches(rows):
        for row in json_rows(batch):
            shown.add_row(*(cell_text(value) for value in row.values()))
    console.print(shown)


def _show_next_steps(console: Console, path: Path) -> None:
    console.print("\n[bold]The table stays here[/]; try:", soft_wrap=True)
    for command in (
        f"distributary table history {path}",
        f"distributary table head {path} --where \"country = 'FR'\" -o json",
        f"distributary table files {path} --version 3",
        f"distributary table alter add-column {path} note string",
        f"distributary table restore {path} --to-version 3 --dry-run",
        f"python -c \"import distributary as ds; print(ds.DeltaTable('{path}').snapshot().to_pandas())\"",
    ):
        console.print(f"  {command}", soft_wrap=True, markup=False)
