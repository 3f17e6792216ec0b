"""Queries that name Delta tables, for Spark: each table becomes a view of its rows.

``delta.`path` ``, with ``VERSION AS OF`` or ``@v`` for an older version, and ``table_changes('path', …)``
stand where a table may stand. Each is exchanged for a temporary view with a name of its own; the rest of the
text goes to Spark as written. Registered names keep their names: their views are made anew first.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from distributary.spark.change_feed import read_changes
from distributary.spark.moments import evaluated_moment
from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import AsOf, TableName, split_version
from distributary.spark.statements.table_names import as_of
from distributary.spark.table_registry import find_registered, path_of, refresh_view
from distributary.spark.table_scan import read_table

_BEFORE_TABLE = ("FROM", "JOIN", ",", "TABLE", "(", "INTO", "USING", "VIEW", "EXISTS")
_LASTING = ("CREATE", "CACHE", "ALTER")


class _Replacement(msgspec.Struct, frozen=True):
    """A part of the text, and what stands there instead."""

    start: int
    end: int
    text: str


def run_query(spark: SparkSession, text: str, args: Any = None) -> DataFrame:
    """What Spark gives for a query; it is analysed at once, so the views may go."""
    with _resolved(spark, text) as query:
        return spark.sql(query, args) if args is not None else spark.sql(query)


def older_rows(spark: SparkSession, path: str, older: AsOf | None) -> DataFrame:
    """The rows of a table, at a version or a time where one is named."""
    plain, in_path = split_version(path)
    wanted = older or in_path
    if wanted is None:
        return read_table(spark, path)
    moment = None if wanted.timestamp is None else evaluated_moment(spark, wanted.timestamp)
    return read_table(spark, plain if in_path else path, wanted.version, moment)


@contextmanager
def _resolved(spark: SparkSession, text: str) -> Iterator[str]:
    """The text with views in place of Delta tables."""
    cursor = Cursor(text)
    views: list[str] = []

    def view(rows: DataFrame) -> str:
        name = f"__distributary_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(name)
        views.append(name)
        return name

    keeps = cursor.next.upper in _LASTING
    try:
        yield _replaced(text, list(_replacements(spark, cursor, view)))
    finally:
        for name in () if keeps else views:
            spark.catalog.dropTempView(name)


def _replacements(
    spark: SparkSession, cursor: Cursor, view: Callable[[DataFrame], str]
) -> Iterator[_Replacement]:
    before = ""
    while cursor.next.kind != "end":
        token = cursor.next
        if token.kind in ("word", "quoted") and (token.upper == "DELTA" or before in _BEFORE_TABLE):
            found = _table(spark, cursor, view)
            if found is not None:
                yield found
        else:
            cursor.take()
        before = token.upper


def _table(spark: SparkSession, cursor: Cursor, view: Callable[[DataFrame], str]) -> _Replacement | None:
    """What stands for the table that comes next; nothing where it is none of ours."""
    start = cursor.next.position
    if cursor.at("TABLE_CHANGES", "("):
        name = view(_changes(spark, cursor))
        return _Replacement(start, _end(cursor), name)
    named, quoted = _name(cursor)
    if named.path is not None and quoted:
        older = as_of(cursor)
        return _Replacement(start, _end(cursor), view(older_rows(spark, named.path, older)))
    name = ".".join(named.parts)
    return None if find_registered(spark, name) is None else _registered(spark, cursor, name, start, view)


def _name(cursor: Cursor) -> tuple[TableName, bool]:
    """A name with its dots, and whether its last part is in backquotes; ``t.*`` is left after the name."""
    quoted = cursor.next.kind == "quoted"
    parts = [cursor.name()]
    while cursor.at(".") and cursor.ahead(1).kind in ("word", "quoted"):
        cursor.take()
        quoted = cursor.next.kind == "quoted"
        parts.append(cursor.name())
    return TableName(tuple(parts)), quoted


def _registered(
    spark: SparkSession, cursor: Cursor, name: str, start: int, view: Callable[[DataFrame], str]
) -> _Replacement | None:
    older = as_of(cursor)
    if older is None and cursor.accept("@"):
        older = split_version(f"@{cursor.take().text}")[1]
    if older is None:
        refresh_view(spark, name)
        return None
    found = view(older_rows(spark, path_of(spark, name), older))
    alias = "" if cursor.at("AS") or cursor.next.kind == "quoted" or _is_alias(cursor) else f" AS {name}"
    return _Replacement(start, _end(cursor), found + alias)


_AFTER_TABLE = frozenset(
    [
        *("WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "WINDOW", "CLUSTER", "DISTRIBUTE", "SORT"),
        *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", "LATERAL", "ON"),
        *("USING", "UNION", "EXCEPT", "INTERSECT", "MINUS", "PIVOT", "UNPIVOT", "TABLESAMPLE"),
    ]
)


def _is_alias(cursor: Cursor) -> bool:
    return cursor.next.kind == "word" and cursor.next.upper not in _AFTER_TABLE


def _changes(spark: SparkSession, cursor: Cursor) -> DataFrame:
    """table_changes('path or name', start [, end]), by versions or by times in quotes."""
    cursor.expect("TABLE_CHANGES", "(")
    named = cursor.string("the path or the name of a table in quotes")
    path = find_registered(spark, named) or (path_of(spark, named) if "`" in named else named)
    bounds: dict[str, Any] = {}
    cursor.expect(",")
    bounds |= _bound(spark, cursor, "starting")
    if cursor.accept(","):
        bounds |= _bound(spark, cursor, "ending")
    cursor.expect(")")
    return read_changes(spark, path, **bounds)


def _bound(spark: SparkSession, cursor: Cursor, which: str) -> dict[str, Any]:
    if cursor.next.kind == "number":
        return {f"{which}_version": cursor.whole_number("the number of a version")}
    return {f"{which}_timestamp": evaluated_moment(spark, cursor.until(",", what="a version or a time"))}


def _end(cursor: Cursor) -> int:
    return cursor.last.position + len(cursor.last.text)


def _replaced(text: str, replacements: list[_Replacement]) -> str:
    for found in reversed(replacements):
        text = text[: found.start] + found.text + text[found.end :]
    return text
