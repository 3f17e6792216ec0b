"""A bar for people who wait for a download: on a terminal or in a notebook, never in a file or a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

# Downloads of fewer bytes are over before anybody has read a bar.
_WORTH_SHOWING = 4 << 20


@contextmanager
def download_bar(text: str, total: int, wanted: bool | None) -> Generator[Callable[[int], None]]:
    """Show how many bytes have come; the value is called with every number of them, from any thread."""
    if not (_is_watched() and total >= _WORTH_SHOWING if wanted is None else wanted):
        yield lambda _bytes: None
        return
    from rich.console import Console  # noqa: PLC0415  # only where somebody looks
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    lock = threading.Lock()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total)

        def received(count: int) -> None:
            with lock:
                progress.advance(task, count)

        yield received


def _is_watched() -> bool:
    in_notebook = "ipykernel" in sys.modules
    return in_notebook or (sys.stderr is not None and sys.stderr.isatty())
