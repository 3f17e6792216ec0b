"""DuckDB with its Delta extension, which comes as a Python package: nothing is downloaded when it is used."""

from __future__ import annotations

from pathlib import Path

import duckdb
import duckdb_extension_delta


def connect() -> duckdb.DuckDBPyConnection:
    """A connection that knows `delta_scan`."""
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection
