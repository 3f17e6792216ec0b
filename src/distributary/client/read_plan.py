"""What a read of a shared table asks the server, and what it will download: the answer of `explain()`."""

from __future__ import annotations

import msgspec

from distributary.sharing.capabilities import ResponseFormat


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files and bytes before and after pruning, and the hints that were sent, or could not be."""

    table: str
    version: int | None
    access: str
    response_format: ResponseFormat | None
    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    hints_not_sent: tuple[tuple[str, str], ...] = ()
    table_files: int | None = None
    """Files of the whole table, where the server tells."""
    table_bytes: int | None = None
    offered_files: int = 0
    """Files that the server's answer has."""
    offered_bytes: int = 0
    needed_files: int = 0
    """Files that may hold wanted rows, by their partition values and statistics."""
    needed_bytes: int = 0
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        version = "the latest version" if self.version is None else f"version {self.version}"
        lines = [f"{self.table} at {version}, by {self.access} access ({self.response_format or 'log'})"]
        if self.table_files is not None:
            lines.append(f"  table    {_amount(self.table_files, self.table_bytes)}")
        lines.append(f"  offered  {_amount(self.offered_files, self.offered_bytes)}")
        lines.append(f"  needed   {_amount(self.needed_files, self.needed_bytes)}")
        lines.append(f"  columns  {', '.join(self.columns)}")
        lines += [f"  hint     {hint}" for hint in self.predicate_hints]
        if self.json_predicate_hints is not None:
            lines.append(f"  hint     {self.json_predicate_hints}")
        if self.limit_hint is not None:
            lines.append(f"  hint     limit {self.limit_hint}")
        lines += [f"  no hint  {part}: {reason}" for part, reason in self.hints_not_sent]
        return "\n".join(lines)


def _amount(files: int, size: int | None) -> str:
    known = "" if size is None else f", {size:,} bytes"
    return f"{files:,} files{known}"
