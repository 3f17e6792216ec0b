"""The database of the catalog: SQLite or PostgreSQL behind one door.

`read()` gives a connection that cannot change anything, `write()` one whose changes are all kept or all
undone. SQLite runs in WAL mode with every commit synced; a process has one writer connection, and a write
takes the file's lock before it reads (BEGIN IMMEDIATE), so no write ever fails half way because another
process was quicker. When the database does not answer, or its file is gone, every call raises
`CatalogUnavailableError`: callers fail closed. Only a migration creates a file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, TimeoutError
from sqlalchemy.pool import QueuePool

from distributary.catalog.errors import CatalogUnavailableError
from distributary.errors import InvalidInputError, MissingExtraError

BUSY_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 2
STATEMENT_SECONDS: Final = 10
READERS: Final = 8


class Database:
    """An open catalog database; safe for threads, not to be carried across a fork."""

    def __init__(self, url: str, *, busy_seconds: float = BUSY_SECONDS, readers: int = READERS) -> None:
        self.url = parsed_url(url)
        self._writer, self._reader = _engines(self.url, busy_seconds, readers)
        self._file = self._file_identity() if self.is_sqlite else None

    def __repr__(self) -> str:
        return f"Database({self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Open a transaction that sees one state of the catalog and changes nothing."""
        with self._errors():
            self._follow_file()
            with self._reader.connect() as connection, connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """Open a transaction that is kept whole at the end, or not at all after an error."""
        with self._errors():
            self._follow_file()
            with self._writer.begin() as connection:
                yield connection

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._writer.dispose()

    @property
    def file(self) -> Path | None:
        """The SQLite file; None for PostgreSQL."""
        return Path(str(self.url.database)) if self.is_sqlite else None

    def create_file(self) -> None:
        """Make an empty SQLite file that only its owner can read, unless there is one; nothing elsewhere."""
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))

    def _follow_file(self) -> None:
        """Notice a file that was removed or put back: open connections would go on reading the old one."""
        if self.is_sqlite and (found := self._file_identity()) != self._file:
            self.close()
            self._file = found

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(str(self.url.database))
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Tell a database that is not there from a statement that is wrong; never show a statement."""
        try:
            yield
        except IntegrityError:
            raise
        except (DBAPIError, TimeoutError) as error:
            why = _cause(error)
            raise CatalogUnavailableError(
                f"the catalog database {self.shown_url} gives no answer ({why}): check that it runs and that "
                "this user may use it; nothing is allowed without it"
            ) from error


def parsed_url(text: str) -> URL:
    """Read a database URL: `sqlite:///path`, `postgresql://…`, or the path of a SQLite file."""
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise InvalidInputError(
            "the database URL cannot be read: write sqlite:///FILE or postgresql://…"
        ) from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite") or not url.database or url.database == ":memory:":
        raise InvalidInputError(
            f"a catalog is kept in SQLite or PostgreSQL, not in {url.drivername!r}: "
            "write sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    return url.set(database=str(Path(url.database).expanduser().absolute()))


def now_ms() -> int:
    """The present as milliseconds since 1970, as every time in the catalog."""
    return time.time_ns() // 1_000_000


def _cause(error: Exception) -> str:
    """The first line of what the database said; statements and their values stay out."""
    said = str(error.orig if isinstance(error, DBAPIError) else error)
    return (said.splitlines() or [type(error).__name__])[0]


def _engines(url: URL, busy_seconds: float, readers: int) -> tuple[Engine, Engine]:
    if url.get_backend_name() == "sqlite":
        return (
            _sqlite_engine(url, "BEGIN IMMEDIATE", busy_seconds, pool_size=1),
            _sqlite_engine(url, "BEGIN", busy_seconds, pool_size=readers),
        )
    writer = _postgresql_engine(url, busy_seconds, pool_size=2)
    reader = _postgresql_engine(url, busy_seconds, pool_size=readers)
    return writer, reader.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")


def _sqlite_engine(url: URL, begin: str, busy_seconds: float, pool_size: int) -> Engine:
    existing = URL.create(
        "sqlite", database=f"file:{quote(str(url.database))}", query={"mode": "rw", "uri": "true"}
    )
    engine = create_engine(
        existing,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=busy_seconds,
        connect_args={"timeout": busy_seconds, "check_same_thread": False, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in _pragmas(read_only=begin == "BEGIN"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _pragmas(*, read_only: bool) -> tuple[str, ...]:
    always = ("foreign_keys=ON", "trusted_schema=OFF")
    if read_only:
        return (*always, "query_only=ON")
    return ("journal_mode=WAL", "synchronous=FULL", *always)


def _postgresql_engine(url: URL, busy_seconds: float, pool_size: int) -> Engine:
    try:
        return create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=busy_seconds,
            pool_pre_ping=True,
            connect_args=_postgresql_options(url.query, busy_seconds),
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError("postgres", "A catalog in PostgreSQL") from error


def _postgresql_options(given: Mapping[str, Any], busy_seconds: float) -> dict[str, Any]:
    """Bound every wait: for a connection, a lock, a statement, and a peer that went silent."""
    bounds: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": STATEMENT_SECONDS * 1000,
        "keepalives_idle": STATEMENT_SECONDS,
        "application_name": "distributary",
        "options": f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout={busy_seconds * 1000:.0f}",
    }
    return {name: value for name, value in bounds.items() if name not in given}
