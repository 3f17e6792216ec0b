"""A served folder: the Delta tables below a directory as one share, kept up to date while they come and go.

The catalog is an ordinary one in the user's state directory, keyed by the folder, with one recipient whose
token goes into a profile file; a token that the file has is used again while it is valid. Tables are
looked for every few seconds: new ones are added, those whose log is gone are removed. Names follow
`catalog.table_folder`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from distributary.catalog import bearer_tokens, recipients, shares
from distributary.catalog.administration import Administration, initialise
from distributary.catalog.database import Database, now_ms
from distributary.catalog.shared_tables import SharedTable
from distributary.catalog.table_folder import legal_name
from distributary.errors import DistributaryError, InvalidInputError
from distributary.server.key_ring import KeyRing, create_key_file
from distributary.server.settings import Settings
from distributary.sharing.profile import bearer_profile, read_profile, write_profile
from distributary.sharing.table_policy import TablePolicy

RECIPIENT: Final = "local"
LOOK_SECONDS: Final = 2.0
_TOKEN_DAYS: Final = 365

Say = Callable[[str], None]
"""Tells the user something."""


def folder_settings(settings: Settings, folder: Path) -> Settings:
    """The settings for a folder: state of its own, one worker, no limits."""
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is no folder: give one that holds Delta tables")
    state = state_folder(folder)
    limits = msgspec.structs.replace(
        settings.limits, calls_per_second=0, burst=0, concurrent_queries=0, concurrent_downloads=0
    )
    return msgspec.structs.replace(
        settings,
        database=str(state / "catalog.db"),
        key_file=str(state / "keys.json"),
        workers=1,
        limits=limits,
    )


def state_folder(folder: Path) -> Path:
    """Where the catalog of a folder is kept."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return Path(base) / "distributary" / "folders" / f"{legal_name(folder.resolve().name)}-{key}"


class ServedFolder:
    """The share of a folder."""

    def __init__(self, folder: Path, settings: Settings, say: Say) -> None:
        self.folder = folder.resolve()
        self.share = legal_name(self.folder.name)
        self._settings = settings
        self._say = say
        state = settings.key_path.parent
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = settings.key_path.exists()
        self._keys = KeyRing(settings.key_path) if there else create_key_file(settings.key_path, now=now_ms())
        self._database = Database(settings.database)
        self._admin = Administration(self._database, self._keys, actor="serve-folder")
        self._stop = threading.Event()

    def prepare(self, profile: Path) -> None:
        """Bring the catalog and the profile file up to date before the server starts."""
        initialise(self._database, self._keys, actor="serve-folder")
        with self._database.read() as connection:
            has_share = shares.find_share(connection, self.share) is not None
            has_recipient = recipients.find_recipient(connection, RECIPIENT) is not None
        if not has_share:
            self._admin.create_share(self.share)
        if not has_recipient:
            self._admin.create_recipient(RECIPIENT)
        self._admin.grant(self.share, RECIPIENT)
        self.look()
        self._write_profile(profile)

    def follow(self) -> None:
        """Look for tables from now on, on a thread."""
        threading.Thread(target=self._look_on, name="folder", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._database.close()

    def tables(self) -> list[SharedTable]:
        """The tables that are shared now."""
        with self._database.read() as connection:
            return shares.list_tables(connection, shares.get_share(connection, self.share))

    def look(self) -> None:
        """Add tables that came and remove those that are gone."""
        for table in self.tables():
            if not (Path(table.policy.location) / "_delta_log").is_dir():
                self._admin.remove_table(self.share, table.schema, table.name)
                self._say(f"gone: {table.full_name}")
        for found, table in self._admin.add_folder(self.share, self.folder, TablePolicy(location="/")):
            note = f" (there is another {found.path.name})" if found.renamed else ""
            self._say(f"found: {table.full_name}{note}")

    def _look_on(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
            except (DistributaryError, OSError) as error:
                self._say(f"{self.folder} cannot be looked through: {error}")

    def _write_profile(self, file: Path) -> None:
        """Write the profile, unless the one that is there is still good for this server."""
        endpoint = f"{self._settings.endpoint}/"
        token, expires = self._kept_token(file) or self._new_token()
        write_profile(bearer_profile(endpoint, token, expires), file)

    def _kept_token(self, file: Path) -> tuple[str, datetime | None] | None:
        if not file.exists():
            return None
        try:
            token = read_profile(file).bearer_token
        except DistributaryError as error:
            raise InvalidInputError(
                f"{file} is there and is no profile: name another file for the profile (--profile)"
            ) from error
        found = None if token is None else bearer_tokens.verify(self._database, token)
        if token is None or found is None:
            return None
        return token, _moment(found.expires_at)

    def _new_token(self) -> tuple[str, datetime | None]:
        end = datetime.now(UTC) + timedelta(days=_TOKEN_DAYS) - timedelta(minutes=1)
        issued = self._admin.rotate_token(
            RECIPIENT, expires_at=int(end.timestamp() * 1000), grace_ms=86_400_000
        )
        return issued.text, _moment(issued.token.expires_at)


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
