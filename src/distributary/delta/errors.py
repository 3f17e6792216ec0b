"""What can go wrong with a Delta table.

::

    DeltaError
    ├── TableNotFoundError           no Delta log at this root
    ├── TableExistsError             a table is to be created where there is one
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
    ├── ChangeFeedError              changes cannot be given for these versions
    ├── SchemaMismatchError          data, or a change, that does not fit the table's schema
    ├── TableRuleError               a write that a rule of the table forbids; nothing was committed
    │   ├── NotNullViolationError      a null where the schema allows none
    │   ├── ConstraintViolationError   a row breaks a CHECK constraint, an invariant or a length
    │   ├── GeneratedColumnError       a value differs from what its generation expression gives
    │   ├── AppendOnlyError            a commit would change or remove data of an append-only table
    │   └── UnsupportedRuleError       a rule that cannot be evaluated here, so nothing may be written
    └── CommitError                  a commit did not happen, or it is not known whether it did
        ├── CommitConflictError        another writer's commit stands in the way
        │   ├── ConcurrentAppendError      it added files that this one should have read
        │   ├── ConcurrentDeleteReadError  it removed a file that this one read
        │   ├── ConcurrentDeleteDeleteError  it removed a file that this one removes
        │   ├── MetadataChangedError       it changed schema, partitioning or properties
        │   ├── ProtocolChangedError       it changed the protocol
        │   ├── ConcurrentTransactionError  it committed for the same application id
        │   └── ConcurrentDomainError      it changed the same domain metadata
        ├── TooManyAttemptsError       every attempt lost its race
        └── CommitStateUnknownError    the store gave no answer, and the log does not tell (yet)
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


class TableExistsError(DeltaError):
    """A table is to be created where there is one already."""

    code = "TABLE_EXISTS"
    exit_code = 5


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


class SchemaMismatchError(DeltaError):
    """Data, or a change of the schema, does not fit the table's schema."""

    code = "SCHEMA_MISMATCH"


class TableRuleError(DeltaError):
    """A rule of the table forbids a write; nothing was committed."""

    code = "TABLE_RULE"


class NotNullViolationError(TableRuleError):
    """A value is null where the schema allows none."""

    code = "NOT_NULL_VIOLATION"

    def __init__(self, column: str) -> None:
        super().__init__(
            f"Column {column} must have a value (NOT NULL), but a row has none. Give it one, or let the "
            f"column be null (alter.drop_not_null({column!r}))."
        )
        self.column = column


class ConstraintViolationError(TableRuleError):
    """A row breaks a CHECK constraint, an invariant or a length."""

    code = "CONSTRAINT_VIOLATION"

    def __init__(self, rule: str, expression: str, row: str, *, why: str = "is not true") -> None:
        super().__init__(f"{rule} is violated: {expression} {why} for a row with {row}.")
        self.rule = rule
        self.expression = expression
        self.row = row


class GeneratedColumnError(TableRuleError):
    """A value differs from what the generation expression of its column gives."""

    code = "GENERATED_COLUMN"

    def __init__(self, column: str, expression: str, row: str) -> None:
        super().__init__(
            f"Column {column} is generated as {expression}, which differs from the value in a row with "
            f"{row}. Leave the column out to have it computed."
        )
        self.column = column
        self.expression = expression
        self.row = row


class AppendOnlyError(TableRuleError):
    """A commit would change or remove data of an append-only table."""

    code = "APPEND_ONLY"


class UnsupportedRuleError(TableRuleError):
    """A rule of the table cannot be evaluated here, so nothing may be written."""

    code = "UNSUPPORTED_RULE"

    def __init__(self, rule: str, expression: str, reason: str) -> None:
        super().__init__(
            f"{rule} cannot be evaluated here, so nothing is written: {expression} ({reason}). Write with "
            "Spark, or change the rule."
        )
        self.rule = rule
        self.expression = expression


class CommitError(DeltaError):
    """A commit did not happen, or it is not known whether it did."""

    code = "COMMIT_FAILED"


class CommitConflictError(CommitError):
    """Another writer's commit stands in the way; nothing was committed."""

    code = "COMMIT_CONFLICT"
    exit_code = 5

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class ConcurrentAppendError(CommitConflictError):
    """Another commit added files that this one should have read."""

    code = "CONCURRENT_APPEND"


class ConcurrentDeleteReadError(CommitConflictError):
    """Another commit removed a file that this one read."""

    code = "CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteError(CommitConflictError):
    """Another commit removed a file that this one removes too."""

    code = "CONCURRENT_DELETE_DELETE"


class MetadataChangedError(CommitConflictError):
    """Another commit changed the schema, the partitioning or the properties."""

    code = "METADATA_CHANGED"


class ProtocolChangedError(CommitConflictError):
    """Another commit changed the protocol of the table, or created the table."""

    code = "PROTOCOL_CHANGED"


class ConcurrentTransactionError(CommitConflictError):
    """Another commit was made for the same application id."""

    code = "CONCURRENT_TRANSACTION"


class ConcurrentDomainError(CommitConflictError):
    """Another commit changed the same domain metadata."""

    code = "CONCURRENT_DOMAIN"


class TooManyAttemptsError(CommitError):
    """Every attempt to commit lost its race against another writer."""

    code = "TOO_MANY_ATTEMPTS"
    exit_code = 6


class CommitStateUnknownError(CommitError):
    """The store gave no answer and the log does not tell whether the commit landed."""

    code = "COMMIT_STATE_UNKNOWN"
    exit_code = 6

    def __init__(self, message: str, *, version: int, commit_id: str) -> None:
        super().__init__(message)
        self.version = version
        self.commit_id = commit_id
