"""A merge as it will be done: names settled, values in the table's types, what is read of the table.

Each expression is resolved where it was meant: conditions and values of matched rows against both sides,
those of inserts against the source, those of rows that no source row matches against the table. What the
condition says about the table alone, and the range of the source's values where it asks for equality,
narrows the files that are read, and what other writers may do meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from distributary.delta.operations.append import WritePlan
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type
from distributary.delta.schema.data_types import (
    DATE,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
    parse_schema,
)
from distributary.errors import InvalidInputError
from distributary.expressions.binding import bind
from distributary.expressions.tree import Column as TreeColumn
from distributary.expressions.tree import Comparison, Expression, Literal, all_of
from distributary.spark.assignments import (
    Assignment,
    ColumnPath,
    default_text,
    is_default,
    known_path,
    new_columns,
)
from distributary.spark.changed_table import ChangedTable
from distributary.spark.merge_clauses import (
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    ClauseKind,
    MergeClause,
    of_kind,
)
from distributary.spark.merge_schema import grown_plan, taken_paths
from distributary.spark.merge_source import small_or_not, summary
from distributary.spark.read_predicates import own_conjuncts, understood
from distributary.spark.resolved_columns import (
    ResolvedColumn,
    attribute_names,
    attributes,
    check_condition,
    check_usable,
    equality_sides,
    resolve,
    resolve_condition,
)
from distributary.spark.row_changes import ReadSet
from distributary.spark.rule_violation import quoted
from distributary.spark.store_assignment import StoreAssignment, spark_type
from distributary.spark.touched_files import read_set

SOURCE_ROW: Final = "__distributary_source"
_COMPARABLE: Final = (*INTEGER_BITS, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ)


@dataclass(frozen=True, slots=True)
class ClauseRule:
    """A clause with its condition and its new columns settled."""

    clause: MergeClause
    applies: Column
    columns: Mapping[str, Column]
    text: str | None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Both sides of a merge, its condition, its clauses, and the table as it will be."""

    table: ChangedTable
    write: WritePlan
    target: DataFrame
    source: DataFrame
    condition: ResolvedColumn
    given: Column | str
    before: Mapping[str, Column]
    rules: tuple[ClauseRule, ...]
    reads: ReadSet
    num_source_rows: int

    @classmethod
    def of(
        cls,
        table: ChangedTable,
        source: DataFrame,
        condition: Column | str,
        clauses: Sequence[MergeClause],
        *,
        grow: bool,
    ) -> MergePlan:
        """Settle everything that can be settled before rows are read; the source is counted."""
        bare = table.only(()).rows()
        asked = resolve_condition(bare.crossJoin(source), condition, "MERGE")
        ranges = list(_equalities(bare, source, asked))
        count, bounds = summary(source, [side.column for _, side in ranges])
        every = bool(of_kind(clauses, NOT_MATCHED_BY_SOURCE))
        names = [name for name, _ in ranges]
        predicate = None if every else _predicate(table, bare, asked, list(zip(names, bounds, strict=True)))
        candidates = table.narrowed(predicate)
        schema = parse_schema(source.schema.json())
        write = grown_plan(table.spark, table.snapshot, schema, clauses, table.alias) if grow else table.plan
        target = candidates.rows(positions=True, identity=True)
        marked = source.withColumn(SOURCE_ROW, sf.lit(True))
        before = _before(candidates, write, target)
        sides = _Sides(candidates, write, target, marked, schema, before, grow)
        return cls(
            candidates,
            write,
            target,
            marked,
            resolve_condition(target.crossJoin(marked), condition, "MERGE"),
            condition,
            before,
            tuple(sides.rule(clause) for clause in clauses),
            read_set(candidates, predicate),
            count,
        )

    def of_kind(self, kind: ClauseKind) -> tuple[ClauseRule, ...]:
        """The rules of the clauses of one kind, in order."""
        return tuple(rule for rule in self.rules if rule.clause.kind == kind)

    @property
    def small_source(self) -> DataFrame:
        """The source, to be sent to every task where it is small."""
        return small_or_not(self.source, self.num_source_rows)

    @property
    def key_names(self) -> list[str]:
        """The table's columns that the condition reads."""
        names = attribute_names(self.target)
        return sorted({names[at] for at in self.condition.attributes if at in names})


@dataclass(frozen=True, slots=True)
class _Sides:
    """Where the names of clauses are looked up."""

    table: ChangedTable
    write: WritePlan
    target: DataFrame
    source: DataFrame
    schema: StructType
    before: Mapping[str, Column]
    grow: bool

    def rule(self, clause: MergeClause) -> ClauseRule:
        frame = self._frame(clause.kind)
        paths, texts = self._named(clause)
        asked = [] if clause.condition is None else [clause.condition]
        found = resolve(frame, *texts, *asked)
        for value in found:
            check_usable(frame, value, str(clause))
        condition = check_condition(found.pop(), str(clause)) if asked else None
        applies = sf.lit(True) if condition is None else sf.coalesce(condition.column, sf.lit(False))
        columns: Mapping[str, Column] = {}
        if clause.action != "delete":
            assigned = [Assignment(path, value) for path, value in zip(paths, found, strict=True)]
            assigned += self._taken(clause)
            before = None if clause.kind == NOT_MATCHED else self.before.__getitem__
            columns = new_columns(self.table.spark, self.write, assigned, before, grow=self.grow)
        return ClauseRule(clause, applies, columns, None if condition is None else condition.sql)

    def _frame(self, kind: ClauseKind) -> DataFrame:
        if kind == NOT_MATCHED:
            return self.source
        return self.target.crossJoin(self.source) if kind == MATCHED else self.target

    def _named(self, clause: MergeClause) -> tuple[list[ColumnPath], list[Column | str]]:
        """The columns that a clause names, and what it gives them."""
        schema = self.write.schema
        paths = [known_path(schema, name, self.table.alias) for name in clause.values]
        return paths, [
            default_text(schema.field(path[0])) if is_default(value) else value
            for path, value in zip(paths, clause.values.values(), strict=True)
        ]

    def _taken(self, clause: MergeClause) -> list[Assignment]:
        """What a clause takes from the source by name."""
        if not clause.takes_all:
            return []
        taken = taken_paths(clause, self.write, self.schema, grow=self.grow)
        values = resolve(self.source, *[sf.col(".".join(map(quoted, source))) for _, source in taken])
        return [Assignment(path, value) for (path, _), value in zip(taken, values, strict=True)]


def _before(table: ChangedTable, write: WritePlan, target: DataFrame) -> dict[str, Column]:
    """The columns of the table as they are, in the types that they will have."""
    known, assignment = attributes(target), StoreAssignment(table.spark)
    columns: dict[str, Column] = {}
    for field in write.schema.fields:
        old = table.snapshot.schema.find(field.name)
        columns[field.name] = (
            sf.lit(None).cast(spark_type(field.data_type))
            if old is None
            else assignment.column(known[old.name].column, old.data_type, field.data_type, (field.name,))
        )
    return columns


def _equalities(
    target: DataFrame, source: DataFrame, condition: ResolvedColumn
) -> Iterator[tuple[str, ResolvedColumn]]:
    """The table's columns that must equal something of the source, with that."""
    ours, theirs = attribute_names(target), frozenset(attribute_names(source))
    for part in condition.conjuncts():
        for column, value in equality_sides(part):
            known = column.attribute
            if known in ours and value.attributes and value.attributes <= theirs and _ordered(value):
                yield ours[known], value


def _ordered(value: ResolvedColumn) -> bool:
    kind: DataType = value.data_type
    return kind in _COMPARABLE or isinstance(kind, DecimalType)


def _predicate(
    table: ChangedTable, target: DataFrame, condition: ResolvedColumn, ranges: Sequence[tuple[str, Any]]
) -> Expression | None:
    """What a row of the table must satisfy to match any row of the source, as far as the engine can tell."""
    schema = table.snapshot.schema
    parts = own_conjuncts(condition, attribute_names(target))
    found = [understood(table.spark, schema, part.sql, table.alias) for part in parts]
    trees = [tree for tree in found if tree is not None]
    for name, (low, high) in ranges:
        if low.is_valid and high.is_valid:
            kind = arrow_type(schema.field(name).data_type)
            column = TreeColumn((name,))
            limits = (
                Comparison(">=", column, Literal(low.as_py(), kind)),
                Comparison("<=", column, Literal(high.as_py(), kind)),
            )
            trees.append(bind(all_of(limits), arrow_schema(schema)))
    return all_of(trees) if trees else None


def refuse_mixed_computing(rules: Sequence[ClauseRule], computed: frozenset[str]) -> None:
    """Refuse updates of which some give a generated column a value and others leave it to be computed."""
    updates = [rule for rule in rules if rule.clause.verb == "update"]
    for name in sorted(computed):
        given = [rule for rule in updates if name in rule.columns]
        if given and len(given) < len(updates):
            raise InvalidInputError(
                f"The generated column {name} is assigned in some clauses and not in others: leave it out of "
                "all, so that it is computed."
            )
