"""Arrow → pandas, Polars and DuckDB: the only module that imports them.

Each is an extra; where it is not installed, MissingExtraError names what to install. Whatever
gives rows as record batches gets all the frames from `RowSource`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from distributary.errors import MissingExtraError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def to_pandas(table: pa.Table, *, consume: bool = False) -> pd.DataFrame:
    """Give the rows as a pandas DataFrame.

    With `consume` each column's Arrow memory is freed as soon as pandas has it: a third of the time and
    of the memory less. The table cannot be used any more then, by nobody.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "to_pandas()") from error
    frame: pandas.DataFrame = table.to_pandas(self_destruct=consume)
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


def lazy_polars(
    schema: pa.Schema, read: Callable[[list[str] | None, int | None], Iterator[pa.RecordBatch]]
) -> pl.LazyFrame:
    """Give rows as a Polars LazyFrame; `read` gets the columns and the number of rows that it needs."""
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingExtraError("polars", "to_lazy()") from error

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = columns
        if predicate is not None and columns is not None:
            wanted = [*columns, *(name for name in predicate.meta.root_names() if name not in columns)]
        # A number of rows counts those that satisfy the predicate, which is applied here.
        for batch in read(wanted, rows if predicate is None else None):
            frame = polars.from_arrow(batch)
            assert isinstance(frame, polars.DataFrame)
            found = frame if predicate is None else frame.filter(predicate)
            yield found if columns is None else found.select(columns)

    empty = polars.from_arrow(schema.empty_table())
    assert isinstance(empty, polars.DataFrame)
    return register_io_source(frames, schema=empty.schema)


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


class RowSource(ABC):
    """Rows that can be had as batches, and so as any frame."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""

    @abstractmethod
    def to_record_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches, in no particular order; read as they are taken."""

    def to_record_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader that other libraries can stream from."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(self.arrow_schema, self.to_record_batches())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow

        from distributary.arrow_memory import frame_memory

        with frame_memory():
            return pyarrow.Table.from_batches(self.to_record_batches(), self.arrow_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        from distributary.arrow_memory import frame_memory

        with frame_memory():
            return to_pandas(self.to_arrow(), consume=True)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame."""
        return to_polars(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, which can be queried again and again."""
        return to_duckdb(self.to_arrow(), connection)
