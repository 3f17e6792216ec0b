"""Names of shares, schemas and tables: which are allowed, and when two are the same.

Implements "Object Naming Constraints" (DM-030 to DM-036): at most 255 code points, not empty, no space,
no ``/``, no ASCII control character; schemas and tables moreover no ``.``. Names keep the casing they were
given with and are compared by Unicode case folding. Recipients are named by the same rules as shares.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from distributary.errors import InvalidInputError

NameKind = Literal["share", "schema", "table", "recipient"]
"""What a name is for."""

MAX_NAME_LENGTH = 255

_FORBIDDEN = re.compile(r"[\x00-\x20/\x7f\ud800-\udfff]")


class InvalidNameError(InvalidInputError):
    """A name of a share, schema or table breaks the protocol's rules."""

    code = "INVALID_NAME"


class TableName(msgspec.Struct, frozen=True):
    """The three names by which a shared table is found."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


def name_key(name: str) -> str:
    """The form in which equal names are equal texts (DM-035)."""
    return name.casefold()


def name_problem(name: str, kind: NameKind) -> str | None:
    """Why a name is not allowed, or None where it is."""
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it has {len(name)} characters; {MAX_NAME_LENGTH} are allowed"
    if (found := _FORBIDDEN.search(name)) is not None:
        return f"it contains {found[0]!r}; spaces, '/' and control characters are not allowed"
    if kind in ("schema", "table") and "." in name:
        return "it contains a period, which separates schema and table"
    return None


def check_name(name: str, kind: NameKind) -> str:
    """The name as given, or an `InvalidNameError` that says what is wrong with it."""
    problem = name_problem(name, kind)
    if problem is not None:
        shown = name if len(name) <= 80 else name[:80] + "…"
        raise InvalidNameError(f"{shown!r} cannot be the name of a {kind}: {problem}")
    return name


def parse_table_name(text: str) -> TableName:
    """Split ``share.schema.table`` at its last two periods, so that a share may have some (C-01)."""
    parts = text.rsplit(".", 2)
    if len(parts) != 3 or not all(parts):
        raise InvalidNameError(f"{text[:200]!r} is no table: write share.schema.table")
    return TableName(*parts)
