from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.data_types import (
    BYTE,
    INTEGER,
    LONG,
    PRIMITIVES,
    SHORT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    UnknownType,
    parse_type_name,
)
from distributary.delta.schema.schema_evolution import (
    TypeChange,
    check_type_changes,
    is_widening,
    type_changes,
)

WIDENINGS = {
    ("byte", "short"),
    ("byte", "integer"),
    ("byte", "long"),
    ("byte", "double"),
    ("short", "integer"),
    ("short", "long"),
    ("short", "double"),
    ("integer", "long"),
    ("integer", "double"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
}


def test_widenings_between_primitives_are_exactly_the_protocols() -> None:
    found = {(a, b) for a in PRIMITIVES for b in PRIMITIVES if is_widening(PRIMITIVES[a], PRIMITIVES[b])}
    assert found == WIDENINGS


@pytest.mark.parametrize(
    ("before", "after", "widens"),
    [
        ("byte", "decimal(10,0)", True),
        ("short", "decimal(11,1)", True),
        ("integer", "decimal(9,0)", False),
        ("integer", "decimal(10,1)", False),
        ("long", "decimal(20,0)", True),
        ("long", "decimal(21,1)", True),
        ("long", "decimal(19,0)", False),
        ("long", "decimal(20,1)", False),
        ("decimal(10,2)", "decimal(20,5)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("decimal(10,2)", "decimal(10,2)", False),
        ("decimal(10,0)", "long", False),
        ("float", "decimal(38,10)", False),
    ],
)
def test_widening_to_decimal_keeps_every_digit(before: str, after: str, widens: bool) -> None:
    assert is_widening(parse_type_name(before), parse_type_name(after)) is widens


TYPES = st.sampled_from(tuple(PRIMITIVES.values())) | st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)


@given(TYPES, TYPES, TYPES)
def test_widenings_in_a_row_are_a_widening(first: DataType, second: DataType, third: DataType) -> None:
    """A file of the oldest type can be cast straight to the newest."""
    if is_widening(first, second) and is_widening(second, third):
        assert is_widening(first, third)


def changed(data_type: DataType, *changes: dict[str, Any]) -> StructType:
    return StructType((StructField("c", data_type, metadata={"delta.typeChanges": list(changes)}),))


def change(before: str, after: str, **more: Any) -> dict[str, Any]:
    return {"fromType": before, "toType": after, "tableVersion": 2, **more}


@pytest.mark.parametrize(
    "schema",
    [
        changed(INTEGER, change("byte", "short"), change("short", "integer")),
        changed(ArrayType(SHORT), change("byte", "short", fieldPath="element")),
        changed(
            MapType(LONG, LONG),
            change("byte", "long", fieldPath="key"),
            change("byte", "long", fieldPath="value"),
        ),
        changed(ArrayType(MapType(STRING, LONG)), change("byte", "long", fieldPath="element.value")),
        StructType((StructField("s", ArrayType(changed(LONG, change("integer", "long")))),)),
        StructType((StructField("plain", LONG),)),
    ],
)
def test_known_changes_pass_at_every_level(schema: StructType) -> None:
    check_type_changes(schema)


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (changed(BYTE, change("long", "byte")), "c was changed from long to byte"),
        (changed(STRING, change("integer", "string")), "c was changed from integer to string"),
        (changed(UnknownType("big"), change("integer", "big")), "c was changed"),
        (changed(ArrayType(BYTE), change("long", "byte", fieldPath="element")), r"c\.element was changed"),
        (changed(ArrayType(LONG), change("byte", "long", fieldPath="key")), "a part that"),
        (
            StructType((StructField("s", MapType(STRING, changed(BYTE, change("long", "byte")))),)),
            r"s\.value\.c",
        ),
        (changed(LONG, {"fromType": "byte"}), "fromType and toType"),
        (changed(LONG, change("byte", "long", fieldPath=1)), "fromType and toType"),
        (StructType((StructField("c", LONG, metadata={"delta.typeChanges": "x"}),)), "an array"),
    ],
)
def test_unknown_or_malformed_change_is_refused_with_its_place(schema: StructType, where: str) -> None:
    with pytest.raises(InvalidSchemaError, match=where):
        check_type_changes(schema)


def test_changes_are_read_oldest_first() -> None:
    schema = changed(
        ArrayType(INTEGER), change("byte", "short", fieldPath="element"), change("short", "integer")
    )
    assert type_changes(schema.fields[0]) == (
        TypeChange(BYTE, SHORT, ("element",)),
        TypeChange(SHORT, INTEGER),
    )
