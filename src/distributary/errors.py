"""The root of every error that Distributary raises.

Each class has a stable ``code`` (UPPER_SNAKE) that programs may rely on, and an
``exit_code`` for the command line. A message says what happened, where (table,
version, path), and what to do.

::

    DistributaryError
    ├── InvalidInputError            a caller's argument cannot be used
    │   ├── InvalidPredicateError      predicate text that does not parse
    │   ├── UnknownColumnError         a name that the schema does not have
    │   ├── UnsupportedExpressionError an expression outside the closed list
    │   └── ExpressionFailedError      a row made an expression fail: overflow, division by zero, bad cast
    ├── StorageError                 an object store or file system failed
    │   ├── ObjectNotFoundError        no such object
    │   ├── ObjectExistsError          create-once found an object already there
    │   ├── AccessDeniedError          credentials missing, wrong or too weak
    │   ├── ThrottledError             the store asks to slow down
    │   ├── StorageUnreachableError    no answer: network, DNS, time-out
    │   ├── EntryUnconfirmedError      a create-once write was sent, and its outcome is not known
    │   ├── UnsafeStorageError         the store cannot create an object exactly once
    │   ├── PathOutsideTableError      a log path that leaves the table's roots
    │   └── NoTemporaryCredentialsError  see distributary.storage.temporary_credentials
    ├── MissingExtraError            an optional dependency is not installed
    ├── DeltaError                   see distributary.delta.errors
    ├── SharingError                 see distributary.sharing.error_response
    └── SparkError                   see distributary.spark.errors
"""

from __future__ import annotations

from typing import ClassVar


class DistributaryError(Exception):
    """The root of every error of this package."""

    code: ClassVar[str] = "DISTRIBUTARY_ERROR"
    exit_code: ClassVar[int] = 1


class InvalidInputError(DistributaryError):
    """A caller's argument cannot be used as given."""

    code = "INVALID_INPUT"
    exit_code = 2


class InvalidPredicateError(InvalidInputError):
    """The text of a predicate does not parse."""

    code = "INVALID_PREDICATE"


class UnknownColumnError(InvalidInputError):
    """A name was used that the schema does not have."""

    code = "UNKNOWN_COLUMN"


class UnsupportedExpressionError(InvalidInputError):
    """An expression is outside the closed list that can be evaluated exactly."""

    code = "UNSUPPORTED_EXPRESSION"


class ExpressionFailedError(InvalidInputError):
    """A row made an expression fail, as in ANSI SQL: overflow, division by zero, a bad cast."""

    code = "EXPRESSION_FAILED"


class StorageError(DistributaryError):
    """An object store or file system failed."""

    code = "STORAGE_ERROR"
    exit_code = 6


class ObjectNotFoundError(StorageError):
    """There is no object at a path."""

    code = "OBJECT_NOT_FOUND"
    exit_code = 3


class ObjectExistsError(StorageError):
    """A create-once write found an object already there."""

    code = "OBJECT_EXISTS"
    exit_code = 5


class AccessDeniedError(StorageError):
    """The credentials are missing, wrong or too weak."""

    code = "ACCESS_DENIED"
    exit_code = 4


class ThrottledError(StorageError):
    """The store asks to slow down."""

    code = "THROTTLED"


class StorageUnreachableError(StorageError):
    """The store gave no answer: network, name resolution or time-out."""

    code = "STORAGE_UNREACHABLE"


class EntryUnconfirmedError(StorageError):
    """A create-once write was sent, and reading back did not settle whether it landed."""

    code = "ENTRY_UNCONFIRMED"


class UnsafeStorageError(StorageError):
    """The store cannot create an object exactly once, so commits would not be safe on it."""

    code = "UNSAFE_STORAGE"
    exit_code = 1


class PathOutsideTableError(StorageError):
    """A path in a log leaves the table's root and every root that is allowed."""

    code = "PATH_OUTSIDE_TABLE"
    exit_code = 4


class MissingExtraError(DistributaryError):
    """An optional dependency is not installed."""

    code = "MISSING_EXTRA"

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'distributary[{extra}]'")
        self.extra = extra
