"""TablePolicy: what one recipient may see of one shared table, and how its bytes may be reached.

The catalog makes it from the stored table and the recipient's properties; the server shapes every answer
by it. It is a value: two policies with equal fields give equal answers, so `digest` may key a cache that
recipients share. Nothing in it names the recipient; a partition filter that reads the recipient's
properties arrives here with their values already written as SQL literals.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

AccessMode = Literal["url", "dir"]
"""How bytes are reached: pre-signed URLs of files, or temporary credentials for the table's directory."""


class TablePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules under which a table is served to one recipient."""

    location: str
    """The table root: a local path or a URI."""
    history_shared: bool = True
    """Whether versions other than the latest may be read, and changes between them."""
    start_version: int = 0
    """The oldest version that may be read, of the table or of its changes."""
    change_feed: bool = True
    """Whether changes may be asked for (the table itself must also keep a change feed)."""
    access_modes: tuple[AccessMode, ...] = ("url",)
    """The ways in which bytes may be reached; never `dir` together with a partition filter."""
    auxiliary_locations: tuple[str, ...] = ()
    """Further roots beneath which files of the table may lie (shallow clones)."""
    partition_filter: str | None = None
    """A SQL predicate over partition columns, recipient's properties bound: only its rows exist here."""

    @property
    def digest(self) -> str:
        """A SHA-256 in hex over every field: equal for equal policies, in every process."""
        return hashlib.sha256(msgspec.json.encode(msgspec.structs.astuple(self))).hexdigest()
