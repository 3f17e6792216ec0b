"""The Delta tables below a folder, and the names they are shared under.

The schema is the path between folder and table joined by `_`, or `default`; the table's name is that of its
directory. Characters that names must not have become `_`; names that collide get `_2`, `_3`, … in the order
of their paths, so that the same folder always gives the same names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from distributary.errors import InvalidInputError
from distributary.sharing.names import MAX_NAME_LENGTH, name_key

DEFAULT_SCHEMA: Final = "default"
DEEPEST: Final = 16

_FORBIDDEN: Final = re.compile(r"[\x00-\x20/\x7f.\ud800-\udfff]")


class FoundTable(msgspec.Struct, frozen=True, kw_only=True):
    """A Delta table below a folder."""

    schema: str
    name: str
    path: Path
    renamed: bool = False
    """Whether another table had the name already."""


def find_tables(folder: Path) -> list[FoundTable]:
    """Give the tables below a folder, or the folder itself when it is one."""
    root = folder.resolve()
    if not root.is_dir():
        raise InvalidInputError(f"{folder} is no folder")
    taken: set[tuple[str, str]] = set()
    return [_named(root, path, taken) for path in sorted(_table_folders(root))]


def legal_name(text: str) -> str:
    """Turn a text into a name that a schema or table may have."""
    return _FORBIDDEN.sub("_", text)[:MAX_NAME_LENGTH] or "_"


def _table_folders(root: Path) -> Iterator[Path]:
    """Walk down without following links; what lies inside a table is not looked at."""
    for place, folders, _files in os.walk(root):
        here = Path(place)
        if "_delta_log" in folders:
            folders.clear()
            yield here
        elif len(here.parts) - len(root.parts) >= DEEPEST:
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]


def _named(root: Path, path: Path, taken: set[tuple[str, str]]) -> FoundTable:
    between = path.relative_to(root).parts[:-1]
    schema = legal_name("_".join(between)) if between else DEFAULT_SCHEMA
    plain = name = legal_name(path.name)
    number = 1
    while (name_key(schema), name_key(name)) in taken:
        number += 1
        name = f"{plain[: MAX_NAME_LENGTH - 8]}_{number}"
    taken.add((name_key(schema), name_key(name)))
    return FoundTable(schema=schema, name=name, path=path, renamed=name != plain)
