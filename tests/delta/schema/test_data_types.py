from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import (
    BYTE,
    INTEGER,
    LONG,
    MAX_DEPTH,
    STRING,
    TIMESTAMP,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
    parse_schema,
    parse_type,
    parse_type_name,
    schema_to_json,
)
from distributary.errors import UnknownColumnError

NAMED_BY_THE_SEEDS = (
    *("string", "long", "integer", "short", "byte", "float", "double"),
    *("boolean", "binary", "date", "timestamp"),
)


def struct(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def field(name: str, data_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}, **more}


def seed_example() -> str:
    """The example schema of the protocol documents."""
    nested = {"type": "struct", "fields": [field("d", "integer", nullable=False)]}
    return struct(
        field("a", "integer", nullable=False),
        field("b", nested),
        field("c", {"type": "array", "elementType": "integer", "containsNull": False}),
        field("e", {"type": "array", "elementType": nested, "containsNull": True}),
        field("f", {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}),
    )


def test_example_of_the_protocol_round_trips_as_equal_json() -> None:
    """SC-008, SC-001, SC-003, SC-004: the seeds' example parses and comes back equal."""
    parsed = parse_schema(seed_example())
    inner = StructType((StructField("d", INTEGER, nullable=False),))
    assert parsed == StructType(
        (
            StructField("a", INTEGER, nullable=False),
            StructField("b", inner),
            StructField("c", ArrayType(INTEGER, contains_null=False)),
            StructField("e", ArrayType(inner, contains_null=True)),
            StructField("f", MapType(STRING, STRING, value_contains_null=True)),
        )
    )
    assert json.loads(schema_to_json(parsed)) == json.loads(seed_example())


def test_written_schema_has_sparks_key_order() -> None:
    text = seed_example().replace(" ", "")
    assert schema_to_json(parse_schema(text)) == text


@pytest.mark.parametrize(
    "text", ['"long"', '{"type":"array","elementType":"long","containsNull":true}', "[]", "1"]
)
def test_schema_that_is_no_struct_is_refused(text: str) -> None:
    """SC-001: the top level is a struct."""
    with pytest.raises(InvalidSchemaError):
        parse_schema(text)


def test_field_keeps_name_type_nullability_metadata_and_comment() -> None:
    """SC-002: a struct field, its metadata whatever it holds, and `metadata.comment`."""
    metadata = {"comment": "the key", "x": {"deep": [1, None, {"y": 1.5}]}, "big": 10**30}
    parsed = parse_schema(struct(field("id", "long", nullable=False, metadata=metadata)))
    assert parsed.fields == (StructField("id", LONG, False, metadata),)
    assert parsed.fields[0].comment == "the key"
    assert json.loads(schema_to_json(parsed))["fields"][0]["metadata"] == metadata


def test_array_flag_is_read() -> None:
    """SC-003: `containsNull` says whether elements may be null."""
    for flag in (True, False):
        assert parse_type({"type": "array", "elementType": "byte", "containsNull": flag}) == ArrayType(
            BYTE, flag
        )


def test_map_without_flag_may_contain_null_and_is_written_with_it() -> None:
    """SC-004, C-13: `valueContainsNull` is always written, and true when absent."""
    data_type = {"type": "map", "keyType": "string", "valueType": "long"}
    parsed = parse_schema(struct(field("m", data_type)))
    assert parsed.fields[0].data_type == MapType(STRING, LONG, value_contains_null=True)
    assert json.loads(schema_to_json(parsed))["fields"][0]["type"] == {**data_type, "valueContainsNull": True}


@pytest.mark.parametrize("name", [*NAMED_BY_THE_SEEDS, "timestamp_ntz", "variant", "void"])
def test_primitive_names_round_trip(name: str) -> None:
    """SC-005: the primitives of the protocol."""
    parsed = parse_schema(struct(field("c", name)))
    assert parsed.fields[0].data_type == PrimitiveType(name)
    assert json.loads(schema_to_json(parsed))["fields"][0]["type"] == name


def test_names_of_older_engines_are_read() -> None:
    assert parse_type_name("null") == VOID
    assert parse_type_name("timestamp_ltz") == TIMESTAMP
    assert parse_type_name("decimal") == DecimalType(10, 0)


@pytest.mark.parametrize(
    ("text", "precision", "scale"),
    [("decimal(10,2)", 10, 2), ("decimal(10, 2)", 10, 2), ("decimal(38,38)", 38, 38), ("decimal(1,0)", 1, 0)],
)
def test_decimal_with_or_without_blank_is_read(text: str, precision: int, scale: int) -> None:
    """SC-006, C-12: `decimal(p,s)`, a blank after the comma accepted, at most 38 digits."""
    assert parse_type_name(text) == DecimalType(precision, scale)
    assert str(parse_type_name(text)) == f"decimal({precision},{scale})"


@pytest.mark.parametrize("text", ["decimal(39,0)", "decimal(0,0)", "decimal(5,6)", "decimal(5,-1)"])
def test_decimal_that_cannot_exist_is_refused_with_its_path(text: str) -> None:
    """SC-006: more than 38 digits, or a scale outside of them."""
    schema = struct(field("a", {"type": "array", "elementType": text, "containsNull": True}))
    with pytest.raises(InvalidSchemaError, match=r"a\.element"):
        parse_schema(schema)


def test_reserved_metadata_keys_are_kept_as_they_are() -> None:
    """SC-007: `delta.` keys belong to the implementation; reading and writing never change them."""
    metadata = {
        "delta.invariants": '{"expression":{"expression":"x > 3"}}',
        "delta.generationExpression": "c1 + 1",
        "delta.identity.start": 1,
        "delta.columnMapping.id": 4,
        "delta.typeChanges": [{"fromType": "byte", "toType": "short", "tableVersion": 2}],
    }
    parsed = parse_schema(struct(field("x", "integer", metadata=metadata)))
    assert json.loads(schema_to_json(parsed))["fields"][0]["metadata"] == metadata


UNKNOWN = [
    "geometry(OGC:CRS84)",
    "interval year to month",
    "int",
    {"type": "udt", "class": "org.apache.spark.ml.linalg.VectorUDT", "sqlType": "binary"},
]


@pytest.mark.parametrize("data_type", UNKNOWN)
def test_unknown_type_is_listed_and_kept_and_refused_on_use(data_type: Any) -> None:
    """SC-009: unknown types are an error on use of that column, not on listing; unknown metadata is kept."""
    text = struct(field("ok", "long"), field("odd", data_type, metadata={"mine": [1]}))
    schema = parse_schema(text)
    assert schema.names == ("ok", "odd")
    assert isinstance(schema.field("odd").data_type, UnknownType)
    assert json.loads(schema_to_json(schema)) == json.loads(text)
    assert arrow_schema(schema.select(("ok",))).names == ["ok"]
    with pytest.raises(InvalidSchemaError, match="odd"):
        arrow_schema(schema)


def test_collated_and_char_columns_are_strings() -> None:
    metadata = {"__COLLATIONS": {"c": "icu.UNICODE"}, "__CHAR_VARCHAR_TYPE_STRING": "varchar(10)"}
    parsed = parse_schema(struct(field("c", "string", metadata=metadata)))
    assert parsed.fields == (StructField("c", STRING, metadata=metadata),)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("not json", "not JSON"),
        ("", "not JSON"),
        ("{}", "top level"),
        ('{"type":"struct"}', "fields"),
        ('{"type":"struct","fields":[1]}', "top level"),
        (struct({"type": "long"}), "name"),
        (struct({"name": "a"}), "field a"),
        (struct(field("a", 5)), "field a"),
        (struct(field("a", "long", nullable="yes")), "field a"),
        (struct(field("a", "long", metadata=[])), "field a"),
        (struct(field("a", {"type": "array"})), r"a\.element"),
        (struct(field("a", {"type": "map", "keyType": "long"})), r"a\.value"),
        (struct(field("a", json.loads(struct(field("b", "long"), field("b", "long"))))), "field a: .*'b'"),
    ],
)
def test_malformed_schema_is_refused_with_the_path(text: str, where: str) -> None:
    """SC-001, SC-002: what is no schema is refused, and the message says where."""
    with pytest.raises(InvalidSchemaError, match=where):
        parse_schema(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 5_000])
def test_schema_nested_too_deep_is_refused(depth: int) -> None:
    deep = '{"type":"array","elementType":' * depth + '"long"' + "}" * depth
    with pytest.raises(InvalidSchemaError):
        parse_schema('{"type":"struct","fields":[{"name":"a","type":' + deep + "}]}")


def test_field_is_found_exactly_first_then_ignoring_case() -> None:
    schema = StructType((StructField("id", LONG), StructField("ID", STRING), StructField("Name", STRING)))
    assert schema.field("ID").data_type == STRING
    assert schema.field("name").name == "Name"
    with pytest.raises(InvalidSchemaError, match="ambiguous"):
        schema.field("Id")
    with pytest.raises(UnknownColumnError, match="id, ID, Name"):
        schema.field("missing")


@given(data=st.data())
def test_any_schema_round_trips(schemas: st.SearchStrategy[StructType], data: st.DataObject) -> None:
    """SC-001, SC-002, SC-003, SC-004, SC-008: schema → JSON → schema is the identity, hashes included."""
    schema = data.draw(schemas)
    again = parse_schema(schema_to_json(schema))
    assert again == schema
    assert hash(again) == hash(schema)
    assert schema_to_json(again) == schema_to_json(schema)
