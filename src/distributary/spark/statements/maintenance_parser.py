"""OPTIMIZE, REORG, VACUUM, RESTORE, DESCRIBE, SHOW, CONVERT and GENERATE."""

from __future__ import annotations

from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import (
    ConvertToDelta,
    Describe,
    Generate,
    Optimize,
    Restore,
    Statement,
    Vacuum,
)
from distributary.spark.statements.table_names import as_of, column_names, column_text, table_name


def parse_optimize(cursor: Cursor) -> Optimize:
    """OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (columns)]."""
    cursor.expect("OPTIMIZE")
    table = table_name(cursor)
    full = cursor.accept("FULL")
    where = cursor.until("ZORDER BY", what="a condition") if cursor.accept("WHERE") else None
    columns: tuple[str, ...] = ()
    if cursor.accept("ZORDER", "BY"):
        columns = column_names(cursor) if cursor.at("(") else _bare_columns(cursor)
    cursor.end()
    return Optimize(table, where, columns, full)


def _bare_columns(cursor: Cursor) -> tuple[str, ...]:
    found = [column_text(cursor.dotted("a column"))]
    while cursor.accept(","):
        found.append(column_text(cursor.dotted("a column")))
    return tuple(found)


def parse_reorg(cursor: Cursor) -> Optimize:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""
    cursor.expect("REORG", "TABLE")
    table = table_name(cursor)
    where = cursor.until("APPLY", what="a condition") if cursor.accept("WHERE") else None
    cursor.expect("APPLY", "(", "PURGE", ")")
    cursor.end()
    return Optimize(table, where, purge=True)


def parse_vacuum(cursor: Cursor) -> Vacuum:
    """VACUUM table [FULL | LITE] [RETAIN n HOURS] [DRY RUN]."""
    cursor.expect("VACUUM")
    table = table_name(cursor)
    hours: float | None = None
    lite = dry_run = False
    while not cursor.at(";") and cursor.next.kind != "end":
        if cursor.accept("RETAIN"):
            if cursor.next.kind != "number":
                raise cursor.error("a number of hours")
            hours = float(cursor.take().text.rstrip("LlSsYyFfDdBb"))
            if not cursor.accept("HOURS"):
                cursor.expect("HOUR")
        elif cursor.accept("DRY", "RUN"):
            dry_run = True
        elif cursor.accept("LITE"):
            lite = True
        elif not cursor.accept("FULL"):
            raise cursor.error("RETAIN n HOURS", "DRY RUN", "FULL", "LITE", "the end")
    cursor.end()
    return Vacuum(table, hours, dry_run, lite)


def parse_restore(cursor: Cursor) -> Restore:
    """RESTORE [TABLE] table [TO] VERSION | TIMESTAMP AS OF …"""
    cursor.expect("RESTORE")
    cursor.accept("TABLE")
    table = table_name(cursor)
    cursor.accept("TO")
    older = as_of(cursor, ";")
    if older is None:
        raise cursor.error("VERSION AS OF", "TIMESTAMP AS OF")
    cursor.end()
    return Restore(table, older)


def parse_describe(cursor: Cursor) -> Statement | None:
    """DESCRIBE DETAIL | HISTORY table [LIMIT n], DESCRIBE [TABLE] [EXTENDED] table; other things: nothing."""
    cursor.take()
    if cursor.accept("DETAIL"):
        statement = Describe(table_name(cursor), "detail")
    elif cursor.accept("HISTORY"):
        table = table_name(cursor)
        limit = cursor.whole_number() if cursor.accept("LIMIT") else None
        statement = Describe(table, "history", limit)
    elif cursor.at_any("QUERY", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "SELECT", "WITH"):
        return None
    else:
        cursor.accept("TABLE")
        extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
        table = table_name(cursor)
        if cursor.next.kind in ("word", "quoted"):
            return Describe(table, "column", detail=column_text(cursor.dotted("a column")))
        statement = Describe(table, "table_extended" if extended else "table")
    cursor.end()
    return statement


def parse_show(cursor: Cursor) -> Statement | None:
    """SHOW TBLPROPERTIES table [('key')] and SHOW COLUMNS IN table."""
    if cursor.accept("SHOW", "TBLPROPERTIES"):
        table = table_name(cursor)
        key = None
        if cursor.accept("("):
            key = cursor.string() if cursor.next.kind == "string" else ".".join(cursor.dotted("a key"))
            cursor.expect(")")
        cursor.end()
        return Describe(table, "properties", detail=key)
    if cursor.accept("SHOW", "COLUMNS"):
        if not cursor.accept("IN"):
            cursor.expect("FROM")
        table = table_name(cursor)
        cursor.end()
        return Describe(table, "columns")
    return None


def parse_convert(cursor: Cursor) -> ConvertToDelta:
    """CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (name type, …)]."""
    cursor.expect("CONVERT", "TO", "DELTA")
    parts = cursor.dotted("parquet.`path`")
    if len(parts) != 2 or parts[0].lower() != "parquet":
        raise cursor.error("parquet.`path` before it")
    cursor.accept("NO", "STATISTICS")
    columns = None
    if cursor.accept("PARTITIONED", "BY"):
        columns = cursor.parenthesised("partition columns with their types")
    cursor.end()
    return ConvertToDelta(parts[1], columns)


def parse_generate(cursor: Cursor) -> Generate:
    """GENERATE symlink_format_manifest FOR TABLE table."""
    cursor.expect("GENERATE")
    mode = cursor.string() if cursor.next.kind == "string" else cursor.name("symlink_format_manifest")
    cursor.expect("FOR", "TABLE")
    table = table_name(cursor)
    cursor.end()
    return Generate(table, mode)
