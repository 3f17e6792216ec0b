"""The tables that benchmarks read, made once and kept in a folder for later runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

# Raise this when a generator changes, so that tables of earlier runs are not used.
EDITION = 2


def table_folder(cache: Path, name: str) -> Path:
    """The folder of a table by its name, e.g. `log-1000000`, `typed-log-1000000`, `rows-10000000`.

    `lake-1000000` is a folder of many tables, the largest of which has so many files.
    """
    folder = cache / f"{name}-v{EDITION}"
    if not folder.exists():
        unfinished = cache / f"{name}-unfinished"
        _writer(name)(unfinished)
        unfinished.rename(folder)
    return folder


def _writer(name: str) -> Callable[[Path], None]:
    kind, _, size = name.rpartition("-")
    number = int(size)
    if kind == "empty":
        return lambda folder: folder.mkdir(parents=True)
    if kind == "rows":
        from fabricated_rows import write_table

        return lambda folder: write_table(folder, number)
    if kind == "lake":
        from fabricated_lake import write_lake

        return lambda folder: write_lake(folder, number)
    if kind == "shares":
        from fabricated_shares import write_shares

        return lambda folder: write_shares(folder, number)
    from fabricated_log import write_log

    return lambda folder: write_log(folder, number, typed=kind == "typed-log")


def linked_log(table: Path, copy: Path) -> Path:
    """A copy of a table without data files that can be written to; its checkpoints are hard links."""
    log = copy / "_delta_log"
    log.mkdir(parents=True)
    for file in (table / "_delta_log").iterdir():
        if file.suffix == ".parquet":
            (log / file.name).hardlink_to(file)
        else:
            shutil.copyfile(file, log / file.name)
    return copy
