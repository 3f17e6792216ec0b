"""SharingClient: the shares, schemas and tables that a profile may see, and the way to their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from distributary.client.connection import ConnectionSettings
from distributary.client.credentials import ProfileSource, load_profile
from distributary.client.delta_replay import ReadBudget
from distributary.client.errors import IncompleteResponseError
from distributary.client.rest import Request, schema_path, share_path
from distributary.client.session import Access, ReadSettings, Session
from distributary.client.shared_table import SharedTable
from distributary.client.table_query import QuerySettings
from distributary.errors import InvalidInputError
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.error_response import ResourceNotFoundError
from distributary.sharing.names import TableName, parse_table_name
from distributary.sharing.objects import GetShareResponse, Schema, Share, Table
from distributary.sharing.profile import Profile

Item = TypeVar("Item")


class ListPage(msgspec.Struct, Generic[Item], frozen=True, rename="camel"):
    """A page of a list as servers send it: items may be missing or null (CL-002)."""

    items: list[Item] | None = None
    next_page_token: str | None = None


class SharingClient:
    """One recipient at one sharing server.

    `profile` is a path, a URI of an object store, JSON text, a dict, an open file or a `Profile`; without one
    the environment says (see `credentials`). A client may be used by any number of threads.
    """

    def __init__(
        self,
        profile: ProfileSource = None,
        *,
        access: Access = "auto",
        response_format: ResponseFormat | None = None,
        page_files: int | None = None,
        asynchronous: bool = False,
        workers: int | None = None,
        buffered_bytes: int | None = None,
        cache_directory: str | Path | None = None,
        progress: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
        connection: ConnectionSettings | None = None,
        **network: Any,
    ) -> None:
        if connection is not None and network:
            raise InvalidInputError("give connection= or its single settings, not both")
        budget = ReadBudget(workers)
        if buffered_bytes is not None:
            budget = ReadBudget(workers, buffered_bytes)
        formats: tuple[ResponseFormat, ...] = ("delta", "parquet")
        settings = ReadSettings(
            access=access,
            query=QuerySettings(
                formats=formats if response_format is None else (response_format,),
                page_files=page_files,
                asynchronous=asynchronous,
            ),
            budget=budget,
            cache_directory=None if cache_directory is None else Path(cache_directory).expanduser(),
            progress=progress,
            storage_options=storage_options or {},
        )
        self._session = Session(load_profile(profile), connection or _connection_settings(network), settings)

    @property
    def profile(self) -> Profile:
        """The server and who we are there; secrets are not shown."""
        return self._session.rest.profile

    def iter_shares(self) -> Iterator[Share]:
        """The shares, page by page as they are taken."""
        return self._listed("/shares", Share)

    def iter_schemas(self, share: Share | str) -> Iterator[Schema]:
        """The schemas of a share."""
        return self._listed(f"{share_path(_share_name(share))}/schemas", Schema)

    def iter_tables(self, schema: Schema | str) -> Iterator[Table]:
        """The tables of a schema, which is a `Schema` or the text share.schema."""
        share, name = _schema_names(schema)
        return self._listed(f"{schema_path(share, name)}/tables", Table)

    def iter_all_tables(self, share: Share | str | None = None) -> Iterator[Table]:
        """The tables of a share, or of all shares."""
        if share is None:
            for each in self.iter_shares():
                yield from self.iter_all_tables(each)
            return
        try:
            yield from self._listed(f"{share_path(_share_name(share))}/all-tables", Table)
        except ResourceNotFoundError:
            # The first servers do not know this list.
            for schema in self.iter_schemas(share):
                yield from self.iter_tables(schema)

    def list_shares(self) -> list[Share]:
        """The shares that this recipient may see."""
        return list(self.iter_shares())

    def list_schemas(self, share: Share | str) -> list[Schema]:
        """The schemas of a share."""
        return list(self.iter_schemas(share))

    def list_tables(self, schema: Schema | str) -> list[Table]:
        """The tables of a schema."""
        return list(self.iter_tables(schema))

    def list_all_tables(self, share: Share | str | None = None) -> list[Table]:
        """The tables of a share, or of all shares."""
        return list(self.iter_all_tables(share))

    def get_share(self, share: Share | str) -> Share:
        """A share with what the server tells of it."""
        request = Request("GET", share_path(_share_name(share)))
        return self._session.rest.json(request, GetShareResponse).share

    def table(self, name: str | Table | TableName) -> SharedTable:
        """A table by its name share.schema.table; nothing is asked yet."""
        if isinstance(name, Table):
            name = TableName(name.share, name.schema, name.name)
        return SharedTable(self._session, parse_table_name(name) if isinstance(name, str) else name)

    async def list_shares_async(self) -> list[Share]:
        """The shares that this recipient may see."""
        return await asyncio.to_thread(self.list_shares)

    async def list_schemas_async(self, share: Share | str) -> list[Schema]:
        """The schemas of a share."""
        return await asyncio.to_thread(self.list_schemas, share)

    async def list_tables_async(self, schema: Schema | str) -> list[Table]:
        """The tables of a schema."""
        return await asyncio.to_thread(self.list_tables, schema)

    async def list_all_tables_async(self, share: Share | str | None = None) -> list[Table]:
        """The tables of a share, or of all shares."""
        return await asyncio.to_thread(self.list_all_tables, share)

    def close(self) -> None:
        """Close all connections; that happens by itself when nobody uses the client or its tables."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SharingClient({self.profile.endpoint!r})"

    def _listed(self, path: str, kind: type[Item]) -> Iterator[Item]:
        """All pages of a list; only a missing token ends it, never an empty page (CL-003, CL-004)."""
        token: str | None = None
        while True:
            request = Request("GET", path, {} if token is None else {"pageToken": token})
            page = self._session.rest.json(request, ListPage[kind])
            yield from page.items or ()
            if not page.next_page_token:
                return
            if page.next_page_token == token:
                raise IncompleteResponseError(f"{path}: the server gives the same page again and again")
            token = page.next_page_token


def _share_name(share: Share | str) -> str:
    return share if isinstance(share, str) else share.name


def _schema_names(schema: Schema | str) -> tuple[str, str]:
    if not isinstance(schema, str):
        return schema.share, schema.name
    share, period, name = schema.rpartition(".")
    if not period or not share or not name:
        raise InvalidInputError(f"{schema!r} is no schema: write share.schema")
    return share, name


def _connection_settings(network: Mapping[str, Any]) -> ConnectionSettings:
    try:
        return (
            msgspec.convert(dict(network), ConnectionSettings)
            if _all_known(network)
            else ConnectionSettings()
        )
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"a setting of the connection cannot be used: {error}") from None


def _all_known(network: Mapping[str, Any]) -> bool:
    names = {field.name for field in msgspec.structs.fields(ConnectionSettings)}
    unknown = sorted(set(network) - names)
    if unknown:
        raise InvalidInputError(
            f"unknown settings: {', '.join(unknown)}; there are {', '.join(sorted(names))}"
        )
    return True
