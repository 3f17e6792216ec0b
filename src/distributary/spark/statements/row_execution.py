"""MERGE, UPDATE, DELETE and INSERT, carried out."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from distributary.delta.schema.data_types import StructType
from distributary.delta.table import DeltaTable as EngineTable
from distributary.errors import InvalidInputError
from distributary.spark.assignments import default_text
from distributary.spark.delta_table import DeltaTable
from distributary.spark.merge_builder import DeltaMergeBuilder
from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.places import is_ours, nothing, place_of
from distributary.spark.statements.queries import run_query
from distributary.spark.statements.syntax import Assignment, Delete, Insert, Merge, Update, WhenClause
from distributary.spark.statements.table_names import column_text
from distributary.spark.table_write import write_table

_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


def run_merge(spark: SparkSession, statement: Merge) -> DataFrame:
    """MERGE INTO."""
    source = run_query(spark, f"SELECT * FROM {statement.source}")
    if statement.source_alias is not None:
        source = source.alias(statement.source_alias)
    builder = _aliased(spark, statement).merge(source, statement.condition)
    for clause in statement.clauses:
        builder = _with_clause(builder, clause)
    return (builder.withSchemaEvolution() if statement.schema_evolution else builder).execute()


def _with_clause(builder: DeltaMergeBuilder, clause: WhenClause) -> DeltaMergeBuilder:
    values = _values(clause.assignments)
    match clause.kind, clause.action:
        case "matched", "update":
            return builder.whenMatchedUpdate(clause.condition, values)
        case "matched", "update_all":
            return builder.whenMatchedUpdateAll(clause.condition)
        case "matched", _:
            return builder.whenMatchedDelete(clause.condition)
        case "not_matched", "insert":
            return builder.whenNotMatchedInsert(clause.condition, values)
        case "not_matched", _:
            return builder.whenNotMatchedInsertAll(clause.condition)
        case _, "update":
            return builder.whenNotMatchedBySourceUpdate(clause.condition, values)
        case _:
            return builder.whenNotMatchedBySourceDelete(clause.condition)


def run_update(spark: SparkSession, statement: Update) -> DataFrame | None:
    """UPDATE."""
    if not is_ours(spark, statement.table):
        return None
    return _aliased(spark, statement).update(statement.condition, _values(statement.assignments))


def run_delete(spark: SparkSession, statement: Delete) -> DataFrame | None:
    """DELETE FROM."""
    if not is_ours(spark, statement.table):
        return None
    return _aliased(spark, statement).delete(statement.condition)


def _aliased(spark: SparkSession, statement: Merge | Update | Delete) -> DeltaTable:
    table = DeltaTable.forPath(spark, place_of(spark, statement.table))
    alias = statement.alias or statement.table.qualifier
    return table if alias is None else table.alias(alias)


def _values(assignments: tuple[Assignment, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for assignment in assignments:
        name = column_text(assignment.column)
        if name in found:
            raise InvalidInputError(f"Column {name} is set twice in one clause.")
        found[name] = assignment.value
    return found


def run_insert(spark: SparkSession, statement: Insert) -> DataFrame | None:
    """INSERT INTO and INSERT OVERWRITE."""
    if not is_ours(spark, statement.table):
        return None
    path = place_of(spark, statement.table)
    schema = EngineTable(path).snapshot().schema
    rows = _named(run_query(spark, with_defaults(statement, schema)), statement, schema)
    for name, value in statement.partition:
        if value is not None:
            rows = rows.withColumn(name, F.expr(value))
    write_table(rows, path, merge_schema=statement.schema_evolution, **_mode(spark, statement))
    return nothing(spark)


def with_defaults(statement: Insert, schema: StructType) -> str:
    """The query with the default of its column in each place where VALUES says DEFAULT."""
    cursor = Cursor(statement.query)
    if not cursor.accept("VALUES") or all(token.upper != "DEFAULT" for token in cursor.tokens):
        return statement.query
    columns = statement.columns or schema.names
    rows: list[str] = []
    while not rows or cursor.accept(","):
        cursor.expect("(")
        values = [cursor.until(",", what="a value")]
        while cursor.accept(","):
            values.append(cursor.until(",", what="a value"))
        cursor.expect(")")
        defaults = [
            default_text(schema.field(columns[at])) if value.upper() == "DEFAULT" else value
            for at, value in enumerate(values[: len(columns)])
        ]
        rows.append(f"({', '.join([*defaults, *values[len(columns) :]])})")
    return f"VALUES {', '.join(rows)} {cursor.rest()}"


def _named(rows: DataFrame, statement: Insert, schema: StructType) -> DataFrame:
    """The rows under the table's names: by name, by a list of columns, or by position."""
    if statement.by_name:
        return rows
    fixed = {name.lower() for name, value in statement.partition if value is not None}
    wanted = statement.columns or tuple(name for name in schema.names if name.lower() not in fixed)
    given = len(rows.columns)
    if given == len(wanted):
        return rows.toDF(*wanted)
    if not statement.columns and given < len(wanted):
        return (
            rows.toDF(*wanted[:given]) if _may_stop_at(schema, wanted[given:]) else _mismatch(given, wanted)
        )
    if not statement.columns and statement.schema_evolution:
        return rows.toDF(*wanted, *rows.columns[len(wanted) :])
    return _mismatch(given, wanted)


def _may_stop_at(schema: StructType, missing: tuple[str, ...]) -> bool:
    """Whether columns at the end may be left out of VALUES: those that the table makes itself."""
    makes = ("delta.generationExpression", "CURRENT_DEFAULT")
    return all(any(key in schema.field(name).metadata for key in makes) for name in missing)


def _mismatch(given: int, wanted: tuple[str, ...]) -> Any:
    raise InvalidInputError(
        f"The query gives {given} columns, the table takes {len(wanted)}: {', '.join(wanted)}. Name those "
        "that you give, INSERT INTO table (a, b) …, or insert BY NAME."
    )


def _mode(spark: SparkSession, statement: Insert) -> dict[str, Any]:
    if statement.replace_where is not None:
        return {"mode": "overwrite", "replace_where": statement.replace_where}
    if not statement.overwrite:
        return {"mode": "append"}
    fixed = [(name, value) for name, value in statement.partition if value is not None]
    if fixed:
        condition = " AND ".join(f"{column_text((name,))} <=> ({value})" for name, value in fixed)
        return {"mode": "overwrite", "replace_where": condition}
    dynamic = (spark.conf.get(_DYNAMIC, "static") or "static").lower() == "dynamic"
    return {"mode": "overwrite", "partition_overwrite": "dynamic" if dynamic else "static"}
