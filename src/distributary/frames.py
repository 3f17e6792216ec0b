"""Arrow → pandas, Polars and DuckDB (DESIGN 1): the only module that imports them.

Each is an extra; where it is not installed, MissingExtraError names what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.errors import MissingExtraError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Give the rows as a pandas DataFrame."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "to_pandas()") from error
    frame: pandas.DataFrame = table.to_pandas()
    return frame


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Give the rows as a Polars DataFrame."""
    try:
        import polars
    except ImportError as error:
        raise MissingExtraError("polars", "to_polars()") from error
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def to_duckdb(
    source: pa.Table | pa.RecordBatchReader, connection: duckdb.DuckDBPyConnection | None = None
) -> duckdb.DuckDBPyRelation:
    """Give the rows as a DuckDB relation; a reader is streamed, so its relation can be used once.

    Without a connection the relation belongs to DuckDB's default one, as with ``duckdb.sql``.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "to_duckdb()") from error
    if connection is None:
        return duckdb.from_arrow(source)
    return connection.from_arrow(source)
