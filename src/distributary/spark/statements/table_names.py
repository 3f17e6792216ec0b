"""Parts that several statements share: names of tables, older versions, properties, columns."""

from __future__ import annotations

from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import AsOf, TableName


def table_name(cursor: Cursor) -> TableName:
    """``delta.`path` `` or a name; a path in quotes will do too."""
    if cursor.next.kind in ("string", "raw"):
        return TableName(("delta", cursor.string()))
    return TableName(cursor.dotted("a table: delta.`path` or a registered name"))


def as_of(cursor: Cursor, *stops: str) -> AsOf | None:
    """[FOR] VERSION | TIMESTAMP | SYSTEM_VERSION | SYSTEM_TIME AS OF, if it comes next."""
    if cursor.at("FOR") and cursor.ahead(1).upper in _TRAVEL:
        cursor.take()
    if cursor.at_any("VERSION AS OF", "SYSTEM_VERSION AS OF"):
        cursor.take()
        cursor.expect("AS", "OF")
        if cursor.next.kind == "string" and cursor.next.value.isdigit():
            return AsOf(version=int(cursor.string()))
        return AsOf(version=cursor.whole_number("the number of a version"))
    if cursor.at_any("TIMESTAMP AS OF", "SYSTEM_TIME AS OF"):
        cursor.take()
        cursor.expect("AS", "OF")
        return AsOf(timestamp=moment(cursor, *stops))
    return None


def moment(cursor: Cursor, *stops: str) -> str:
    """An expression that gives a time: a text, a literal, or a call or arithmetic in parentheses."""
    if stops:
        return cursor.until(*stops, what="a time")
    start = cursor.next.position
    token = cursor.take()
    if token.upper in ("TIMESTAMP", "DATE") and cursor.next.kind == "string":
        token = cursor.take()
    elif token.text == "(" or cursor.at("("):
        if token.text != "(":
            cursor.take()
        cursor.until(what="a time")
        token = cursor.next
        cursor.expect(")")
    return cursor.text[start : token.position + len(token.text)]


def properties(cursor: Cursor) -> dict[str, str]:
    """('key' = 'value', key.with.dots = value)."""
    found: dict[str, str] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        key = property_key(cursor)
        if not cursor.accept("="):
            cursor.accept("==")
        found[key] = _property_value(cursor)
        if not cursor.at(")"):
            cursor.expect(",")
    return found


def property_key(cursor: Cursor) -> str:
    """A key in quotes, or names joined by dots."""
    if cursor.next.kind in ("string", "raw"):
        return cursor.string()
    return ".".join(cursor.dotted("the key of a property"))


def column_names(cursor: Cursor) -> tuple[str, ...]:
    """(a, b.c, `d e`): columns as their texts, which Spark and the table both read."""
    return cursor.listed(lambda cursor: column_text(cursor.dotted("a column")))


def column_text(path: tuple[str, ...]) -> str:
    """The parts of a column's name as one text, in backquotes where they must be."""
    return ".".join(part if part.isidentifier() else f"`{part.replace('`', '``')}`" for part in path)


def _property_value(cursor: Cursor) -> str:
    token = cursor.next
    if token.kind in ("string", "raw"):
        return cursor.string()
    sign = "-" if cursor.accept("-") else ""
    if token.kind == "end" or cursor.at(")") or cursor.at(","):
        raise cursor.error("the value of a property")
    text = cursor.take().text
    return sign + (text.lower() if text.upper() in ("TRUE", "FALSE") else text)


_TRAVEL = ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")
