"""The footer of a checkpoint file, and what must hold together in it.

Page checksums cover the data of a Parquet file where its writer put them; nothing covers the
footer. But a footer says most things twice: names and physical types in the schema and in
each column chunk, row counts in the file, its row groups and its flat columns, nulls in the
statistics and in the data. `CheckpointFooter.problem` compares what can be compared without
reading data, so that damage is found before anything is believed; what holds for the footer
of any Parquet file is in `parquet_footer`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain, pairwise

import pyarrow as pa

from distributary.delta.parquet_footer import ParquetFooter, RowGroup

Leaf = tuple[str, ...]

STRING_MAP = pa.map_(pa.string(), pa.string())

FILE_LEAVES: dict[Leaf, pa.DataType] = {
    ("path",): pa.string(),
    ("partitionValues",): STRING_MAP,
    ("size",): pa.int64(),
    ("modificationTime",): pa.int64(),
    ("dataChange",): pa.bool_(),
    ("stats",): pa.string(),
    ("tags",): STRING_MAP,
    ("deletionVector", "storageType"): pa.string(),
    ("deletionVector", "pathOrInlineDv"): pa.string(),
    ("deletionVector", "offset"): pa.int32(),
    ("deletionVector", "sizeInBytes"): pa.int32(),
    ("deletionVector", "cardinality"): pa.int64(),
    ("baseRowId",): pa.int64(),
    ("defaultRowCommitVersion",): pa.int64(),
    ("clusteringProvider",): pa.string(),
    ("deletionTimestamp",): pa.int64(),
    ("extendedFileMetadata",): pa.bool_(),
}

KNOWN_COLUMNS = frozenset(
    ("add", "remove", "metaData", "protocol", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
)


class CheckpointFooter:
    """What the footer of a file says of its actions."""

    def __init__(self, footer: ParquetFooter, schema: pa.Schema) -> None:
        self.schema = schema
        self.num_rows = footer.num_rows
        self.groups = footer.groups
        self.starts: list[int] = list(accumulate((group.num_rows for group in footer.groups), initial=0))
        self._columns = footer.columns
        self._footer = footer

    def leaf_type(self, action: str, leaf: Leaf) -> pa.DataType | None:
        """The Arrow type of a leaf as the file has it."""
        index = self.schema.get_field_index(action)
        found: pa.DataType | None = self.schema.field(index).type if index >= 0 else None
        for name in leaf:
            if found is None or not pa.types.is_struct(found) or found.get_field_index(name) < 0:
                return None
            found = found.field(name).type
        return found

    def null_count(self, path: Leaf, groups: Iterable[int]) -> int | None:
        """The nulls that statistics count in a flat column; `None` where they do not say."""
        at = next((at for at, column in enumerate(self._columns) if column.path == path), None)
        if at is None or self._columns[at].repeated:
            return None
        return _total(self.groups[group].chunks[at].null_count for group in groups)

    def num_structs(self, group: int, name: str) -> int | None:
        """How many rows of a group hold an action, as statistics say; `None` where they do not."""
        flat = [
            at for at, column in enumerate(self._columns) if column.path[0] == name and not column.repeated
        ]
        nulls = [self.groups[group].chunks[at].null_count for at in flat]
        known = [count for count in nulls if count is not None]
        return self.groups[group].num_rows - min(known) if known and len(known) == len(nulls) else None

    def problem(self) -> str | None:
        """What does not hold together, in words; `None` where all does."""
        problem = self._footer.problem()
        if problem is not None:
            return problem
        problems = chain(map(_overlap, self.groups), map(self._action_problem, ("add", "remove")))
        return next(filter(None, problems), None)

    def _action_problem(self, action: str) -> str | None:
        index = self.schema.get_field_index(action)
        if index < 0:
            return None
        kind = self.schema.field(index).type
        if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
            return f"its column {action} has no path"
        for leaf, expected in FILE_LEAVES.items():
            actual = self.leaf_type(action, leaf)
            if actual is not None and not _castable(actual, expected):
                return f"{action}.{'.'.join(leaf)} has the type {actual}, not {expected}"
        return None


def _overlap(group: RowGroup) -> str | None:
    spans = sorted((chunk.start, chunk.size) for chunk in group.chunks)
    if any(size < 0 or start + size > after for (start, size), (after, _) in pairwise(spans)):
        return "its column chunks overlap"
    return None


def _total(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _castable(actual: pa.DataType, expected: pa.DataType) -> bool:
    if actual == expected or pa.types.is_null(actual):
        return True
    if pa.types.is_string(expected):
        return (
            pa.types.is_large_string(actual)
            or pa.types.is_string_view(actual)
            or (pa.types.is_dictionary(actual) and _castable(actual.value_type, expected))
        )
    if pa.types.is_map(expected):
        return pa.types.is_map(actual) and _castable(actual.key_type, pa.string())
    return pa.types.is_integer(expected) and pa.types.is_integer(actual)
