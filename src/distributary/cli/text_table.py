"""Rows as an aligned text table for people.

Widths come from the first batch, so any number of rows can stream through. On a terminal every line is cut to
its width and the cells that were cut end in "…"; anywhere else nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from distributary.cli.output import batches, encode_json, json_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.cli.output import Rows

GAP = "  "
NARROWEST = 6
NULL = "NULL"


def write_text_table(rows: Rows, sink: IO[bytes], width: int | None) -> None:
    """Write a header, a rule and the rows; ``width`` is the terminal's, None when there is no terminal."""
    names = rows.schema.names
    right = [_is_number(field.type) for field in rows.schema]
    widths: list[int] | None = None
    for batch in batches(rows):
        lines = [[cell_text(row[name]) for name in names] for row in json_rows(batch)]
        if widths is None:
            widths = _fit(_widths([names, *lines]), width)
            _write_header(names, widths, right, sink, width)
        _write_lines(lines, widths, right, sink, width)
    if widths is None:
        _write_header(names, _fit(_widths([names]), width), right, sink, width)


def cell_text(value: Any) -> str:
    """Write one value into one line; control characters are shown, not sent to the terminal."""
    if value is None:
        return NULL
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _is_number(data_type: pa.DataType) -> bool:
    import pyarrow.types as t

    return t.is_integer(data_type) or t.is_floating(data_type) or t.is_decimal(data_type)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(cell) for cell in column) for column in zip(*lines, strict=True)]


def _fit(widths: list[int], available: int | None) -> list[int]:
    """Narrow the widest columns until the line fits, down to a width that still shows something."""
    if available is None:
        return widths
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - available
    while excess > 0 and max(fitted, default=0) > NARROWEST:
        fitted[fitted.index(max(fitted))] -= 1
        excess -= 1
    return fitted


def _write_header(
    names: list[str], widths: list[int], right: list[bool], sink: IO[bytes], available: int | None
) -> None:
    rule = ["─" * width for width in widths]
    _write_lines([[cell_text(name) for name in names], rule], widths, right, sink, available)


def _write_lines(
    lines: list[list[str]], widths: list[int], right: list[bool], sink: IO[bytes], available: int | None
) -> None:
    cut = available is not None
    text = "".join(_cut_line(_line(line, widths, right, cut), available) + "\n" for line in lines)
    sink.write(text.encode())


def _line(cells: list[str], widths: list[int], right: list[bool], cut: bool) -> str:
    columns = zip(cells, widths, right, strict=True)
    return GAP.join(_pad(cell, width, flush_right, cut) for cell, width, flush_right in columns).rstrip()


def _pad(cell: str, width: int, right: bool, cut: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    missing = width - cell_len(cell)
    if missing >= 0:
        return " " * missing + cell if right else cell + " " * missing
    return set_cell_size(cell, width - 1) + "…" if cut else cell


def _cut_line(line: str, available: int | None) -> str:
    from rich.cells import cell_len, set_cell_size

    if available is None or cell_len(line) <= available:
        return line
    return set_cell_size(line, available - 1) + "…"
