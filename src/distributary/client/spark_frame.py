"""Shared tables as Spark DataFrames: the session's own source ``deltaSharing``, asked for by name.

Nothing of Spark is imported before a frame is asked for. `distributary.spark.session()` or `register()`
makes the source known to a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from distributary.client.connection import ConnectionSettings
from distributary.client.errors import ClientError
from distributary.errors import MissingExtraError
from distributary.sharing.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_FORMAT = "deltaSharing"
CONNECTION_PREFIX = "connection."


class SparkSessionMissingError(ClientError):
    """There is no Spark session to load a table in."""

    code = "SPARK_SESSION_MISSING"


def spark_frame(url: str, options: Mapping[str, Any], spark: SparkSession | None = None) -> DataFrame:
    """A frame of the source ``deltaSharing``; of the active session where none is given."""
    reader = (spark or active_session()).read.format(SPARK_FORMAT)
    for name, value in options.items():
        if value is not None:
            reader = reader.option(name, value)
    return reader.load(url)


def active_session() -> SparkSession:
    """The session that is active in this thread."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError("spark", "loading a shared table in Spark") from error
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise SparkSessionMissingError(
            "there is no active Spark session: make one with distributary.spark.session()"
        )
    return spark


def connection_options(profile: Profile, connection: ConnectionSettings) -> dict[str, str]:
    """A profile and settings of the network as options of the source."""
    found = {name: _text(value) for name, value in msgspec.to_builtins(profile).items()}
    if "type" in found:
        found["shareCredentialsType"] = found.pop("type")
    for name in connection.__struct_fields__:
        value = getattr(connection, name)
        if value != getattr(ConnectionSettings(), name):
            found[CONNECTION_PREFIX + name] = _text(value)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
