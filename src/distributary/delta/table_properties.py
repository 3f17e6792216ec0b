"""Table properties: the `delta.*` entries of a table's configuration, as typed values.

Implements the properties of S4 ("Metadata" configuration, obligations section 16, C-19) and of the later
editions (beyond.md B8, B9, B11). A property is a row of :data:`PROPERTIES`: its key, its default and the
parser of its text. Unknown keys are kept and never touched. A property is parsed when it is asked for: a
bad value stops only what depends on it, with an error that names the property, the value and an example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec

from distributary.delta.schema.column_mapping import MODE_PROPERTY, ColumnMappingMode
from distributary.errors import InvalidInputError

Value = TypeVar("Value")

CONSTRAINT_PREFIX: Final = "delta.constraints."

_INTERVAL_UNITS: Final[Mapping[str, timedelta]] = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
    "microsecond": timedelta(microseconds=1),
}
_CALENDAR_UNITS: Final = ("month", "year")
_INTERVAL_PART = re.compile(r"([+-]?[0-9]{1,12})\s+([a-z]+)")
_PATH_PART = re.compile(r"`(?:[^`]|``)+`|[^`.,]+")
_PATH = re.compile(rf"\s*((?:{_PATH_PART.pattern})(?:\.(?:{_PATH_PART.pattern}))*)\s*(?:,(?=.)|$)")


class Property(msgspec.Struct, Generic[Value], frozen=True):
    """One property: its key, its value when absent, the parser of its text, an example for error messages."""

    key: str
    default: Value
    parse: Callable[[str], Value]
    example: str
    aliases: tuple[str, ...] = ()

    def read(self, configuration: Mapping[str, str]) -> Value:
        """The property's value in a configuration."""
        text = next((configuration[key] for key in (self.key, *self.aliases) if key in configuration), None)
        if text is None:
            return self.default
        try:
            return self.parse(text.strip())
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"Table property {self.key} is {text!r}: {error}. An example: {self.key} = {self.example}."
            ) from error


class InCommitTimestamps(msgspec.Struct, frozen=True):
    """Whether commits carry their own time, and since when (None: since version 0)."""

    enabled: bool
    enablement_version: int | None
    enablement_timestamp: int | None


def parse_interval(text: str) -> timedelta:
    """A length of time such as `interval 30 days` or `interval 1 week 2 hours`.

    Months and years have no fixed length and are refused.
    """
    words = text.strip().lower()
    words = words.removeprefix("interval").strip() if words.startswith("interval ") else words
    parts = _INTERVAL_PART.findall(words)
    if not parts or _INTERVAL_PART.sub("", words).strip():
        raise ValueError("expected a length of time")
    total = sum((_interval_part(int(count), unit) for count, unit in parts), timedelta())
    if total < timedelta():
        raise ValueError("a length of time cannot be negative")
    return total


def _interval_part(count: int, unit: str) -> timedelta:
    singular = unit.removesuffix("s")
    if singular in _CALENDAR_UNITS:
        raise ValueError("months and years have no fixed length; use days")
    if singular not in _INTERVAL_UNITS:
        raise ValueError(f"unknown unit {unit!r}")
    return count * _INTERVAL_UNITS[singular]


def _parse_boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise ValueError("expected true or false")
    return lower == "true"


def _parse_whole(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise ValueError("expected a whole number")
    return int(text)


def _parse_optional_whole(text: str) -> int | None:
    return _parse_whole(text)


def _parse_positive(text: str) -> int:
    value = _parse_whole(text)
    if value < 1:
        raise ValueError("expected a whole number above 0")
    return value


def _parse_indexed_columns(text: str) -> int:
    value = _parse_whole(text)
    if value < -1:
        raise ValueError("expected -1 (all columns), 0 (none) or a count")
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    by_lower = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return by_lower[text.lower()]

    return parse


def _parse_paths(text: str) -> tuple[tuple[str, ...], ...] | None:
    """Column paths separated by commas: `id, address.city`; odd names stand in backticks, doubled inside."""
    paths: list[tuple[str, ...]] = []
    position = 0
    while True:
        match = _PATH.match(text, position)
        if match is None:
            raise ValueError("expected column names separated by commas")
        paths.append(tuple(_unquote(part[0]) for part in _PATH_PART.finditer(match[1])))
        if match.end() == len(text):
            return tuple(paths)
        position = match.end()


def _unquote(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part.strip()


def _parse_size(text: str) -> int | None:
    """Bytes, as a number or with Spark's unit: `128mb`, `1g`."""
    match = re.fullmatch(r"([0-9]{1,18})\s*([kmgtp]?)b?", text.lower())
    if match is None:
        raise ValueError("expected a size in bytes")
    return int(match[1]) << (10 * " kmgtp".index(match[2] or " "))


def _parse_mode(text: str) -> ColumnMappingMode:
    try:
        return ColumnMappingMode(text.lower())
    except ValueError:
        raise ValueError("expected none, name or id") from None


def _parse_text(text: str) -> str | None:
    return text


_ROWS: Final[dict[str, Property[Any]]] = {}
PROPERTIES: Final[Mapping[str, Property[Any]]] = _ROWS
"""Every property that we know, by its key."""


def _row(
    key: str, default: Value, parse: Callable[[str], Value], example: str, *aliases: str
) -> Property[Value]:
    row = Property(key, default, parse, example, aliases)
    _ROWS[key] = row
    return row


def _switch(key: str, *aliases: str, default: bool = False) -> Property[bool]:
    return _row(key, default, _parse_boolean, "true", *aliases)


APPEND_ONLY = _switch("delta.appendOnly", "appendOnly")
CHECKPOINT_INTERVAL = _row("delta.checkpointInterval", 10, _parse_positive, "10")
CHECKPOINT_POLICY = _row("delta.checkpointPolicy", "classic", _one_of("classic", "v2"), "classic")
WRITE_STATS_AS_JSON = _switch("delta.checkpoint.writeStatsAsJson", default=True)
WRITE_STATS_AS_STRUCT = _switch("delta.checkpoint.writeStatsAsStruct")
LOG_RETENTION = _row("delta.logRetentionDuration", timedelta(days=30), parse_interval, "interval 30 days")
DELETED_FILE_RETENTION = _row(
    "delta.deletedFileRetentionDuration", timedelta(weeks=1), parse_interval, "interval 1 week"
)
SET_TRANSACTION_RETENTION: Property[timedelta | None] = _row(
    "delta.setTransactionRetentionDuration", None, parse_interval, "interval 7 days"
)
ENABLE_EXPIRED_LOG_CLEANUP = _switch("delta.enableExpiredLogCleanup", default=True)
ENABLE_CHANGE_DATA_FEED = _switch("delta.enableChangeDataFeed")
ENABLE_DELETION_VECTORS = _switch("delta.enableDeletionVectors")
ENABLE_TYPE_WIDENING = _switch("delta.enableTypeWidening")
ENABLE_ROW_TRACKING = _switch("delta.enableRowTracking")
ROW_TRACKING_SUSPENDED = _switch("delta.rowTrackingSuspended")
ROW_ID_COLUMN = _row("delta.rowTracking.materializedRowIdColumnName", None, _parse_text, "_row-id")
ROW_COMMIT_VERSION_COLUMN = _row(
    "delta.rowTracking.materializedRowCommitVersionColumnName", None, _parse_text, "_row-commit-version"
)
COLUMN_MAPPING_MODE = _row(MODE_PROPERTY, ColumnMappingMode.NONE, _parse_mode, "name")
MAX_COLUMN_ID = _row("delta.columnMapping.maxColumnId", 0, _parse_whole, "12")
ENABLE_IN_COMMIT_TIMESTAMPS = _switch(
    "delta.enableInCommitTimestamps", "delta.enableInCommitTimestamps-preview"
)
IN_COMMIT_TIMESTAMP_VERSION = _row(
    "delta.inCommitTimestampEnablementVersion",
    None,
    _parse_optional_whole,
    "12",
    "delta.inCommitTimestampEnablementVersion-preview",
)
IN_COMMIT_TIMESTAMP_TIME = _row(
    "delta.inCommitTimestampEnablementTimestamp",
    None,
    _parse_optional_whole,
    "1700000000000",
    "delta.inCommitTimestampEnablementTimestamp-preview",
)
DATA_SKIPPING_NUM_INDEXED_COLS = _row("delta.dataSkippingNumIndexedCols", 32, _parse_indexed_columns, "32")
DATA_SKIPPING_STATS_COLUMNS = _row("delta.dataSkippingStatsColumns", None, _parse_paths, "id, address.city")
ISOLATION_LEVEL = _row(
    "delta.isolationLevel",
    "WriteSerializable",
    _one_of("Serializable", "WriteSerializable", "SnapshotIsolation"),
    "WriteSerializable",
)
COMPRESSION_CODEC = _row(
    "delta.parquet.compression.codec",
    "zstd",
    _one_of("none", "uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "zstd"),
    "zstd",
)
PARQUET_FORMAT_VERSION = _row("delta.parquet.format.version", "1.0.0", str, "1.0.0")
RANDOMIZE_FILE_PREFIXES = _switch("delta.randomizeFilePrefixes")
TARGET_FILE_SIZE = _row("delta.targetFileSize", None, _parse_size, "128mb")
CHECKPOINT_PROTECTION_VERSION = _row("delta.requireCheckpointProtectionBeforeVersion", 0, _parse_whole, "0")


class TableProperties(msgspec.Struct, frozen=True):
    """The typed properties of one table; `configuration` keeps every entry as it is in the log."""

    configuration: Mapping[str, str]

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, str] | None) -> TableProperties:
        """The properties of a table's metadata."""
        return cls(dict(configuration or {}))

    def get(self, row: Property[Value]) -> Value:
        """The value of any property of :data:`PROPERTIES`."""
        return row.read(self.configuration)

    def check(self) -> None:
        """Raises for the first known property whose text cannot be read; for those who set properties."""
        for row in PROPERTIES.values():
            self.get(row)

    @property
    def append_only(self) -> bool:
        """Whether existing data may never be changed or removed."""
        return self.get(APPEND_ONLY)

    @property
    def checkpoint_interval(self) -> int:
        """Commits between two checkpoints."""
        return self.get(CHECKPOINT_INTERVAL)

    @property
    def checkpoint_policy(self) -> str:
        """`classic` or `v2`."""
        return self.get(CHECKPOINT_POLICY)

    @property
    def write_stats_as_json(self) -> bool:
        """Whether checkpoints hold statistics as JSON text."""
        return self.get(WRITE_STATS_AS_JSON)

    @property
    def write_stats_as_struct(self) -> bool:
        """Whether checkpoints hold statistics as typed columns."""
        return self.get(WRITE_STATS_AS_STRUCT)

    @property
    def log_retention(self) -> timedelta:
        """How long old log entries are kept."""
        return self.get(LOG_RETENTION)

    @property
    def deleted_file_retention(self) -> timedelta:
        """How long removed files, and their tombstones, are kept."""
        return self.get(DELETED_FILE_RETENTION)

    @property
    def set_transaction_retention(self) -> timedelta | None:
        """How long application transactions are remembered; None: for ever."""
        return self.get(SET_TRANSACTION_RETENTION)

    @property
    def enable_change_data_feed(self) -> bool:
        """Whether changes of rows are recorded."""
        return self.get(ENABLE_CHANGE_DATA_FEED)

    @property
    def enable_deletion_vectors(self) -> bool:
        """Whether writers may add deletion vectors; readers honour them always."""
        return self.get(ENABLE_DELETION_VECTORS)

    @property
    def column_mapping_mode(self) -> ColumnMappingMode:
        """The mode that is asked for; it acts only when the protocol supports column mapping."""
        return self.get(COLUMN_MAPPING_MODE)

    @property
    def in_commit_timestamps(self) -> InCommitTimestamps:
        """Whether commits carry their own time, and since when."""
        return InCommitTimestamps(
            self.get(ENABLE_IN_COMMIT_TIMESTAMPS),
            self.get(IN_COMMIT_TIMESTAMP_VERSION),
            self.get(IN_COMMIT_TIMESTAMP_TIME),
        )

    @property
    def data_skipping_num_indexed_cols(self) -> int:
        """How many leading columns get statistics; -1: all."""
        return self.get(DATA_SKIPPING_NUM_INDEXED_COLS)

    @property
    def data_skipping_stats_columns(self) -> tuple[tuple[str, ...], ...] | None:
        """The columns that get statistics, in place of a count of leading ones."""
        return self.get(DATA_SKIPPING_STATS_COLUMNS)

    @property
    def isolation_level(self) -> str:
        """`Serializable`, `WriteSerializable` or `SnapshotIsolation`."""
        return self.get(ISOLATION_LEVEL)

    @property
    def compression_codec(self) -> str:
        """The codec of new Parquet files."""
        return self.get(COMPRESSION_CODEC)

    @property
    def constraints(self) -> Mapping[str, str]:
        """CHECK constraints: name → SQL text."""
        prefix = CONSTRAINT_PREFIX
        found = ((key, text) for key, text in self.configuration.items() if key.startswith(prefix))
        return {key.removeprefix(prefix): text for key, text in found}
