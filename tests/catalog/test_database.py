"""The database: whole changes or none, many processes, kill -9, and failing closed when it is gone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from distributary.catalog import bearer_tokens, shares
from distributary.catalog.database import Database, parsed_url
from distributary.catalog.errors import CatalogUnavailableError
from distributary.errors import InvalidInputError

PROCESS = Path(__file__).with_name("writing_process.py")


def start(url: str, keys, name: str, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PROCESS), url, str(keys.path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def names(database: Database) -> set[str]:
    with database.read() as connection:
        return {share.name for share in shares.list_shares(connection)}


def test_error_inside_a_change_undoes_all_of_it(database):
    def fail() -> None:
        with database.write() as connection:
            shares.create_share(connection, "half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(database) == set()


def test_reading_connection_cannot_change_anything(database):
    with pytest.raises(CatalogUnavailableError), database.read() as connection:
        connection.execute(text("DELETE FROM audit_seals"))


def test_processes_that_write_at_once_lose_nothing(database, database_url, keys, admin):
    """RELIABILITY C7: one chain of events over all of them."""
    writers = [start(database_url, keys, f"w{number}", 12) for number in range(3)]
    acknowledged = {
        line.decode().strip() for writer in writers for line in writer.communicate()[0].splitlines()
    }
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(acknowledged) == 36
    assert names(database) == acknowledged
    assert admin.verify_audit().events == 37


def test_kill_during_writes_keeps_what_was_acknowledged(database, database_url, keys, admin):
    """RELIABILITY C7: after kill -9 the catalog is whole, and writing goes on."""
    acknowledged: set[str] = set()
    for number in range(4):
        writer = start(database_url, keys, f"k{number}", 10_000)
        assert writer.stdout is not None
        acknowledged |= {writer.stdout.readline().decode().strip() for _ in range(2 + 3 * number)}
        writer.kill()
        acknowledged |= {
            line.decode().strip() for line in writer.communicate()[0].splitlines(keepends=True)[:-1]
        }
    found = names(database)
    assert acknowledged <= found
    assert len(found - acknowledged) <= 8
    assert admin.verify_audit().events == len(found) + 1
    admin.create_share("after")
    if database.is_sqlite:
        with database.read() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"


def test_sqlite_file_is_made_for_its_owner_alone(tmp_path):
    database = Database(str(tmp_path / "with ? and % and #.db"))
    database.create_file()
    assert database.file is not None
    assert stat.S_IMODE(database.file.stat().st_mode) == 0o600


def test_reading_never_makes_a_file(tmp_path):
    database = Database(str(tmp_path / "none.db"))
    with pytest.raises(CatalogUnavailableError):
        bearer_tokens.authenticate(database, "dst_x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_file_that_goes_fails_closed_and_comes_back(database, admin, tmp_path):
    """RELIABILITY C6, P9: open connections do not go on with a file that is gone."""
    admin.create_recipient("acme")
    issued = admin.issue_token("acme", expires_at=bearer_tokens.now_ms() + 10_000_000)
    assert bearer_tokens.authenticate(database, issued.text) is not None
    database.close()
    file, away = database.file, tmp_path / "away"
    assert file is not None
    shutil.move(file, away)
    with pytest.raises(CatalogUnavailableError, match="nothing is allowed"):
        bearer_tokens.authenticate(database, issued.text)
    with pytest.raises(CatalogUnavailableError):
        admin.create_share("s")
    assert not file.exists()
    shutil.move(away, file)
    assert bearer_tokens.authenticate(database, issued.text) is not None


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_connections_that_the_server_ends_are_made_anew(database, admin):
    """RELIABILITY C6: recovery without a restart."""
    admin.create_share("s")
    other = Database(database.url.render_as_string(hide_password=False))
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with other.write() as connection:
        connection.execute(text(ended))
    other.close()
    assert names(database) == {"s"}
    admin.create_share("t")


def test_server_that_is_not_there_fails_closed():
    """RELIABILITY P9."""
    database = Database("postgresql://u:hidden-password@127.0.0.1:1/x")
    with pytest.raises(CatalogUnavailableError) as failure:
        bearer_tokens.authenticate(database, "dst_x")
    assert "hidden-password" not in str(failure.value) + repr(database)
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "://", "redis://h"])
def test_url_of_another_kind_is_refused(url):
    with pytest.raises(InvalidInputError):
        parsed_url(url)
