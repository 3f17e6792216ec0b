"""What a change read of its table, as the engine's predicates: for telling other writers' commits apart.

Only a condition over the table's own columns, written in the closed list of expressions that the engine
evaluates as Spark does, narrows what counts as read. Anything else means that the whole table was read,
which is always safe: it finds too many conflicts, never too few.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from pyspark.sql import SparkSession

from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.errors import InvalidInputError
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Column, Expression
from distributary.spark.resolved_columns import ResolvedColumn


def understood(
    spark: SparkSession, schema: StructType, text: str, qualifier: str | None = None
) -> Expression | None:
    """The engine's predicate of a Spark condition over a table's columns, if it has one."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    try:
        return bind(_unqualified(parse_predicate(text), qualifier), arrow_schema(schema), zone)
    except InvalidInputError:
        return None


def own_conjuncts(condition: ResolvedColumn, own: Collection[int]) -> list[ResolvedColumn]:
    """Those parts of a condition, joined by AND, that read columns of one side and nothing else."""
    attributes = frozenset(own)
    return [part for part in condition.conjuncts() if part.attributes and part.attributes <= attributes]


def _unqualified(node: Expression, qualifier: str | None) -> Expression:
    """A tree without the name of the table before its columns."""
    if isinstance(node, Column):
        named = qualifier is not None and len(node.path) > 1 and node.path[0].lower() == qualifier.lower()
        return Column(node.path[1:]) if named else node
    parts: dict[str, Any] = {part.name: getattr(node, part.name) for part in fields(node)}
    return replace(node, **{name: _inside(value, qualifier) for name, value in parts.items()})


def _inside(value: Any, qualifier: str | None) -> Any:
    if isinstance(value, Expression):
        return _unqualified(value, qualifier)
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value
        return tuple(_inside(item, qualifier) for item in items)
    return value
