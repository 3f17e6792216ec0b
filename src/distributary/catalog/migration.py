"""Migrations: bring the catalog's tables to the form that this release knows, once, before workers start.

The parent process calls `migrate` before it starts workers. One process migrates at a time (SQLite: the
write lock; PostgreSQL: an advisory lock), all steps are one transaction, and a catalog that a newer release
wrote is refused, by `migrate` and by `require_current` alike, rather than touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from distributary.catalog.database import Database
from distributary.catalog.errors import CatalogNotReadyError, CatalogTooNewError

FOLDER: Final = Path(__file__).parent / "migrations"
LOCK_NUMBER: Final = 0x6469_7374_7269_6275
"""The advisory lock of PostgreSQL under which a catalog is migrated: `distribu` in ASCII."""


def migrate(database: Database) -> str:
    """Make or upgrade the catalog's tables; gives the revision that they have now."""
    database.create_file()
    scripts = _scripts()
    with database.write() as connection:
        _lock(database, connection)
        found = _revision(connection)
        _refuse_unknown(database, found, scripts)
        head = _head(scripts)
        if found != head:
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, head)
    return head


def require_current(database: Database) -> None:
    """Refuse to work on a catalog that is not there, waits for a migration, or is newer than this release."""
    if database.file is not None and not database.file.exists():
        raise CatalogNotReadyError(
            f"there is no catalog at {database.shown_url}: `distributary init` makes one"
        )
    scripts = _scripts()
    with database.read() as connection:
        found = _revision(connection)
    _refuse_unknown(database, found, scripts)
    if found is None:
        raise CatalogNotReadyError(f"{database.shown_url} holds no catalog: `distributary init` makes one")
    if found != _head(scripts):
        raise CatalogNotReadyError(
            f"the catalog at {database.shown_url} is of an older release: `distributary init` upgrades it"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _head(scripts: ScriptDirectory) -> str:
    head = scripts.get_current_head()
    assert head is not None, "the package holds at least one migration"
    return head


def _lock(database: Database, connection: Connection) -> None:
    if not database.is_sqlite:
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK_NUMBER})


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_unknown(database: Database, found: str | None, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if found is not None and found not in known:
        raise CatalogTooNewError(
            f"the catalog at {database.shown_url} has revision {found!r}, which this release does not know: "
            "run the release that wrote it, or a newer one"
        )
