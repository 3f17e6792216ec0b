from __future__ import annotations

import pytest

from distributary.delta.errors import InvalidSchemaError
from distributary.delta.schema.column_mapping import (
    ColumnMappingMode,
    column_mapping_mode,
    field_id,
    logical_path,
    physical_name,
    physical_path,
    physical_schema,
)
from distributary.delta.schema.data_types import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from distributary.errors import UnknownColumnError

NAME, ID, NONE = ColumnMappingMode.NAME, ColumnMappingMode.ID, ColumnMappingMode.NONE


def mapped(name: str, data_type: DataType, column_id: int, physical: str) -> StructField:
    metadata = {"delta.columnMapping.id": column_id, "delta.columnMapping.physicalName": physical}
    return StructField(name, data_type, metadata=metadata)


INNER = StructType((mapped("x", LONG, 2, "col-x"), mapped("y", STRING, 3, "col-y")))
SCHEMA = StructType(
    (
        mapped("s", INNER, 1, "col-s"),
        mapped("list", ArrayType(INNER), 4, "col-list"),
        mapped("map", MapType(STRING, ArrayType(INNER)), 5, "col-map"),
    )
)

PATHS = [
    (("s",), ("col-s",)),
    (("s", "x"), ("col-s", "col-x")),
    (("list", "element", "y"), ("col-list", "element", "col-y")),
    (("map", "value", "element", "x"), ("col-map", "value", "element", "col-x")),
    (("map", "key"), ("col-map", "key")),
]


@pytest.mark.parametrize(
    ("configuration", "supported", "mode"),
    [
        ({}, True, NONE),
        ({"delta.columnMapping.mode": "none"}, True, NONE),
        ({"delta.columnMapping.mode": "name"}, True, NAME),
        ({"delta.columnMapping.mode": "ID"}, True, ID),
        ({"delta.columnMapping.mode": "name"}, False, NONE),
        ({"delta.columnMapping.mode": "nonsense"}, False, NONE),
    ],
)
def test_mode_counts_only_when_the_protocol_supports_it(
    configuration: dict[str, str], supported: bool, mode: ColumnMappingMode
) -> None:
    assert column_mapping_mode(configuration, supported) is mode


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="nonsense"):
        column_mapping_mode({"delta.columnMapping.mode": "nonsense"}, True)


@pytest.mark.parametrize("mode", [NAME, ID])
def test_physical_schema_renames_every_level_and_keeps_the_rest(mode: ColumnMappingMode) -> None:
    physical = physical_schema(SCHEMA, mode)
    inner = StructType(
        tuple(StructField(f"col-{f.name}", f.data_type, metadata=f.metadata) for f in INNER.fields)
    )
    assert physical.names == ("col-s", "col-list", "col-map")
    assert [field.data_type for field in physical.fields] == [
        inner,
        ArrayType(inner),
        MapType(STRING, ArrayType(inner)),
    ]
    assert [field_id(field) for field in physical.fields] == [1, 4, 5]


def test_without_mapping_names_are_themselves() -> None:
    assert physical_schema(SCHEMA, NONE) is SCHEMA
    assert physical_name(SCHEMA.fields[0], NONE) == "s"
    assert physical_path(SCHEMA, ("s", "x"), NONE) == ("s", "x")


@pytest.mark.parametrize(("logical", "physical"), PATHS)
def test_paths_translate_both_ways(logical: tuple[str, ...], physical: tuple[str, ...]) -> None:
    assert physical_path(SCHEMA, logical, NAME) == physical
    assert logical_path(SCHEMA, physical, NAME) == logical


def test_logical_names_match_ignoring_case_and_physical_ones_exactly() -> None:
    assert physical_path(SCHEMA, ("S", "X"), NAME) == ("col-s", "col-x")
    with pytest.raises(UnknownColumnError):
        logical_path(SCHEMA, ("COL-S",), NAME)


@pytest.mark.parametrize(
    "path", [("nope",), ("s", "nope"), ("list", "x"), ("s", "x", "deeper"), ("map", "element")]
)
def test_path_that_is_not_there_is_refused(path: tuple[str, ...]) -> None:
    with pytest.raises(UnknownColumnError, match=r"\.".join(path)):
        physical_path(SCHEMA, path, NAME)


def test_field_without_physical_name_is_refused_when_columns_are_mapped() -> None:
    with pytest.raises(InvalidSchemaError, match="plain"):
        physical_schema(StructType((StructField("plain", LONG),)), NAME)


def test_two_fields_of_one_physical_name_are_refused() -> None:
    twins = StructType((mapped("a", LONG, 1, "same"), mapped("b", LONG, 2, "same")))
    with pytest.raises(InvalidSchemaError, match="a, b"):
        physical_schema(twins, NAME)


@pytest.mark.parametrize("value", ["1", True, -1, 2**31, 1.5])
def test_field_id_that_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidSchemaError, match="a"):
        field_id(StructField("a", LONG, metadata={"delta.columnMapping.id": value}))
    assert field_id(StructField("a", LONG)) is None
