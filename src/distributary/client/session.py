"""What all reads of one client share: the server, connections to files, and how much may be used."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from distributary.client.connection import ConnectionSettings
from distributary.client.delta_replay import ReadBudget
from distributary.client.disk_cache import DEFAULT_BYTES, DiskCache
from distributary.client.file_download import WHOLE_BYTES
from distributary.client.http_files import FileConnections
from distributary.client.rest import RestClient
from distributary.client.table_query import QuerySettings
from distributary.errors import InvalidInputError
from distributary.sharing.profile import Profile

Access = Literal["auto", "url", "dir"]
"""How bytes are reached: by signed URLs, in the table's own directory, or as the server offers."""


class ReadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How shared tables are read."""

    access: Access = "auto"
    query: QuerySettings = QuerySettings()
    budget: ReadBudget = ReadBudget()
    whole_bytes: int = WHOLE_BYTES
    """Files up to this size are downloaded whole; of larger ones what is needed."""
    cache_directory: Path | None = None
    """Where files are kept between reads; nowhere by default."""
    cache_bytes: int = DEFAULT_BYTES
    progress: bool | None = None
    """Whether a progress bar is shown; on terminals and in notebooks by default."""
    storage_options: Mapping[str, str] = {}
    """Options of the store for directory access, such as its endpoint."""

    def __post_init__(self) -> None:
        if self.access not in ("auto", "url", "dir"):
            raise InvalidInputError(f"access must be auto, url or dir, not {self.access!r}")

    @property
    def access_modes(self) -> tuple[str, ...]:
        """What is announced to the server."""
        return ("url", "dir") if self.access == "auto" else (self.access,)


class Session:
    """One recipient at one server."""

    def __init__(self, profile: Profile, connection: ConnectionSettings, settings: ReadSettings) -> None:
        self.rest = RestClient(profile, connection)
        self.settings = settings
        self.connections = FileConnections(self.rest.origin, connection, self.rest.ssl_context)
        # Tables and rows keep their session; when nobody does any more, no connection stays open.
        self._finalizer = weakref.finalize(self, _close, self.rest, self.connections)

    def cache(self, table_id: str) -> DiskCache | None:
        """The files of a table that are kept on disk."""
        directory = self.settings.cache_directory
        if directory is None:
            return None
        return DiskCache(directory, f"{self.rest.origin}/{table_id}", self.settings.cache_bytes)

    def close(self) -> None:
        """Close all connections."""
        self._finalizer()


def _close(rest: RestClient, connections: FileConnections) -> None:
    connections.close()
    rest.close()
