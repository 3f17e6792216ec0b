"""The rules of a table, applied to rows before they are written.

Implements S4 "Column Invariants", "Generated Columns" and the CHECK constraints of writer version 3 with
beyond.md B11: NOT NULL at every level, CN-010 to CN-012, CN-020, CN-021, CN-030, CN-050, SC-010.

- A CHECK constraint or an invariant holds for a row only when it is true: false and null both violate it,
  as in delta-spark. They bind whatever the protocol says, since S4 states them without a version.
- Generated columns and defaults bind where the protocol supports their feature, as in delta-spark. A
  generated column that the data lacks is computed; one that it has must satisfy `value <=> expression`.
- A column that the data lacks gets its default, else null. `current_timestamp()` and `current_date()` are
  the time of the write.
- `char(n)` and `varchar(n)` count characters; spaces beyond n fall away, and char is padded.
- Identity columns are refused: their values must never repeat, over all writers.
- A rule that cannot be evaluated exactly refuses the write before its first row.

Instants and wall times meet in UTC. Rows leave with the table's columns, in order and in their types.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.commit.batch_coercion import coerce_array, list_parts
from distributary.delta.commit.table_rules import (
    TableRule,
    bound_rule,
    check_constraints,
    condition,
    generated_columns,
    invariants,
    parsed_rule,
)
from distributary.delta.errors import (
    ConstraintViolationError,
    GeneratedColumnError,
    NotNullViolationError,
    SchemaMismatchError,
    UnsupportedRuleError,
)
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.protocol_support import features_of
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructField, StructType
from distributary.delta.schema.schema_edits import ColumnPath, walk_fields
from distributary.delta.table_properties import TableProperties
from distributary.errors import ExpressionFailedError
from distributary.expressions.arrow_evaluation import evaluate, filter_mask
from distributary.expressions.literal_text import TIMESTAMP
from distributary.expressions.tree import Cast, Column, Comparison, Expression, Literal, columns_of

DEFAULT_KEY: Final = "CURRENT_DEFAULT"
IDENTITY_KEY: Final = "delta.identity.start"
LENGTH_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"

_LENGTH = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)
_MOMENT = re.compile(r"(current_timestamp|now|current_date|curdate)\s*(?:\(\s*\))?", re.IGNORECASE)
_LONGEST_VALUE: Final = 40
_MOST_VALUES: Final = 5


class RowCheck(msgspec.Struct, frozen=True):
    """A condition that must be true for every row."""

    rule: TableRule
    tree: Expression


class GeneratedColumn(msgspec.Struct, frozen=True):
    """A column computed from others: its value, and the condition that a given value must satisfy."""

    rule: TableRule
    value: Expression
    agrees: Expression


class TextLength(msgspec.Struct, frozen=True):
    """The most characters of a text column; `padded` for char."""

    column: str
    limit: int
    padded: bool


class WriteRules(msgspec.Struct, frozen=True):
    """Everything that a table asks of the rows that are written to it."""

    schema: StructType
    append_only: bool
    checks: tuple[RowCheck, ...]
    generated: Mapping[str, GeneratedColumn]
    defaults: Mapping[str, TableRule]
    lengths: tuple[TextLength, ...]

    @classmethod
    def of(cls, metadata: Metadata, protocol: Protocol, schema: StructType) -> WriteRules:
        """The rules of a table with this schema; raises where one of them cannot be evaluated."""
        features = features_of(protocol)
        arrow = arrow_schema(schema)
        _refuse_identity(schema, features)
        rules = (*check_constraints(metadata.properties), *invariants(schema))
        return cls(
            schema,
            TableProperties.from_configuration(metadata.properties).append_only,
            tuple(RowCheck(rule, condition(rule, arrow)) for rule in rules),
            _generated(schema, arrow) if "generatedColumns" in features else {},
            _defaults(schema) if "allowColumnDefaults" in features else {},
            tuple(_lengths(schema)),
        )

    def apply(
        self,
        batches: Iterable[pa.RecordBatch],
        input_columns: Sequence[str],
        *,
        now: datetime.datetime | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows with the table's columns and types, each checked; refusals come before the first row."""
        moment = now or datetime.datetime.now(datetime.UTC)
        given = self._given(input_columns)
        defaults = {
            field.name: self._default(field, moment)
            for field in self.schema.fields
            if field.name not in given
        }
        missing = [field.name for field in self.schema.fields if self._lacks(field, defaults)]
        if missing:
            raise NotNullViolationError(missing[0])
        return (self._checked(batch, given, defaults) for batch in batches)

    def _given(self, input_columns: Sequence[str]) -> dict[str, str]:
        """Which column of the input fills which of the table; the others are made."""
        given: dict[str, str] = {}
        for name in input_columns:
            field = self.schema.find(name)
            if field is None:
                raise SchemaMismatchError(
                    f"The table has no column {name}: leave it out, or let the schema grow "
                    "(merge_schema=True)."
                )
            if field.name in given:
                raise SchemaMismatchError(f"The data has the column {field.name} twice (names ignore case).")
            given[field.name] = name
        return given

    def _default(self, field: StructField, now: datetime.datetime) -> pa.Scalar:
        rule = self.defaults.get(field.name)
        if rule is None or field.name in self.generated:
            return pa.scalar(None, arrow_type(field.data_type))
        return _default_value(rule, arrow_type(field.data_type), now)

    def _lacks(self, field: StructField, defaults: Mapping[str, Any]) -> bool:
        made = field.name in self.generated or field.name not in defaults
        return not field.nullable and not made and not defaults[field.name].is_valid

    def _checked(
        self, batch: pa.RecordBatch, given: Mapping[str, str], defaults: Mapping[str, pa.Scalar]
    ) -> pa.RecordBatch:
        columns = {
            field.name: coerce_array(batch.column(given[field.name]), field.data_type, (field.name,))
            if field.name in given
            else _repeated(defaults[field.name], batch.num_rows)
            for field in self.schema.fields
        }
        rows = self._rows(columns)
        computed = {name: _computed(made, rows) for name, made in self.generated.items() if name not in given}
        rows = self._rows({**columns, **computed}) if computed else rows
        for field in self.schema.fields:
            check_not_null(rows.column(field.name), field, ())
        for name in self.generated.keys() & given.keys():
            _check_agreement(self.generated[name], rows)
        for check in self.checks:
            check_condition(check, rows)
        return pa.RecordBatch.from_arrays(rows.columns, schema=arrow_schema(self.schema))

    def _rows(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        lengths = {length.column: length for length in self.lengths}
        limited = [
            _limited(columns[name], lengths[name]) if name in lengths else columns[name]
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(limited, names=list(self.schema.names))


def check_not_null(values: Any, field: StructField, parent: ColumnPath) -> None:
    """Refuses a null where a field, or a part of it, must have a value; null parents have no parts."""
    path = (*parent, field.name)
    if not field.nullable and values.null_count:
        raise NotNullViolationError(".".join(path))
    _check_parts(values, field.data_type, path)


def check_default(rule: TableRule, data_type: DataType) -> None:
    """Refuses a default that cannot be evaluated for a column of this type."""
    _default_value(rule, arrow_type(data_type), datetime.datetime.now(datetime.UTC))


def check_condition(check: RowCheck, rows: pa.RecordBatch) -> None:
    """Refuses rows of which one breaks a rule."""
    try:
        holds = filter_mask(check.tree, rows)
    except ExpressionFailedError as error:
        raise _failed(check.rule, check.tree, rows, error) from error
    if not pc.all(holds).as_py() and rows.num_rows:
        row = _sample(check.tree, rows, pc.index(holds, False).as_py())
        raise ConstraintViolationError(check.rule.title, check.rule.text, row)


def _check_parts(values: Any, data_type: DataType, path: ColumnPath) -> None:
    if not _demands_values(data_type):
        return
    if values.null_count:
        values = values.drop_null()
    match data_type:
        case StructType(fields):
            for at, field in enumerate(fields):
                check_not_null(values.field(at), field, path)
        case ArrayType(element, contains_null):
            _check_items(values, values.values, element, contains_null, (*path, "element"))
        case MapType(key, value, contains_null):
            _check_items(values, values.keys, key, False, (*path, "key"))
            _check_items(values, values.items, value, contains_null, (*path, "value"))
        case _:
            return


def _check_items(values: Any, items: Any, data_type: DataType, contains_null: bool, path: ColumnPath) -> None:
    _, (first, length) = list_parts(values)
    field = StructField(path[-1], data_type, contains_null)
    check_not_null(items.slice(first, length), field, path[:-1])


def _demands_values(data_type: DataType) -> bool:
    """Whether some part of a type must not be null."""
    match data_type:
        case StructType(fields):
            return any(not field.nullable or _demands_values(field.data_type) for field in fields)
        case ArrayType(element, contains_null):
            return not contains_null or _demands_values(element)
        case MapType(key, value, contains_null):
            return not contains_null or _demands_values(key) or _demands_values(value)
        case _:
            return False


def _refuse_identity(schema: StructType, features: frozenset[str]) -> None:
    for path, field in walk_fields(schema):
        if IDENTITY_KEY in field.metadata and "identityColumns" in features:
            raise UnsupportedRuleError(
                f"Identity column {'.'.join(path)}",
                "GENERATED … AS IDENTITY",
                "its values must be unique over all writers, which this writer does not coordinate",
            )


def _generated(schema: StructType, arrow: pa.Schema) -> dict[str, GeneratedColumn]:
    return {rule.column[0]: _generated_column(rule, schema, arrow) for rule in generated_columns(schema)}


def _generated_column(rule: TableRule, schema: StructType, arrow: pa.Schema) -> GeneratedColumn:
    name, *nested = rule.column
    if nested:
        raise UnsupportedRuleError(rule.title, rule.text, "only whole columns can be generated")
    wanted = arrow_type(schema.field(name).data_type)
    value = Cast(parsed_rule(rule), wanted)
    agrees = Comparison("<=>", Column(rule.column), value)
    return GeneratedColumn(rule, bound_rule(rule, value, arrow), bound_rule(rule, agrees, arrow))


def _defaults(schema: StructType) -> dict[str, TableRule]:
    return {
        field.name: TableRule(f"The default of column {field.name}", str(field.metadata[DEFAULT_KEY]))
        for field in schema.fields
        if DEFAULT_KEY in field.metadata
    }


def _default_value(rule: TableRule, wanted: pa.DataType, now: datetime.datetime) -> pa.Scalar:
    moment = _MOMENT.fullmatch(rule.text.strip())
    if moment is None:
        tree = parsed_rule(rule)
    elif "date" in moment[1].lower():
        tree = Literal(now.astimezone(datetime.UTC).date(), pa.date32())
    else:
        tree = Literal(now, TIMESTAMP)
    if isinstance(tree, Literal) and tree.value is None:
        return pa.scalar(None, wanted)
    bound = bound_rule(rule, Cast(tree, wanted), pa.schema([]))
    if not isinstance(bound, Literal):
        raise UnsupportedRuleError(rule.title, rule.text, "it is not a constant")
    return pa.scalar(bound.value, wanted)


def _lengths(schema: StructType) -> Iterator[TextLength]:
    for path, field in walk_fields(schema):
        text = field.metadata.get(LENGTH_KEY)
        if text is None:
            continue
        found = _LENGTH.fullmatch(str(text).strip())
        if found is None or len(path) > 1:
            raise UnsupportedRuleError(f"The length of column {'.'.join(path)}", str(text), "it is nested")
        yield TextLength(field.name, int(found[2]), found[1].lower() == "char")


def _limited(values: pa.Array, length: TextLength) -> pa.Array:
    """Texts within their length: spaces beyond it fall away, anything else beyond it is refused."""
    longer = pc.greater(pc.utf8_length(values), length.limit)
    if pc.any(longer).as_py():
        trimmed = pc.utf8_rtrim(values, characters=" ")
        bad = pc.greater(pc.utf8_length(trimmed), length.limit)
        if pc.any(bad).as_py():
            kind = f"{'char' if length.padded else 'varchar'}({length.limit})"
            sample = _shown(values[pc.index(bad, True).as_py()].as_py())
            raise ConstraintViolationError(
                f"The length of column {length.column}",
                kind,
                f"{length.column} = {sample}",
                why="is exceeded",
            )
        cut = pc.utf8_slice_codeunits(values, 0, length.limit)
        values = pc.if_else(longer, cut, values)
    return pc.utf8_rpad(values, length.limit) if length.padded else values


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)


def _computed(made: GeneratedColumn, rows: pa.RecordBatch) -> pa.Array:
    try:
        return evaluate(made.value, rows)
    except ExpressionFailedError as error:
        raise _failed(made.rule, made.value, rows, error) from error


def _check_agreement(made: GeneratedColumn, rows: pa.RecordBatch) -> None:
    try:
        agrees = filter_mask(made.agrees, rows)
    except ExpressionFailedError as error:
        raise _failed(made.rule, made.agrees, rows, error) from error
    if not pc.all(agrees).as_py() and rows.num_rows:
        row = _sample(made.agrees, rows, pc.index(agrees, False).as_py())
        raise GeneratedColumnError(".".join(made.rule.column), made.rule.text, row)


def _failed(
    rule: TableRule, tree: Expression, rows: pa.RecordBatch, error: ExpressionFailedError
) -> ConstraintViolationError:
    """The error for a row that makes an expression fail; the row is found by halving."""
    start, count = 0, rows.num_rows
    while count > 1:
        half = count // 2
        try:
            evaluate(tree, rows.slice(start, half))
        except ExpressionFailedError:
            count = half
        else:
            start, count = start + half, count - half
    return ConstraintViolationError(rule.title, rule.text, _sample(tree, rows, start), why=f"fails ({error})")


def _sample(tree: Expression, rows: pa.RecordBatch, at: int) -> str:
    """The values of one row that a rule reads, shortened."""
    names = sorted({path[0] for path in columns_of(tree)})
    shown = [f"{name} = {_shown(rows.column(name)[at].as_py())}" for name in names[:_MOST_VALUES]]
    return ", ".join(shown) or "any values"


def _shown(value: object) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
