"""Statistics that we write: safe for every reader, and exact where they can be."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.delta.commit.data_file_writer import DataFileWriter
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.column_mapping import ColumnMappingMode, assign_column_mapping
from distributary.delta.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from distributary.delta.statistics.collection import clustering_columns, indexed_columns
from distributary.delta.statistics.file_statistics import FileStatistics
from distributary.delta.table_properties import TableProperties
from distributary.storage.object_store import open_store

_numbers = count()
_TEXT = st.text(st.characters(codec="utf-8"), max_size=70) | st.text(
    "ab\x7f\ufffd\uffff\U0010ffff", max_size=70
)
_MICROS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-(10**15), 10**16)
_VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BYTE: st.integers(-128, 127),
    SHORT: st.integers(-(1 << 15), (1 << 15) - 1),
    INTEGER: st.integers(-(1 << 31), (1 << 31) - 1),
    LONG: st.integers(-(1 << 63), (1 << 63) - 1),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    STRING: _TEXT,
    DATE: st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-800_000, 3_000_000),
    TIMESTAMP: _MICROS,
    TIMESTAMP_NTZ: _MICROS,
    BOOLEAN: st.booleans(),
    BINARY: st.binary(max_size=5),
    DecimalType(9, 2): st.integers(-(10**9) + 1, 10**9 - 1),
    DecimalType(38, 10): st.integers(-(10**38) + 1, 10**38 - 1),
    DecimalType(5, 5): st.integers(-(10**5) + 1, 10**5 - 1),
}
_STORAGE = {DATE: pa.int32(), TIMESTAMP: pa.int64(), TIMESTAMP_NTZ: pa.int64()}


def array_of(values: list[Any], data_type: DataType) -> pa.Array:
    """Values in storage form as the Arrow array of a Delta type."""
    if isinstance(data_type, DecimalType):
        raw = [
            None if v is None else Decimal((v < 0, tuple(map(int, str(abs(v)))), -data_type.scale))
            for v in values
        ]
        return pa.array(raw, arrow_type(data_type))
    storage = _STORAGE.get(data_type)
    return pa.array(values, storage or arrow_type(data_type)).cast(arrow_type(data_type))


def written_text(
    columns: dict[str, pa.Array],
    schema: StructType,
    mode: ColumnMappingMode = ColumnMappingMode.NONE,
) -> str:
    """The statistics of one file that is really written."""
    store = open_store(f"memory://collection-{next(_numbers)}")
    writer = DataFileWriter(store, schema, (), mode, TableProperties.from_configuration(None))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    half = batch.num_rows // 2
    [add] = writer.write([batch.slice(0, half), batch.slice(half)])
    assert add.stats is not None
    return add.stats


def written(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The same, decoded."""
    return strict_json(written_text(*arguments, **options))


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse, parse_float=Decimal)


@pytest.mark.parametrize("data_type", _VALUES, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_any_values_are_within_the_bounds_that_a_reader_takes_from_them(
    data_type: DataType, data: st.DataObject
) -> None:
    """ST-002, ST-003, ST-006, C-14: bounds contain every value; counts of rows and nulls are true."""
    values = data.draw(st.lists(st.none() | _VALUES[data_type], min_size=1, max_size=8))
    column = array_of(values, data_type)
    schema = StructType((StructField("c", data_type),))
    text = written_text({"c": column}, schema)
    statistics = strict_json(text)
    assert statistics["numRecords"] == len(values)
    assert statistics["nullCount"] == {"c": column.null_count}
    assert statistics["tightBounds"] is True
    bounds = FileStatistics.from_json(pa.array([text]), schema).bounds(("c",))
    assert bounds is not None
    if data_type in (BOOLEAN, BINARY):
        assert "c" not in statistics["minValues"]
    else:
        assert_within(column, bounds.minimum, bounds.maximum)


def assert_within(column: pa.Array, minimum: pa.Array | None, maximum: pa.Array | None) -> None:
    values = column.drop_null()
    if minimum is not None and minimum[0].is_valid:
        assert not pa.types.is_floating(column.type) or not pc.any(pc.is_nan(values)).as_py()
        assert pc.all(pc.less_equal(minimum[0], values)).as_py()
    if maximum is not None and maximum[0].is_valid:
        assert pc.all(pc.greater_equal(maximum[0], values)).as_py()


@pytest.mark.parametrize(
    "data_type", [BYTE, SHORT, INTEGER, LONG, DecimalType(9, 2), DecimalType(38, 10)], ids=str
)
@settings(max_examples=40)
@given(data=st.data())
def test_numbers_are_written_exactly(data_type: DataType, data: st.DataObject) -> None:
    """ST-003: the recorded minimum and maximum are the values themselves, to the last digit."""
    values = data.draw(st.lists(_VALUES[data_type], min_size=1, max_size=5))
    column = array_of(values, data_type)
    statistics = written({"c": column}, StructType((StructField("c", data_type),)))
    found = pc.min_max(column)
    assert Decimal(statistics["minValues"]["c"]) == Decimal(found["min"].as_py())
    assert Decimal(statistics["maxValues"]["c"]) == Decimal(found["max"].as_py())


@given(values=st.lists(_TEXT, min_size=1, max_size=5))
@example(values=["x" * 32])
@example(values=["x" * 33, "x" * 32 + "\x7f"])
@example(values=["é" * 31 + "\U0010ffff" * 10])
@example(values=["\U0010ffff" * 40])
@example(values=["\U0010ffff" * 70])
@example(values=["a" * 40 + "\ud7ff"])
def test_long_strings_are_cut_and_a_cut_maximum_is_raised(values: list[str]) -> None:
    """ST-006: bounds are at most twice 32 characters and in UTF-8 order around every value."""
    statistics = written({"c": pa.array(values)}, StructType((StructField("c", STRING),)))
    minimum, maximum = statistics["minValues"]["c"], statistics["maxValues"].get("c")
    assert len(minimum) <= 32
    assert all(minimum.encode() <= value.encode() for value in values)
    if maximum is None:
        assert max(values, key=str.encode).startswith("\U0010ffff", 32)
    else:
        assert len(maximum) <= 64
        assert all(maximum.encode() >= value.encode() for value in values)
    if all(len(value) < 32 for value in values):
        assert (minimum, maximum) == (min(values, key=str.encode), max(values, key=str.encode))


def test_timestamps_have_milliseconds_rounded_outwards() -> None:
    """ST-005, ST-006: ISO 8601 with milliseconds; instants end with Z, wall clock times do not."""
    micros = pa.array([1_619_652_837_955_123, 1_619_652_837_955_124])
    schema = StructType((StructField("t", TIMESTAMP), StructField("n", TIMESTAMP_NTZ)))
    columns = {"t": micros.cast(pa.timestamp("us", "UTC")), "n": micros.cast(pa.timestamp("us"))}
    statistics = written(columns, schema)
    assert statistics["minValues"] == {"t": "2021-04-28T23:33:57.955Z", "n": "2021-04-28T23:33:57.955"}
    assert statistics["maxValues"] == {"t": "2021-04-28T23:33:57.956Z", "n": "2021-04-28T23:33:57.956"}


def test_times_before_1970_and_out_of_range_are_right_or_left_out() -> None:
    """ST-006: rounding goes down for minima also before the epoch; years beyond 9999 have no text."""
    schema = StructType((StructField("t", TIMESTAMP), StructField("d", DATE)))
    columns = {
        "t": pa.array([-1, (1 << 63) - 1]).cast(pa.timestamp("us", "UTC")),
        "d": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    }
    statistics = written(columns, schema)
    assert statistics["minValues"] == {"t": "1969-12-31T23:59:59.999Z", "d": "0001-01-01"}
    assert statistics["maxValues"] == {"d": "9999-12-31"}


def test_nan_and_infinity_leave_no_bound_that_a_reader_could_trust_wrongly() -> None:
    """ST-003: no bounds with NaN, no infinite bound, and zero bounded by both of its signs."""
    schema = StructType(tuple(StructField(name, DOUBLE) for name in "abcd"))
    columns = {
        "a": pa.array([1.0, float("nan")]),
        "b": pa.array([1.0, float("inf")]),
        "c": pa.array([-0.0, 0.0]),
        "d": pa.array([float("nan")] * 2),
    }
    statistics = written(columns, schema)
    assert statistics["minValues"] == {"b": 1, "c": Decimal("-0.0")}
    assert statistics["minValues"]["c"].is_signed()
    assert statistics["maxValues"] == {"c": 0}
    assert statistics["nullCount"] == dict.fromkeys("abcd", 0)


def test_floats_keep_all_digits_of_their_value() -> None:
    """ST-003: a float's bound stays right when the column is widened to double and the text is read so."""
    value = pa.scalar(0.1, pa.float32())
    statistics = written(
        {"f": pa.array([value.as_py()], pa.float32())}, StructType((StructField("f", FLOAT),))
    )
    assert float(statistics["maxValues"]["f"]) == value.as_py()


def test_nested_fields_are_nested_and_null_parents_count() -> None:
    """ST-002, ST-004: leaves of structs by path; arrays and maps have null counts only."""
    inner = StructType(
        (StructField("b", LONG), StructField("l", ArrayType(LONG)), StructField("m", MapType(STRING, LONG)))
    )
    schema = StructType(
        (StructField("a", inner), StructField("z", ArrayType(StructType((StructField("q", LONG),)))))
    )
    columns = {
        "a": pa.array(
            [{"b": 1, "l": [1, None], "m": [("k", None)]}, None, {"b": None, "l": None, "m": None}],
            arrow_type(inner),
        ),
        "z": pa.array([None, [], [{"q": None}]], arrow_type(schema.field("z").data_type)),
    }
    statistics = written(columns, schema)
    assert statistics["minValues"] == statistics["maxValues"] == {"a": {"b": 1}}
    assert statistics["nullCount"] == {"a": {"b": 2, "l": 2, "m": 2}, "z": 1}


def test_strings_that_are_too_long_for_the_footer_have_no_bounds() -> None:
    """ST-001: what the footer does not tell is left out, never guessed."""
    statistics = written({"c": pa.array(["x" * 100_000])}, StructType((StructField("c", STRING),)))
    assert statistics["minValues"] == statistics["maxValues"] == {}
    assert statistics["nullCount"] == {"c": 0}


def paths(properties: dict[str, str], schema: StructType, partitioning: tuple[str, ...] = ()) -> list[str]:
    found = indexed_columns(
        schema, partitioning, ColumnMappingMode.NONE, TableProperties.from_configuration(properties)
    )
    return [".".join(column.path) for column in found]


def test_the_first_32_leaves_are_indexed_unless_properties_say_otherwise() -> None:
    """ST-002: dataSkippingNumIndexedCols counts leaves, -1 is all; dataSkippingStatsColumns names columns."""
    struct = StructType(tuple(StructField(f"f{at}", LONG) for at in range(20)))
    schema = StructType(
        (
            StructField("p", STRING),
            StructField("s", struct),
            *(StructField(f"c{at}", LONG) for at in range(20)),
        )
    )
    default = paths({}, schema, ("p",))
    assert default == [*(f"s.f{at}" for at in range(20)), *(f"c{at}" for at in range(12))]
    assert len(paths({"delta.dataSkippingNumIndexedCols": "-1"}, schema, ("p",))) == 40
    assert paths({"delta.dataSkippingNumIndexedCols": "0"}, schema) == []
    named = {"delta.dataSkippingStatsColumns": "C19, s.f3", "delta.dataSkippingNumIndexedCols": "5"}
    assert paths(named, schema) == ["s.f3", "c19"]
    assert len(paths({"delta.dataSkippingStatsColumns": "s"}, schema)) == 20


def test_clustering_columns_always_have_statistics() -> None:
    """Columns that cluster a table are indexed beyond the first 32 (beyond.md B11)."""
    schema = StructType(tuple(StructField(f"c{at}", LONG) for at in range(40)))
    required = clustering_columns('{"clusteringColumns":[["c38"]]}')
    found = indexed_columns(
        schema, (), ColumnMappingMode.NONE, TableProperties.from_configuration({}), required
    )
    assert [column.path for column in found][-1] == ("c38",)
    assert clustering_columns(None) == clustering_columns("{not json") == frozenset()


def test_statistics_are_keyed_by_physical_names() -> None:
    """ST-002 with column mapping: nested physical names, as data files have them."""
    inner = StructType((StructField("b", LONG),))
    mapped = assign_column_mapping(StructType((StructField("a", inner),))).schema
    names = [mapped.fields[0].metadata["delta.columnMapping.physicalName"]]
    struct = mapped.fields[0].data_type
    assert isinstance(struct, StructType)
    names.append(struct.fields[0].metadata["delta.columnMapping.physicalName"])
    column = pa.array([{"b": 7}], arrow_type(struct))
    statistics = written({"a": column}, mapped, mode=ColumnMappingMode.NAME)
    assert statistics["minValues"] == {names[0]: {names[1]: 7}}
