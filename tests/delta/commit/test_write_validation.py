from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from distributary.delta.commit.write_validation import WriteRules
from distributary.delta.errors import (
    ConstraintViolationError,
    GeneratedColumnError,
    NotNullViolationError,
    SchemaMismatchError,
    TableRuleError,
    UnsupportedRuleError,
)
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

LEGACY = Protocol(1, 4)
DEFAULTS = Protocol(1, 7, None, ("allowColumnDefaults",))
NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)


def schema(**columns: DataType | StructField) -> StructType:
    return StructType(
        tuple(
            StructField(name, kind.data_type, kind.nullable, kind.metadata)
            if isinstance(kind, StructField)
            else StructField(name, kind)
            for name, kind in columns.items()
        )
    )


def of(data_type: DataType, nullable: bool = True, **metadata: Any) -> StructField:
    keys = {"invariants": "delta.invariants", "generated": "delta.generationExpression"}
    keys |= {"default": "CURRENT_DEFAULT", "length": "__CHAR_VARCHAR_TYPE_STRING"}
    return StructField("", data_type, nullable, {keys[key]: value for key, value in metadata.items()})


def rules(
    columns: StructType, protocol: Protocol = LEGACY, configuration: Mapping[str, str] | None = None
) -> WriteRules:
    return WriteRules.of(Metadata(id="t", configuration=dict(configuration or {})), protocol, columns)


def applied(
    checked: WriteRules, data: Mapping[str, Any], types: Mapping[str, pa.DataType] | None = None
) -> Any:
    batch = pa.RecordBatch.from_pydict(
        {name: pa.array(values, (types or {}).get(name)) for name, values in data.items()}
    )
    batches = list(checked.apply([batch], batch.schema.names, now=NOON))
    return pa.Table.from_batches(batches).to_pydict()


# --- NOT NULL


def test_null_in_a_column_that_must_have_values_is_refused_with_its_name() -> None:
    checked = rules(schema(id=of(LONG, nullable=False), note=STRING))
    with pytest.raises(NotNullViolationError, match="Column id") as caught:
        applied(checked, {"id": [1, None], "note": [None, "x"]})
    assert caught.value.column == "id"
    assert applied(checked, {"id": [1], "note": [None]}) == {"id": [1], "note": [None]}


def test_column_that_must_have_values_and_is_left_out_is_refused_before_the_first_row() -> None:
    checked = rules(schema(id=of(LONG, nullable=False), note=STRING))
    with pytest.raises(NotNullViolationError):
        checked.apply(iter(()), ["note"])


@pytest.mark.parametrize(
    ("data_type", "good", "bad", "path"),
    [
        (StructType((StructField("x", LONG, False),)), [{"x": 1}, None], [{"x": None}], "c.x"),
        (ArrayType(LONG, False), [[1, 2], [], None], [[1], [2, None]], "c.element"),
        (MapType(STRING, LONG, False), [[("a", 1)], None], [[("a", None)]], "c.value"),
        (
            ArrayType(StructType((StructField("x", ArrayType(LONG, False)),))),
            [[{"x": [1]}, None], [{"x": None}]],
            [[{"x": [1]}], [{"x": [None]}]],
            "c.element.x.element",
        ),
    ],
)
def test_null_inside_a_nested_type_is_refused_but_a_null_parent_has_no_parts(
    data_type: DataType, good: list[Any], bad: list[Any], path: str
) -> None:
    columns = schema(c=data_type)
    checked = rules(columns)
    # The types of the data let everything be null, as frames do.
    loose = (
        pa.array(good + bad).type if not isinstance(data_type, MapType) else pa.map_(pa.string(), pa.int64())
    )
    assert applied(checked, {"c": good}, {"c": loose})["c"] == good
    with pytest.raises(NotNullViolationError) as caught:
        applied(checked, {"c": good + bad}, {"c": loose})
    assert caught.value.column == path


def test_sliced_rows_are_checked_as_the_slice_shows_them() -> None:
    checked = rules(schema(c=ArrayType(LONG, False), m=MapType(STRING, LONG, False)))
    whole = pa.RecordBatch.from_arrays(
        [
            pa.array([[None], [1], None, [None]]),
            pa.array([[("a", None)], [("b", 1)], None, [("c", None)]], pa.map_(pa.string(), pa.int64())),
        ],
        names=["c", "m"],
    )
    (kept,) = checked.apply([whole.slice(1, 2)], ["c", "m"])
    assert kept.to_pydict() == {"c": [[1], None], "m": [[("b", 1)], None]}
    with pytest.raises(NotNullViolationError):
        list(checked.apply([whole.slice(1, 3)], ["c", "m"]))


# --- CHECK and invariants


def test_row_for_which_a_check_is_false_or_null_is_refused_with_rule_and_row() -> None:
    """CN-030, C-36: a constraint of `delta.constraints.<name>` must be true for every row."""
    checked = rules(schema(price=DOUBLE, name=STRING), configuration={"delta.constraints.dear": "price > 10"})
    assert applied(checked, {"price": [11.0], "name": ["a"]}) == {"price": [11.0], "name": ["a"]}
    for bad in (9.0, None):
        with pytest.raises(ConstraintViolationError) as caught:
            applied(checked, {"price": [11.0, bad], "name": ["a", "b"]}, {"price": pa.float64()})
        assert caught.value.rule == "CHECK constraint dear"
        assert caught.value.expression == "price > 10"
        assert caught.value.row == f"price = {'NULL' if bad is None else bad}"


@pytest.mark.parametrize("text", ['{"expression":{"expression":"x > 3"}}', "x > 3"])
def test_row_for_which_an_invariant_is_false_or_null_is_refused(text: str) -> None:
    """CN-010, CN-011, CN-012, C-37: invariants in JSON form and as plain SQL."""
    checked = rules(schema(x=of(INTEGER, invariants=text)), Protocol(1, 2))
    assert applied(checked, {"x": [4]}) == {"x": [4]}
    for bad in (3, None):
        with pytest.raises(ConstraintViolationError, match="invariant of column x is violated: x > 3"):
            applied(checked, {"x": [4, bad]})


def test_invariant_of_a_nested_column_reads_it_by_its_whole_path() -> None:
    """CN-012."""
    inner = StructType((StructField("b", LONG, True, {"delta.invariants": "a.b < 5"}),))
    checked = rules(schema(a=inner))
    assert applied(checked, {"a": [{"b": 4}]}) == {"a": [{"b": 4}]}
    with pytest.raises(ConstraintViolationError, match="a\\.b < 5"):
        applied(checked, {"a": [{"b": 5}]})


def test_rules_bind_whatever_the_protocol_version_says() -> None:
    """CN-012, CN-030: S4 states them without a version."""
    columns, configuration = schema(x=of(LONG, invariants="x > 0")), {"delta.constraints.small": "x < 9"}
    checked = rules(columns, Protocol(1, 1), configuration)
    for bad in (0, 9):
        with pytest.raises(ConstraintViolationError):
            applied(checked, {"x": [bad]})


def test_row_that_makes_a_check_fail_is_found_and_shown() -> None:
    checked = rules(schema(a=LONG, b=LONG), configuration={"delta.constraints.ratio": "a / b > 1"})
    with pytest.raises(ConstraintViolationError, match="fails") as caught:
        applied(checked, {"a": [4, 6, 7], "b": [1, 2, 0]})
    assert caught.value.row == "a = 7, b = 0"


def test_long_values_are_shortened_in_messages() -> None:
    checked = rules(schema(s=STRING), configuration={"delta.constraints.short": "length(s) < 5"})
    with pytest.raises(ConstraintViolationError) as caught:
        applied(checked, {"s": ["x" * 10_000]})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("columns", "configuration"),
    [
        (schema(x=LONG), {"delta.constraints.c": "my_udf(x) > 3"}),
        (schema(x=LONG), {"delta.constraints.c": "x > (SELECT 1)"}),
        (schema(x=LONG), {"delta.constraints.c": "y > 3"}),
        (schema(x=LONG), {"delta.constraints.c": "x + 3"}),
        (schema(x=of(LONG, invariants="rand() > x")), {}),
        (schema(x=LONG, y=of(LONG, generated="my_udf(x)")), {}),
        (schema(x=of(STRING, length="array<varchar(3)>")), {}),
    ],
)
def test_rule_that_cannot_be_evaluated_refuses_the_write_before_anything_is_written(
    columns: StructType, configuration: dict[str, str]
) -> None:
    """CN-050: the rules of a table cannot even be made, and the error names the expression."""
    texts = [*configuration.values(), *(str(v) for f in columns.fields for v in f.metadata.values())]
    with pytest.raises(UnsupportedRuleError) as caught:
        rules(columns, configuration=configuration)
    assert caught.value.expression in texts
    assert caught.value.expression in str(caught.value)


# --- generated columns


def generated() -> WriteRules:
    return rules(schema(at=TIMESTAMP, day=of(DATE, generated="CAST(at AS DATE)"), n=LONG))


def test_generated_column_that_the_data_lacks_is_computed() -> None:
    """CN-020."""
    rows = applied(generated(), {"n": [1, 2], "at": [NOON, None]})
    assert rows == {"at": [NOON, None], "day": [datetime.date(2024, 5, 6), None], "n": [1, 2]}


def test_generated_column_that_the_data_has_must_equal_its_expression_null_safely() -> None:
    """CN-021: `(value <=> expression) IS TRUE`."""
    day = datetime.date(2024, 5, 6)
    good = {"at": [NOON, None], "day": [day, None], "n": [1, 2]}
    assert applied(generated(), good) == good
    for bad in (
        {"at": [NOON], "day": [None]},
        {"at": [None], "day": [day]},
        {"at": [NOON], "day": [NOON.date().replace(day=7)]},
    ):
        types = {"at": pa.timestamp("us", "UTC"), "day": pa.date32()}
        with pytest.raises(GeneratedColumnError, match="CAST\\(at AS DATE\\)") as caught:
            applied(generated(), {**bad, "n": [1]}, types)
        assert caught.value.column == "day"


def test_generated_value_takes_the_type_of_its_column() -> None:
    """CN-020."""
    checked = rules(schema(a=INTEGER, b=of(DecimalType(12, 2), generated="a * 2")))
    assert applied(checked, {"a": [3]}, {"a": pa.int32()}) == {"a": [3], "b": [Decimal("6.00")]}


def test_generation_expression_of_a_protocol_without_generated_columns_does_not_bind() -> None:
    """CN-020, LW-011: generated columns come with writer version 4."""
    columns = schema(a=LONG, b=of(LONG, generated="a + 1"))
    assert applied(rules(columns, Protocol(1, 3)), {"a": [1], "b": [7]}) == {"a": [1], "b": [7]}
    with pytest.raises(GeneratedColumnError):
        applied(rules(columns, Protocol(1, 4)), {"a": [1], "b": [7]})
    with pytest.raises(GeneratedColumnError):
        applied(rules(columns, Protocol(1, 7, None, ("generatedColumns",))), {"a": [1], "b": [7]})


def test_check_sees_generated_and_default_values() -> None:
    protocol = Protocol(1, 7, None, ("allowColumnDefaults", "generatedColumns", "checkConstraints"))
    columns = schema(a=of(LONG, default="5"), b=of(LONG, generated="a + 1"), c=LONG)
    checked = rules(columns, protocol, {"delta.constraints.six": "b <> 6"})
    assert applied(checked, {"a": [1], "c": [0]}) == {"a": [1], "b": [2], "c": [0]}
    with pytest.raises(ConstraintViolationError, match="b = 6"):
        applied(checked, {"c": [0]})


# --- defaults, identity, lengths


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (INTEGER, "42", 42),
        (BYTE, "40 + 2", 42),
        (DecimalType(5, 2), "1.5", Decimal("1.50")),
        (STRING, "'it''s'", "it's"),
        (STRING, "NULL", None),
        (DATE, "DATE '2024-01-02'", datetime.date(2024, 1, 2)),
        (DATE, "current_date()", NOON.date()),
        (TIMESTAMP, "current_timestamp", NOON),
        (TIMESTAMP, "now()", NOON),
        (ArrayType(LONG), "NULL", None),
    ],
)
def test_default_fills_a_column_that_the_data_lacks_and_only_then(
    data_type: DataType, text: str, value: object
) -> None:
    checked = rules(schema(id=LONG, d=of(data_type, default=text)), DEFAULTS)
    assert applied(checked, {"id": [1, 2]}) == {"id": [1, 2], "d": [value, value]}
    given = arrow_schema(checked.schema).field("d").type
    assert applied(checked, {"id": [1], "d": [None]}, {"d": given}) == {"id": [1], "d": [None]}


def test_default_that_cannot_be_evaluated_refuses_only_writes_that_need_it() -> None:
    """CN-050."""
    checked = rules(schema(id=LONG, d=of(STRING, default="uuid()")), DEFAULTS)
    assert applied(checked, {"id": [1], "d": ["x"]}) == {"id": [1], "d": ["x"]}
    with pytest.raises(UnsupportedRuleError, match="uuid\\(\\)"):
        checked.apply(iter(()), ["id"])


def test_identity_column_is_refused_where_the_protocol_has_identity_columns() -> None:
    columns = StructType((StructField("id", LONG, True, {"delta.identity.start": 1}),))
    with pytest.raises(UnsupportedRuleError, match="Identity column id"):
        rules(columns, Protocol(1, 6))
    assert applied(rules(columns, Protocol(1, 4)), {"id": [1]}) == {"id": [1]}


def test_text_longer_than_its_column_is_refused_and_spaces_beyond_fall_away() -> None:
    checked = rules(schema(v=of(STRING, length="varchar(3)"), c=of(STRING, length="char(3)")))
    rows = applied(checked, {"v": ["äöü", "ab  ", "a", None], "c": ["a", "abc  ", None, "äöü"]})
    assert rows == {"v": ["äöü", "ab ", "a", None], "c": ["a  ", "abc", None, "äöü"]}
    with pytest.raises(ConstraintViolationError, match="varchar\\(3\\) is exceeded"):
        applied(checked, {"v": ["abcd"], "c": ["a"]})


# --- types of the data


def test_rows_leave_with_the_columns_and_types_of_the_table() -> None:
    columns = schema(
        id=LONG,
        price=DecimalType(10, 2),
        s=StructType((StructField("x", INTEGER), StructField("y", STRING))),
        tags=ArrayType(STRING),
        nothing=VOID,
    )
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["a", None]).dictionary_encode(),
            pa.array(
                [[{"Y": "q", "X": 1}][0], None], pa.struct([("Y", pa.large_string()), ("X", pa.uint8())])
            ),
            pa.array([1, 2], pa.uint16()),
            pa.array([7, 8], pa.int8()),
        ],
        names=["none", "S", "ID", "price"],
    )
    batch = batch.drop_columns(["none"]).append_column(
        "tags", pa.array([["a"], None], pa.large_list(pa.string_view()))
    )
    (rows,) = rules(columns).apply([batch], batch.schema.names)
    assert rows.schema == arrow_schema(columns)
    assert rows.to_pydict() == {
        "id": [1, 2],
        "price": [Decimal("7.00"), Decimal("8.00")],
        "s": [{"x": 1, "y": "q"}, None],
        "tags": [["a"], None],
        "nothing": [None, None],
    }


@pytest.mark.parametrize(
    ("target", "data"),
    [
        (BYTE, pa.array([128])),
        (INTEGER, pa.array([2**31])),
        (LONG, pa.array([2**63], pa.uint64())),
        (DecimalType(4, 2), pa.array([100])),
        (DecimalType(4, 2), pa.array([Decimal("1.005")])),
        (DOUBLE, pa.array([2**53 + 1])),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns", "UTC"))),
        (TIMESTAMP, pa.array([1], pa.timestamp("us"))),
        (LONG, pa.array(["1"])),
        (LONG, pa.array([1.0])),
        (STRING, pa.array([1])),
        (VOID, pa.array([1])),
        (ArrayType(BYTE), pa.array([[128]])),
        (StructType((StructField("x", BYTE),)), pa.array([{"z": 1}])),
        (DATE, pa.array([1], pa.time32("s"))),
    ],
)
def test_value_that_would_lose_something_is_refused_with_its_column(target: DataType, data: pa.Array) -> None:
    """SC-010: out of range is an error on write."""
    checked = rules(schema(other=LONG, c=target))
    with pytest.raises(SchemaMismatchError, match=r"[Cc]olumn c"):
        list(checked.apply([pa.RecordBatch.from_arrays([data], names=["c"])], ["c"]))


def test_unknown_and_doubled_columns_are_refused_before_the_first_row() -> None:
    checked = rules(schema(a=LONG))
    with pytest.raises(SchemaMismatchError, match="no column b"):
        checked.apply(iter(()), ["a", "b"])
    with pytest.raises(SchemaMismatchError, match="twice"):
        checked.apply(iter(()), ["a", "A"])


def test_values_hidden_under_a_null_parent_never_matter() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 10**12])], names=["x"], mask=pa.array([False, True]))
    checked = rules(schema(s=StructType((StructField("x", INTEGER),))))
    (rows,) = checked.apply([pa.RecordBatch.from_arrays([hidden], names=["s"])], ["s"])
    assert rows.to_pydict() == {"s": [{"x": 1}, None]}


def test_every_rule_error_is_one_family() -> None:
    family: Sequence[type[Exception]] = (
        *(NotNullViolationError, ConstraintViolationError, GeneratedColumnError, UnsupportedRuleError),
    )
    assert all(issubclass(kind, TableRuleError) for kind in family)
