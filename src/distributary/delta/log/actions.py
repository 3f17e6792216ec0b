"""The actions of a Delta log entry, and the codec between them and JSON lines.

Implements S4 "Actions" with the additions of newer editions (deletion vectors, row
tracking fields, cdc, domainMetadata, sidecars). A commit file is newline-delimited JSON,
one action a line. Unrecognised fields and actions are ignored (LR-006). Anything that
does not parse is a `CorruptLogError` with file and line: an action is never skipped.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, cast

import msgspec

from distributary.delta.deletion_vectors import DeletionVectorDescriptor
from distributary.delta.errors import CorruptLogError

_log = logging.getLogger(__name__)

PartitionValues = dict[str, str | None]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Action(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of every action: camelCase on the wire, absent fields left out."""


class Format(Action, frozen=True, omit_defaults=False):
    """How data files are encoded; only Parquet is known (LR-043). Always written: some readers need it."""

    provider: str = "parquet"
    options: dict[str, str] | None = msgspec.field(default_factory=dict[str, str])


class Metadata(Action, frozen=True):
    """The table's identity, schema, partitioning and configuration (LR-040)."""

    id: str
    schema_string: str | None = None
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=Format)
    partition_columns: list[str] | None = None
    configuration: dict[str, str] | None = None
    created_time: Long | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The configuration, empty where the log has none."""
        return self.configuration or {}

    @property
    def partitioning(self) -> tuple[str, ...]:
        """The names of the partition columns, in order."""
        return tuple(self.partition_columns or ())


class Protocol(Action, frozen=True):
    """The protocol versions and table features that a reader and a writer need (LR-047)."""

    min_reader_version: Long
    min_writer_version: Long
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class Add(Action, frozen=True):
    """A data file that becomes part of the table (LR-044)."""

    path: str
    partition_values: PartitionValues | None
    size: Long
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Remove(Action, frozen=True):
    """A data file that leaves the table and stays as a tombstone (LR-045)."""

    path: str
    data_change: bool
    deletion_timestamp: Long | None = None
    extended_file_metadata: bool | None = None
    partition_values: PartitionValues | None = None
    size: Long | None = None
    tags: dict[str, str | None] | None = None
    stats: str | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None


class AddCdcFile(Action, frozen=True):
    """A file of row-level changes, read by the change feed only."""

    path: str
    partition_values: PartitionValues | None
    size: Long
    data_change: bool = False
    tags: dict[str, str | None] | None = None


class SetTransaction(Action, frozen=True):
    """The latest version that an application has committed (LR-046)."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(Action, frozen=True):
    """A named configuration owned by a feature or a user."""

    domain: str
    configuration: str
    removed: bool


class CheckpointMetadata(Action, frozen=True):
    """The mark of a v2 checkpoint."""

    version: Long
    tags: dict[str, str | None] | None = None


class Sidecar(Action, frozen=True):
    """A file beside a v2 checkpoint that holds file actions."""

    path: str
    size_in_bytes: Long
    modification_time: Long
    tags: dict[str, str | None] | None = None


class LogLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of a log file: exactly one of these is set; others are ignored actions."""

    add: Add | None = None
    remove: Remove | None = None
    commit_info: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    meta_data: Metadata | None = None
    protocol: Protocol | None = None
    txn: SetTransaction | None = None
    cdc: AddCdcFile | None = None
    domain_metadata: DomainMetadata | None = None
    checkpoint_metadata: CheckpointMetadata | None = None
    sidecar: Sidecar | None = None


FileAction = Add | Remove


class CommitActions(msgspec.Struct, frozen=True):
    """The actions of one version; file actions keep the order of the log."""

    version: int
    files: tuple[FileAction, ...] = ()
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    change_files: tuple[AddCdcFile, ...] = ()
    sidecars: tuple[Sidecar, ...] = ()
    checkpoint_metadata: CheckpointMetadata | None = None
    commit_info_json: bytes | None = None

    @property
    def commit_info(self) -> dict[str, Any]:
        """The provenance of the commit, empty where there is none or it is no object."""
        if self.commit_info_json is None:
            return {}
        info = msgspec.json.decode(self.commit_info_json)
        return cast("dict[str, Any]", info) if isinstance(info, dict) else {}

    @property
    def in_commit_timestamp(self) -> int | None:
        """Milliseconds since the epoch as the writer recorded them, if it did."""
        value = self.commit_info.get("inCommitTimestamp")
        return value if isinstance(value, int) else None

    @property
    def adds(self) -> tuple[Add, ...]:
        """The files that this version adds."""
        return tuple(action for action in self.files if isinstance(action, Add))

    @property
    def removes(self) -> tuple[Remove, ...]:
        """The files that this version removes."""
        return tuple(action for action in self.files if isinstance(action, Remove))


_decoder = msgspec.json.Decoder(LogLine)
_encoder = msgspec.json.Encoder()
# JSON may spell a letter of a key as an escape; no writer of logs does.
_ESCAPED_LETTER = re.compile(rb"\\u00[2-7]")


def decode_commit(data: bytes, version: int, path: str) -> CommitActions:
    """Decode the lines of a commit (or of a JSON checkpoint) at `path`."""
    lines = _decode_lines(data, path)
    if not lines:
        raise CorruptLogError(
            "the file is empty; restore it from a backup or a replica of the log", path=path
        )
    _refuse_repeated_keys(data, lines, path)
    return collect_actions(lines, version, path)


def encode_lines(lines: list[LogLine]) -> bytes:
    """Encode actions as the newline-delimited JSON of a log entry."""
    return _encoder.encode_lines(lines)


def _decode_lines(data: bytes, path: str) -> list[LogLine]:
    try:
        return _decoder.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_decode_text(text, path, line) for text, line in _json_values(data, path)]


def _json_values(data: bytes, path: str) -> Iterator[tuple[str, int]]:
    """Split a log that is not one plain object a line into values and their lines.

    Some writers print an action over several lines, and some logs carry stray characters
    after an action. Both are read as Spark reads them; stray text that could be a piece of
    an action is an error.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptLogError("not UTF-8 text", path=path, line=line) from error
    scanner = json.JSONDecoder()
    position, line = 0, 1
    while (start := _skip_blank(text, position)) < len(text):
        line += text.count("\n", position, start)
        try:
            _, end = scanner.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            at = line + text.count("\n", start, getattr(error, "pos", start))
            raise CorruptLogError(f"not valid JSON: {error}", path=path, line=at) from error
        yield text[start:end], line
        position = _skip_stray(text, end, path, line)
        line += text.count("\n", start, position)


def _skip_stray(text: str, position: int, path: str, line: int) -> int:
    end = text.find("\n", position)
    rest = text[position : len(text) if end < 0 else end]
    if not rest.strip().isalnum():
        return position
    _log.warning("%s, line %s: stray text after an action is ignored", path, line)
    return position + len(rest)


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _decode_text(text: str, path: str, line: int) -> LogLine:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise CorruptLogError(f"not a Delta action: {error}", path=path, line=line) from error


def _refuse_repeated_keys(data: bytes, lines: list[LogLine], path: str) -> None:
    """Refuse JSON objects that name a key twice: a decoder would keep one and drop the other.

    What was decoded, written again, has as many keys as the file where none was dropped. That
    is cheap to count and holds for every ordinary commit; only when it does not (unknown
    fields, explicit nulls, odd spacing) is each line looked at closely.
    """
    ordinary = (
        _num_nulls(data) == 0
        and _ESCAPED_LETTER.search(data) is None
        and all(line.cdc is None for line in lines)
        and _num_keys(data) == _num_keys(encode_lines(lines))
    )
    if ordinary:
        return
    for text, line in _json_values(data, path):
        json.loads(text, object_pairs_hook=partial(_unique, path=path, line=line))


def _num_keys(data: bytes) -> int:
    """How many keys JSON has, apart from the format's provider, which is not written where it is the default.

    A quote inside a JSON string is escaped, so a bare quote before a colon ends a key.
    """
    return data.count(b'":') - data.count(b'\\":') - data.count(b'"provider":')


def _num_nulls(data: bytes) -> int:
    return data.count(b'":null') - data.count(b'\\":null')


def _unique(pairs: list[tuple[str, Any]], path: str, line: int) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise CorruptLogError(f"an object names {', '.join(repeated)} twice", path=path, line=line)
    return found


def collect_actions(lines: list[LogLine], version: int, path: str) -> CommitActions:
    """Group the lines of one version; refuse what a version must not hold twice (LR-042)."""
    metadata = [line.meta_data for line in lines if line.meta_data is not None]
    protocol = [line.protocol for line in lines if line.protocol is not None]
    for found, name in ((metadata, "metaData"), (protocol, "protocol")):
        if len(found) > 1:
            raise CorruptLogError(f"{len(found)} {name} actions in one version", path=path)
    if any(line.add is not None and line.remove is not None for line in lines):
        raise CorruptLogError("a line holds both an add and a remove", path=path)
    infos = [bytes(line.commit_info) for line in lines if line.commit_info is not msgspec.UNSET]
    return CommitActions(
        version=version,
        files=tuple(action for line in lines if (action := line.add or line.remove) is not None),
        metadata=metadata[0] if metadata else None,
        protocol=protocol[0] if protocol else None,
        transactions=tuple(line.txn for line in lines if line.txn is not None),
        domains=tuple(line.domain_metadata for line in lines if line.domain_metadata is not None),
        change_files=tuple(line.cdc for line in lines if line.cdc is not None),
        sidecars=tuple(line.sidecar for line in lines if line.sidecar is not None),
        checkpoint_metadata=next((c for line in lines if (c := line.checkpoint_metadata) is not None), None),
        commit_info_json=infos[0] if infos else None,
    )
