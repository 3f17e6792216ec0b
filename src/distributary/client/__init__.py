"""Shared tables of any Delta Sharing server, as Arrow and every frame.

``import distributary.client as delta_sharing`` gives every name of the official client.
"""

from distributary import __version__
from distributary.client.connection import ConnectionSettings
from distributary.client.delta_sharing import (
    get_table_metadata,
    get_table_protocol,
    get_table_version,
    load_as_arrow,
    load_as_pandas,
    load_as_polars,
    load_as_spark,
    load_table_changes_as_pandas,
    load_table_changes_as_spark,
)
from distributary.client.shared_table import SharedTable
from distributary.client.sharing_client import SharingClient
from distributary.expressions.tree import col
from distributary.sharing.objects import Schema, Share, Table
from distributary.sharing.profile import Profile

__all__ = [
    "ConnectionSettings",
    "Profile",
    "Schema",
    "Share",
    "SharedTable",
    "SharingClient",
    "Table",
    "__version__",
    "col",
    "get_table_metadata",
    "get_table_protocol",
    "get_table_version",
    "load_as_arrow",
    "load_as_pandas",
    "load_as_polars",
    "load_as_spark",
    "load_table_changes_as_pandas",
    "load_table_changes_as_spark",
]
