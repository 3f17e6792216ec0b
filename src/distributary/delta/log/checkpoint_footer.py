"""The footer of a checkpoint file, and what must hold together in it.

Page checksums cover the data of a Parquet file where its writer put them; nothing covers the
footer. But a footer says most things twice: names and physical types in the schema and in
each column chunk, row counts in the file, its row groups and its flat columns, nulls in the
statistics and in the data. `check_footer` compares what can be compared without reading
data, so that damage is found before anything is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

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


class Footer:
    """The footer of one file with the positions of its columns and row groups."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        self.metadata = metadata
        self.schema = schema
        self.num_rows: int = metadata.num_rows
        self.groups: Sequence[pq.RowGroupMetaData] = [
            metadata.row_group(at) for at in range(metadata.num_row_groups)
        ]
        self._columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
        self._paths: list[str] = [column.path for column in self._columns]
        self.starts: list[int] = [0]
        for group in self.groups:
            self.starts.append(self.starts[-1] + group.num_rows)

    def leaf_type(self, action: str, leaf: Leaf) -> pa.DataType | None:
        """The Arrow type of a leaf as the file has it."""
        index = self.schema.get_field_index(action)
        found: pa.DataType | None = self.schema.field(index).type if index >= 0 else None
        for name in leaf:
            if found is None or not pa.types.is_struct(found) or found.get_field_index(name) < 0:
                return None
            found = found.field(name).type
        return found

    def null_count(self, name: str, groups: Iterable[int]) -> int | None:
        """The nulls that statistics count in a flat column; `None` where they do not say."""
        if name not in self._paths:
            return None
        at = self._paths.index(name)
        if self._columns[at].max_repetition_level:
            return None
        counts = [_null_count(self.groups[group].column(at)) for group in groups]
        return None if None in counts else sum(count for count in counts if count is not None)

    def num_structs(self, group: int, name: str) -> int | None:
        """How many rows of a group hold an action, as statistics say; `None` where they do not."""
        flat = [
            at
            for at, path in enumerate(self._paths)
            if path.startswith(f"{name}.") and not self._columns[at].max_repetition_level
        ]
        counts = [_null_count(self.groups[group].column(at)) for at in flat]
        known = [count for count in counts if count is not None]
        return self.groups[group].num_rows - min(known) if counts and len(known) == len(counts) else None

    def problem(self) -> str | None:
        """What does not hold together, in words; `None` where all does."""
        if self.starts[-1] != self.num_rows:
            return "its row counts do not add up"
        names = self.schema.names
        if len(set(names)) != len(names):
            return "it has two columns of one name"
        return self._chunk_problem() or next(filter(None, map(self._action_problem, ("add", "remove"))), None)

    def _chunk_problem(self) -> str | None:
        used = [at for at, path in enumerate(self._paths) if not _is_parsed(path)]
        for group in self.groups:
            chunks = [(at, group.column(at)) for at in used]
            for at, chunk in chunks:
                column = self._columns[at]
                if chunk.path_in_schema != column.path or chunk.physical_type != column.physical_type:
                    return f"its schema and its column chunks disagree about {column.path!r}"
                if not column.max_repetition_level and chunk.num_values != group.num_rows:
                    return f"column {column.path!r} has another number of values than its row group"
            if _overlap(chunk for _, chunk in chunks):
                return "its column chunks overlap"
        return None

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


def _null_count(chunk: pq.ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _is_parsed(path: str) -> bool:
    """Whether a column is of parsed statistics or partition values: many, and read one by one."""
    return path.startswith(("add.stats_parsed.", "add.partitionValues_parsed."))


def _overlap(chunks: Iterable[pq.ColumnChunkMetaData]) -> bool:
    spans = sorted((_start(chunk), chunk.total_compressed_size) for chunk in chunks)
    return any(start + size > after or size < 0 for (start, size), (after, _) in pairwise(spans))


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset
    return min(dictionary, chunk.data_page_offset) if dictionary else chunk.data_page_offset


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
