"""Statistics of files that are there: from the footer alone where its writer counted definition levels."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.statistics import existing_file
from distributary.delta.statistics.collection import indexed_columns
from distributary.delta.statistics.existing_file import statistics_of, statistics_of_new
from distributary.delta.table_properties import TableProperties

MAPS = pa.map_(pa.string(), pa.int64())
ROWS = pa.table(
    {
        "a": pa.array([None, [], [1, None], [2]], pa.list_(pa.int64())),
        "s": pa.array([{"m": [("k", 1)]}, {"m": None}, None, {"m": []}], pa.struct([pa.field("m", MAPS)])),
        "f": pa.array([1.0, -0.0, None, 2.5]),
        "n": pa.array([None, None, None, None], pa.float64()),
        "i": pa.array([3, 1, 2, None]),
    }
)


def test_null_lists_and_floats_are_told_by_the_footer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-002 to ST-006: the same text as by reading the rows, in several row groups."""
    file = tmp_path / "rows.parquet"
    pq.write_table(ROWS, file, row_group_size=2)
    properties = TableProperties.from_configuration({})
    columns = indexed_columns(delta_schema(ROWS.schema), (), ColumnMappingMode.NONE, properties)
    by_rows = statistics_of(pa.OSFile(str(file)), columns, pre_buffer=False)
    monkeypatch.setattr(existing_file, "statistics_of", lambda *_, **__: pytest.fail("rows were read"))
    found = json.loads(statistics_of_new(pa.OSFile(str(file)), columns, pre_buffer=False))
    assert found == json.loads(by_rows)
    assert found["nullCount"] == {"a": 1, "s": {"m": 2}, "f": 1, "n": 4, "i": 1}
    assert (found["minValues"]["f"], found["maxValues"]["f"]) == (-0.0, 2.5)
