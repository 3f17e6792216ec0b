"""MERGE, UPDATE, DELETE, TRUNCATE and INSERT."""

from __future__ import annotations

from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import (
    Assignment,
    ClauseKind,
    Delete,
    Insert,
    Merge,
    Update,
    WhenClause,
)
from distributary.spark.statements.table_names import table_name


def parse_merge(cursor: Cursor) -> Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO target USING source ON condition WHEN …"""
    cursor.expect("MERGE")
    evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = table_name(cursor)
    alias = cursor.alias("USING")
    cursor.expect("USING")
    source = cursor.until("ON", what="the source: a table or a query in parentheses")
    cursor.expect("ON")
    condition = cursor.until("WHEN", what="the condition of the merge")
    clauses: list[WhenClause] = []
    while cursor.at("WHEN"):
        clauses.append(_when(cursor))
    if not clauses:
        raise cursor.error("WHEN")
    cursor.end()
    return Merge(table, alias, source, source_alias(source), condition, tuple(clauses), evolution)


def source_alias(source: str) -> str | None:
    """What the columns of a source are qualified with: its alias, or the last part of its name."""
    tokens = [token for token in Cursor(source).tokens if token.kind != "end"]
    last = tokens[-1]
    if last.kind in ("word", "quoted"):
        return last.value if last.kind == "quoted" else last.text
    return None


def _when(cursor: Cursor) -> WhenClause:
    cursor.expect("WHEN")
    kind: ClauseKind = "matched"
    if cursor.accept("NOT"):
        kind = "not_matched"
    cursor.expect("MATCHED")
    if kind == "not_matched" and cursor.accept("BY"):
        if cursor.accept("SOURCE"):
            kind = "not_matched_by_source"
        elif not cursor.accept("TARGET"):
            raise cursor.error("SOURCE", "TARGET")
    condition = cursor.until("THEN", what="a condition") if cursor.accept("AND") else None
    cursor.expect("THEN")
    return _then_insert(cursor, kind, condition) if kind == "not_matched" else _then(cursor, kind, condition)


def _then(cursor: Cursor, kind: ClauseKind, condition: str | None) -> WhenClause:
    if cursor.accept("DELETE"):
        return WhenClause(kind, "delete", condition)
    if not cursor.accept("UPDATE"):
        raise cursor.error("UPDATE", "DELETE")
    cursor.expect("SET")
    if kind == "matched" and cursor.accept("*"):
        return WhenClause(kind, "update_all", condition)
    return WhenClause(kind, "update", condition, _assignments(cursor, "WHEN"))


def _then_insert(cursor: Cursor, kind: ClauseKind, condition: str | None) -> WhenClause:
    cursor.expect("INSERT")
    if cursor.accept("*"):
        return WhenClause(kind, "insert_all", condition)
    cursor.expect("(")
    columns = [cursor.dotted("a column")]
    while cursor.accept(","):
        columns.append(cursor.dotted("a column"))
    cursor.expect(")")
    cursor.expect("VALUES")
    cursor.expect("(")
    values = [cursor.until(",", what="a value")]
    while cursor.accept(","):
        values.append(cursor.until(",", what="a value"))
    if len(values) != len(columns):
        raise cursor.error(f"as many values as columns ({len(columns)}, not {len(values)})")
    cursor.expect(")")
    pairs = zip(columns, values, strict=True)
    return WhenClause(kind, "insert", condition, tuple(Assignment(column, value) for column, value in pairs))


def _assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    while not found or cursor.accept(","):
        column = cursor.dotted("a column")
        if not cursor.accept("="):
            cursor.expect("==")
        found.append(Assignment(column, cursor.until(",", *stops, what="a value")))
    return tuple(found)


def parse_update(cursor: Cursor) -> Update:
    """UPDATE table [alias] SET column = value, … [WHERE condition]."""
    cursor.expect("UPDATE")
    table = table_name(cursor)
    alias = cursor.alias("SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    condition = cursor.until(what="a condition") if cursor.accept("WHERE") else None
    cursor.end()
    return Update(table, alias, assignments, condition)


def parse_delete(cursor: Cursor) -> Delete:
    """DELETE FROM table [alias] [WHERE condition]."""
    cursor.expect("DELETE", "FROM")
    table = table_name(cursor)
    alias = cursor.alias("WHERE")
    condition = cursor.until(what="a condition") if cursor.accept("WHERE") else None
    cursor.end()
    return Delete(table, alias, condition)


def parse_truncate(cursor: Cursor) -> Delete:
    """TRUNCATE TABLE table."""
    cursor.expect("TRUNCATE", "TABLE")
    table = table_name(cursor)
    cursor.end()
    return Delete(table)


def parse_insert(cursor: Cursor) -> Insert:
    """INSERT INTO | OVERWRITE table [PARTITION (…)] [BY NAME | (columns)] [REPLACE WHERE …] query."""
    cursor.expect("INSERT")
    evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    else:
        cursor.accept("INTO")
    cursor.accept("TABLE")
    table = table_name(cursor)
    partition = _partition(cursor) if cursor.accept("PARTITION") else ()
    by_name = cursor.accept("BY", "NAME")
    columns = () if by_name or not cursor.at("(") or _begins_query(cursor) else _columns(cursor)
    replace_where = None
    if cursor.accept("REPLACE", "WHERE"):
        replace_where = cursor.until(*_QUERY_WORDS, what="a condition")
    query = cursor.rest()
    if not query:
        raise cursor.error("VALUES", "SELECT")
    return Insert(table, query, overwrite, columns, by_name, replace_where, partition, evolution)


_QUERY_WORDS = ("SELECT", "VALUES", "WITH", "TABLE", "FROM")


def _begins_query(cursor: Cursor) -> bool:
    return any(cursor.at("(", word) for word in _QUERY_WORDS) or cursor.at("(", "(")


def _columns(cursor: Cursor) -> tuple[str, ...]:
    return cursor.listed(lambda cursor: cursor.name("a column"))


def _partition(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    cursor.expect("(")
    found: list[tuple[str, str | None]] = []
    while not found or cursor.accept(","):
        name = cursor.name("a partition column")
        found.append((name, cursor.until(",", what="a value") if cursor.accept("=") else None))
    cursor.expect(")")
    return tuple(found)
