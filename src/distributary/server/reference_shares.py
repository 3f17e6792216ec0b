"""The shares of the reference server's configuration file, served as they are.

Its shares, tables and its one token are put into the catalog beside the file at each start, so that the file
stays the one place to change them, and recipients need no new profile. Tables are not opened first: the
reference server does not do so either.
"""

from __future__ import annotations

from pathlib import Path

from distributary.catalog.administration import Administration, initialise
from distributary.catalog.database import Database, now_ms
from distributary.catalog.share_file import read_share_file
from distributary.catalog.share_plan import apply_share_file
from distributary.errors import InvalidInputError
from distributary.server.key_ring import KeyRing, create_key_file
from distributary.server.settings import Settings


def take_over(file: Path, settings: Settings) -> int:
    """Make the catalog say what the file says; gives how many things changed."""
    shares = read_share_file(file)
    if shares.authorization is None and not shares.recipients:
        raise InvalidInputError(
            f"{file} has no token (authorization.bearerToken): this server answers nobody without one"
        )
    path = settings.key_path
    keys = KeyRing(path) if path.exists() else create_key_file(path, now=now_ms())
    database = Database(settings.database)
    try:
        initialise(database, keys, actor="server")
        admin = Administration(
            database, keys, actor="reference-file", storage_options=settings.storage_options
        )
        return len(apply_share_file(admin, shares, prune=True, check=False))
    finally:
        database.close()
