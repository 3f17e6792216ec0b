"""What can go wrong with the catalog.

::

    CatalogError
    ├── CatalogUnavailableError   the database gives no answer: callers fail closed
    ├── CatalogNotReadyError      there is no catalog at this URL yet, or it waits for a migration
    ├── CatalogTooNewError        a newer release wrote it; this one must not touch it
    ├── NotInCatalogError         no share, schema, table, recipient or token of this name
    ├── NameTakenError            a name that something else in the same scope has
    ├── InvalidEntryError         a value that a share, table or recipient must not have
    ├── ShareFileError            a file of shares that cannot be read as one
    └── AuditBrokenError          the audit log is not what was written
"""

from __future__ import annotations

from distributary.errors import DistributaryError


class CatalogError(DistributaryError):
    """The root of every error about the catalog."""

    code = "CATALOG_ERROR"


class CatalogUnavailableError(CatalogError):
    """The database gives no answer, so nothing can be allowed."""

    code = "CATALOG_UNAVAILABLE"
    exit_code = 6


class CatalogNotReadyError(CatalogError):
    """There is no catalog at this URL yet, or it waits for a migration."""

    code = "CATALOG_NOT_READY"
    exit_code = 3


class CatalogTooNewError(CatalogError):
    """A newer release of this package wrote the catalog."""

    code = "CATALOG_TOO_NEW"


class NotInCatalogError(CatalogError):
    """The catalog has no entry of this name."""

    code = "NOT_IN_CATALOG"
    exit_code = 3


class NameTakenError(CatalogError):
    """Another entry of the same scope has this name already."""

    code = "NAME_TAKEN"
    exit_code = 5


class InvalidEntryError(CatalogError):
    """A value breaks a rule of the entry that it is for."""

    code = "INVALID_ENTRY"
    exit_code = 2


class ShareFileError(CatalogError):
    """A file of shares and recipients cannot be read as one."""

    code = "INVALID_SHARE_FILE"
    exit_code = 2


class AuditBrokenError(CatalogError):
    """The audit log is not what was written: an event is missing, changed or not signed."""

    code = "AUDIT_BROKEN"
