"""Conditions and values as Spark's analyser understands them: what they read, whether they may be used here.

A text or a column is resolved against one frame before it is used in a larger query, so that a name means
the same there as where the user wrote it, even when the other side of a join has it too. What a change may
depend on is narrower than what a query may: a condition that gives another answer each time, or that asks
another table, is refused, as delta-spark does.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.schema.data_types import DataType, parse_schema, parse_type
from distributary.errors import InvalidInputError
from distributary.spark.jvm import class_named, column_of

_AS: Final = "__distributary_value_{}"
_SUBQUERY: Final = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"


class ResolvedColumn(msgspec.Struct, frozen=True):
    """A column that refers to attributes of a frame, not to names any more."""

    spark: SparkSession
    data_type: DataType
    expression: Any

    @property
    def column(self) -> Column:
        """The column, for use in any query that has the attributes."""
        return column_of(self.spark, self.expression)

    @property
    def sql(self) -> str:
        """The expression as SQL text."""
        return str(self.expression.sql())

    @property
    def is_deterministic(self) -> bool:
        """Whether it gives the same answer for the same row each time."""
        return bool(self.expression.deterministic())

    @property
    def attributes(self) -> frozenset[int]:
        """The ids of the attributes that it reads."""
        return _ids(self.expression.references())

    @property
    def attribute(self) -> int | None:
        """The id of the attribute that it is, if it is one and nothing more."""
        return _id(self.expression) if str(self.expression.nodeName()) == "AttributeReference" else None

    def conjuncts(self) -> list[ResolvedColumn]:
        """The conditions that it joins by AND."""
        found: list[Any] = []
        waiting = [self.expression]
        while waiting:
            here = waiting.pop(0)
            if str(here.nodeName()) == "And":
                waiting[:0] = [here.left(), here.right()]
            else:
                found.append(here)
        return [ResolvedColumn(self.spark, self.data_type, part) for part in found]


def resolve(frame: DataFrame, *columns: Column | str) -> list[ResolvedColumn]:
    """Columns or SQL texts, resolved against one frame."""
    if not columns:
        return []
    made = [sf.expr(column) if isinstance(column, str) else column for column in columns]
    selected = frame.select(*[column.alias(_AS.format(at)) for at, column in enumerate(made)])
    schema = parse_schema(selected.schema.json())
    spark = frame.sparkSession
    plan: Any = selected._jdf.queryExecution().analyzed()  # pyright: ignore
    expressions: Any = plan.projectList()
    resolved: list[ResolvedColumn] = []
    for at, field in enumerate(schema.fields):
        expression = expressions.apply(at).child()
        resolved.append(ResolvedColumn(spark, field.data_type, expression))
    return resolved


def resolve_condition(frame: DataFrame, condition: Column | str, what: str) -> ResolvedColumn:
    """A condition that decides about rows by their values alone; refused otherwise."""
    resolved = check_condition(resolve(frame, condition)[0], what)
    check_usable(frame, resolved, what)
    return resolved


def check_condition(resolved: ResolvedColumn, what: str) -> ResolvedColumn:
    """The same, refused where it is no condition."""
    if str(resolved.data_type) not in ("boolean", "void"):
        raise InvalidInputError(
            f"The condition of {what} is {resolved.data_type}, not boolean: {resolved.sql}"
        )
    return resolved


def check_usable(frame: DataFrame, resolved: ResolvedColumn, what: str) -> None:
    """Refuse what a change cannot depend on."""
    if not resolved.is_deterministic:
        raise InvalidInputError(
            f"{what} cannot depend on {resolved.sql}, which gives another answer each time: compute it into "
            "a column first."
        )
    subqueries: Any = class_named(frame.sparkSession, _SUBQUERY)
    if subqueries.hasSubquery(resolved.expression):
        raise InvalidInputError(
            f"{what} cannot depend on a subquery ({resolved.sql}): use a merge with that table."
        )


def equality_sides(condition: ResolvedColumn) -> list[tuple[ResolvedColumn, ResolvedColumn]]:
    """The two sides of an equation, either first; nothing for any other condition."""
    expression = condition.expression
    if str(expression.nodeName()) != "EqualTo":
        return []
    left, right = (
        ResolvedColumn(condition.spark, _type(side), side) for side in (expression.left(), expression.right())
    )
    return [(left, right), (right, left)]


def attribute_names(frame: DataFrame) -> dict[int, str]:
    """The name of each attribute of a frame, by id."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # pyright: ignore
    output: Any = plan.output()
    return {_id(output.apply(at)): str(output.apply(at).name()) for at in range(output.size())}


def attributes(frame: DataFrame) -> dict[str, ResolvedColumn]:
    """The columns of a frame by name, resolved; of two with one name the last."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # pyright: ignore
    output: Any = plan.output()
    spark = frame.sparkSession
    found = [output.apply(at) for at in range(output.size())]
    return {str(column.name()): ResolvedColumn(spark, _type(column), column) for column in found}


def _type(expression: Any) -> DataType:
    return parse_type(json.loads(str(expression.dataType().json())))


def is_repeatable(frame: DataFrame) -> bool:
    """Whether a frame surely gives the same rows each time: plain steps over files or literal rows only."""
    waiting: list[Any] = [frame._jdf.queryExecution().analyzed()]  # pyright: ignore
    while waiting:
        node = waiting.pop()
        if str(node.nodeName()) not in _REPEATABLE or not _deterministic(node):
            return False
        children = node.children()
        waiting.extend(children.apply(at) for at in range(children.size()))
    return True


def is_literal(frame: DataFrame) -> bool:
    """Whether the rows of a frame lie in the plan itself."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()  # pyright: ignore
    return str(plan.nodeName()) == "LocalRelation"


_REPEATABLE: Final = frozenset(
    {"Project", "Filter", "SubqueryAlias", "LocalRelation", "LogicalRelation", "Range", "Union", "View"}
)


def _deterministic(node: Any) -> bool:
    return bool(node.deterministic())


def _ids(attributes: Any) -> frozenset[int]:
    found: Any = attributes.toSeq()
    return frozenset(_id(found.apply(at)) for at in range(found.size()))


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())
