"""The rules that a table states about its rows: as data, and as trees that can be evaluated.

Where each rule is written down (S4 "Column Invariants", "Generated Columns"; beyond.md B11; C-36, C-37):

- CHECK constraints: property `delta.constraints.<name>`, SQL text.
- Invariants: column metadata `delta.invariants`, JSON `{"expression":{"expression":"x > 3"}}`, or plain SQL.
- Generated columns: column metadata `delta.generationExpression`, SQL text.

A rule that cannot be evaluated exactly is an :class:`UnsupportedRuleError`: whoever cannot check a rule must
not write (CN-050). To know which rules a column takes part in, a text that does not parse is taken to read
every column whose name occurs in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from distributary.delta.errors import UnsupportedRuleError
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.schema_edits import ColumnPath, walk_fields
from distributary.delta.table_properties import TableProperties
from distributary.errors import InvalidInputError
from distributary.expressions.arrow_casts import kind_of
from distributary.expressions.binding import bind, type_of
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression, columns_of

INVARIANTS_KEY: Final = "delta.invariants"
GENERATION_KEY: Final = "delta.generationExpression"


class TableRule(msgspec.Struct, frozen=True):
    """One rule: what people call it, and its SQL text; `column` is set for generated columns."""

    title: str
    text: str
    column: ColumnPath = ()


def check_constraints(configuration: Mapping[str, str]) -> tuple[TableRule, ...]:
    """The CHECK constraints of a table, by name."""
    found = TableProperties.from_configuration(configuration).constraints
    return tuple(TableRule(f"CHECK constraint {name}", text) for name, text in sorted(found.items()))


def invariants(schema: StructType) -> tuple[TableRule, ...]:
    """The invariants of a table's columns, in the order of the columns."""
    return tuple(
        TableRule(f"The invariant of column {'.'.join(path)}", invariant_text(field.metadata[INVARIANTS_KEY]))
        for path, field in walk_fields(schema)
        if INVARIANTS_KEY in field.metadata
    )


def generated_columns(schema: StructType) -> tuple[TableRule, ...]:
    """The generation expressions of a table's columns, in the order of the columns."""
    return tuple(
        TableRule(f"Generated column {'.'.join(path)}", str(field.metadata[GENERATION_KEY]), path)
        for path, field in walk_fields(schema)
        if GENERATION_KEY in field.metadata
    )


def invariant_text(value: object) -> str:
    """The SQL of an invariant: from its JSON form, else the whole text (C-37)."""
    decoded = value
    if isinstance(value, str):
        try:
            decoded = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    for _ in range(2):
        if isinstance(decoded, dict):
            decoded = cast("dict[str, Any]", decoded).get("expression")
    return decoded if isinstance(decoded, str) else str(value)


def condition(rule: TableRule, schema: pa.Schema) -> Expression:
    """The bound tree of a rule that is true or false for each row."""
    bound = bound_rule(rule, parsed_rule(rule), schema)
    if kind_of(type_of(bound)) not in ("boolean", "null"):
        raise UnsupportedRuleError(rule.title, rule.text, "it is not a condition")
    return bound


def parsed_rule(rule: TableRule) -> Expression:
    """The tree of a rule's text."""
    try:
        return parse_predicate(rule.text)
    except InvalidInputError as error:
        raise UnsupportedRuleError(rule.title, rule.text, str(error)) from error


def bound_rule(rule: TableRule, tree: Expression, schema: pa.Schema) -> Expression:
    """A tree that belongs to a rule, with its names and types settled by the schema."""
    try:
        return bind(tree, schema)
    except InvalidInputError as error:
        raise UnsupportedRuleError(rule.title, rule.text, str(error)) from error


def rules_about(path: ColumnPath, configuration: Mapping[str, str], schema: StructType) -> list[TableRule]:
    """The rules that read a column, or that make it; a part of a column counts as the column."""
    rules = (*check_constraints(configuration), *invariants(schema), *generated_columns(schema))
    return [rule for rule in rules if any(_overlap(path, used) for used in _columns_used(rule))]


def _columns_used(rule: TableRule) -> Iterator[ColumnPath]:
    if rule.column:
        yield rule.column
    try:
        yield from columns_of(parse_predicate(rule.text))
    except InvalidInputError:
        yield from ((word,) for word in re.findall(r"\w+", rule.text))


def _overlap(path: ColumnPath, used: ColumnPath) -> bool:
    """Whether one path is the beginning of the other; the parts of arrays and maps stop the comparison."""
    return all(ours.lower() == theirs.lower() for ours, theirs in zip(path, used, strict=False))
