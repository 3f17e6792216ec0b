"""How the demo shows what it does: steps, a few rows, and commands to try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


def print_step(console: Console, title: str, text: str) -> None:
    """Say what comes now."""
    from rich.markup import escape

    console.print(f"\n[bold]{escape(title)}[/]: {escape(text)}", soft_wrap=True)


def print_rows(console: Console, rows: pa.Table) -> None:
    """Show rows as a table."""
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


def print_tries(console: Console, text: str, commands: Iterable[str]) -> None:
    """Show commands to try next, as they can be typed."""
    console.print(f"\n[bold]{text}[/]", soft_wrap=True)
    for command in commands:
        console.print(f"  {command}", soft_wrap=True, markup=False)
