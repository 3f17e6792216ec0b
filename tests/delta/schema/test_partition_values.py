from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.errors import InvalidPartitionValueError
from distributary.delta.schema.arrow_schema import arrow_type
from distributary.delta.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    PRIMITIVES,
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
    UnknownType,
)
from distributary.delta.schema.partition_values import (
    civil_from_days,
    days_from_civil,
    format_partition_value,
    format_partition_values,
    parse_partition_column,
    parse_partition_value,
)

EVERY_TYPE = [*PRIMITIVES.values(), DecimalType(12, 2)]


@pytest.mark.parametrize("data_type", EVERY_TYPE, ids=str)
def test_empty_text_and_null_are_null_for_every_type(data_type: DataType) -> None:
    """PV-001, PV-009, C-29: the empty string means null, strings included; JSON null too."""
    assert parse_partition_value("", data_type) is None
    assert parse_partition_value(None, data_type) is None
    column = parse_partition_column(pa.array(["", None], pa.string()), data_type)
    assert column.type == arrow_type(data_type)
    assert column.to_pylist() == [None, None]


@pytest.mark.parametrize("text", ["null", "__HIVE_DEFAULT_PARTITION__", " ", "a b", "ü😈", "true", "1"])
def test_string_is_taken_as_it_is(text: str) -> None:
    """PV-002, PV-009: no translation; the text `null` is an ordinary string."""
    assert parse_partition_value(text, STRING) == text
    assert parse_partition_column(pa.array([text]), STRING).to_pylist() == [text]
    assert format_partition_value(text, STRING) == text


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (BYTE, "-128", -128),
        (SHORT, "32767", 32767),
        (INTEGER, "-2147483648", -(2**31)),
        (LONG, "9223372036854775807", 2**63 - 1),
        (FLOAT, "3.1415927", struct.unpack("f", struct.pack("f", 3.1415927))[0]),
        (DOUBLE, "3.403E38", 3.403e38),
        (DOUBLE, "1.0E-5", 1e-5),
        (DOUBLE, "Infinity", float("inf")),
        (DOUBLE, "-Infinity", float("-inf")),
        (DecimalType(12, 5), "-2342342.23423", Decimal("-2342342.23423")),
        (
            DecimalType(38, 18),
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        (DecimalType(38, 10), "1E-7", Decimal("1E-7")),
    ],
)
def test_number_is_read_from_its_decimal_text(data_type: DataType, text: str, value: Any) -> None:
    """PV-003, C-12: numeric types, decimals exactly."""
    assert parse_partition_value(text, data_type) == value
    assert parse_partition_column(pa.array([text, None]), data_type).to_pylist() == [value, None]


def test_not_a_number_is_read_and_written() -> None:
    """PV-003: NaN in a float or double column."""
    for data_type in (FLOAT, DOUBLE):
        value = parse_partition_value("NaN", data_type)
        assert value != value
        assert format_partition_value(value, data_type) == "NaN"


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        *(
            (data_type, text)
            for data_type in (BYTE, SHORT, INTEGER, LONG)
            for text in ("x", "1.0", "0x10", "1_0", " 1")
        ),
        *((BYTE, text) for text in ("128", "-129")),
        *((SHORT, text) for text in ("32768", "-32769")),
        *((INTEGER, text) for text in ("2147483648", "-2147483649")),
        *((LONG, text) for text in ("9223372036854775808", "-9223372036854775809")),
        *((DOUBLE, text) for text in ("1_0", "one", "1e400", "0x1p3", "nan(1)")),
        (FLOAT, "1e39"),
        *((DecimalType(3, 1), text) for text in ("1.23", "100", "NaN", "1E9999", "Infinity")),
        *((BOOLEAN, text) for text in ("1", "yes", "t")),
        *(
            (DATE, text)
            for text in ("2023-02-29", "2023-13-01", "1/2/2023", "2023-01-01 00:00:00", "9999999-01-01")
        ),
        *(
            (TIMESTAMP, text)
            for text in ("2023-02-29 00:00:00", "2023-01-01 24:00:00", "now", "2023-01-01 00:00:60")
        ),
        (TIMESTAMP, "2023-01-01 00:00:00 Europe/Paris"),
        (TIMESTAMP, "2023-01-01T00:00:00+19:00"),
        (TIMESTAMP, "300000-01-01 00:00:00"),
        (TIMESTAMP_NTZ, "2023-01-01T00:00:00+02:00"),
        (VARIANT, "1"),
        (ArrayType(LONG), "1"),
        (UnknownType("geometry"), "1"),
    ],
    ids=str,
)
def test_text_that_does_not_fit_names_column_type_and_value(data_type: DataType, text: str) -> None:
    """SC-010, PV-003, PV-004, PV-005, PV-006: a misfit is an error, never null and never rounded."""
    with pytest.raises(InvalidPartitionValueError) as caught:
        parse_partition_value(text, data_type, column="c1")
    for part in ("c1", str(data_type), text):
        assert part in str(caught.value)


def test_misfit_in_a_column_of_many_is_an_error() -> None:
    with pytest.raises(InvalidPartitionValueError, match=r"'x' of column c1 is no long"):
        parse_partition_column(pa.array(["1", "x", "2"]), LONG, column="c1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01", date(1970, 1, 1)),
        ("0001-01-01", date(1, 1, 1)),
        ("1582-10-10", date(1582, 10, 10)),
        ("9999-12-31", date(9999, 12, 31)),
        ("2024-2-9", date(2024, 2, 9)),
    ],
)
def test_date_is_read_in_the_proleptic_gregorian_calendar(text: str, value: date) -> None:
    """PV-004: `yyyy-MM-dd`, before 1582 too."""
    assert parse_partition_value(text, DATE) == value
    assert parse_partition_column(pa.array([text]), DATE).to_pylist() == [value]
    assert format_partition_value(value, DATE) == value.isoformat()


@pytest.mark.parametrize("text", ["-0044-03-15", "0000-02-29", "+12024-02-29", "-4712-01-01"])
def test_date_that_python_lacks_works_in_arrow(text: str) -> None:
    """PV-004: years before 0001 and after 9999."""
    column = parse_partition_column(pa.array([text]), DATE)
    assert format_partition_value(column[0], DATE) == text
    stamps = parse_partition_column(pa.array([f"{text} 01:02:03.5"]), TIMESTAMP)
    assert format_partition_value(stamps[0], TIMESTAMP) == f"{text} 01:02:03.5"
    with pytest.raises(InvalidPartitionValueError, match="Arrow"):
        parse_partition_value(text, DATE)


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01 12:00:00", NOON),
        ("2024-01-01 12:00:00.5", NOON + timedelta(microseconds=500_000)),
        ("2024-01-01 12:00:00.123456", NOON + timedelta(microseconds=123_456)),
        ("2024-01-01 12:00:00.123456789", NOON + timedelta(microseconds=123_456)),
        ("2024-01-01T12:00:00Z", NOON),
        ("2024-01-01T12:00:00.000000Z", NOON),
        ("2024-01-01T14:00:00+02:00", NOON),
        ("2024-01-01 06:30:00-0530", NOON),
        ("2024-01-01T12:00:00", NOON),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("1900-01-01 00:00:00", datetime(1900, 1, 1, tzinfo=UTC)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_timestamp_is_read_in_every_form_as_a_utc_instant(text: str, value: datetime) -> None:
    """PV-005, PV-009, PV-010, C-26, C-28: seconds, fractions, ISO 8601; without zone it is UTC."""
    assert parse_partition_value(text, TIMESTAMP) == value
    column = parse_partition_column(pa.array([text]), TIMESTAMP)
    assert column.type == pa.timestamp("us", "UTC")
    assert column.to_pylist() == [value]


def test_timestamp_without_zone_follows_the_zone_that_is_asked_for() -> None:
    """PV-010: UTC by default, another zone by configuration; a written offset wins."""
    paris = ZoneInfo("Europe/Paris")
    assert parse_partition_value("2024-07-01 14:00:00", TIMESTAMP, zone=paris) == datetime(
        2024, 7, 1, 12, tzinfo=UTC
    )
    assert parse_partition_value("2024-07-01T14:00:00Z", TIMESTAMP, zone=paris) == datetime(
        2024, 7, 1, 14, tzinfo=UTC
    )
    column = parse_partition_column(pa.array(["2024-01-01 13:00:00"]), TIMESTAMP, zone=paris)
    assert column.to_pylist() == [NOON]


def test_timestamp_ntz_has_no_zone() -> None:
    """PV-005: the same text without a zone, for `timestamp_ntz`."""
    value = datetime(2021, 11, 18, 2, 30, 0, 123_456)
    assert parse_partition_value("2021-11-18 02:30:00.123456", TIMESTAMP_NTZ) == value
    assert format_partition_value(value, TIMESTAMP_NTZ) == "2021-11-18 02:30:00.123456"


def test_timestamp_is_written_in_the_protocols_form() -> None:
    """PV-005: `yyyy-MM-dd HH:mm:ss` in UTC, with a fraction only when there is one."""
    assert format_partition_value(NOON, TIMESTAMP) == "2024-01-01 12:00:00"
    there = datetime(2024, 1, 1, 14, 0, 0, 1000, timezone(timedelta(hours=2)))
    assert format_partition_value(there, TIMESTAMP) == "2024-01-01 12:00:00.001"
    assert (
        format_partition_value(pa.scalar(NOON, pa.timestamp("ns", "UTC")), TIMESTAMP) == "2024-01-01 12:00:00"
    )


def test_boolean_is_true_or_false() -> None:
    """PV-006: `true` and `false`, whatever their case when read."""
    assert parse_partition_column(pa.array(["true", "false", "TRUE"]), BOOLEAN).to_pylist() == [
        True,
        False,
        True,
    ]
    assert [format_partition_value(value, BOOLEAN) for value in (True, False)] == ["true", "false"]


def test_binary_is_one_character_per_byte() -> None:
    """PV-007, C-27: U+0000 to U+00FF, every byte; other characters are read as UTF-8."""
    assert parse_partition_value("\u0001\u0002\u0003", BINARY) == b"\x01\x02\x03"
    every = bytes(range(256))
    text = format_partition_value(every, BINARY)
    assert text == "".join(map(chr, range(256)))
    assert parse_partition_value(text, BINARY) == every
    assert parse_partition_value("😈", BINARY) == "😈".encode()


def test_unpartitioned_file_has_no_partition_values() -> None:
    """PV-008: no partition columns → `{}`."""
    assert msgspec.json.encode(format_partition_values({}, StructType())) == b"{}"


def test_null_is_written_as_json_null() -> None:
    """PV-009, C-29: the log writer writes JSON null, also for the empty string."""
    columns = StructType((StructField("a", STRING), StructField("b", LONG), StructField("c", STRING)))
    written = format_partition_values({"a": None, "b": 7, "c": ""}, columns)
    assert msgspec.json.encode(written) == b'{"a":null,"b":"7","c":null}'


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (LONG, "1", 1),
        (DOUBLE, "1", 1.0),
        (DecimalType(12, 2), "1", Decimal("1.00")),
        (DecimalType(20, 5), "0.25", Decimal("0.25000")),
        (TIMESTAMP_NTZ, "2024-06-19", datetime(2024, 6, 19)),
    ],
)
def test_text_of_the_narrower_type_is_read_in_a_widened_column(
    data_type: DataType, text: str, value: Any
) -> None:
    """PV-003, PV-005: partition values of older files hold the old type's text."""
    assert parse_partition_value(text, data_type) == value


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (128, BYTE),
        (-32769, SHORT),
        (2**31, INTEGER),
        (2**63, LONG),
        (True, LONG),
        (1.5, LONG),
        ("1", LONG),
        (1e39, FLOAT),
        (Decimal("1.005"), DecimalType(5, 2)),
        (Decimal("NaN"), DecimalType(5, 2)),
        (1, STRING),
        (1, BOOLEAN),
        ("2024-01-01", DATE),
        (datetime(2024, 1, 1), DATE),
        ("2024-01-01", TIMESTAMP),
        (NOON, TIMESTAMP_NTZ),
        ([1], ArrayType(LONG)),
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_not_written(value: Any, data_type: DataType) -> None:
    """SC-010: out of range or of another type is an error on write."""
    with pytest.raises(InvalidPartitionValueError, match="c1"):
        format_partition_value(value, data_type, column="c1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.01234, "0.01234"),
        (9.9e-4, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1234.5, "-1234.5"),
        (-0.0, "-0.0"),
        (5e-324, "5.0E-324"),
        (float("inf"), "Infinity"),
    ],
)
def test_double_is_written_as_java_does(value: float, text: str) -> None:
    """PV-003: the string representation of the number."""
    assert format_partition_value(value, DOUBLE) == text


def test_column_may_be_chunked_or_dictionary_encoded() -> None:
    texts = pa.chunked_array([["1", "2"], ["1", None, ""]])
    for values in (texts, texts.cast(pa.large_string()), texts.dictionary_encode()):
        assert parse_partition_column(values, INTEGER).to_pylist() == [1, 2, 1, None, None]
        assert parse_partition_column(values, STRING).to_pylist() == ["1", "2", "1", None, None]


def _values(data_type: DataType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[DataType, Any]]:
    return values.map(lambda value: (data_type, value))


VALUES = st.one_of(
    _values(STRING, st.text(st.characters(codec="utf-8"), min_size=1)),
    _values(BINARY, st.binary(min_size=1)),
    _values(BOOLEAN, st.booleans()),
    _values(BYTE, st.integers(-(2**7), 2**7 - 1)),
    _values(SHORT, st.integers(-(2**15), 2**15 - 1)),
    _values(INTEGER, st.integers(-(2**31), 2**31 - 1)),
    _values(LONG, st.integers(-(2**63), 2**63 - 1)),
    _values(FLOAT, st.floats(width=32, allow_nan=False)),
    _values(DOUBLE, st.floats(allow_nan=False)),
    _values(DecimalType(20, 6), st.decimals(-(10**14) + 1, 10**14 - 1, places=6)),
    _values(DATE, st.dates()),
    _values(TIMESTAMP, st.datetimes(timezones=st.just(UTC))),
    _values(TIMESTAMP_NTZ, st.datetimes()),
)


@given(VALUES)
def test_any_value_round_trips(typed: tuple[DataType, Any]) -> None:
    """PV-001 to PV-007: value → text → value is the identity, in Python and in Arrow."""
    data_type, value = typed
    text = format_partition_value(value, data_type)
    assert parse_partition_value(text, data_type) == value
    column = parse_partition_column(pa.array([text, None, text]), data_type)
    assert column.to_pylist() == [value, None, value]
    assert format_partition_value(column[0], data_type) == text


@given(st.integers(-(2**31), 2**31 - 1))
def test_days_and_calendar_dates_are_inverse(days: int) -> None:
    """PV-004: over the whole range of Arrow's date32."""
    assert days_from_civil(*civil_from_days(days)) == days


@given(st.dates())
def test_calendar_agrees_with_pythons(day: date) -> None:
    assert days_from_civil(day.year, day.month, day.day) == (day - date(1970, 1, 1)).days
