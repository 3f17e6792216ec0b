"""What a server answers about a table: its protocol, its metadata and its files, in either format.

Both response formats become the same values: the actions of a Delta log, in which a file's path is the
file's id, so that no signed URL reaches a message. URLs are kept apart, by the same ids.

Guarantees: a line that cannot be read, an answer without protocol or metadata, lines after the end, an
end that was promised and is missing (CL-014), and a file that is given twice are an
`IncompleteResponseError`; an end with an error message is a `QueryFailedError` (CL-013). Unknown fields and
unknown kinds of lines are passed over (CL-007, C-02); the end of the stream is read wrapped or bare (C-03).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from distributary.client.errors import IncompleteResponseError, QueryFailedError
from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.actions import Add, AddCdcFile, Format, Metadata, Protocol, Remove
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.delta_response import DeltaMetadata, DeltaProtocol
from distributary.sharing.ndjson import EndStreamAction, QueryStatus
from distributary.sharing.parquet_response import ParquetFile, ParquetLine, ParquetMetadata

PLAIN_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)

FileKind = Literal["file", "add", "remove", "cdf"]
Wanted = Callable[[Metadata], bool]
"""Whether the answer of a table with such metadata is of use."""

_parquet_lines = msgspec.json.Decoder(ParquetLine)
_END_FIELDS = frozenset(name.encode_name for name in msgspec.structs.fields(EndStreamAction))


class WireAction(msgspec.Struct, frozen=True, rename="camel"):
    """A file action as servers send it: unlike in a log, much may be missing (the document's own example)."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    modification_time: int = 0
    stats: str | None = None
    deletion_vector: DeletionVectorDescriptor | None = None


class WireSingleAction(msgspec.Struct, frozen=True, rename="camel"):
    """One of these is set."""

    add: WireAction | None = None
    remove: WireAction | None = None
    cdc: WireAction | None = None


class WireFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file of the delta format."""

    id: str
    delta_single_action: WireSingleAction
    deletion_vector_file_id: str | None = None
    version: int | None = None
    timestamp: int | None = None
    expiration_timestamp: int | None = None


class WireLine(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the delta format: one of these is set."""

    protocol: DeltaProtocol | None = None
    meta_data: DeltaMetadata | None = None
    file: WireFile | None = None
    end_stream_action: EndStreamAction | None = None
    query_status: QueryStatus | None = None


_delta_lines = msgspec.json.Decoder(WireLine)


class FileUrl(msgspec.Struct, frozen=True):
    """Where the bytes of a file can be had, until a time in ms since 1970."""

    url: str
    expires: int | None = None

    def __repr__(self) -> str:
        return "FileUrl(…)"


class SharedFile(msgspec.Struct, frozen=True):
    """One file of an answer: its action, with ids for paths, and the version that it belongs to."""

    action: Add | Remove | AddCdcFile
    version: int | None = None
    timestamp: int | None = None


class LaterState(msgspec.Struct, frozen=True):
    """What a later version of an answer over several versions changed: its protocol or its metadata."""

    version: int | None
    protocol: Protocol | None = None
    metadata: Metadata | None = None


class TableInformation(msgspec.Struct, frozen=True, kw_only=True):
    """What a server tells about a table besides its Delta metadata."""

    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[str, ...] | None = None


class TableAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer (one page of it), in the words of a Delta log."""

    format: ResponseFormat
    protocol: Protocol
    metadata: Metadata
    information: TableInformation
    version: int | None = None
    files: list[SharedFile] = []
    urls: dict[str, FileUrl] = {}
    later: list[LaterState] = []
    end: EndStreamAction | None = None


class UnwantedAnswerError(Exception):
    """The table's metadata show that the question was not the right one; never leaves the client."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__("the question did not fit the table")
        self.metadata = metadata


class AnswerReader:
    """Reads the lines of one answer; no further than its metadata where `wanted` says so."""

    def __init__(
        self,
        format: ResponseFormat | None,
        *,
        end_promised: bool,
        asked_delta: bool,
        wanted: Wanted | None = None,
    ) -> None:
        self._format: ResponseFormat | None = format
        self._wanted = wanted
        self._end_promised = end_promised
        self._asked_delta = asked_delta
        self._protocol: Protocol | None = None
        self._metadata: ParquetMetadata | DeltaMetadata | None = None
        self._files: list[SharedFile] = []
        self._urls: dict[str, FileUrl] = {}
        self._later: list[LaterState] = []
        self._end: EndStreamAction | None = None
        self.status: QueryStatus | None = None

    def read(self, lines: Iterable[bytes], *, framed: bool = True) -> None:
        """Take all lines; `framed` says whether the connection itself tells where the answer ends."""
        for line in lines:
            if self._end is not None:
                raise IncompleteResponseError("the server went on after the end of its answer")
            self._take(line)
        if self._end is None and (self._end_promised or not framed):
            raise IncompleteResponseError(
                "the answer ended without the line that marks its end: it was cut on the way"
            )
        if self._end is not None and self._end.error_message:
            raise query_failed(self._end)

    @property
    def failed_status(self) -> int | None:
        """The HTTP status that an error at the end would have had, where the server says."""
        return None if self._end is None else self._end.http_status_error_code

    def answer(self, version: int | None) -> TableAnswer:
        """Everything that was read."""
        if self._protocol is None or self._metadata is None:
            raise IncompleteResponseError("the answer has no protocol or no metadata: it was cut on the way")
        return TableAnswer(
            format=self._format or "parquet",
            protocol=self._protocol,
            metadata=_log_metadata(self._metadata),
            information=_information(self._metadata),
            version=version,
            files=self._files,
            urls=self._urls,
            later=self._later,
            end=self._end,
        )

    def _take(self, data: bytes) -> None:
        if self._format is None:
            self._format = "delta" if b'"deltaProtocol"' in data else "parquet"
        if self._format == "delta" and not self._asked_delta:
            raise IncompleteResponseError("the server answered in the delta format, which was not asked for")
        try:
            line = _delta_lines.decode(data) if self._format == "delta" else _parquet_lines.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise IncompleteResponseError(
                "a line of the answer cannot be read: it was cut or damaged"
            ) from None
        if not self._take_common(line, data):
            if isinstance(line, WireLine):
                self._take_delta(line)
            else:
                self._take_parquet(line)

    def _take_common(self, line: WireLine | ParquetLine, data: bytes) -> bool:
        if line.file is not None:
            return False
        if line.end_stream_action is not None:
            self._end = line.end_stream_action
        elif line.query_status is not None:
            self.status = line.query_status
        elif line.meta_data is not None:
            self._take_metadata(line.meta_data)
        elif line == type(line)():
            self._end = _bare_end(data)
        else:
            return False
        return True

    def _take_metadata(self, found: ParquetMetadata | DeltaMetadata) -> None:
        """The first is the one to read by; later ones belong to later versions."""
        if self._metadata is None:
            self._metadata = found
            metadata = _log_metadata(found)
            if self._wanted is not None and not self._wanted(metadata):
                raise UnwantedAnswerError(metadata)
        else:
            self._later.append(LaterState(found.version, metadata=_log_metadata(found)))

    def _take_delta(self, line: WireLine) -> None:
        if line.protocol is not None and self._protocol is None:
            self._protocol = line.protocol.delta_protocol
        elif line.protocol is not None:
            self._later.append(LaterState(line.protocol.version, protocol=line.protocol.delta_protocol))
        elif line.file is not None:
            self._add(*_delta_file(line.file))

    def _take_parquet(self, line: ParquetLine) -> None:
        if line.protocol is not None:
            if line.protocol.min_reader_version > 1:
                raise _too_new(line.protocol.min_reader_version)
            self._protocol = PLAIN_PROTOCOL
        elif (file := line.file or line.add) is not None:
            self._add(_parquet_add(file), {file.id: FileUrl(file.url, file.expiration_timestamp)})
        elif line.remove is not None:
            self._add(_parquet_remove(line.remove), _url(line.remove))
        elif line.cdf is not None:
            self._add(_parquet_cdf(line.cdf), _url(line.cdf))

    def _add(self, file: SharedFile, urls: dict[str, FileUrl]) -> None:
        self._files.append(file)
        self._urls.update(urls)


def query_failed(end: EndStreamAction) -> QueryFailedError:
    """The error that the end of an answer tells."""
    return QueryFailedError(f"the server could not finish its answer: {(end.error_message or '')[:500]}")


def joined_pages(pages: Iterator[TableAnswer]) -> TableAnswer:
    """All pages as one answer; they must tell of the same version of the same table (A6)."""
    first = last = next(pages)
    for page in pages:
        same = (page.version, page.protocol, page.metadata) == (first.version, first.protocol, first.metadata)
        if not same:
            raise IncompleteResponseError("the pages of an answer belong to different versions of the table")
        first.files.extend(page.files)
        first.urls.update(page.urls)
        first.later.extend(page.later)
        last = page
    end = last.end
    if first.end is not None and end is not None and end.refresh_token is None:
        end = msgspec.structs.replace(end, refresh_token=first.end.refresh_token)
    return msgspec.structs.replace(first, end=end)


def check_no_file_twice(answer: TableAnswer) -> None:
    """A snapshot has each file once; rows that would be given twice are an error."""
    if len({file.action.path for file in answer.files}) != len(answer.files):
        raise IncompleteResponseError("the answer gives a file twice")


def _parquet_add(file: ParquetFile) -> SharedFile:
    add = Add(
        path=file.id,
        partition_values=file.partition_values,
        size=file.size,
        modification_time=file.timestamp or 0,
        data_change=True,
        stats=file.stats,
    )
    return SharedFile(add, file.version, file.timestamp)


def _parquet_remove(file: ParquetFile) -> SharedFile:
    remove = Remove(path=file.id, data_change=True, partition_values=file.partition_values, size=file.size)
    return SharedFile(remove, file.version, file.timestamp)


def _parquet_cdf(file: ParquetFile) -> SharedFile:
    change = AddCdcFile(path=file.id, partition_values=file.partition_values, size=file.size)
    return SharedFile(change, file.version, file.timestamp)


def _url(file: ParquetFile) -> dict[str, FileUrl]:
    return {file.id: FileUrl(file.url, file.expiration_timestamp)}


def _delta_file(file: WireFile) -> tuple[SharedFile, dict[str, FileUrl]]:
    single = file.delta_single_action
    found = single.add or single.remove or single.cdc
    if found is None:
        raise IncompleteResponseError("a file of the answer has no action")
    urls = {file.id: FileUrl(found.path, file.expiration_timestamp)}
    vector = found.deletion_vector
    if vector is not None and vector.storage_type != "i":
        key = vector_key(file, vector)
        urls[key] = FileUrl(vector.path_or_inline_dv, file.expiration_timestamp)
        vector = msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=key)
    return SharedFile(_action(file, found, vector), file.version, file.timestamp), urls


def _action(
    file: WireFile, found: WireAction, vector: DeletionVectorDescriptor | None
) -> Add | Remove | AddCdcFile:
    values, single = found.partition_values or {}, file.delta_single_action
    if single.add is not None:
        return Add(
            path=file.id,
            partition_values=values,
            size=found.size or 0,
            modification_time=found.modification_time,
            data_change=True,
            stats=found.stats,
            deletion_vector=vector,
        )
    if single.remove is not None:
        return Remove(
            path=file.id, data_change=True, partition_values=values, size=found.size, deletion_vector=vector
        )
    return AddCdcFile(path=file.id, partition_values=values, size=found.size or 0)


def vector_key(file: WireFile, vector: DeletionVectorDescriptor) -> str:
    """A name for the file of a deletion vector that stays the same when its URL is signed anew."""
    if file.deletion_vector_file_id:
        return f"deletion-vector-{file.deletion_vector_file_id}"
    place = f"{vector.offset}-{vector.size_in_bytes}-{vector.cardinality}"
    return f"deletion-vector-of-{file.id}-{place}"


def _log_metadata(found: ParquetMetadata | DeltaMetadata) -> Metadata:
    if isinstance(found, DeltaMetadata):
        return found.delta_metadata
    configuration = found.configuration if isinstance(found.configuration, dict) else {}
    return Metadata(
        id=found.id,
        format=Format(),
        schema_string=found.schema_string,
        partition_columns=list(found.partition_columns or ()),
        name=found.name,
        description=found.description,
        configuration=configuration,
    )


def _information(found: ParquetMetadata | DeltaMetadata) -> TableInformation:
    return TableInformation(
        version=found.version,
        size=found.size,
        num_files=found.num_files,
        location=found.location,
        auxiliary_locations=found.auxiliary_locations or (),
        access_modes=found.access_modes,
    )


def _bare_end(data: bytes) -> EndStreamAction | None:
    """An end without its wrapper; None for a kind of line that is not known."""
    fields: Any = msgspec.json.decode(data)
    if not isinstance(fields, dict) or _END_FIELDS.isdisjoint(fields):
        return None
    try:
        return msgspec.convert(fields, EndStreamAction)
    except msgspec.ValidationError:
        raise IncompleteResponseError("the end of the answer cannot be read") from None


def _too_new(version: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table needs version {version} of the sharing protocol, and this client reads version 1: "
        "upgrade distributary"
    )
