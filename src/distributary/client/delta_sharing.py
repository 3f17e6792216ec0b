"""The functions of the official client, with its names, parameters and results.

``import distributary.client as delta_sharing`` is all that a program has to change. A table is written
``<profile>#<share>.<schema>.<table>``. As there, `jsonPredicateHints` only lets the server leave out files;
rows are filtered by ``SharingClient(…).table(…).snapshot().where(…)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from distributary.client.shared_snapshot import SharedSnapshot
from distributary.client.shared_table import SharedTable
from distributary.client.sharing_client import SharingClient
from distributary.client.spark_frame import spark_frame
from distributary.delta.log.actions import Format
from distributary.errors import InvalidInputError
from distributary.sharing.capabilities import ResponseFormat
from distributary.sharing.names import InvalidNameError, TableName, parse_table_name

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame as SparkDataFrame


class InvalidTableUrlError(InvalidInputError, ValueError):
    """A text that is not ``<profile>#<share>.<schema>.<table>``."""

    code = "INVALID_TABLE_URL"


class TableProtocol(msgspec.Struct, frozen=True):
    """What reading a table needs."""

    min_reader_version: int
    min_writer_version: int | None = None
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class TableMetadata(msgspec.Struct, frozen=True):
    """What a server tells of a table."""

    id: str
    name: str | None
    description: str | None
    format: Format
    schema_string: str | None
    configuration: Mapping[str, str]
    partition_columns: list[str]
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    created_time: int | None = None


def load_as_pandas(
    url: str,
    limit: int | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    jsonPredicateHints: str | None = None,  # noqa: N803  # the official client's name
    use_delta_format: bool | None = None,
    convert_in_batches: bool = False,
) -> pd.DataFrame:
    """A shared table as a pandas DataFrame; `convert_in_batches` is accepted and changes nothing."""
    with _client(url, use_delta_format) as client:
        return _snapshot(client, url, limit, version, timestamp, jsonPredicateHints).to_pandas()


def load_as_arrow(
    url: str,
    limit: int | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    jsonPredicateHints: str | None = None,  # noqa: N803
    use_delta_format: bool | None = None,
) -> pa.Table:
    """A shared table as an Arrow table."""
    with _client(url, use_delta_format) as client:
        return _snapshot(client, url, limit, version, timestamp, jsonPredicateHints).to_arrow()


def load_as_polars(
    url: str,
    limit: int | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    jsonPredicateHints: str | None = None,  # noqa: N803
    use_delta_format: bool | None = None,
) -> pl.DataFrame:
    """A shared table as a Polars DataFrame."""
    with _client(url, use_delta_format) as client:
        return _snapshot(client, url, limit, version, timestamp, jsonPredicateHints).to_polars()


def load_as_spark(url: str, version: int | None = None, timestamp: str | None = None) -> SparkDataFrame:
    """A shared table as a Spark DataFrame, by the source ``deltaSharing`` of the active session."""
    parse_url(url)
    options = {"versionAsOf": version, "timestampAsOf": timestamp}
    return spark_frame(url, options)


def load_table_changes_as_pandas(
    url: str,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: str | None = None,
    ending_timestamp: str | None = None,
    use_delta_format: bool | None = None,
    convert_in_batches: bool = False,
) -> pd.DataFrame:
    """The changes of a shared table as a pandas DataFrame; both ends of the range are included."""
    with _client(url, use_delta_format) as client:
        changes = _table(client, url).changes(
            starting_version,
            ending_version,
            starting_timestamp=starting_timestamp,
            ending_timestamp=ending_timestamp,
        )
        return changes.to_pandas()


def load_table_changes_as_spark(
    url: str,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: str | None = None,
    ending_timestamp: str | None = None,
) -> SparkDataFrame:
    """The changes of a shared table as a Spark DataFrame."""
    parse_url(url)
    options = {
        "readChangeFeed": "true",
        "startingVersion": starting_version,
        "endingVersion": ending_version,
        "startingTimestamp": starting_timestamp,
        "endingTimestamp": ending_timestamp,
    }
    return spark_frame(url, options)


def get_table_version(url: str, starting_timestamp: str | None = None) -> int:
    """The latest version of a shared table, or the first one at or after a time."""
    with _client(url) as client:
        return _table(client, url).version(starting_timestamp)


def get_table_metadata(url: str, use_delta_format: bool = True) -> TableMetadata:
    """The metadata of a shared table."""
    with _client(url, None if use_delta_format else False) as client:
        known = _table(client, url).known()
    found, told = known.metadata, known.information
    return TableMetadata(
        id=found.id,
        name=found.name,
        description=found.description,
        format=found.format,
        schema_string=found.schema_string,
        configuration=found.properties,
        partition_columns=list(found.partitioning),
        version=told.version,
        size=told.size,
        num_files=told.num_files,
        created_time=found.created_time,
    )


def get_table_protocol(url: str, use_delta_format: bool = True) -> TableProtocol:
    """The protocol of a shared table."""
    with _client(url, None if use_delta_format else False) as client:
        known = _table(client, url).known()
    found = known.protocol
    if known.format == "parquet":
        return TableProtocol(found.min_reader_version)
    return TableProtocol(
        found.min_reader_version,
        found.min_writer_version,
        None if found.reader_features is None else list(found.reader_features),
        None if found.writer_features is None else list(found.writer_features),
    )


def parse_url(url: str) -> tuple[str, TableName]:
    """Split ``<profile>#<share>.<schema>.<table>`` at the last ``#`` (A16)."""
    profile, hash_sign, name = url.rpartition("#")
    if not hash_sign or not profile:
        raise InvalidTableUrlError(f"{_shown(url)} is no table: write <profile>#<share>.<schema>.<table>")
    try:
        return profile, parse_table_name(name)
    except InvalidNameError as error:
        raise InvalidTableUrlError(f"{_shown(url)}: {error}") from None


def _shown(url: str) -> str:
    """The text without a profile that was written into it, which holds a secret."""
    return "the text" if url.lstrip().startswith("{") else repr(url[:200])


def _client(url: str, use_delta_format: bool | None = None) -> SharingClient:
    formats: dict[bool | None, ResponseFormat | None] = {None: None, True: "delta", False: "parquet"}
    return SharingClient(parse_url(url)[0], response_format=formats[use_delta_format])


def _table(client: SharingClient, url: str) -> SharedTable:
    return client.table(parse_url(url)[1])


def _snapshot(
    client: SharingClient,
    url: str,
    limit: int | None,
    version: int | None,
    timestamp: str | None,
    json_hint: str | None,
) -> SharedSnapshot:
    rows = _table(client, url).hinted_snapshot(json_hint, version, timestamp)
    return rows if limit is None else rows.limit(limit)
