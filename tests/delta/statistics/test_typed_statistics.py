"""Statistics as columns and as text hold the same values, to the last digit."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pytest

from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import parse_schema
from distributary.delta.statistics.statistics_text import render_statistics
from distributary.delta.statistics.typed_statistics import StatisticsLayout, statistics_layout
from distributary.delta.table_properties import TableProperties

_COLUMNS = {
    "l": "long", "d": "decimal(38,9)", "x": "double", "f": "float", "s": "string", "day": "date",
    "t": "timestamp", "n": "timestamp_ntz", "odd name, ü": "integer",
}  # fmt: skip


def _layout(
    columns: dict[str, Any], partitioning: tuple[str, ...] = (), **properties: str
) -> StatisticsLayout:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    configuration = {f"delta.{name}": text for name, text in properties.items()}
    return statistics_layout(
        schema, partitioning, ColumnMappingMode.NONE, TableProperties.from_configuration(configuration)
    )


_times = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_values = st.fixed_dictionaries(
    {
        "l": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.decimals(-(10**28), 10**28, places=9),
        "x": st.none() | st.floats(allow_nan=False),
        "f": st.none() | st.floats(allow_nan=False, width=32),
        "s": st.none() | st.text(st.characters(codec="utf-8")),
        "day": st.none() | st.dates(dt.date(1, 1, 2)),
        "t": st.none() | _times.map(lambda time: time.replace(tzinfo=dt.UTC)),
        "n": st.none() | _times,
        "odd name, ü": st.none() | st.integers(-(2**31), 2**31 - 1),
    }
)
_statistics = st.fixed_dictionaries(
    {
        "numRecords": st.integers(0, 2**62),
        "tightBounds": st.none() | st.booleans(),
        "minValues": _values,
        "maxValues": _values,
        "nullCount": st.fixed_dictionaries({name: st.none() | st.integers(0, 2**62) for name in _COLUMNS}),
    }
)


@hypothesis.given(st.lists(_statistics, max_size=4))
def test_text_and_columns_hold_the_same(files: list[dict[str, Any]]) -> None:
    """CK-012: columns → text → columns is the identity, and the text is JSON."""
    layout = _layout(_COLUMNS)
    typed = pa.array(files, layout.type)
    texts = render_statistics(typed)
    assert all(isinstance(json.loads(text), dict) for text in texts.to_pylist())
    assert layout.parse(pa.chunked_array([texts])).to_pylist() == typed.to_pylist()
    assert layout.adapt(typed).equals(typed)


def test_file_without_statistics_has_no_text() -> None:
    layout = _layout({"l": "long"})
    empty = {"numRecords": None, "minValues": {"l": None}}
    assert render_statistics(pa.array([None, empty, None], layout.type)).to_pylist() == [None, None, None]


def test_only_indexed_columns_and_no_partition_columns() -> None:
    """CK-014: struct leaves count one by one; what has no order has a null count only."""
    inner = {
        "type": "struct",
        "fields": [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in "xy"],
    }
    columns = {"p": "string", "b": "boolean", "in": inner, "last": "long"}
    kind = _layout(columns, ("p",), dataSkippingNumIndexedCols="3").type
    assert kind.field("minValues").type == pa.struct({"in": pa.struct({"x": pa.int64(), "y": pa.int64()})})
    assert {field.name for field in kind.field("nullCount").type} == {"b", "in"}
    named = _layout(columns, ("p",), dataSkippingStatsColumns="in.y, last").type
    assert named.field("minValues").type == pa.struct(
        {"in": pa.struct({"y": pa.int64()}), "last": pa.int64()}
    )


@pytest.mark.parametrize(
    ("old", "kind", "new"),
    [
        (pa.array([3], pa.int32()), "long", 3),
        (pa.array([3], pa.int32()), "decimal(20,2)", Decimal("3.00")),
        (pa.array([0.5], pa.float32()), "double", 0.5),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "decimal(10,4)", Decimal("1.2500")),
        (pa.array([dt.date(2020, 1, 2)]), "timestamp_ntz", dt.datetime(2020, 1, 2)),
        (
            pa.array([1], pa.timestamp("us")),
            "timestamp",
            dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC),
        ),
        (pa.array([1999], pa.timestamp("ns")), "timestamp_ntz", dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (pa.array(["a"]), "long", None),
    ],
)
def test_older_type_of_a_column_is_widened_exactly(old: pa.Array, kind: str, new: Any) -> None:
    """Statistics of before a type change, INT96 timestamps without zone, and what does not fit at all."""
    found = pa.StructArray.from_arrays([pa.StructArray.from_arrays([old], ["c"])], ["minValues"])
    (file,) = _layout({"c": kind}).adapt(found).to_pylist()
    assert file["minValues"]["c"] == new


def test_layout_knows_what_it_covers() -> None:
    small, large = _layout({"a": "long"}), _layout({"a": "long", "b": "string"})
    assert small.covers(large.type)
    assert not large.covers(small.type)
