"""Migrations: the tables are those that the code knows; one at a time, whole, never on a newer catalog."""

from __future__ import annotations

import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, text

from distributary.catalog.database import Database
from distributary.catalog.errors import CatalogNotReadyError, CatalogTooNewError
from distributary.catalog.migration import migrate, require_current
from distributary.catalog.sql_schema import METADATA


@pytest.fixture
def empty(database_url):
    opened = Database(database_url, busy_seconds=60)
    yield opened
    opened.close()


def tables(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


def test_migrated_tables_are_those_that_the_code_knows(empty):
    migrate(empty)
    with empty.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_catalog_must_have_been_migrated(empty):
    with pytest.raises(CatalogNotReadyError, match="distributary init"):
        require_current(empty)
    migrate(empty)
    require_current(empty)
    assert migrate(empty) == migrate(empty)


def test_newer_catalog_is_refused_and_not_touched(empty):
    """RELIABILITY C11."""
    migrate(empty)
    with empty.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for touch in (migrate, require_current):
        with pytest.raises(CatalogTooNewError, match="9999"):
            touch(empty)


def test_migration_that_dies_half_way_leaves_nothing(empty):
    """RELIABILITY C11: all steps are one transaction."""

    def die(_connection, _cursor, statement, *_rest) -> None:
        if "bearer_tokens" in statement:
            raise KeyboardInterrupt

    event.listen(empty._writer, "before_cursor_execute", die)
    with pytest.raises(KeyboardInterrupt):
        migrate(empty)
    event.remove(empty._writer, "before_cursor_execute", die)
    assert tables(empty) == set()
    migrate(empty)
    assert "bearer_tokens" in tables(empty)


def test_servers_that_start_together_migrate_once(empty, database_url):
    results: list[str] = []

    def run() -> None:
        own = Database(database_url, busy_seconds=60)
        results.append(migrate(own))
        own.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    require_current(empty)
