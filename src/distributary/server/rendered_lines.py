"""File lines without their URLs: all that is the same for every recipient, rendered as Arrow columns.

A file line is static but for the signed URL, its expiry and (in versioned reads) the version. The static
parts of many lines are rendered at once into string columns; `FileLines.joined` puts URLs between them.
Nothing of a recipient is in a rendered column.

Guarantees: what stands between the parts is valid JSON whatever the log holds: statistics that are no
UTF-8 are left out, everything else is escaped. A path that leaves the table's roots or names the log has
a null path, and `checked_paths` refuses it before anything is signed (C-22).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.deletion_vectors import DeletionVectorDescriptor, dv_file_path
from distributary.delta.errors import CorruptDeletionVectorError
from distributary.delta.log.active_files import FileBlock, FileSelection
from distributary.errors import PathOutsideTableError
from distributary.server.table_errors import outside_table
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.ndjson import encode_json_string
from distributary.storage.log_paths import canonical_path, canonical_paths, resolve_canonical
from distributary.storage.object_store import ObjectStore

CHUNK_FILES = 10_000
"""How many files are rendered together."""

_LOG = "_delta_log"
_SUSPICIOUS = r"://|\\|\x00|^_delta_log(/|$)"
_CONTROL = r"[\x00-\x1f]"
_PLAIN_LEAVES = ("path", "size", "modificationTime")
_RARE_LEAVES = ("baseRowId", "defaultRowCommitVersion", "clusteringProvider")
_VECTOR_LEAVES = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
_FIELDS = {
    "parquet": pa.schema([("path", pa.string()), ("tail", pa.string())]),
    "delta": pa.schema(
        [
            ("path", pa.string()),
            ("head", pa.string()),
            ("tail", pa.string()),
            ("vector_path", pa.string()),
            ("vector_tail", pa.string()),
        ]
    ),
}
_PARQUET_HEAD = '{"file":{"url":"'
_DELTA_END = "}}}}\n"


@dataclass(frozen=True)
class LineForm:
    """How lines of a table look: the format, whose file ids, and the partition columns.

    `partitioning` gives for each partition column its name on the wire and its name in the log.
    """

    response_format: ResponseFormat
    file_ids: ResponseFormat
    partitioning: tuple[tuple[str, str], ...]

    @cached_property
    def digest(self) -> str:
        """A text that differs where lines differ."""
        parts = [self.response_format, self.file_ids, self.partitioning]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SignedUrls:
    """URLs of some lines, with those of their deletion vectors, and when the first of them expires."""

    urls: pa.Array
    vector_urls: pa.Array | None
    expiration: int


def file_id(path: str, scheme: ResponseFormat) -> str:
    """The id of a file: the same in every answer, and the same as the reference server's (A10)."""
    data = path.encode("utf-8", "surrogatepass")
    digest = hashlib.md5(data, usedforsecurity=False) if scheme == "parquet" else hashlib.sha256(data)
    return digest.hexdigest()


def rendered_chunks(store: ObjectStore, block: FileBlock, form: LineForm) -> Iterator[pa.RecordBatch]:
    """The lines of the files of a block, in its order, some thousands at a time."""
    files = FileSelection([block])
    columns = _Columns(files, form)
    start = 0
    for statistics in _rechunked(block.stream(("stats",))):
        yield _Renderer(store, form, columns.part(start, len(statistics)), statistics).batch()
        start += len(statistics)


def checked_paths(batch: pa.RecordBatch) -> pa.Array:
    """The paths of lines, refused where one of them leaves the table's roots."""
    paths = batch.column("path")
    if paths.null_count:
        raise outside_table()
    return paths


def vector_paths(batch: pa.RecordBatch) -> pa.Array | None:
    """The paths of deletion vector files, null for lines without; None where no line has one."""
    if batch.schema.get_field_index("vector_path") < 0:
        return None
    paths = batch.column("vector_path")
    return None if paths.null_count == len(paths) else paths


def permitted_path(store: ObjectStore, log_path: str) -> str:
    """The canonical form of a path of the log, refused where it leaves the table's roots."""
    form = canonical_path(store.root, log_path)
    if not _is_permitted(store, form):
        raise outside_table()
    return form


def joined_lines(
    batch: pa.RecordBatch, form: LineForm, signed: SignedUrls, version: tuple[int, int] | None
) -> pa.Buffer:
    """The bytes of lines: URLs, expiry, and in versioned reads version and time, put between the parts."""
    told = "" if version is None else f',"version":{version[0]},"timestamp":{version[1]}'
    if form.response_format == "parquet":
        end = f',"expirationTimestamp":{signed.expiration}{told}}}}}\n'
        lines = pc.binary_join_element_wise(_PARQUET_HEAD, signed.urls, batch.column("tail"), end, "")
        return _bytes_of(lines)
    middle = f'{told},"expirationTimestamp":{signed.expiration},"deltaSingleAction":{{"add":{{"path":"'
    urls = "" if signed.vector_urls is None else signed.vector_urls
    tails = _DELTA_END if signed.vector_urls is None else batch.column("vector_tail")
    lines = pc.binary_join_element_wise(
        batch.column("head"), middle, signed.urls, batch.column("tail"), urls, tails, ""
    )
    return _bytes_of(lines)


def _bytes_of(lines: pa.Array) -> pa.Buffer:
    """The texts one after the other, without a copy."""
    first, last = lines.offset, lines.offset + len(lines)
    offsets = memoryview(lines.buffers()[1]).cast("i")
    return lines.buffers()[2].slice(offsets[first], offsets[last] - offsets[first])


def _rechunked(parts: Iterator[pa.ChunkedArray]) -> Iterator[pa.Array]:
    held: list[pa.Array] = []
    size = 0
    for part in parts:
        held.extend(part.chunks)
        size += len(part)
        while size >= CHUNK_FILES:
            whole = pa.chunked_array(held, pa.string())
            yield whole.slice(0, CHUNK_FILES).combine_chunks()
            held = whole.slice(CHUNK_FILES).chunks
            size -= CHUNK_FILES
    if size:
        yield pa.chunked_array(held, pa.string()).combine_chunks()


class _Columns:
    """The columns of a block that lines are made of, apart from statistics."""

    def __init__(self, files: FileSelection, form: LineForm) -> None:
        self._leaves = {name: files.column(name) for name in _PLAIN_LEAVES}
        self._partitions = [files.partition_values(name) for _, name in form.partitioning]
        if form.response_format == "delta":
            self._leaves |= {name: files.column(name) for name in (*_RARE_LEAVES, "tags")}
            for name in _VECTOR_LEAVES:
                self._leaves[f"deletionVector.{name}"] = files.column("deletionVector", name)

    def part(self, start: int, count: int) -> _Part:
        """Some of the files."""
        leaves = {name: column.slice(start, count).combine_chunks() for name, column in self._leaves.items()}
        texts = [column.slice(start, count).combine_chunks() for column in self._partitions]
        return _Part(leaves, texts)


@dataclass(frozen=True, slots=True)
class _Part:
    leaves: dict[str, pa.Array]
    partitions: list[pa.Array]


class _Renderer:
    """Renders the lines of some files."""

    def __init__(self, store: ObjectStore, form: LineForm, part: _Part, statistics: pa.Array) -> None:
        self._store = store
        self._form = form
        self._leaves = part.leaves
        self._partitions = part.partitions
        self._statistics = statistics

    def batch(self) -> pa.RecordBatch:
        paths = permitted_paths(self._store, self._leaves["path"])
        if self._form.response_format == "parquet":
            arrays = [paths, self._parquet_tails()]
        else:
            arrays = self._delta_parts(paths)
        return pa.record_batch(arrays, _FIELDS[self._form.response_format])

    def _parquet_tails(self) -> pa.Array:
        return _join('","id":"', self._ids(), '","partitionValues":', self._partition_objects('""'),
                     ',"size":', _text(self._leaves["size"]), self._statistics_field())  # fmt: skip

    def _delta_parts(self, paths: pa.Array) -> list[pa.Array]:
        vectors = _Vectors(self._store, self._form, self._leaves)
        heads = _join('{"file":{"id":"', self._ids(), '"', vectors.ids)
        times = pc.fill_null(self._leaves["modificationTime"], 0)
        tails = _join('","partitionValues":', self._partition_objects("null"),
                      ',"size":', _text(self._leaves["size"]), ',"modificationTime":', _text(times),
                      ',"dataChange":true', self._statistics_field(), *self._rare_fields(),
                      vectors.heads)  # fmt: skip
        return [vectors.without_refused(paths), heads, tails, vectors.paths, vectors.tails]

    def _ids(self) -> pa.Array:
        scheme = self._form.file_ids
        return pa.array([file_id(path, scheme) for path in self._leaves["path"].to_pylist()], pa.string())

    def _statistics_field(self) -> pa.Array:
        texts = escaped(self._statistics)
        return _join(',"stats":"', texts, '"').fill_null("")

    def _partition_objects(self, null: str) -> pa.Array | str:
        if not self._partitions:
            return "{}"
        parts: list[pa.Array | str] = []
        for (name, _), texts in zip(self._form.partitioning, self._partitions, strict=True):
            parts += ["," if parts else "{", _members(name, texts, null)]
        return _join(*parts, "}")

    def _rare_fields(self) -> Iterator[pa.Array]:
        for name in _RARE_LEAVES:
            column = self._leaves[name]
            if column.null_count < len(column):
                quoted = (escaped(column), '"') if name == "clusteringProvider" else (_text(column), "")
                lead = f',"{name}":' + quoted[1]
                yield _join(lead, *quoted).fill_null("")
        tags = self._leaves["tags"]
        if tags.null_count < len(tags):
            texts = [_tags(value) for value in tags.to_pylist(maps_as_pydicts="strict")]
            yield pa.array(texts, pa.string())


class _Vectors:
    """The parts of lines that concern deletion vectors."""

    def __init__(self, store: ObjectStore, form: LineForm, leaves: dict[str, pa.Array]) -> None:
        kinds = leaves["deletionVector.storageType"]
        count = len(kinds)
        self.ids: pa.Array | str = ""
        self.heads: pa.Array | str = ""
        self.paths = pa.nulls(count, pa.string())
        self.tails = pa.repeat(pa.scalar(_DELTA_END), count)
        self._kinds = kinds
        if kinds.null_count == count:
            return
        columns = [leaves[f"deletionVector.{name}"].to_pylist() for name in _VECTOR_LEAVES]
        parts = [_vector_parts(store, form, *values) for values in zip(*columns, strict=True)]
        ids, heads, paths, tails = zip(*parts, strict=True)
        self.ids, self.heads = pa.array(ids, pa.string()), pa.array(heads, pa.string())
        self.paths, self.tails = pa.array(paths, pa.string()), pa.array(tails, pa.string())

    def without_refused(self, paths: pa.Array) -> pa.Array:
        """The paths of files, null where a deletion vector lies outside the table's roots."""
        if self._kinds.null_count == len(self._kinds):
            return paths
        in_file = pc.not_equal(self._kinds, "i").fill_null(False)
        return pc.if_else(pc.and_(in_file, self.paths.is_null()), None, paths)


def _vector_parts(
    store: ObjectStore,
    form: LineForm,
    kind: str | None,
    text: str,
    offset: int | None,
    size: int,
    cardinality: int,
) -> tuple[str, str, str | None, str]:
    """The id, the beginning, the path to sign and the end of a deletion vector in a line."""
    if kind is None:
        return "", "", None, _DELTA_END
    vector = DeletionVectorDescriptor(
        storage_type=kind, path_or_inline_dv=text, offset=offset, size_in_bytes=size, cardinality=cardinality
    )
    if kind == "i":
        whole = msgspec.json.encode(vector_object(vector, text)).decode()
        return "", f',"deletionVector":{whole}', None, _DELTA_END
    try:
        path = dv_file_path(vector)
    except CorruptDeletionVectorError:
        return "", "", None, _DELTA_END
    rest = msgspec.json.encode(vector_object(vector, "")).decode().partition('"pathOrInlineDv":""')[2]
    return (
        f',"deletionVectorFileId":"{file_id(path, form.file_ids)}"',
        ',"deletionVector":{"storageType":"p","pathOrInlineDv":"',
        permitted_paths(store, pa.array([path], pa.string()))[0].as_py(),
        f'"{rest}{_DELTA_END}',
    )


def vector_object(vector: DeletionVectorDescriptor, place: str) -> dict[str, str | int]:
    """A deletion vector as recipients see it: `p` with a URL, or inline as it is (RF-066)."""
    found: dict[str, str | int] = {
        "storageType": "i" if vector.storage_type == "i" else "p",
        "pathOrInlineDv": place,
    }
    if vector.offset is not None:
        found["offset"] = vector.offset
    return {**found, "sizeInBytes": vector.size_in_bytes, "cardinality": vector.cardinality}


def permitted_paths(store: ObjectStore, log_paths: pa.Array) -> pa.Array:
    """The canonical form of each path, null where it leaves the table's roots or names the log."""
    forms = canonical_paths(store.root, log_paths)
    odd = pc.match_substring_regex(forms, _SUSPICIOUS)
    if odd.true_count == 0:
        return forms
    settled = [form if _is_permitted(store, form) else None for form in forms.filter(odd).to_pylist()]
    return pc.replace_with_mask(forms, odd, pa.array(settled, pa.string()))


def _is_permitted(store: ObjectStore, form: str) -> bool:
    try:
        where, key = resolve_canonical(store, form)
    except PathOutsideTableError:
        return False
    return where is not store or key.partition("/")[0] != _LOG


def escaped(texts: pa.Array) -> pa.Array:
    """Texts as they stand inside a JSON string; null where a text is no UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        texts = pa.array([_readable(text) for text in texts.cast(pa.binary()).to_pylist()], pa.string())
    odd = pc.match_substring_regex(texts, _CONTROL).fill_null(False)
    plain = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if odd.true_count == 0:
        return plain
    careful = [encode_json_string(text).decode()[1:-1] for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(careful, pa.string()))


def _readable(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None


def _members(name: str, texts: pa.Array, null: str) -> pa.Array:
    """A member of each partition object; values repeat, so each is written once."""
    lead = encode_json_string(name).decode() + ":"
    encoded = texts.dictionary_encode()
    written = [lead + encode_json_string(text).decode() for text in encoded.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(encoded.indices).fill_null(lead + null)


def _tags(tags: dict[str, str | None] | None) -> str:
    return "" if tags is None else f',"tags":{msgspec.json.encode(tags).decode()}'


def _text(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.string())


def _join(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
