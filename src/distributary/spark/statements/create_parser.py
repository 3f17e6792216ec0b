"""CREATE TABLE, REPLACE TABLE and CLONE."""

from __future__ import annotations

from typing import Any

from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import (
    CloneTable,
    ColumnDefinition,
    CreateMode,
    CreateTable,
    Statement,
    TableName,
)
from distributary.spark.statements.table_names import as_of, column_names, properties, table_name

_COLUMN_ENDS = (",", "NOT NULL", "COMMENT", "GENERATED", "DEFAULT", "FIRST", "AFTER", "PRIMARY", "COLLATE")


def parse_create(cursor: Cursor) -> Statement | None:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS], REPLACE TABLE; of other things nothing."""
    mode = _mode(cursor)
    if mode is None:
        return None
    if cursor.accept("IF", "NOT", "EXISTS"):
        mode = "if_not_exists"
    table = table_name(cursor)
    if cursor.at_any("SHALLOW CLONE", "DEEP CLONE", "CLONE"):
        return _clone(cursor, table, mode)
    columns = column_definitions(cursor) if cursor.at("(") else ()
    provider = cursor.name("a format, such as delta") if cursor.accept("USING") else None
    if provider is not None and provider.lower() not in ("delta", "distributary"):
        return None
    parts = _clauses(cursor)
    query = None
    if cursor.accept("AS") or cursor.at("SELECT") or cursor.at("WITH"):
        query = cursor.rest()
    cursor.end()
    if table.path is None and provider is None and "location" not in parts:
        return None
    return CreateTable(table, mode, columns, provider, query=query, **parts)


def _mode(cursor: Cursor) -> CreateMode | None:
    if cursor.accept("CREATE", "OR", "REPLACE", "TABLE"):
        return "create_or_replace"
    if cursor.accept("CREATE", "TABLE") or cursor.accept("CREATE", "EXTERNAL", "TABLE"):
        return "create"
    return "replace" if cursor.accept("REPLACE", "TABLE") else None


def _clauses(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        if cursor.accept("PARTITIONED", "BY"):
            found["partition_by"] = column_names(cursor)
        elif cursor.accept("CLUSTER", "BY"):
            found["cluster_by"] = column_names(cursor)
        elif cursor.accept("LOCATION"):
            found["location"] = cursor.string("the path in quotes")
        elif cursor.accept("COMMENT"):
            found["comment"] = cursor.string()
        elif cursor.at_any("TBLPROPERTIES", "OPTIONS"):
            cursor.take()
            found["properties"] = {**found.get("properties", {}), **properties(cursor)}
        elif cursor.at_any("AS", "SELECT", "WITH", ";") or cursor.next.kind == "end":
            return found
        else:
            raise cursor.error(
                "PARTITIONED BY", "CLUSTER BY", "LOCATION", "COMMENT", "TBLPROPERTIES", "AS", "the end"
            )


def column_definitions(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """(name type [NOT NULL] [GENERATED ALWAYS AS (…)] [DEFAULT …] [COMMENT '…'] [FIRST | AFTER …], …)."""
    cursor.expect("(")
    found = [column_definition(cursor)]
    while cursor.accept(","):
        found.append(column_definition(cursor))
    cursor.expect(")")
    return tuple(found)


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """One column."""
    path = cursor.dotted("the name of a column")
    if cursor.at(":"):
        cursor.take()
    type_text = _type(cursor)
    parts: dict[str, Any] = {}
    while not cursor.at_any(",", ")", ";") and cursor.next.kind != "end":
        _column_part(cursor, parts)
    return ColumnDefinition(path, type_text, **parts)


def _type(cursor: Cursor) -> str:
    """A type up to what may follow it; commas inside < > belong to it."""
    start, open_signs = cursor.next.position, 0
    end = start
    while cursor.next.kind != "end" and (open_signs or not cursor.at_any(*_COLUMN_ENDS, ")", ";")):
        if cursor.at("("):
            cursor.parenthesised("the size of a type")
            end = cursor.next.position
            continue
        token = cursor.take()
        # ">" of two nested types may be written as one sign, and "<>" is a struct without fields.
        open_signs += token.text.count("<") - token.text.count(">")
        end = token.position + len(token.text)
    if end == start:
        raise cursor.error("a type")
    return cursor.text[start:end].strip()


def _column_part(cursor: Cursor, parts: dict[str, Any]) -> None:
    if cursor.accept("NOT", "NULL"):
        parts["nullable"] = False
    elif cursor.accept("COMMENT"):
        parts["comment"] = cursor.string()
    elif cursor.accept("GENERATED", "ALWAYS", "AS"):
        if cursor.at("IDENTITY"):
            raise cursor.error("an expression in parentheses (identity columns are not supported)")
        parts["generated"] = cursor.parenthesised("an expression")
    elif cursor.accept("DEFAULT"):
        parts["default"] = cursor.until(",", "COMMENT", "NOT NULL", "FIRST", "AFTER", what="a value")
    elif cursor.accept("FIRST"):
        parts["first"] = True
    elif cursor.accept("AFTER"):
        parts["after"] = cursor.name("a column")
    else:
        raise cursor.error("NOT NULL", "GENERATED ALWAYS AS", "DEFAULT", "COMMENT", "a comma", ")")


def _clone(cursor: Cursor, table: TableName, mode: CreateMode) -> CloneTable:
    shallow = cursor.accept("SHALLOW")
    if not shallow:
        cursor.accept("DEEP")
    cursor.expect("CLONE")
    source = table_name(cursor)
    older = as_of(cursor)
    kept: dict[str, str] = {}
    location = None
    while cursor.at_any("TBLPROPERTIES", "LOCATION"):
        if cursor.accept("LOCATION"):
            location = cursor.string("the path in quotes")
        else:
            cursor.take()
            kept = properties(cursor)
    cursor.end()
    return CloneTable(table, source, shallow, mode, older, location, kept)
