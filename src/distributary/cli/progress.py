"""Signs of life on a terminal: what is being done, on stderr, gone when it is done.

Nothing is written where stderr is no terminal. While rows go to a terminal too, the sign disappears with the
first of them, so the two never mix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from distributary.frames import RowSource

Tell = Callable[[str], None]


@contextmanager
def working(text: str) -> Generator[Tell]:
    """Show that something goes on; the value is called with a new text when there is one."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)) as status:
        yield lambda news: status.update(escape(news))


@contextmanager
def bar(text: str, total: int | None = None, *, bytes: bool = False) -> Generator[Callable[[int], None]]:
    """Show how far something has come; the value is called with every step that is done."""
    if not sys.stderr.isatty():
        yield lambda _steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    count = DownloadColumn() if bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), count, TimeLeft())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda steps: progress.advance(task, steps)


def reading(
    source: RowSource, output: Path | None, limit: int | None = None, without: str | None = None
) -> pa.RecordBatchReader:
    """Stream rows, at most `limit` of them, with a count of those that left while nobody sees them.

    A column may be left out.
    """
    import pyarrow as pa

    visible = output is None and sys.stdout.isatty()
    names = [name for name in source.arrow_schema.names if name != without]
    schema = pa.schema([source.arrow_schema.field(name) for name in names])
    rows = (batch.select(names) for batch in _limited(source.to_record_batches(), limit))
    return pa.RecordBatchReader.from_batches(schema, _counted(rows, visible))


def _counted(rows: Iterator[pa.RecordBatch], visible: bool) -> Iterator[pa.RecordBatch]:
    count = 0
    with working("reading…") as tell:
        for batch in rows:
            if visible:
                break
            count += batch.num_rows
            tell(f"{count:,} rows")
            yield batch
        else:
            return
    yield batch
    yield from rows


def _limited(rows: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from rows
        return
    left = limit
    while left > 0 and (batch := next(rows, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
