"""The calls that wait, for programs that must not: each runs in a thread while others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from distributary.frames import RowSource

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class AwaitableRows(RowSource):
    """Rows that can be awaited."""

    async def to_arrow_async(self) -> pa.Table:
        """The rows as an Arrow table."""
        return await asyncio.to_thread(self.to_arrow)

    async def to_pandas_async(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return await asyncio.to_thread(self.to_pandas)

    async def to_polars_async(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame."""
        return await asyncio.to_thread(self.to_polars)

    async def to_record_batches_async(self) -> AsyncIterator[pa.RecordBatch]:
        """The rows as batches, read as they are taken."""
        batches = self.to_record_batches()
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch
