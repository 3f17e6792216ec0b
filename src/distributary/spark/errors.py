"""What can be wrong with Spark itself, before any table is looked at.

::

    SparkError
    ├── JavaNotFoundError          no Java 17 or later, and none from PyPI either
    ├── UnsupportedSparkError      a PySpark outside the supported versions, or a session without a JVM
    ├── MissingConnectorError      the session cannot reach a cloud: Hadoop's connector is not loaded
    ├── RepeatedMatchError         several rows of a merge's source match one row of the table
    ├── ShareSchemaChangedError    the columns of a shared table are not those that a frame was loaded with
    ├── StreamSchemaChangedError   a stream from a table met a version with columns that it does not have
    └── StreamSourceChangedError   a stream met rows that were changed or removed

    InvalidInputError
    └── StatementError             the text of a statement cannot be read: line, place, what must stand there
"""

from __future__ import annotations

from distributary.errors import DistributaryError, InvalidInputError


class SparkError(DistributaryError):
    """The root of the errors of Spark's own setting."""

    code = "SPARK_ERROR"


class JavaNotFoundError(SparkError):
    """There is no Java that Spark could run on."""

    code = "JAVA_NOT_FOUND"


class UnsupportedSparkError(SparkError):
    """A PySpark or a kind of session that cannot do what was asked."""

    code = "UNSUPPORTED_SPARK"


class MissingConnectorError(SparkError):
    """The session has no Hadoop connector for a cloud."""

    code = "MISSING_CONNECTOR"


class StatementError(InvalidInputError):
    """The text of a statement cannot be read; says where, and what must stand there."""

    code = "INVALID_STATEMENT"

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class RepeatedMatchError(SparkError):
    """Several rows of a merge's source match one row of the table; nothing was committed."""

    code = "REPEATED_MATCH"


class ShareSchemaChangedError(SparkError):
    """A shared table has other columns than the frame or the stream that reads it."""

    code = "SHARE_SCHEMA_CHANGED"


class StreamSchemaChangedError(SparkError):
    """A version of a table has columns that the stream which reads it does not have."""

    code = "STREAM_SCHEMA_CHANGED"


class StreamSourceChangedError(SparkError):
    """A stream gives rows that are added; the table also changed or removed some, or was replaced."""

    code = "STREAM_SOURCE_CHANGED"
