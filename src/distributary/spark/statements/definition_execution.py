"""CREATE, REPLACE, CLONE, CONVERT, GENERATE, DROP and ALTER TABLE, carried out."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from distributary.delta.operations.alter_columns import NewColumn
from distributary.delta.operations.alter_table import TableAlteration
from distributary.delta.schema.schema_edits import Position, find_field
from distributary.delta.schema.type_text import parse_type_text
from distributary.delta.table import DeltaTable as EngineTable
from distributary.errors import InvalidInputError
from distributary.spark.alteration import alter
from distributary.spark.delta_table import DeltaTable, refuse_drop_feature
from distributary.spark.moments import evaluated_moment
from distributary.spark.statements.places import engine_table, is_ours, nothing, place_of
from distributary.spark.statements.queries import run_query
from distributary.spark.statements.syntax import (
    AlterTable,
    CloneTable,
    ColumnDefinition,
    ConvertToDelta,
    CreateTable,
    DropTable,
    Generate,
    TableName,
)
from distributary.spark.table_definition import TableDefinition, declared_column, define
from distributary.spark.table_registry import default_location, find_registered, forget_table, register_table


def run_create(spark: SparkSession, statement: CreateTable) -> DataFrame:
    """CREATE TABLE, REPLACE TABLE, … AS SELECT."""
    place = _new_place(spark, statement.table, statement.location)
    query = statement.query
    rows = None if query is None else lambda: run_query(spark, query)
    define(spark, place, _definition(statement), statement.mode, rows)
    if statement.table.path is None:
        register_table(spark, statement.table.parts[-1], place)
    return nothing(spark)


def _new_place(spark: SparkSession, table: TableName, location: str | None) -> str:
    if table.path is not None:
        if location is not None and location.rstrip("/") != table.path.rstrip("/"):
            raise InvalidInputError(
                f"Two places for one table: delta.`{table.path}` and LOCATION '{location}'."
            )
        return table.path
    name = ".".join(table.parts)
    if len(table.parts) > 1:
        raise InvalidInputError(
            f"{name} has more than one part: register tables by one name, or write a path."
        )
    return location or find_registered(spark, name) or default_location(spark, name)


def _definition(statement: CreateTable) -> TableDefinition:
    columns = tuple(
        declared_column(
            column.path[0],
            column.type_text,
            nullable=column.nullable,
            comment=column.comment,
            generated=column.generated,
            default=column.default,
        )
        for column in statement.columns
    )
    properties = dict(statement.properties)
    if any(column.default is not None for column in statement.columns):
        properties.setdefault("delta.feature.allowColumnDefaults", "supported")
    return TableDefinition(
        columns, statement.partition_by, statement.cluster_by, properties, statement.comment
    )


def run_clone(spark: SparkSession, statement: CloneTable) -> DataFrame:
    """CREATE TABLE … CLONE."""
    place = _new_place(spark, statement.table, statement.location)
    if statement.mode == "if_not_exists" and EngineTable.exists(place):
        return nothing(spark)
    source = DeltaTable.forPath(spark, place_of(spark, statement.source))
    replaces = statement.mode in ("replace", "create_or_replace")
    arguments: dict[str, Any] = {"isShallow": statement.shallow, "replace": replaces}
    older = statement.as_of
    if older is not None and older.version is not None:
        source.cloneAtVersion(older.version, place, properties=statement.properties, **arguments)
    elif older is not None and older.timestamp is not None:
        moment = evaluated_moment(spark, older.timestamp).isoformat()
        source.cloneAtTimestamp(moment, place, properties=statement.properties, **arguments)
    else:
        source.clone(place, properties=statement.properties, **arguments)
    if statement.table.path is None:
        register_table(spark, statement.table.parts[-1], place)
    return nothing(spark)


def run_convert(spark: SparkSession, statement: ConvertToDelta) -> DataFrame:
    """CONVERT TO DELTA."""
    DeltaTable.convertToDelta(spark, f"parquet.`{statement.path}`", statement.partition_columns)
    return nothing(spark)


def run_generate(spark: SparkSession, statement: Generate) -> DataFrame:
    """GENERATE … FOR TABLE."""
    DeltaTable.forPath(spark, place_of(spark, statement.table)).generate(statement.mode)
    return nothing(spark)


def run_drop(spark: SparkSession, statement: DropTable) -> DataFrame | None:
    """DROP TABLE of a registered name; a path is refused, since dropping never deletes files here."""
    if statement.table.path is not None:
        raise InvalidInputError(
            f"delta.`{statement.table.path}` has no name to drop. To delete the table, delete its directory."
        )
    name = ".".join(statement.table.parts)
    if find_registered(spark, name) is None:
        return None
    forget_table(spark, name)
    return nothing(spark)


def run_alter(spark: SparkSession, statement: AlterTable) -> DataFrame | None:
    """ALTER TABLE."""
    if not is_ours(spark, statement.table):
        return None
    table = engine_table(spark, statement.table)
    change, arguments = alter(spark, table), statement.arguments
    match statement.kind:
        case "add_columns":
            change.add_columns([_new_column(column) for column in arguments["columns"]])
        case "drop_columns":
            _drop_columns(table, change, arguments)
        case "rename_column":
            change.rename_column(arguments["column"], arguments["to"])
        case "alter_column":
            _alter_column(change, arguments)
        case "add_constraint":
            change.add_constraint(arguments["name"], arguments["expression"])
        case "drop_constraint":
            change.drop_constraint(arguments["name"], if_exists=arguments["if_exists"])
        case "set_properties":
            change.set_properties(arguments["properties"])
        case "unset_properties":
            change.unset_properties(*arguments["keys"], if_exists=arguments["if_exists"])
        case "cluster_by":
            change.cluster_by(arguments["columns"])
        case "drop_feature":
            refuse_drop_feature(arguments["name"])
    return nothing(spark)


def _new_column(column: ColumnDefinition) -> NewColumn:
    if column.generated is not None or column.default is not None:
        raise InvalidInputError(
            f"Column {'.'.join(column.path)} cannot be added with a rule: rows that are there have no value "
            "for it. Add it, then ALTER COLUMN … SET DEFAULT for later rows."
        )
    position = Position(column.first, column.after)
    return NewColumn(
        column.path, parse_type_text(column.type_text), column.comment, position, column.nullable
    )


def _drop_columns(table: EngineTable, change: TableAlteration, arguments: dict[str, Any]) -> None:
    columns = arguments["columns"]
    if arguments["if_exists"]:
        schema = table.snapshot().schema
        columns = [column for column in columns if find_field(schema, column) is not None]
    if columns:
        change.drop_column(*columns)


def _alter_column(change: TableAlteration, arguments: dict[str, Any]) -> None:
    column = arguments["column"]
    if "type" in arguments:
        change.widen_column(column, arguments["type"])
    if "comment" in arguments:
        change.comment_column(column, arguments["comment"])
    if "nullable" in arguments:
        (change.drop_not_null if arguments["nullable"] else change.set_not_null)(column)
    if "default" in arguments:
        change.set_default(".".join(column), arguments["default"])
    if "first" in arguments or "after" in arguments:
        change.move_column(column, first=arguments.get("first", False), after=arguments.get("after"))
