"""Assignments: the new values of a row, of columns or of parts of them, under store assignment.

An assignment names a column (`amount`), a field of a struct (`address.city`), or quotes names with backticks.
Two assignments must not overlap. What is not assigned keeps its value where a row is updated and gets its
default (or null) where a row is inserted; generated columns that are not assigned are computed from the new
values. A struct of which a part is assigned is there afterwards, even where it was null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.commit.table_rules import generated_columns
from distributary.delta.commit.write_validation import DEFAULT_KEY
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.log.protocol_support import features_of
from distributary.delta.operations.append import WritePlan
from distributary.delta.schema.data_types import (
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from distributary.errors import InvalidInputError, UnknownColumnError
from distributary.spark.resolved_columns import ResolvedColumn
from distributary.spark.rule_violation import BrokenRule, column_named, shown_value
from distributary.spark.store_assignment import StoreAssignment, spark_type

ColumnPath = tuple[str, ...]
# Gives the value that a column has before the change.
Before = Callable[[str], Column]


class Assignment(msgspec.Struct, frozen=True):
    """A column, or a part of one, and its new value."""

    path: ColumnPath
    value: ResolvedColumn


def split_name(name: str) -> ColumnPath:
    """The parts of a name such as ``a.b`` or ``a.`b.c` ``."""
    parts: list[str] = []
    rest = name.strip()
    while rest:
        if rest.startswith("`"):
            part, rest = _quoted_part(rest, name)
        else:
            head, dot, rest = rest.partition(".")
            part, rest = head.strip(), dot + rest
        if not part or (rest and not rest.startswith(".")) or rest == ".":
            raise InvalidInputError(f"{name!r} is no name of a column")
        parts.append(part)
        rest = rest[1:]
    if not parts:
        raise InvalidInputError("the name of a column is empty")
    return tuple(parts)


def _quoted_part(rest: str, name: str) -> tuple[str, str]:
    at = 1
    part = ""
    while True:
        end = rest.find("`", at)
        if end < 0:
            raise InvalidInputError(f"{name!r} has a backtick that is not closed")
        part += rest[at:end]
        if not rest.startswith("``", end):
            return part, rest[end + 1 :].lstrip()
        part += "`"
        at = end + 2


def find_path(schema: StructType, path: ColumnPath) -> ColumnPath | None:
    """The path as the schema writes it, or None where there is no such column or field."""
    found: list[str] = []
    here: object = schema
    for part in path:
        field = here.find(part) if isinstance(here, StructType) else None
        if field is None:
            return None
        found.append(field.name)
        here = field.data_type
    return tuple(found)


def known_path(schema: StructType, name: str, qualifier: str | None = None) -> ColumnPath:
    """The column or field of a table that a name means; `qualifier` is what the table is called."""
    path = split_name(name)
    found = find_path(schema, path)
    if found is None and qualifier is not None and len(path) > 1 and path[0].lower() == qualifier.lower():
        found = find_path(schema, path[1:])
    if found is None:
        raise UnknownColumnError(
            f"The table has no column {name}. Its columns: {', '.join(schema.names)}. New ones come with a "
            "merge that lets the schema grow."
        )
    return found


def new_columns(
    spark: SparkSession,
    plan: WritePlan,
    assignments: Sequence[Assignment],
    before: Before | None,
    *,
    grow: bool = False,
) -> dict[str, Column]:
    """The assigned columns, and with `before` all others as they were (but generated ones).

    With `grow` a struct may lack fields of its column, which are then null.
    """
    for assigned in assignments if not grow else ():
        _check_fields(assigned, plan.schema)
    tree = _tree(assignments)
    store = StoreAssignment(spark)
    generated = computed_names(plan)
    columns: dict[str, Column] = {}
    for field in plan.schema.fields:
        old = None if before is None else before(field.name)
        if field.name in tree:
            columns[field.name] = _value(store, field, tree[field.name], old, (field.name,))
        elif old is not None and field.name not in generated:
            columns[field.name] = old
    return columns


def computed_names(plan: WritePlan) -> frozenset[str]:
    """The generated columns of a table."""
    if "generatedColumns" not in features_of(plan.protocol):
        return frozenset()
    return frozenset(rule.column[0] for rule in generated_columns(plan.schema))


def with_computed(
    frame: DataFrame, plan: WritePlan, before: Before | None = None, changed: Column | None = None
) -> DataFrame:
    """Rows with the generated columns that they lack: computed, or as they were where nothing changed."""
    rules = {rule.column[0]: rule.text for rule in generated_columns(plan.schema)}
    made: dict[str, Column] = {}
    for name in computed_names(plan):
        if name not in frame.columns:
            made[name] = sf.expr(rules[name]).cast(spark_type(plan.schema.field(name).data_type))
            if before is not None and changed is not None:
                made[name] = sf.when(changed, made[name]).otherwise(before(name))
    return frame.withColumns(made) if made else frame


def default_text(field: StructField) -> str:
    """The SQL of a column's default, for `SET column = DEFAULT`."""
    return str(field.metadata.get(DEFAULT_KEY, "NULL"))


def is_default(value: Column | str) -> bool:
    """Whether an assigned text asks for the column's default."""
    return isinstance(value, str) and value.strip().lower() == "default"


_Tree = dict[str, "ResolvedColumn | _Tree"]


def _tree(assignments: Sequence[Assignment]) -> _Tree:
    """Assignments by the parts of their paths; refuses those that overlap."""
    root: _Tree = {}
    for assigned in assignments:
        here = root
        for part in assigned.path[:-1]:
            below = here.setdefault(part, {})
            if isinstance(below, ResolvedColumn):
                raise _overlap(assigned.path)
            here = below
        if assigned.path[-1] in here:
            raise _overlap(assigned.path)
        here[assigned.path[-1]] = assigned.value
    return root


def _check_fields(assigned: Assignment, schema: StructType) -> None:
    """Refuse a struct that has other fields than the column that it is assigned to."""
    wanted: DataType = schema
    for part in assigned.path:
        wanted = wanted.field(part).data_type if isinstance(wanted, StructType) else wanted
    differing = _differing(assigned.value.data_type, wanted)
    if differing is not None:
        raise SchemaMismatchError(
            f"{'.'.join(assigned.path)} is {wanted}, and the value is {assigned.value.data_type}: they "
            f"differ in the field {differing}. Assign the fields one by one, or merge with schema evolution."
        )


def _differing(have: DataType, want: DataType) -> str | None:
    match have, want:
        case StructType(), StructType():
            ours, theirs = ({name.lower() for name in struct.names} for struct in (have, want))
            if ours != theirs:
                return min(ours ^ theirs)
            inner = (_differing(field.data_type, want.field(field.name).data_type) for field in have.fields)
            return next((name for name in inner if name is not None), None)
        case ArrayType(element, _), ArrayType(other, _):
            return _differing(element, other)
        case MapType(key, value, _), MapType(other_key, other, _):
            return _differing(key, other_key) or _differing(value, other)
        case _:
            return None


def _overlap(path: ColumnPath) -> InvalidInputError:
    return InvalidInputError(f"{'.'.join(path)} is assigned twice: leave one of the assignments out")


def _value(
    store: StoreAssignment,
    field: StructField,
    new: ResolvedColumn | _Tree,
    old: Column | None,
    path: ColumnPath,
) -> Column:
    if isinstance(new, ResolvedColumn):
        return _assigned(store, new, field, path)
    if not isinstance(field.data_type, StructType):
        raise SchemaMismatchError(f"{'.'.join(path)} is {field.data_type}, which has no fields to assign.")
    members: list[Column] = []
    for member in field.data_type.fields:
        before = None if old is None else old.getField(member.name)
        if member.name in new:
            made = _value(store, member, new[member.name], before, (*path, member.name))
        else:
            made = sf.lit(None).cast(spark_type(member.data_type)) if before is None else before
        members.append(made.alias(member.name))
    return sf.struct(*members)


def _assigned(store: StoreAssignment, new: ResolvedColumn, field: StructField, path: ColumnPath) -> Column:
    """A value in the type of its column; a text is read as that type, which an insert would refuse."""
    wanted = field.data_type
    if new.data_type != STRING or not isinstance(wanted, PrimitiveType | DecimalType) or wanted == STRING:
        return store.column(new.column, new.data_type, wanted, path)
    target = spark_type(wanted)
    read = new.column.try_cast(target)
    failure = BrokenRule("assignment", ".".join(path), str(wanted)).raised(shown_value(new.column))
    return sf.when(new.column.isNotNull() & read.isNull(), failure.cast(target)).otherwise(read)


def by_name(name: str) -> Column:
    """The value that a column of a frame has under its own name."""
    return column_named(name)
