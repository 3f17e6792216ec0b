"""What a merge assigns to which columns, and how the table's schema grows by it.

The `all` forms take every column of the table from the source, by name and whatever the case; a column that
the source lacks is an error. With schema evolution it keeps its value instead (or gets its default), and
what the source has beyond the table becomes new columns, nested ones too; fields of a struct that only the
table has keep their values. A named assignment brings along the column of that name from the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from distributary.delta.errors import SchemaMismatchError
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import WritePlan
from distributary.delta.schema.data_types import ArrayType, DataType, MapType, StructField, StructType
from distributary.delta.schema.schema_evolution import is_widening
from distributary.delta.table_properties import ENABLE_TYPE_WIDENING
from distributary.spark.assignments import ColumnPath, computed_names, find_path, split_name
from distributary.spark.merge_clauses import MergeClause
from distributary.spark.write_plan import plan_write


def grown_plan(
    spark: SparkSession,
    snapshot: Snapshot,
    source: StructType,
    clauses: Sequence[MergeClause],
    alias: str | None,
) -> WritePlan:
    """The table with the columns that the clauses bring along from the source."""
    brought = source if any(clause.takes_all for clause in clauses) else _named(source, clauses, alias)
    widen = snapshot.properties.get(ENABLE_TYPE_WIDENING)
    new = _new_parts(snapshot.schema, brought, widen)
    return plan_write(spark, snapshot, new, merge_schema=True)


def taken_paths(
    clause: MergeClause, plan: WritePlan, source: StructType, *, grow: bool
) -> list[tuple[ColumnPath, ColumnPath]]:
    """The columns of the table that an `all` clause assigns, each with the column of the source."""
    computed = computed_names(plan)
    taken: list[tuple[ColumnPath, ColumnPath]] = []
    for column in plan.schema.fields:
        found = source.find(column.name)
        if found is not None:
            keep = grow and clause.verb == "update"
            taken.extend(_taken(column, found, (column.name,), (found.name,), keep))
        elif not grow and column.name not in computed:
            raise SchemaMismatchError(
                f"{clause} takes all columns from the source, which has no {column.name}: name the columns "
                "that are to be set, or let the schema grow (withSchemaEvolution), which keeps what is "
                "lacking."
            )
    return taken


def _taken(
    column: StructField, found: StructField, path: ColumnPath, source: ColumnPath, keep: bool
) -> Iterator[tuple[ColumnPath, ColumnPath]]:
    """One column, or the fields of it that the source has where others are to be kept."""
    want, have = column.data_type, found.data_type
    if not (keep and isinstance(want, StructType) and isinstance(have, StructType)) or _covers(have, want):
        yield path, source
        return
    for field in want.fields:
        inner = have.find(field.name)
        if inner is not None:
            yield from _taken(field, inner, (*path, field.name), (*source, inner.name), keep)


def _covers(have: StructType, want: StructType) -> bool:
    """Whether a struct has every field of another, at every level."""
    for field in want.fields:
        found = have.find(field.name)
        if found is None:
            return False
        inner, wanted = found.data_type, field.data_type
        if isinstance(inner, StructType) and isinstance(wanted, StructType) and not _covers(inner, wanted):
            return False
    return True


def _named(source: StructType, clauses: Sequence[MergeClause], alias: str | None) -> StructType:
    """The columns of the source that have the names of assigned ones."""
    names: dict[str, StructField] = {}
    for clause in clauses:
        for name in clause.values:
            path = split_name(name)
            if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
                path = path[1:]
            found = find_path(source, path)
            if found is not None:
                names[found[0]] = _cut(source.field(found[0]), found[1:])
    return StructType(tuple(names.values()))


def _cut(field: StructField, path: ColumnPath) -> StructField:
    """A field with only that of its parts which a path leads to."""
    if not path or not isinstance(field.data_type, StructType):
        return field
    return field.with_type(StructType((_cut(field.data_type.field(path[0]), path[1:]),)))


def _new_parts(table: StructType, source: StructType, widen: bool) -> StructType:
    """What a source has beyond a table: new columns, new fields, and wider types where they may come in."""
    parts: list[StructField] = []
    for field in source.fields:
        known = table.find(field.name)
        if known is None:
            parts.append(StructField(field.name, field.data_type))
        else:
            new = _new_part(known.data_type, field.data_type, widen)
            if new is not None:
                parts.append(StructField(known.name, new))
    return StructType(tuple(parts))


def _new_part(table: DataType, source: DataType, widen: bool) -> DataType | None:
    match table, source:
        case StructType(), StructType():
            parts = _new_parts(table, source, widen)
            return parts if parts.fields else None
        case ArrayType(element, _), ArrayType(other, _):
            part = _new_part(element, other, widen)
            return None if part is None else ArrayType(part)
        case MapType(key, value, _), MapType(_, other, _):
            part = _new_part(value, other, widen)
            return None if part is None else MapType(key, part)
        case _:
            return source if widen and is_widening(table, source) else None
