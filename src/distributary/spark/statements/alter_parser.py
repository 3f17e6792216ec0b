"""ALTER TABLE: columns, constraints, properties, clustering and features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributary.spark.statements.create_parser import column_definition, column_definitions
from distributary.spark.statements.cursor import Cursor
from distributary.spark.statements.syntax import AlterKind, AlterTable, Statement
from distributary.spark.statements.table_names import column_names, properties, property_key, table_name

Change = tuple[AlterKind, dict[str, Any]]


def parse_alter(cursor: Cursor) -> Statement | None:
    """ALTER TABLE table and one change; ALTER of other things: nothing."""
    if not cursor.accept("ALTER", "TABLE"):
        return None
    table = table_name(cursor)
    for words, parse in _CHANGES.items():
        if cursor.accept(*words.split()):
            kind, arguments = parse(cursor)
            cursor.end()
            return AlterTable(table, kind, arguments)
    raise cursor.error(*_CHANGES)


def _add_columns(cursor: Cursor) -> Change:
    columns = column_definitions(cursor) if cursor.at("(") else _columns_without_parentheses(cursor)
    return "add_columns", {"columns": columns}


def _columns_without_parentheses(cursor: Cursor) -> Any:
    found = [column_definition(cursor)]
    while cursor.accept(","):
        found.append(column_definition(cursor))
    return tuple(found)


def _drop_columns(cursor: Cursor) -> Change:
    if_exists = cursor.accept("IF", "EXISTS")
    in_parentheses = cursor.accept("(")
    columns = [cursor.dotted("a column")]
    while cursor.accept(","):
        columns.append(cursor.dotted("a column"))
    if in_parentheses:
        cursor.expect(")")
    return "drop_columns", {"columns": tuple(columns), "if_exists": if_exists}


def _rename_column(cursor: Cursor) -> Change:
    column = cursor.dotted("a column")
    cursor.expect("TO")
    return "rename_column", {"column": column, "to": cursor.dotted("the new name")[-1]}


def _alter_column(cursor: Cursor) -> Change:
    column = cursor.dotted("a column")
    changes: dict[str, Any] = {"column": column}
    if not cursor.at_any("TYPE", "COMMENT", "SET", "DROP", "FIRST", "AFTER"):
        raise cursor.error(
            "TYPE",
            "COMMENT",
            "SET NOT NULL",
            "DROP NOT NULL",
            "SET DEFAULT",
            "DROP DEFAULT",
            "FIRST",
            "AFTER",
        )
    if cursor.accept("TYPE"):
        changes["type"] = cursor.until(what="a type")
    elif cursor.accept("COMMENT"):
        changes["comment"] = cursor.string()
    elif cursor.accept("SET", "NOT", "NULL"):
        changes["nullable"] = False
    elif cursor.accept("DROP", "NOT", "NULL"):
        changes["nullable"] = True
    elif cursor.accept("SET", "DEFAULT"):
        changes["default"] = cursor.until(what="a value")
    elif cursor.accept("DROP", "DEFAULT"):
        changes["default"] = None
    elif cursor.accept("FIRST"):
        changes["first"] = True
    else:
        cursor.expect("AFTER")
        changes["after"] = cursor.name("a column")
    return "alter_column", changes


def _change_column(cursor: Cursor) -> Change:
    """CHANGE COLUMN old new type [COMMENT …] [FIRST | AFTER …]: the name stays, as in delta-spark."""
    column = cursor.dotted("a column")
    if cursor.at_any("TYPE", "COMMENT", "SET", "DROP", "FIRST", "AFTER"):
        raise cursor.error("the column's name again, and its type")
    definition = column_definition(cursor)
    if tuple(part.lower() for part in definition.path) != tuple(part.lower() for part in column):
        raise cursor.error("the same name: CHANGE COLUMN cannot rename, RENAME COLUMN does")
    changes: dict[str, Any] = {"column": column, "type": definition.type_text}
    if definition.comment is not None:
        changes["comment"] = definition.comment
    if definition.first or definition.after:
        changes.update({"first": definition.first} if definition.first else {"after": definition.after})
    return "alter_column", changes


def _add_constraint(cursor: Cursor) -> Change:
    name = cursor.name("the name of the constraint")
    cursor.expect("CHECK")
    return "add_constraint", {"name": name, "expression": cursor.parenthesised("a condition")}


def _drop_constraint(cursor: Cursor) -> Change:
    if_exists = cursor.accept("IF", "EXISTS")
    return "drop_constraint", {"name": cursor.name("a constraint"), "if_exists": if_exists}


def _set_properties(cursor: Cursor) -> Change:
    return "set_properties", {"properties": properties(cursor)}


def _unset_properties(cursor: Cursor) -> Change:
    if_exists = cursor.accept("IF", "EXISTS")
    return "unset_properties", {"keys": cursor.listed(property_key), "if_exists": if_exists}


def _cluster_by(cursor: Cursor) -> Change:
    return "cluster_by", {"columns": () if cursor.accept("NONE") else column_names(cursor)}


def _drop_feature(cursor: Cursor) -> Change:
    name = cursor.string() if cursor.next.kind == "string" else cursor.name("a feature")
    return "drop_feature", {"name": name, "truncate_history": cursor.accept("TRUNCATE", "HISTORY")}


_CHANGES: dict[str, Callable[[Cursor], Change]] = {
    "ADD COLUMNS": _add_columns,
    "ADD COLUMN": _add_columns,
    "ADD CONSTRAINT": _add_constraint,
    "DROP COLUMNS": _drop_columns,
    "DROP COLUMN": _drop_columns,
    "DROP CONSTRAINT": _drop_constraint,
    "DROP FEATURE": _drop_feature,
    "RENAME COLUMN": _rename_column,
    "ALTER COLUMN": _alter_column,
    "CHANGE COLUMN": _change_column,
    "SET TBLPROPERTIES": _set_properties,
    "UNSET TBLPROPERTIES": _unset_properties,
    "CLUSTER BY": _cluster_by,
}
