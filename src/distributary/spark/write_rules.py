"""The rules of a table, applied to the rows of a DataFrame in Spark's own SQL.

Implements for Spark what `commit.write_validation` does for Arrow: NOT NULL at every level, CHECK constraints
and invariants (false and null both violate them), generated columns (computed, or compared by `<=>`), column
defaults, and the lengths of char and varchar. Every text goes to Spark as it is in the log, so that any
expression works that Spark knows.

Checks stand in one filter that Spark must not move, since it holds a non-deterministic part: moved below a
limit or a join, it would refuse rows that are never written. A broken rule fails the job; the error names
the rule and shows a row (see rule_violation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from distributary.delta.commit.table_rules import TableRule, check_constraints, generated_columns, invariants
from distributary.delta.commit.write_validation import DEFAULT_KEY, IDENTITY_KEY, LENGTH_KEY
from distributary.delta.errors import NotNullViolationError, SchemaMismatchError, UnsupportedRuleError
from distributary.delta.log.protocol_support import features_of
from distributary.delta.operations.append import WritePlan
from distributary.delta.schema.data_types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)
from distributary.delta.schema.schema_edits import walk_fields
from distributary.spark.row_identity import IDENTITY, carried
from distributary.spark.rule_violation import BrokenRule, column_named, shown_value, shown_values
from distributary.spark.store_assignment import StoreAssignment, bare, spark_type

_LENGTH: Final = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)


class _Check(msgspec.Struct, frozen=True):
    """A condition that is true for rows that break a rule, and what is then said."""

    broken: Column
    rule: BrokenRule
    row: Column | None = None


def apply_rules(frame: DataFrame, plan: WritePlan, *, within: str | None = None) -> DataFrame:
    """The rows with the table's columns, in order and in their types, each checked when it is written.

    Rows that have an identity (row_identity) keep it.
    `within` is one more condition, that of `replace_where`: no row may be written outside of it.
    """
    features = features_of(plan.protocol)
    _refuse_identity(plan.schema, features)
    generated = {rule.column[0]: rule for rule in _generated(plan.schema, features)}
    given = _given(frame, plan.schema)
    defaults = "allowColumnDefaults" in features
    filled = _filled(frame, plan.schema, given, frozenset(generated), defaults)
    computed = _computed(filled, plan.schema, generated)
    checks = [
        *_not_null_checks(plan.schema),
        *_length_checks(plan.schema),
        *_agreement_checks(plan.schema, {name: generated[name] for name in generated.keys() & given.keys()}),
        *_condition_checks(plan),
    ]
    if within is not None:
        region = TableRule("replace_where", within)
        checks.append(_condition_check(region, plan.schema))
    checked = _checked(computed, checks)
    if not list(_lengths(plan.schema)):
        return checked
    return checked.select(*_limited_columns(plan.schema), *carried(frame))


def rows_in_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Rows of an older schema of a table under a later one: new columns are null, nothing is checked."""
    return _filled(frame, schema, _given(frame, schema), frozenset(), use_defaults=False)


def _given(frame: DataFrame, schema: StructType) -> dict[str, str]:
    """Which column of the data fills which of the table."""
    given: dict[str, str] = {}
    for name in frame.columns:
        if name in IDENTITY:
            continue
        field = schema.find(name)
        if field is None:
            raise SchemaMismatchError(
                f"The table has no column {name}: leave it out, or let the schema grow (merge_schema=True)."
            )
        if field.name in given:
            raise SchemaMismatchError(f"The data has the column {field.name} twice (names ignore case).")
        given[field.name] = name
    return given


def _filled(
    frame: DataFrame,
    schema: StructType,
    given: Mapping[str, str],
    generated: frozenset[str],
    use_defaults: bool,
) -> DataFrame:
    """The columns that the data has, cast, and defaults or nulls for the others but generated ones."""
    have = parse_schema(frame.schema.json())
    if _is_as_stored(have, schema):
        return frame
    assignment = StoreAssignment(frame.sparkSession)
    columns: list[Column] = []
    for field in schema.fields:
        if field.name in given:
            source = have.field(given[field.name])
            value = assignment.column(
                column_named(source.name), source.data_type, field.data_type, (field.name,)
            )
        elif field.name in generated:
            continue
        else:
            value = _default(field, use_defaults)
        columns.append(value.alias(field.name))
    return frame.select(*columns, *carried(frame))


def _is_as_stored(have: StructType, schema: StructType) -> bool:
    """Whether data has the columns of a table already: every question to Spark that is not asked is time."""
    return have.names == schema.names and all(
        bare(field.data_type) == bare(known.data_type)
        for field, known in zip(have.fields, schema.fields, strict=True)
    )


def _default(field: StructField, use_defaults: bool) -> Column:
    text = field.metadata.get(DEFAULT_KEY) if use_defaults else None
    if text is not None:
        rule = TableRule(f"The default of column {field.name}", str(text))
        return _parsed(rule).cast(spark_type(field.data_type))
    if not field.nullable:
        raise NotNullViolationError(field.name)
    return F.lit(None).cast(spark_type(field.data_type))


def _generated(schema: StructType, features: frozenset[str]) -> Iterator[TableRule]:
    if "generatedColumns" not in features:
        return
    for rule in generated_columns(schema):
        if len(rule.column) > 1:
            raise UnsupportedRuleError(rule.title, rule.text, "only whole columns can be generated")
        yield rule


def _computed(filled: DataFrame, schema: StructType, generated: Mapping[str, TableRule]) -> DataFrame:
    """The rows with the generated columns that the data lacks."""
    missing = [name for name in schema.names if name in generated and name not in filled.columns]
    made = {name: _generated_value(generated[name], schema.field(name)) for name in missing}
    if not made:
        return filled
    try:
        names = [*schema.names, *carried(filled)]
        return filled.withColumns(made).select(*[column_named(name) for name in names])
    except AnalysisException as error:
        raise _unusable(generated[missing[0]], error) from error


def _generated_value(rule: TableRule, field: StructField) -> Column:
    return _parsed(rule).cast(spark_type(field.data_type))


def _not_null_checks(schema: StructType) -> Iterator[_Check]:
    for field in schema.fields:
        if not _may_lack_a_value(field):
            continue
        for broken, path in _nulls(column_named(field.name), field, ()):
            yield _Check(broken, BrokenRule("not null", ".".join(path)))


def _may_lack_a_value(field: StructField) -> bool:
    """Whether a null somewhere in a column may break a rule."""
    match field.data_type:
        case StructType(fields):
            inner = any(map(_may_lack_a_value, fields))
        case ArrayType(element, contains_null):
            inner = _may_lack_a_value(StructField("element", element, contains_null))
        case MapType():
            inner = True
        case _:
            inner = False
    return inner or not field.nullable


def _nulls(
    value: Column, field: StructField, parent: tuple[str, ...]
) -> Iterator[tuple[Column, tuple[str, ...]]]:
    """Where a value that must not be null is; null parents have no parts."""
    path = (*parent, field.name)
    if not field.nullable:
        yield value.isNull(), path
    for broken, inner in _null_parts(value, field.data_type, path):
        yield value.isNotNull() & broken, inner


def _null_parts(
    value: Column, data_type: DataType, path: tuple[str, ...]
) -> Iterator[tuple[Column, tuple[str, ...]]]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield from _nulls(value.getField(field.name), field, path)
        case ArrayType(element, contains_null):
            yield from _null_items(value, StructField("element", element, contains_null), path)
        case MapType(key, item, contains_null):
            yield from _null_items(F.map_keys(value), StructField("key", key), path)
            yield from _null_items(F.map_values(value), StructField("value", item, contains_null), path)
        case _:
            return


def _null_items(
    values: Column, item: StructField, path: tuple[str, ...]
) -> Iterator[tuple[Column, tuple[str, ...]]]:
    """The nulls inside of arrays: each kind is one condition on an element."""
    for at, (_, inner) in enumerate(list(_nulls(F.lit(None), item, path))):
        yield F.exists(values, _null_item(item, path, at)), inner


def _null_item(item: StructField, path: tuple[str, ...], at: int) -> Callable[[Column], Column]:
    """Whether an element has the null that stands at this place among those it may have."""

    def broken(element: Column) -> Column:
        return F.coalesce(list(_nulls(element, item, path))[at][0], F.lit(False))

    return broken


def _length_checks(schema: StructType) -> Iterator[_Check]:
    for field, limit, kind in _lengths(schema):
        value = column_named(field.name)
        broken = (F.char_length(value) > limit) & (F.char_length(F.rtrim(value)) > limit)
        title = f"The length of column {field.name}"
        yield _Check(
            broken,
            BrokenRule("length", title, f"{kind}({limit})", why="is exceeded"),
            F.concat(F.lit(f"{field.name} = "), shown_value(value)),
        )


def _lengths(schema: StructType) -> Iterator[tuple[StructField, int, str]]:
    for path, field in walk_fields(schema):
        text = field.metadata.get(LENGTH_KEY)
        if text is None:
            continue
        found = _LENGTH.fullmatch(str(text).strip())
        if found is None or len(path) > 1:
            raise UnsupportedRuleError(f"The length of column {'.'.join(path)}", str(text), "it is nested")
        yield field, int(found[2]), found[1].lower()


def _limited_columns(schema: StructType) -> list[Column]:
    """The columns, texts cut to their length (only spaces are beyond it) and char padded."""
    columns = {field.name: column_named(field.name) for field in schema.fields}
    for field, limit, kind in _lengths(schema):
        value = columns[field.name]
        cut = F.when(F.char_length(value) > limit, F.substring(value, 1, limit)).otherwise(value)
        columns[field.name] = (F.rpad(cut, limit, " ") if kind == "char" else cut).alias(field.name)
    return list(columns.values())


def _agreement_checks(schema: StructType, rules: Mapping[str, TableRule]) -> Iterator[_Check]:
    for name, rule in rules.items():
        value = _generated_value(rule, schema.field(name))
        agrees = column_named(name).eqNullSafe(value)
        row = shown_values([name, *_columns_in(rule.text, schema, without=name)])
        yield _Check(~agrees, BrokenRule("generated", name, rule.text), row)


def _condition_checks(plan: WritePlan) -> Iterator[_Check]:
    for rule in (*check_constraints(plan.metadata.properties), *invariants(plan.schema)):
        yield _condition_check(rule, plan.schema)


def _condition_check(rule: TableRule, schema: StructType) -> _Check:
    holds = F.coalesce(_parsed(rule).cast("boolean"), F.lit(False))
    row = shown_values(_columns_in(rule.text, schema))
    return _Check(~holds, BrokenRule("check", rule.title, rule.text), row)


def _checked(frame: DataFrame, checks: Sequence[_Check]) -> DataFrame:
    """The rows under one filter in which the first broken rule raises."""
    if not checks:
        return frame
    outcome = F.when(F.monotonically_increasing_id() < 0, F.lit(False))
    for check in checks:
        outcome = outcome.when(check.broken, check.rule.raised(check.row).cast("boolean"))
    try:
        return frame.filter(outcome.otherwise(F.lit(True)))
    except AnalysisException as error:
        raise _culprit(frame, checks, error) from error


def _culprit(frame: DataFrame, checks: Sequence[_Check], error: AnalysisException) -> UnsupportedRuleError:
    """The error for the rule that Spark cannot resolve against the table's columns."""
    for check in checks:
        try:
            frame.filter(check.broken)
        except AnalysisException as reason:
            return _unusable(TableRule(check.rule.title, check.rule.text), reason)
    return _unusable(TableRule("A rule of the table", ""), error)


def _parsed(rule: TableRule) -> Column:
    try:
        return F.expr(rule.text)
    except ParseException as error:
        raise _unusable(rule, error) from error


def _unusable(rule: TableRule, error: Exception) -> UnsupportedRuleError:
    reason = next(iter(str(error).strip().splitlines()), "Spark refuses it")
    return UnsupportedRuleError(rule.title, rule.text, reason)


def _columns_in(text: str, schema: StructType, without: str = "") -> list[str]:
    """The columns whose names occur in an expression, to show of a row."""
    words = {word.lower() for word in re.findall(r"[^\W\d]\w*", text)}
    return [name for name in schema.names if name.lower() in words and name != without]


def _refuse_identity(schema: StructType, features: frozenset[str]) -> None:
    for path, field in walk_fields(schema):
        if IDENTITY_KEY in field.metadata and "identityColumns" in features:
            raise UnsupportedRuleError(
                f"Identity column {'.'.join(path)}",
                "GENERATED … AS IDENTITY",
                "its values must be unique over all writers, which this writer does not coordinate",
            )


def check_rules(spark: SparkSession, plan: WritePlan) -> None:
    """Refuse rules that Spark cannot evaluate over the table's columns; nothing is run."""
    columns = [
        F.lit(None).cast(spark_type(field.data_type)).alias(field.name) for field in plan.schema.fields
    ]
    apply_rules(spark.range(0).select(*columns), plan)
