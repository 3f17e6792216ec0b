"""The text of a statement → its value; what is not about Delta tables stays a query for Spark."""

from __future__ import annotations

from collections.abc import Callable

from distributary.spark.statements.alter_parser import parse_alter
from distributary.spark.statements.create_parser import parse_create
from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.maintenance_parser import (
    parse_convert,
    parse_describe,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
    parse_show,
    parse_vacuum,
)
from distributary.spark.statements.row_parser import (
    parse_delete,
    parse_insert,
    parse_merge,
    parse_truncate,
    parse_update,
)
from distributary.spark.statements.syntax import DropTable, Query, Statement
from distributary.spark.statements.table_names import table_name

Parser = Callable[[Cursor], Statement | None]


def parse_statement(text: str) -> Statement:
    """The value of a statement; a `Query` where nothing of it is ours."""
    cursor = Cursor(text)
    parse = _PARSERS.get(cursor.next.upper)
    return (parse(cursor) if parse is not None else None) or Query(text)


def _parse_drop(cursor: Cursor) -> Statement | None:
    if not cursor.accept("DROP", "TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    statement = DropTable(table_name(cursor), if_exists)
    cursor.accept("PURGE")
    cursor.end()
    return statement


_PARSERS: dict[str, Parser] = {
    "MERGE": parse_merge,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "TRUNCATE": parse_truncate,
    "INSERT": parse_insert,
    "CREATE": parse_create,
    "REPLACE": parse_create,
    "OPTIMIZE": parse_optimize,
    "REORG": parse_reorg,
    "VACUUM": parse_vacuum,
    "RESTORE": parse_restore,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "SHOW": parse_show,
    "CONVERT": parse_convert,
    "GENERATE": parse_generate,
    "ALTER": parse_alter,
    "DROP": _parse_drop,
}
