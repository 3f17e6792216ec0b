"""The statistics of a data file that is there already.

The footer tells most of it; columns of floats, arrays and maps are read, since a footer does
not tell whether there are NaNs or how many lists are null. A column that the file has under
another type than the table, or not at all, gets no statistics: unknown is always safe. A
damaged file raises pyarrow's errors or `InvalidFooterError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.delta.parquet_footer import sound_footer
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import DOUBLE, FLOAT, ArrayType, MapType
from distributary.delta.statistics.collection import IndexedColumn, StatisticsCollector


def statistics_of(file: pa.NativeFile, columns: Sequence[IndexedColumn], *, pre_buffer: bool) -> str:
    """The text of `add.stats` for an existing file."""
    footer = sound_footer(file)
    parquet = pq.ParquetFile(file, pre_buffer=pre_buffer, page_checksum_verification=True)
    present = [column for column in columns if _is_present(parquet.schema_arrow, column)]
    collector = StatisticsCollector(present)
    looked_at = sorted({column.path[0] for column in present if _needs_rows(column)})
    if looked_at:
        for batch in parquet.iter_batches(columns=looked_at):
            collector.observe(batch)
    return collector.statistics(footer, parquet.schema_arrow)


def statistics_of_new(file: pa.NativeFile, columns: Sequence[IndexedColumn], *, pre_buffer: bool) -> str:
    """The same for a file that parquet-java has just written with all of these columns: the footer is enough.

    Rows are read only where its writer was too old to count definition levels.
    """
    footer = sound_footer(file)
    collector = StatisticsCollector(columns)
    if collector.observe_footer(footer):
        return collector.statistics(footer)
    return statistics_of(file, columns, pre_buffer=pre_buffer)


def _needs_rows(column: IndexedColumn) -> bool:
    return column.data_type in (FLOAT, DOUBLE) or isinstance(column.data_type, ArrayType | MapType)


def _is_present(schema: pa.Schema, column: IndexedColumn) -> bool:
    fields: Any = schema
    found: pa.DataType | None = None
    for name in column.path:
        at = fields.get_field_index(name)
        if at < 0:
            return False
        found = fields.field(at).type
        fields = found if pa.types.is_struct(found) else pa.struct([])
    if isinstance(column.data_type, ArrayType | MapType):
        return pa.types.is_list(found) or pa.types.is_map(found)
    return found == arrow_type(column.data_type)
