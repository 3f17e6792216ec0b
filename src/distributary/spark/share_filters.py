"""Filters that Spark pushes down, as the engine's predicates.

Spark evaluates all of its filters again on what it gets, so a filter that has no translation is only a
chance missed. One that has one is evaluated by the engine exactly as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.datasource import Filter

from distributary.delta.scan.table_scan import bound_predicate
from distributary.delta.schema.data_types import StructType
from distributary.errors import InvalidInputError
from distributary.expressions.tree import (
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Not,
    StartsWith,
    all_of,
    lit,
)

_COMPARISONS: dict[type[Filter], str] = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "<=>",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
}


def predicate_of(filters: Sequence[Filter], schema: StructType) -> Expression | None:
    """What of some filters the engine can evaluate over a schema; None where that is nothing."""
    known = [tree for each in filters if (tree := _usable(each, schema)) is not None]
    return all_of(known) if known else None


def _usable(pushed: Filter, schema: StructType) -> Expression | None:
    try:
        tree = _translated(pushed)
        if tree is not None:
            bound_predicate(tree, schema)
        return tree
    except InvalidInputError:
        return None


def _translated(pushed: Any) -> Expression | None:
    operator = _COMPARISONS.get(type(pushed))
    if operator is not None:
        return Comparison(operator, Column(pushed.attribute), lit(pushed.value))
    match pushed:
        case datasource.In(attribute=path, value=values):
            return In(Column(path), tuple(lit(value) for value in values))
        case datasource.IsNull(attribute=path):
            return IsNull(Column(path))
        case datasource.IsNotNull(attribute=path):
            return Not(IsNull(Column(path)))
        case datasource.StringStartsWith(attribute=path, value=prefix):
            return StartsWith(Column(path), prefix)
        case datasource.Not(child=child):
            inner = _translated(child)
            return None if inner is None else Not(inner)
        case _:
            return None
