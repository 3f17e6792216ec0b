from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type, delta_schema, delta_type
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
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

ARROW_FORMS = [
    (STRING, pa.string()),
    (LONG, pa.int64()),
    (INTEGER, pa.int32()),
    (SHORT, pa.int16()),
    (BYTE, pa.int8()),
    (FLOAT, pa.float32()),
    (DOUBLE, pa.float64()),
    (BOOLEAN, pa.bool_()),
    (BINARY, pa.binary()),
    (DATE, pa.date32()),
    (TIMESTAMP, pa.timestamp("us", "UTC")),
    (TIMESTAMP_NTZ, pa.timestamp("us")),
    (VOID, pa.null()),
    (DecimalType(38, 10), pa.decimal128(38, 10)),
    (ArrayType(LONG, contains_null=False), pa.list_(pa.field("element", pa.int64(), nullable=False))),
    (MapType(STRING, LONG), pa.map_(pa.string(), pa.int64())),
    (
        StructType((StructField("a", DATE, nullable=False),)),
        pa.struct([pa.field("a", pa.date32(), nullable=False)]),
    ),
]


@pytest.mark.parametrize(("data_type", "form"), ARROW_FORMS, ids=lambda value: str(value))
def test_every_type_has_an_arrow_form_and_comes_back(data_type: DataType, form: pa.DataType) -> None:
    """SC-005, SC-006, SC-010, C-26: integer widths, microsecond UTC instants, decimals as Arrow types."""
    assert arrow_type(data_type) == form
    assert delta_type(form) == data_type


def test_integer_types_hold_exactly_their_ranges() -> None:
    """SC-010: out of range is an error, never a wrapped value."""
    for data_type, bits in ((BYTE, 8), (SHORT, 16), (INTEGER, 32), (LONG, 64)):
        limit = 1 << (bits - 1)
        assert pa.array([-limit, limit - 1], arrow_type(data_type)).to_pylist() == [-limit, limit - 1]
        for outside in (limit, -limit - 1):
            with pytest.raises((pa.ArrowInvalid, OverflowError)):
                pa.array([outside], arrow_type(data_type))


@pytest.mark.parametrize(
    ("form", "data_type"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int32(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.binary(16), BINARY),
        (pa.uuid(), BINARY),
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.float16(), FLOAT),
        (pa.date64(), DATE),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.timestamp("ns"), TIMESTAMP_NTZ),
        (pa.timestamp("ms", "Europe/Paris"), TIMESTAMP),
        (pa.timestamp("ns", "+02:00"), TIMESTAMP),
        (pa.decimal256(38, 2), DecimalType(38, 2)),
        (pa.decimal128(5, -3), DecimalType(8, 0)),
        (pa.large_list(pa.int8()), ArrayType(BYTE)),
        (pa.list_(pa.int8(), 3), ArrayType(BYTE)),
        (pa.list_view(pa.int8()), ArrayType(BYTE)),
        (pa.map_(pa.uint8(), pa.large_string()), MapType(SHORT, STRING)),
    ],
    ids=lambda value: str(value),
)
def test_foreign_arrow_type_becomes_one_that_loses_nothing(form: pa.DataType, data_type: DataType) -> None:
    assert delta_type(form) == data_type


@pytest.mark.parametrize(
    "form",
    [
        pa.time64("us"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.decimal128(38, -2),
    ],
    ids=str,
)
def test_arrow_type_without_counterpart_is_refused_with_path_and_remedy(form: pa.DataType) -> None:
    schema = pa.schema([pa.field("outer", pa.struct([pa.field("inner", pa.list_(form))]))])
    with pytest.raises(InvalidSchemaError, match=r"outer\.inner.*Cast it"):
        delta_schema(schema)


def test_arrow_schema_with_a_name_twice_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="'a'"):
        delta_schema(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


def test_comment_is_plain_text_on_the_arrow_field() -> None:
    """SC-002: the comment travels, and a comment given in Arrow becomes the column's."""
    schema = StructType((StructField("a", LONG, metadata={"comment": "größe", "delta.columnMapping.id": 1}),))
    assert arrow_schema(schema).field("a").metadata[b"comment"].decode() == "größe"
    given_in_arrow = pa.schema(
        [pa.field("a", pa.int64(), metadata={"comment": "c", "PARQUET:field_id": "1"})]
    )
    assert delta_schema(given_in_arrow).fields[0].metadata == {"comment": "c"}


def test_damaged_metadata_on_an_arrow_field_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match=r"delta\.metadata"):
        delta_schema(pa.schema([pa.field("a", pa.int64(), metadata={"delta.metadata": "[1"})]))


def test_variant_comes_back_from_its_text_form() -> None:
    schema = StructType((StructField("v", ArrayType(VARIANT)), StructField("s", STRING)))
    assert arrow_type(VARIANT) == pa.string()
    assert delta_schema(arrow_schema(schema)) == schema


def test_void_is_nullable_in_arrow_whatever_its_flag_says() -> None:
    schema = StructType((StructField("v", VOID, nullable=False), StructField("l", ArrayType(VOID, False))))
    assert arrow_schema(schema) == pa.schema([("v", pa.null()), ("l", pa.list_(pa.null()))])
    with pytest.raises(InvalidSchemaError, match=r"m: .*void"):
        arrow_schema(StructType((StructField("m", MapType(VOID, LONG)),)))


@given(data=st.data())
def test_any_schema_round_trips_through_arrow(
    schemas: st.SearchStrategy[StructType], data: st.DataObject
) -> None:
    """SC-002, SC-009: Delta → Arrow → Delta is the identity, unknown metadata included."""
    schema = data.draw(schemas)
    assert delta_schema(arrow_schema(schema)) == schema
