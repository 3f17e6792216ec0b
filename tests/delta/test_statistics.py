"""Statistics as bounds: safe for every value of every type, and never an error for what a log may hold."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.schema.column_mapping import ColumnMappingMode
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
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
    parse_schema,
)
from distributary.delta.statistics import FileStatistics, StatisticsSegment, parse_file_statistics

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
NONE = ColumnMappingMode.NONE


def schema_of(data_type: DataType, metadata: dict[str, Any] | None = None) -> StructType:
    return StructType((StructField("x", data_type, True, metadata or {}),))


def statistics(texts: list[str | None], schema: StructType) -> FileStatistics:
    return FileStatistics.from_json(pa.array(texts, pa.string()), schema)


def recorded(
    data_type: DataType, low: object, high: object, metadata: dict[str, Any] | None = None
) -> tuple[Any, Any, bool]:
    """Minimum, maximum and exactness after a trip through JSON."""
    text = json.dumps({"numRecords": 1, "minValues": {"x": low}, "maxValues": {"x": high}})
    bounds = statistics([text], schema_of(data_type, metadata)).bounds(("x",))
    assert bounds is not None
    assert bounds.minimum is not None
    assert bounds.maximum is not None
    return bounds.minimum[0].as_py(), bounds.maximum[0].as_py(), bounds.exact[0].as_py()  # type: ignore[index]


def parsed(data_type: DataType, low: pa.Array, high: pa.Array, metadata: dict[str, Any] | None = None):
    columns = {
        ("numRecords",): pa.chunked_array([pa.array([9] * len(low), pa.int64())]),
        ("minValues", "x"): pa.chunked_array([low]),
        ("maxValues", "x"): pa.chunked_array([high]),
    }
    segment = StatisticsSegment(len(low), None, columns)
    bounds = FileStatistics([segment], schema_of(data_type, metadata), NONE).bounds(("x",))
    assert bounds is not None
    return bounds.minimum.to_pylist(), bounds.maximum.to_pylist()  # type: ignore[union-attr]


def iso(time: dt.datetime, zone: str) -> str:
    return time.isoformat(timespec="milliseconds") + zone


class TestShapes:
    def test_the_documented_shapes_are_read(self):
        """ST-002, ST-004: a JSON object in a string, nested structs as nested objects."""
        flat = '{"numRecords":1,"maxValues":{"a":123},"minValues":{"a":123},"nullCount":{"a":0}}'
        bounds = statistics([flat], StructType((StructField("a", INTEGER),))).bounds(("a",))
        assert bounds is not None
        assert bounds.minimum == bounds.maximum == pa.array([123], pa.int32())
        assert bounds.null_count == pa.array([0], pa.int64())
        low, high, nulls = (f'{{"a":{{"b":{{"c":{number}}}}}}}' for number in (123, 124, 1))
        nested = f'{{"minValues":{low},"maxValues":{high},"nullCount":{nulls}}}'
        inner = StructType((StructField("b", StructType((StructField("c", INTEGER),))),))
        deep = statistics([nested], StructType((StructField("a", inner),)))
        bounds = deep.bounds(("a", "b", "c"))
        assert bounds is not None
        assert (bounds.minimum, bounds.maximum) == (pa.array([123], pa.int32()), pa.array([124], pa.int32()))
        assert bounds.null_count == pa.array([1], pa.int64())
        assert deep.num_records == pa.array([None], pa.int64())

    def test_files_without_statistics_are_unknown(self):
        """ST-001, ST-007: nothing recorded means nulls, which never prune."""
        texts = [
            None,
            "",
            "{}",
            '{"numRecords":3}',
            '{"numRecords":4,"minValues":{},"maxValues":{},"nullCount":{}}',
        ]
        found = statistics(texts, schema_of(LONG))
        bounds = found.bounds(("x",))
        assert bounds is not None
        assert found.num_files == 5
        assert found.num_records.to_pylist() == [None, None, None, 3, 4]
        for column in (bounds.minimum, bounds.maximum, bounds.null_count):
            assert column is not None
            assert column.null_count == 5

    def test_no_files_give_empty_columns(self):
        found = FileStatistics([], schema_of(TIMESTAMP), NONE)
        assert len(found.num_records) == 0
        assert found.bounds(("x",)).minimum.type == pa.timestamp("us", "UTC")  # type: ignore[union-attr]
        assert len(statistics([], schema_of(STRING)).bounds(("x",)).maximum) == 0  # type: ignore[union-attr, arg-type]

    def test_columns_that_statistics_cannot_have_give_none(self):
        """ST-007: an unknown column is no bound and no error."""
        schema = StructType((StructField("s", StructType((StructField("y", LONG),))), StructField("z", LONG)))
        found = statistics(["{}"], schema)
        for path in [("absent",), ("s", "absent"), ("s",), ("z", "y"), ()]:
            assert found.bounds(path) is None

    @pytest.mark.parametrize("data_type", [BINARY, VARIANT, ArrayType(LONG)])
    def test_types_without_order_have_only_null_counts(self, data_type: DataType):
        text = '{"numRecords":5,"minValues":{"x":"0rAfa"},"maxValues":{"x":"0rAfa"},"nullCount":{"x":2}}'
        bounds = statistics([text], schema_of(data_type)).bounds(("x",))
        assert bounds is not None
        assert bounds.minimum is bounds.maximum is None
        assert bounds.null_count == pa.array([2], pa.int64())

    def test_names_inside_statistics_are_physical(self):
        mapping = '{"delta.columnMapping.id":%d,"delta.columnMapping.physicalName":"%s"}'
        inner = '{"name":"b","type":"long","nullable":true,"metadata":' + mapping % (2, "col-2") + "}"
        outer = '{"type":"struct","fields":[' + inner + "]}"
        field = (
            '{"name":"a","type":' + outer + ',"nullable":true,"metadata":' + mapping % (1, "col é.1") + "}"
        )
        schema = parse_schema('{"type":"struct","fields":[' + field + "]}")
        values = {"col é.1": {"col-2": 7}}
        text = json.dumps({"minValues": values, "maxValues": values, "nullCount": values})
        found = FileStatistics.from_json(pa.array([text]), schema, ColumnMappingMode.NAME)
        assert found.bounds(("a", "b")).minimum == pa.array([7])  # type: ignore[union-attr]
        assert found.bounds(("A", "B")).null_count == pa.array([7])  # type: ignore[union-attr]

    def test_column_whose_name_cannot_be_looked_for_is_unknown(self):
        text = json.dumps({"numRecords": 1, "minValues": {'a"b': 1}})
        found = statistics([text], StructType((StructField('a"b', LONG),)))
        assert found.bounds(('a"b',)).minimum == pa.array([None], pa.int64())  # type: ignore[union-attr]
        assert found.num_records.to_pylist() == [1]


class TestUnreadableTexts:
    """ST-009: statistics that cannot be parsed are absent, for that file alone, and never an error."""

    GOOD = '{"numRecords":2,"minValues":{"x":1},"maxValues":{"x":5},"nullCount":{"x":0}}'
    BAD = (
        "nonsense",
        "{",
        "{}}",
        "null",
        "[]",
        "7",
        '"{}"',
        " ",
        "{}{}",
        "{},{}",
        '{"minValues":[1]}',
        '{"minValues":{"x":NaN}}',
        '{"numRecords":"many"}',
        '{"minValues":7,"maxValues":{"x":5}}',
        '{"minValues":{"x":{"y":1}}}',
        '{"minValues":{"x":[1]}}',
        '{"minValues":{"x":1e999}}',
        '{"numRecords":-1,"nullCount":{"x":-1}}',
        '{"a":' * 3000,
        '{"\ud83d":1}'.encode("utf-8", "replace").decode(),
    )

    @pytest.mark.parametrize("bad", BAD)
    def test_bad_text_is_absent_and_its_neighbours_are_not(self, bad: str):
        found = statistics([self.GOOD, bad, self.GOOD, None], schema_of(LONG))
        bounds = found.bounds(("x",))
        assert bounds is not None
        assert found.num_records.to_pylist() == [2, None, 2, None]
        assert bounds.minimum == pa.array([1, None, 1, None])
        assert bounds.null_count == pa.array([0, None, 0, None])

    def test_texts_that_would_shift_each_other_are_told_apart(self):
        texts = [self.GOOD, "{}{}", "", self.GOOD, '{"minValues":{"x":1}', '{"minValues":{"x":2}}']
        bounds = statistics(texts, schema_of(LONG)).bounds(("x",))
        assert bounds.minimum == pa.array([1, None, None, 1, None, 2])  # type: ignore[union-attr]

    def test_null_objects_are_empty_ones(self):
        text = '{"numRecords":2,"minValues":null,"maxValues":{"x":5},"nullCount":null}'
        bounds = statistics([text], schema_of(LONG)).bounds(("x",))
        assert bounds is not None
        assert (bounds.minimum, bounds.maximum) == (pa.array([None], pa.int64()), pa.array([5]))

    def test_text_over_several_lines_is_read(self):
        text = json.dumps(json.loads(self.GOOD), indent=2)
        assert statistics([text, self.GOOD], schema_of(LONG)).num_records.to_pylist() == [2, 2]

    @given(st.lists(st.one_of(st.none(), st.text(max_size=20), st.sampled_from([GOOD, *BAD])), max_size=6))
    def test_any_texts_give_one_entry_a_file(self, texts: list[str | None]):
        found = statistics(texts, schema_of(LONG))
        expected = [1 if text == self.GOOD else None for text in texts]
        assert found.bounds(("x",)).minimum.to_pylist() == expected  # type: ignore[union-attr]

    @given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=40),
                        lambda inner: st.lists(inner, max_size=2), max_leaves=3))  # fmt: skip
    def test_any_json_value_as_a_bound_is_read_or_unknown(self, value: object):
        text = json.dumps({"minValues": {"x": value}, "maxValues": {"x": value}, "nullCount": {"x": value}})
        for data_type in (
            LONG,
            BYTE,
            FLOAT,
            DOUBLE,
            DecimalType(10, 2),
            STRING,
            DATE,
            TIMESTAMP,
            TIMESTAMP_NTZ,
            BOOLEAN,
        ):
            bounds = statistics([text], schema_of(data_type)).bounds(("x",))
            assert bounds is not None
            assert len(bounds.minimum) == len(bounds.maximum) == len(bounds.null_count) == 1  # type: ignore[arg-type]

    def test_parse_of_one_text(self):
        assert parse_file_statistics(self.GOOD) == json.loads(self.GOOD)
        assert [parse_file_statistics(text) for text in (None, "", "[]", "{", "null")] == [None] * 5


class TestSafetyOfBounds:
    """C-14, ST-003: minimum <= every value <= maximum, for values that passed through a writer's JSON."""

    @given(st.sampled_from([(BYTE, 8), (SHORT, 16), (INTEGER, 32), (LONG, 64)]), st.data())
    def test_integers_stay_as_they_are(self, kind: tuple[DataType, int], data: st.DataObject):
        data_type, bits = kind
        low, high = sorted(data.draw(st.tuples(*[st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)] * 2)))
        assert recorded(data_type, low, high) == (low, high, True)

    def test_integers_beyond_the_type_are_unknown(self):
        assert recorded(BYTE, -129, 128) == (None, None, False) or recorded(BYTE, -129, 128)[:2] == (
            None,
            None,
        )
        assert recorded(LONG, -(2**63) - 1, 2**63)[:2] == (None, None)
        assert recorded(LONG, 1.5, "7")[:2] == (None, None)

    @given(st.floats(allow_nan=False), st.floats(allow_nan=False))
    def test_doubles_stay_as_they_are(self, first: float, second: float):
        low, high = sorted((first, second))
        written = [str(v).replace("inf", "Infinity") if math.isinf(v) else v for v in (low, high)]
        assert recorded(DOUBLE, *written) == (low, high, True)

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
    def test_floats_are_found_again_from_short_or_long_text(self, value: float, short: bool):
        text = float(f"{value:.9g}") if short else value
        assert recorded(FLOAT, text, text) == (value, value, True)

    def test_nan_is_no_bound(self):
        assert recorded(DOUBLE, "NaN", "NaN")[:2] == (None, None)
        assert recorded(FLOAT, 1.0, "NaN")[:2] == (1.0, None)

    def test_signed_zeros_bound_each_other(self):
        """-0.0 and 0.0 are equal to pruning, whichever of them was recorded."""
        low, high, _ = recorded(DOUBLE, 0.0, -0.0)
        assert low <= -0.0
        assert high >= 0.0

    @given(st.integers(1, 38), st.data())
    def test_decimals_are_bounded_even_after_a_double(self, precision: int, data: st.DataObject):
        scale = data.draw(st.integers(0, precision))
        unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
        value = Decimal(f"{unscaled}E-{scale}")
        for number in (f"{value:f}", repr(float(value)), str(value)):
            text = f'{{"minValues":{{"x":{number}}},"maxValues":{{"x":{number}}}}}'
            bounds = statistics([text], schema_of(DecimalType(precision, scale))).bounds(("x",))
            assert bounds is not None
            low, high = bounds.minimum[0].as_py(), bounds.maximum[0].as_py()  # type: ignore[index]
            assert low is None or low <= value
            assert high is None or high >= value
            if abs(unscaled) < 10**15:
                assert low == high == value

    @given(st.text(max_size=60))
    def test_strings_are_bounded_by_prefix_and_raised_prefix(self, value: str):
        """ST-006: a cut minimum is a bound, a cut maximum only when it was raised."""
        if not value.isprintable():
            value = value.encode("utf-8", "ignore").decode()
        cut = value[:32]
        raised = cut + "\U0010ffff" if len(value) > 32 else value
        low, high, exact = recorded(STRING, cut, raised)
        assert low.encode() <= value.encode()
        assert high is None or high.encode() >= value.encode()
        assert (high is None) == (len(value) == 32)
        assert exact == (len(value) < 32)
        assert recorded(STRING, cut, cut)[1] == (value if len(value) < 32 else None)

    @pytest.mark.parametrize("tie_breaker", ["\x7f", "\ufffd", "\uffff", "\U0010ffff"])
    def test_tie_breakers_of_known_writers_are_upper_bounds(self, tie_breaker: str):
        assert recorded(STRING, "a" * 32, "a" * 32 + tie_breaker)[1] == "a" * 32 + tie_breaker
        assert recorded(STRING, "a" * 32, "a" * 32 + "\U0001f600")[1] is None

    @given(st.dates())
    def test_dates_stay_as_they_are(self, day: dt.date):
        assert recorded(DATE, day.isoformat(), day.isoformat()) == (day, day, True)

    @given(
        st.datetimes(max_value=dt.datetime(9999, 12, 30)),
        st.sampled_from(["Z", "+00:00", "-07:00", "+05:30"]),
    )
    def test_instants_cut_to_milliseconds_are_bounded(self, time: dt.datetime, zone: str):
        """ST-005, ST-006: ISO 8601 with milliseconds; the maximum reaches to the end of its millisecond."""
        offset = dt.datetime.fromisoformat(f"2000-01-01T00:00:00{zone.replace('Z', '+00:00')}").utcoffset()
        assert offset is not None
        try:
            instant = (time - offset).replace(tzinfo=dt.UTC)
        except OverflowError:
            return
        low, high, exact = recorded(TIMESTAMP, iso(time, zone), iso(time, zone))
        assert low <= instant <= high
        assert high - low == 999 * MICROSECOND
        assert not exact

    def test_the_documented_timestamp_is_read(self):
        """ST-005."""
        low, _, _ = recorded(TIMESTAMP, "2021-04-28T23:33:57.955Z", "2021-04-28T23:33:57.955Z")
        assert low == dt.datetime(2021, 4, 28, 23, 33, 57, 955000, dt.UTC)

    @given(st.datetimes(max_value=dt.datetime(9999, 12, 30)))
    def test_wall_clock_times_are_bounded(self, time: dt.datetime):
        for zone in ("", "Z"):
            low, high, _ = recorded(TIMESTAMP_NTZ, iso(time, zone), iso(time, zone))
            assert low <= time <= high

    @pytest.mark.parametrize(
        "text", ["2021-04-28T23:33:57", "2021-04-28", "yesterday", "+12021-01-01T00:00:00Z", ""]
    )
    def test_instants_without_zone_or_sense_are_unknown(self, text: str):
        assert recorded(TIMESTAMP, text, text)[:2] == (None, None)

    def test_wall_clock_times_with_an_offset_are_unknown(self):
        assert recorded(TIMESTAMP_NTZ, "2021-04-28T23:33:57+02:00", "2021-04-28T23:33:57.1234567")[0] is None

    def test_booleans_are_read(self):
        assert recorded(BOOLEAN, False, True) == (False, True, True)
        assert recorded(BOOLEAN, "false", 1)[:2] == (None, None)

    def test_one_bad_bound_leaves_the_other_files_theirs(self):
        texts = [
            f'{{"minValues":{{"x":{value}}}}}' for value in ('"2020-01-01"', '"x"', "null", '"2020-01-02"')
        ]
        bounds = statistics(texts, schema_of(DATE)).bounds(("x",))
        days = [dt.date(2020, 1, 1), None, None, dt.date(2020, 1, 2)]
        assert bounds.minimum.to_pylist() == days  # type: ignore[union-attr]


class TestWidenedTypes:
    """Statistics of old files hold the old type's text."""

    def test_integers_in_wider_columns(self):
        assert recorded(LONG, 1, 2)[:2] == (1, 2)
        assert recorded(DOUBLE, 1, 2)[:2] == (1.0, 2.0)
        assert recorded(DecimalType(12, 2), 1, 2)[:2] == (Decimal("1.00"), Decimal("2.00"))

    def test_dates_in_a_timestamp_column(self):
        low, high, _ = recorded(TIMESTAMP_NTZ, "2024-09-09", "2024-09-09")
        assert low == dt.datetime(2024, 9, 9)
        assert low <= high

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False))
    def test_floats_in_a_double_column_are_bounded(self, value: float):
        """The text 0.1 stands for a float that is a little more than 0.1 when read as double."""
        changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
        low, high, _ = recorded(DOUBLE, float(f"{value:.9g}"), float(f"{value:.9g}"), changes)
        assert low <= value <= high


class TestNullCounts:
    def test_both_spellings_are_read(self):
        """C-15: nullCount, or nullCounts as the checkpoint appendix has it, also nested."""
        schema = StructType((StructField("s", StructType((StructField("y", LONG),))),))
        texts = ['{"nullCount":{"s":{"y":3}}}', '{"nullCounts":{"s":{"y":4}}}', '{"numRecords":1}']
        assert statistics(texts, schema).bounds(("s", "y")).null_count == pa.array([3, 4, None])  # type: ignore[union-attr]
        columns = {("nullCounts", "s", "y"): pa.chunked_array([[5]])}
        segment = StatisticsSegment(1, None, columns)
        assert FileStatistics([segment], schema, NONE).bounds(("s", "y")).null_count == pa.array([5])  # type: ignore[union-attr]

    def test_wide_bounds_leave_only_none_and_all(self):
        texts = [
            f'{{"numRecords":{records},"nullCount":{{"x":{nulls}}},"tightBounds":{tight}}}'
            for records, nulls, tight in [(9, 0, "false"), (9, 9, "false"), (9, 4, "false"), (9, 4, "true")]
        ] + ['{"nullCount":{"x":4},"tightBounds":false}', '{"nullCount":{"x":0},"tightBounds":false}']
        bounds = statistics(texts, schema_of(LONG)).bounds(("x",))
        assert bounds is not None
        assert bounds.null_count.to_pylist() == [0, 9, None, 4, None, 0]  # type: ignore[union-attr]

    def test_wide_bounds_are_not_exact(self):
        text = '{"minValues":{"x":1},"maxValues":{"x":2},"tightBounds":%s}'
        texts = [text % flag for flag in ("true", "false", "null")]
        exact = statistics(texts, schema_of(LONG)).bounds(("x",)).exact  # type: ignore[union-attr]
        assert exact.to_pylist() == [True, False, True]  # type: ignore[union-attr]


class TestParsedStatistics:
    def test_typed_columns_of_older_types_are_widened(self):
        ints = pa.array([1, None], pa.int32())
        assert parsed(LONG, ints, ints) == ([1, None], [1, None])
        assert parsed(DOUBLE, ints, ints) == ([1.0, None], [1.0, None])
        assert parsed(DecimalType(12, 2), ints, ints)[0] == [Decimal("1.00"), None]
        small = pa.array([Decimal("1.25")], pa.decimal128(5, 2))
        assert parsed(DecimalType(20, 5), small, small) == ([Decimal("1.25000")], [Decimal("1.25000")])
        floats = pa.array([0.1], pa.float32())
        assert parsed(DOUBLE, floats, floats)[0] == [floats[0].as_py()]
        days = pa.array([dt.date(2024, 1, 2)])
        assert parsed(TIMESTAMP_NTZ, days, days)[0] == [dt.datetime(2024, 1, 2)]

    def test_typed_columns_of_the_same_type_are_kept(self):
        text = pa.array(["a", "b" * 40], pa.large_string())
        assert parsed(STRING, text, text) == (["a", "b" * 40], ["a", None])
        encoded = pa.array(["a", None]).dictionary_encode()
        assert parsed(STRING, encoded, encoded)[0] == ["a", None]
        flags, days = pa.array([True]), pa.array([dt.date(2024, 1, 2)])
        assert parsed(BOOLEAN, flags, flags) == ([True], [True])
        assert parsed(DATE, days, days) == (days.to_pylist(), days.to_pylist())

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    @pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
    def test_timestamps_of_any_unit_are_bounds_in_microseconds(self, unit: str, zone: str | None):
        """ST-006: typed values come from the JSON, so their maximum is widened the same way."""
        column = pa.array([-1, 1_600_000_000], pa.int64()).cast(pa.timestamp(unit, zone))
        per_unit = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit]
        low, high = parsed(TIMESTAMP, column, column)
        for number, first, last in zip([-1, 1_600_000_000], low, high, strict=True):
            micros = number * per_unit // 1000
            assert (first.replace(tzinfo=None) - EPOCH) // MICROSECOND == micros
            assert (last.replace(tzinfo=None) - EPOCH) // MICROSECOND == micros + 999
        assert parsed(TIMESTAMP_NTZ, column, column)[0] == [time.replace(tzinfo=None) for time in low]

    def test_the_last_timestamp_does_not_overflow(self):
        column = pa.array([2**63 - 1]).cast(pa.timestamp("us"))
        segment = StatisticsSegment(1, None, {("maxValues", "x"): pa.chunked_array([column])})
        bounds = FileStatistics([segment], schema_of(TIMESTAMP), NONE).bounds(("x",))
        assert bounds.maximum.cast(pa.int64()) == pa.array([2**63 - 1])  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("data_type", "column"),
        [
            (LONG, pa.array(["1"])),
            (STRING, pa.array([1])),
            (INTEGER, pa.array([2**40])),
            (TIMESTAMP, pa.array([dt.date(2024, 1, 2)])),
            (DATE, pa.array([dt.datetime(2024, 1, 2)])),
            (TIMESTAMP, pa.array([2**62]).cast(pa.timestamp("s"))),
            (DecimalType(5, 2), pa.array([Decimal("12345.67")])),
            (BOOLEAN, pa.array([1])),
            (DOUBLE, pa.array([2**53 + 1])),
        ],
    )
    def test_typed_columns_that_do_not_fit_are_unknown(self, data_type: DataType, column: pa.Array):
        """ST-009."""
        assert parsed(data_type, column, column) == ([None], [None])

    def test_segments_are_joined_and_texts_fill_untyped_files(self):
        text = '{"numRecords":%d,"minValues":{"x":%d},"maxValues":{"x":%d},"nullCount":{"x":0}}'
        typed = {
            ("numRecords",): pa.chunked_array([pa.array([10, None, None])]),
            ("minValues", "x"): pa.chunked_array([pa.array([1, None, None])]),
            ("maxValues", "x"): pa.chunked_array([pa.array([2, None, None])]),
        }
        texts = pa.chunked_array([pa.array([text % (99, 98, 97), text % (20, 3, 4), None])])
        late = pa.chunked_array([pa.array([text % (30, 5, 6)])])
        segments = [StatisticsSegment(3, texts, typed), StatisticsSegment(1, late), StatisticsSegment(2)]
        found = FileStatistics(segments, schema_of(LONG), NONE)
        bounds = found.bounds(("x",))
        assert bounds is not None
        assert found.num_files == 6
        assert found.num_records.to_pylist() == [10, 20, None, 30, None, None]
        assert bounds.minimum.to_pylist() == [1, 3, None, 5, None, None]  # type: ignore[union-attr]
        assert bounds.maximum.to_pylist() == [2, 4, None, 6, None, None]  # type: ignore[union-attr]


def test_several_columns_are_prepared_in_one_pass():
    schema = StructType((StructField("a", LONG), StructField("b", STRING)))
    text = '{"numRecords":1,"minValues":{"a":1,"b":"p"},"maxValues":{"a":2,"b":"q"}}'
    found = statistics([text] * 3, schema)
    found.prepare([("a",), ("b",), ("absent",)])
    assert found.bounds(("b",)).maximum.to_pylist() == ["q"] * 3  # type: ignore[union-attr]
    assert found.bounds(("a",)).minimum.to_pylist() == [1] * 3  # type: ignore[union-attr]


def test_many_files_in_several_chunks_keep_their_order():
    texts = [f'{{"numRecords":{i},"minValues":{{"x":{i}}},"maxValues":{{"x":{i}}}}}' for i in range(70_000)]
    column = pa.chunked_array([texts[:10], texts[10:65_000], texts[65_000:]])
    assert FileStatistics.from_json(column, schema_of(LONG)).bounds(("x",)).minimum.to_pylist() == list(
        range(70_000)
    )  # type: ignore[union-attr]
