from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.delta.errors import InvalidSchemaError, SchemaMismatchError
from distributary.delta.schema.column_mapping import (
    ID_KEY,
    PHYSICAL_NAME_KEY,
    ColumnMappingMode,
    assign_column_mapping,
    existing_name,
    field_id,
    physical_name,
)
from distributary.delta.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
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
from distributary.delta.schema.schema_edits import (
    LAST,
    Position,
    column_path,
    exact_path,
    field_at,
    find_field,
    insert_field,
    move_field,
    remove_field,
    replace_field,
    walk_fields,
)
from distributary.delta.schema.schema_evolution import (
    can_store,
    check_appendable,
    check_type_changes,
    is_widening,
    merge_schemas,
    type_changes,
    widen_field,
    without_reserved_metadata,
)
from distributary.delta.schema.schema_rules import check_table_schema, check_user_metadata
from distributary.delta.schema.type_text import as_data_type, parse_type_text
from distributary.errors import InvalidInputError, UnknownColumnError


def struct(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in columns.items()))


_LEAVES = st.sampled_from(
    [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP_NTZ, VOID, DecimalType(6, 2)]
)
_NAMES = st.sampled_from(["a", "B", "c", "D"])


def _structs(depth: int) -> st.SearchStrategy[StructType]:
    types: st.SearchStrategy[Any] = _LEAVES
    if depth:
        inner = _structs(depth - 1)
        types = _LEAVES | inner | st.builds(ArrayType, inner | _LEAVES) | st.builds(MapType, _LEAVES, inner)
    return st.dictionaries(_NAMES, types, min_size=1, max_size=3).map(lambda columns: struct(**columns))


@settings(max_examples=150)
@given(current=_structs(2), incoming=_structs(2), widening=st.booleans())
def test_merged_schema_reads_every_old_file(
    current: StructType, incoming: StructType, widening: bool
) -> None:
    """Every old field keeps its id, physical name and place, and its type or a wider one; new ones follow."""
    mapped = assign_column_mapping(current)
    try:
        merged = merge_schemas(mapped.schema, incoming, allow_widening=widening)
    except SchemaMismatchError:
        return
    after = assign_column_mapping(merged, mapped.max_column_id)
    check_type_changes(after.schema)
    for path, field in walk_fields(mapped.schema):
        kept = field_at(after.schema, path)
        assert (kept.name, kept.nullable) == (field.name, field.nullable)
        assert field_id(kept) == field_id(field)
        assert physical_name(kept, ColumnMappingMode.NAME) == physical_name(field, ColumnMappingMode.NAME)
        assert _grows(field.data_type, kept.data_type, widening)
    assert after.schema.names[: len(current)] == current.names
    ids = [field_id(field) for _, field in walk_fields(after.schema)]
    assert len(set(ids)) == len(ids)
    assert max(i for i in ids if i is not None) <= after.max_column_id
    new = set(_paths(after.schema)) - set(_paths(mapped.schema))
    assert all(field_at(after.schema, path).nullable for path in new)


@settings(max_examples=100)
@given(current=_structs(2), incoming=_structs(2), widening=st.booleans())
def test_merging_again_changes_nothing_and_the_data_then_fits(
    current: StructType, incoming: StructType, widening: bool
) -> None:
    try:
        merged = merge_schemas(current, incoming, allow_widening=widening)
    except SchemaMismatchError:
        return
    assert merge_schemas(merged, incoming, allow_widening=widening) == merged
    check_appendable(merged, incoming)


def _paths(schema: StructType) -> list[tuple[str, ...]]:
    return [path for path, _ in walk_fields(schema)]


def _grows(before: DataType, after: DataType, widening: bool) -> bool:
    match before, after:
        case (StructType(), StructType()) | (ArrayType(), ArrayType()) | (MapType(), MapType()):
            return True
        case _:
            return before in (after, VOID) or (widening and is_widening(before, after))


def test_new_columns_come_last_at_every_level_nullable_and_without_foreign_metadata() -> None:
    """SC-007: `delta.*` metadata of another table's columns does not come along."""
    current = struct(id=LONG, s=struct(x=LONG), items=ArrayType(struct(k=STRING)))
    foreign = {ID_KEY: 7, PHYSICAL_NAME_KEY: "col-x", "delta.invariants": "x", "comment": "c", "mine": 1}
    incoming = StructType(
        (
            StructField("new", STRING, False, foreign),
            StructField("S", struct(y=LONG)),
            StructField("items", ArrayType(struct(v=DOUBLE, K=STRING))),
        )
    )
    merged = merge_schemas(current, incoming, allow_widening=False)
    assert merged.names == ("id", "s", "items", "new")
    assert field_at(merged, ("s", "y")) == StructField("y", LONG)
    assert field_at(merged, ("items", "element")[:1]).data_type == ArrayType(struct(k=STRING, v=DOUBLE))
    assert merged.field("new") == StructField("new", STRING, True, {"comment": "c", "mine": 1})
    assert merged.field("new").metadata == {"comment": "c", "mine": 1}


def test_wider_data_widens_a_column_only_where_the_table_allows_it() -> None:
    current = StructType((StructField("a", INTEGER), StructField("l", ArrayType(FLOAT))))
    incoming = struct(a=LONG, l=ArrayType(DOUBLE))
    merged = merge_schemas(current, incoming, allow_widening=True)
    assert merged.field("a").metadata == {"delta.typeChanges": [{"toType": "long", "fromType": "integer"}]}
    assert merged.field("l").metadata == {
        "delta.typeChanges": [{"toType": "double", "fromType": "float", "fieldPath": "element"}]
    }
    check_type_changes(merged)
    with pytest.raises(SchemaMismatchError, match=r"l\.element is float.*cast the data to float"):
        merge_schemas(current, incoming, allow_widening=False)
    assert merge_schemas(current, struct(a=LONG), allow_widening=False) == current


def test_whole_numbers_become_double_or_decimal_only_when_asked() -> None:
    current = struct(a=INTEGER)
    for wide in (DOUBLE, DecimalType(12, 2)):
        assert is_widening(INTEGER, wide)
        widened = widen_field(current.field("a"), wide, ())
        assert widened.data_type == wide
        assert len(type_changes(widened)) == 1
    with pytest.raises(SchemaMismatchError, match="cast the data to integer"):
        merge_schemas(current, struct(a=DOUBLE), allow_widening=True)


def test_second_widening_is_recorded_after_the_first() -> None:
    field = widen_field(widen_field(StructField("a", BYTE), SHORT, ()), LONG, ())
    assert [(str(c.from_type), str(c.to_type)) for c in type_changes(field)] == [
        ("byte", "short"),
        ("short", "long"),
    ]


@pytest.mark.parametrize("to", [STRING, SHORT, FLOAT, DecimalType(9, 0), ArrayType(LONG)])
def test_change_to_a_type_that_is_no_wider_is_refused(to: DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"Column s\.a cannot become"):
        widen_field(StructField("a", INTEGER), to, ("s",))


@pytest.mark.parametrize(
    ("data", "table", "stored"),
    [
        (LONG, BYTE, True),
        (DecimalType(20, 0), LONG, True),
        (LONG, DOUBLE, True),
        (FLOAT, DOUBLE, True),
        (DATE, TIMESTAMP_NTZ, True),
        (VOID, STRING, True),
        (DOUBLE, FLOAT, False),
        (DecimalType(5, 2), DOUBLE, False),
        (DOUBLE, LONG, False),
        (STRING, DATE, False),
        (LONG, STRING, False),
    ],
)
def test_values_are_stored_only_where_none_can_change(data: DataType, table: DataType, stored: bool) -> None:
    assert can_store(data, table) is stored


def test_data_that_does_not_fit_is_refused_with_all_its_columns() -> None:
    table = struct(id=LONG, s=struct(x=INTEGER))
    check_appendable(table, struct(ID=INTEGER, s=struct(X=BYTE)))
    check_appendable(table, struct(id=LONG))
    with pytest.raises(SchemaMismatchError) as caught:
        check_appendable(table, struct(id=STRING, s=struct(x=DOUBLE, y=LONG), z=LONG))
    message = str(caught.value)
    assert "Column id is long, but the data has string: cast the data to long." in message
    assert all(part in message for part in ("s.x", "no column s.y", "no column z", "merge_schema"))


def test_data_with_two_names_that_differ_in_case_is_refused() -> None:
    for act in (check_appendable, lambda a, b: merge_schemas(a, b, allow_widening=False)):
        with pytest.raises(SchemaMismatchError, match="differ only in case"):
            act(struct(a=LONG), struct(a=LONG, A=LONG))


# --- what a table's schema must be


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b"])
def test_name_that_parquet_refuses_needs_column_mapping(name: str) -> None:
    schema = struct(id=LONG, s=StructType((StructField(name, LONG),)))
    with pytest.raises(InvalidSchemaError, match=r"delta\.columnMapping\.mode"):
        check_table_schema(schema)
    check_table_schema(schema, mode=ColumnMappingMode.NAME)


@pytest.mark.parametrize(
    ("schema", "partitioning", "message"),
    [
        (StructType(), [], "at least one column"),
        (struct(a=LONG, A=LONG), [], "differ only in case"),
        (struct(s=struct(b=LONG, B=LONG)), [], "Struct s"),
        (StructType((StructField("", LONG),)), [], "empty name"),
        (struct(a=LONG), ["b"], "not in the schema"),
        (struct(a=LONG), ["a"], "Every column"),
        (struct(a=LONG, v=VOID), ["a"], "Every column"),
        (struct(a=LONG, b=LONG), ["a", "A"], "twice"),
        (struct(a=ArrayType(LONG), b=LONG), ["a"], "cannot be array"),
        (struct(a=VARIANT, b=LONG), ["a"], "cannot be variant"),
        (struct(a=VOID, b=LONG), ["a"], "cannot be void"),
        (struct(a=VOID), [], "only void"),
        (struct(a=LONG, s=struct(x=VOID)), [], "only void"),
        (struct(a=LONG, s=StructType()), [], "no fields"),
        (struct(a=ArrayType(VOID)), [], "nulls"),
        (struct(a=MapType(STRING, ArrayType(VOID))), [], "nulls"),
    ],
)
def test_schema_that_a_table_must_not_have_is_refused(
    schema: StructType, partitioning: list[str], message: str
) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        check_table_schema(schema, partitioning)


def test_columns_of_the_change_feed_are_taken_while_the_feed_is_on() -> None:
    schema = struct(id=LONG, _Change_Type=STRING)
    check_table_schema(schema)
    with pytest.raises(InvalidSchemaError, match="change data feed"):
        check_table_schema(schema, change_feed=True)


def test_reserved_metadata_of_a_user_is_refused_unless_it_states_a_rule() -> None:
    """SC-007."""
    rule = StructField("a", LONG, True, {"delta.invariants": "a > 1", "comment": "x", "deltaforce": 1})
    check_user_metadata(StructType((rule,)))
    for key in (ID_KEY, "delta.identity.start", "Delta.mine"):
        nested = StructType((StructField("s", StructType((StructField("b", LONG, True, {key: 1}),))),))
        with pytest.raises(InvalidSchemaError, match=r"s\.b.*reserved"):
            check_user_metadata(nested)
        assert without_reserved_metadata(nested) == struct(s=struct(b=LONG))


# --- column mapping


def test_new_columns_get_new_names_and_ids_above_all_that_were_ever_used() -> None:
    schema = struct(a=LONG, s=struct(b=LONG), l=ArrayType(struct(c=LONG)), m=MapType(STRING, struct(d=LONG)))
    mapped = assign_column_mapping(schema, 10)
    fields = [field for _, field in walk_fields(mapped.schema)]
    assert sorted(field.metadata[ID_KEY] for field in fields) == list(range(11, 18))
    assert mapped.max_column_id == 17
    names = {field.metadata[PHYSICAL_NAME_KEY] for field in fields}
    assert len(names) == 7
    assert all(name.startswith("col-") for name in names)
    assert assign_column_mapping(mapped.schema, mapped.max_column_id) == mapped


def test_table_that_starts_to_map_keeps_the_names_of_its_files() -> None:
    mapped = assign_column_mapping(struct(a=LONG, s=struct(a=LONG)), name_for=existing_name)
    for _, field in walk_fields(mapped.schema):
        assert physical_name(field, ColumnMappingMode.NAME) == field.name


# --- edits


NESTED = struct(a=LONG, s=struct(x=LONG, Y=STRING), l=ArrayType(struct(k=MapType(STRING, struct(v=LONG)))))
DEEP = ("l", "element", "k", "value", "v")


def test_edit_at_any_depth_leaves_everything_else_as_it_was() -> None:
    changed = replace_field(NESTED, DEEP, lambda field: StructField("w", STRING))
    assert field_at(changed, (*DEEP[:-1], "w")).data_type == STRING
    assert changed.field("a") is NESTED.field("a")
    assert changed.field("s") is NESTED.field("s")
    grown = insert_field(NESTED, ("L", "ELEMENT", "k", "value"), StructField("n", LONG), Position(first=True))
    assert [path[-1] for path in _paths(grown) if path[:4] == DEEP[:4] and len(path) == 5] == ["n", "v"]
    assert remove_field(grown, (*DEEP[:-1], "n")) == NESTED


def test_place_of_a_field_is_first_after_another_or_last() -> None:
    schema = struct(a=LONG, b=LONG, c=LONG)
    assert move_field(schema, ("C",), Position(first=True)).names == ("c", "a", "b")
    assert move_field(schema, ("a",), Position(after="B")).names == ("b", "a", "c")
    assert move_field(schema, ("a",), LAST).names == ("b", "c", "a")
    with pytest.raises(UnknownColumnError):
        move_field(schema, ("a",), Position(after="a"))


def test_path_is_found_ignoring_case_and_spelt_as_the_schema_does() -> None:
    assert exact_path(NESTED, ("S", "y")) == ("s", "Y")
    assert exact_path(NESTED, ("L", "Element", "K", "VALUE", "V")) == DEEP
    assert column_path("s.`odd.name`") == ("s", "odd.name")
    assert find_field(NESTED, ("s", "q")) is None
    assert find_field(NESTED, ("a", "q")) is None
    for path in (("q",), ("a", "q"), ("l", "k"), ("l", "element", "k", "v")):
        with pytest.raises(UnknownColumnError):
            field_at(NESTED, path)


def test_last_column_and_a_taken_name_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="only column"):
        remove_field(struct(a=LONG), ("a",))
    with pytest.raises(SchemaMismatchError, match="already"):
        insert_field(NESTED, ("s",), StructField("X", LONG))


# --- types as text


_TYPES = st.recursive(
    st.sampled_from([LONG, STRING, DecimalType(10, 2), TIMESTAMP_NTZ, VOID]),
    lambda inner: (
        st.builds(ArrayType, inner)
        | st.builds(MapType, inner, inner)
        | st.dictionaries(st.sampled_from(["a", "b_1", "C"]), inner, max_size=3).map(lambda c: struct(**c))
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(_TYPES)
def test_text_of_every_type_reads_back(data_type: DataType) -> None:
    assert parse_type_text(str(data_type)) == data_type


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("BIGINT", LONG),
        (" int ", INTEGER),
        ("Decimal( 10 , 2 )", DecimalType(10, 2)),
        ("array< tinyint not null >", ArrayType(BYTE, False)),
        (
            "struct<`a b`: int, c string not null>",
            StructType((StructField("a b", INTEGER), StructField("c", STRING, False))),
        ),
        ("map<string, array<date>>", MapType(STRING, ArrayType(DATE))),
    ],
)
def test_type_is_read_as_spark_writes_it(text: str, data_type: DataType) -> None:
    assert as_data_type(text) == data_type
    assert as_data_type(data_type) == data_type


@pytest.mark.parametrize(
    "text",
    ["", "geometry", "array<int", "int>", "map<int>", "struct<a>", "decimal(99,1)", "array<" * 300 + "int"],
)
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises((InvalidInputError, InvalidSchemaError)):
        parse_type_text(text)
