"""What can go wrong with a Delta table.

::

    DeltaError
    ├── TableNotFoundError           no Delta log at this root
    ├── VersionNotFoundError         a version or time that the log cannot show (any more, or yet)
    ├── CorruptLogError              a commit that cannot be read: file and line
    │   ├── LogGapError                a version is missing
    │   └── IncompleteLogError         no protocol or no metadata after replay
    ├── CorruptCheckpointError       a checkpoint that cannot be trusted (the ladder goes on without it)
    ├── CorruptDeletionVectorError   size, magic, checksum or cardinality of a deletion vector is wrong
    ├── DataFileError                a data file is missing, or not what the log says
    ├── InvalidSchemaError           a schema text or type that is not Delta's
    ├── InvalidPartitionValueError   a partition value that does not fit its type
    ├── UnsupportedFeatureError      table features or protocol versions we do not have
    └── ChangeFeedError              changes cannot be given for these versions
"""

from __future__ import annotations

from distributary.errors import DistributaryError


class DeltaError(DistributaryError):
    """The root of every error about a Delta table."""

    code = "DELTA_ERROR"


class TableNotFoundError(DeltaError):
    """There is no Delta log at this root."""

    code = "TABLE_NOT_FOUND"
    exit_code = 3


class VersionNotFoundError(DeltaError):
    """The log cannot show this version or time, any more or yet."""

    code = "VERSION_NOT_FOUND"
    exit_code = 3


class CorruptLogError(DeltaError):
    """A commit file cannot be read; says which file and line."""

    code = "CORRUPT_LOG"

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {message}")
        self.path = path
        self.line = line


class LogGapError(CorruptLogError):
    """A version is missing between the start of replay and its end."""

    code = "LOG_GAP"


class IncompleteLogError(CorruptLogError):
    """After replay there is no protocol or no metadata."""

    code = "INCOMPLETE_LOG"


class CorruptCheckpointError(DeltaError):
    """A checkpoint cannot be trusted; readers go on without it where the log allows."""

    code = "CORRUPT_CHECKPOINT"


class CorruptDeletionVectorError(DeltaError):
    """The size, magic number, checksum or cardinality of a deletion vector is wrong."""

    code = "CORRUPT_DELETION_VECTOR"


class DataFileError(DeltaError):
    """A data file is missing, or is not what the log says."""

    code = "DATA_FILE_ERROR"


class InvalidSchemaError(DeltaError):
    """A schema text or a type that is not Delta's."""

    code = "INVALID_SCHEMA"


class InvalidPartitionValueError(DeltaError):
    """A partition value does not fit the type of its column."""

    code = "INVALID_PARTITION_VALUE"


class UnsupportedFeatureError(DeltaError):
    """The table needs protocol versions or features that we do not have."""

    code = "UNSUPPORTED_FEATURE"

    def __init__(self, message: str, *, features: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.features = features


class ChangeFeedError(DeltaError):
    """Changes cannot be given for these versions."""

    code = "CHANGE_FEED_UNAVAILABLE"
