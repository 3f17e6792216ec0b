"""The JSON text of ``add.stats``, read by columns for many files at once.

The text is an object with ``numRecords``, ``minValues``, ``maxValues``, ``nullCount`` (nested like the
schema) and perhaps ``tightBounds``: "Per-file Statistics" of the Delta protocol. Only the asked leaves
are decoded, a block of files in one call of the JSON decoder.

Guarantees: a text that is absent, is no JSON, or has a value where an object should be, counts as absent
for that file alone (ST-009); nothing here raises for what a log may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from operator import attrgetter, is_
from types import UnionType
from typing import Any, Protocol, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

LeafPath: TypeAlias = tuple[str, ...]

_BLOCK_BYTES = 4 << 20
# Names that the decoder cannot look for; statistics of such columns stay unknown.
_UNREADABLE_NAME = re.compile(r'["\\\x00-\x1f]')
_NO_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Leaf(Protocol):
    """What a leaf of the JSON may be, and how its decoded values become an array; None always is null."""

    @property
    def json_type(self) -> UnionType: ...

    def read(self, values: list[Any]) -> pa.Array: ...


def parse_file_statistics(text: str | None) -> dict[str, Any] | None:
    """The statistics of one file as plain values, None where there are none that can be read."""
    try:
        decoded = msgspec.json.decode(text) if text else None
    except _NO_JSON:
        return None
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else None


class Texts(Protocol):
    """JSON texts of many files: a chunked array, or something that reads its chunks as they are taken."""

    @property
    def chunks(self) -> Iterable[pa.Array]: ...


def read_json_statistics(texts: Texts, leaves: Mapping[LeafPath, Leaf]) -> dict[LeafPath, pa.ChunkedArray]:
    """Each leaf as a column of one entry a file."""
    found: dict[LeafPath, list[pa.Array]] = {path: [] for path in leaves}
    readable = {path: leaf for path, leaf in leaves.items() if not _UNREADABLE_NAME.search("".join(path))}
    decoder = _StatisticsDecoder(readable)
    num_files = 0
    for block in _blocks(texts):
        num_files += len(block)
        for path, column in decoder.columns(block):
            found[path].append(column)
    for path in leaves.keys() - readable.keys():
        found[path].append(pa.nulls(num_files, _type(leaves[path])))
    return {path: pa.chunked_array(arrays, _type(leaves[path])) for path, arrays in found.items()}


class _StatisticsDecoder:
    """Decodes blocks of texts into records that have just the asked leaves."""

    def __init__(self, leaves: Mapping[LeafPath, Leaf]) -> None:
        record = _record_type(leaves)
        self._leaves = leaves
        self._attributes = {path: _attributes(record, path) for path in leaves}
        self._absent = record()
        self._decoder = msgspec.json.Decoder(record)

    def columns(self, block: pa.LargeStringArray) -> Iterator[tuple[LeafPath, pa.Array]]:
        """The asked leaves of one block."""
        records = self._records(block)
        for path, leaf in self._leaves.items():
            names = self._attributes[path]
            if self._lack(records, names[0]):
                yield path, pa.nulls(len(records), _type(leaf))
            else:
                yield path, leaf.read(_values(records, names))

    def _records(self, block: pa.LargeStringArray) -> list[Any]:
        try:
            records = self._decoder.decode_lines(_lines(block))
        except _NO_JSON:
            records = []
        return records if len(records) == len(block) else self._records_one_by_one(block)

    def _records_one_by_one(self, block: pa.LargeStringArray) -> list[Any]:
        return [self._record(text) for text in block.cast(pa.large_binary()).to_pylist()]

    def _record(self, text: bytes | None) -> Any:
        try:
            return self._decoder.decode(text) if text else self._absent
        except _NO_JSON:
            return self._absent

    def _lack(self, records: list[Any], name: str) -> bool:
        """Whether no record has a top-level key: all then share the default, and the first one tells most."""
        default = getattr(self._absent, name)
        if getattr(records[0], name) is not default:
            return False
        return all(map(is_, map(attrgetter(name), records), repeat(default)))


def _values(records: list[Any], names: tuple[str, ...]) -> list[Any]:
    try:
        return list(map(attrgetter(".".join(names)), records))
    except AttributeError:  # an object on the way is null
        return [_value(record, names) for record in records]


def _type(leaf: Leaf) -> pa.DataType:
    return leaf.read([]).type


def _value(record: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        record = getattr(record, name, None)
    return record


def _lines(block: pa.LargeStringArray) -> pa.Buffer:
    """All texts as lines; what cannot be an object is replaced, so that none shifts the others."""
    whole = pc.and_(pc.starts_with(block, "{"), pc.ends_with(block, "}")).fill_null(False)
    objects = block if whole.false_count == 0 else pc.if_else(whole, block, "{}")
    one_list = pa.ListArray.from_arrays(pa.array([0, len(objects)], pa.int32()), objects)
    return pc.binary_join(one_list, pa.scalar("\n", objects.type))[0].as_buffer()


def _blocks(texts: Texts) -> Iterator[pa.LargeStringArray]:
    """Slices of about the same number of bytes."""
    for chunk in texts.chunks:
        rows = max(1, _BLOCK_BYTES * max(len(chunk), 1) // max(chunk.nbytes, 1))
        column = chunk.cast(pa.large_string())  # joined texts may pass what 32-bit offsets reach
        for start in range(0, len(column), rows):
            yield column.slice(start, rows)


def _record_type(leaves: Mapping[LeafPath, Leaf]) -> type[msgspec.Struct]:
    """A type with a field for each first name; fields are numbered, since columns may have any name."""
    inner: dict[str, dict[LeafPath, Leaf]] = {}
    for path, leaf in leaves.items():
        inner.setdefault(path[0], {})[path[1:]] = leaf
    fields: list[tuple[str, Any, Any]] = []
    for index, below in enumerate(inner.values()):
        if () in below:
            fields.append((f"f{index}", below[()].json_type, None))
        else:
            record: Any = _record_type(below)
            fields.append((f"f{index}", record | None, record()))
    names = {f"f{index}": name for index, name in enumerate(inner)}
    return msgspec.defstruct("FileStatistics", fields, rename=names, frozen=True, gc=False)


def _attributes(record: type[msgspec.Struct], path: LeafPath) -> tuple[str, ...]:
    names: list[str] = []
    node: Any = record()
    for name in path:
        field = next(field for field in msgspec.structs.fields(node) if field.encode_name == name)
        names.append(field.name)
        node = getattr(node, field.name)
    return tuple(names)
