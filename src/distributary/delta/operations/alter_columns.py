"""Plans that change the columns of a table: add, rename, drop, describe, widen, reorder, NOT NULL, defaults.

All of them change metadata only. Older files stay as they are: a column they lack is null, a narrower type
is cast up while reading, and with column mapping a renamed column keeps its physical name, a dropped one is
no longer looked for. A change that would leave a rule, the partitioning or the clustering without its column
is refused with the rule named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from distributary.delta.commit.staged_commit import Operation
from distributary.delta.commit.table_rules import TableRule, rules_about
from distributary.delta.commit.write_validation import DEFAULT_KEY, check_default
from distributary.delta.errors import SchemaMismatchError
from distributary.delta.operations.alteration_plan import AlterationPlan, TableState, plan_change
from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_path
from distributary.delta.schema.data_types import DataType, StructField, StructType, type_to_json
from distributary.delta.schema.schema_edits import (
    LAST,
    ColumnPath,
    Position,
    exact_path,
    field_at,
    find_field,
    insert_field,
    move_field,
    remove_field,
    replace_field,
)
from distributary.delta.schema.schema_evolution import widen_field
from distributary.delta.table_properties import (
    DATA_SKIPPING_STATS_COLUMNS,
    ENABLE_TYPE_WIDENING,
    MODE_PROPERTY,
)
from distributary.expressions.literal_text import name_sql

DefaultCheck = Callable[[TableRule, DataType], None]


class NewColumn(msgspec.Struct, frozen=True):
    """A column to add: its path, its type and where it stands among its siblings."""

    path: ColumnPath
    data_type: DataType
    comment: str | None = None
    position: Position = LAST
    nullable: bool = True


def plan_add_columns(state: TableState, columns: Sequence[NewColumn]) -> AlterationPlan:
    """New columns, null in every row that is there."""
    schema = state.schema
    described: list[dict[str, Any]] = []
    for column in columns:
        if not column.nullable:
            raise SchemaMismatchError(
                f"Column {'.'.join(column.path)} cannot be added NOT NULL: the rows that are there have no "
                "value for it. Add it, fill it, then set NOT NULL."
            )
        metadata = {} if column.comment is None else {"comment": column.comment}
        field = StructField(column.path[-1], column.data_type, True, metadata)
        parent = exact_path(schema, column.path[:-1])
        schema = insert_field(schema, parent, field, column.position)
        named = {"column": _field_json(StructField(".".join((*parent, field.name)), column.data_type))}
        place = {"position": str(column.position)} if str(column.position) else {}
        described.append({**named, **place})
    return plan_change(state, Operation("ADD COLUMNS", {"columns": described}), schema=schema)


def plan_rename_column(state: TableState, path: ColumnPath, new_name: str) -> AlterationPlan:
    """Another name for a column; files keep the physical one."""
    path = exact_path(state.schema, path)
    _need_mapping(state, path, "renamed")
    _refuse_for_rules(state, path, "renamed")
    renamed = (*path[:-1], new_name)
    twin = find_field(state.schema, renamed)
    if twin is not None and twin is not field_at(state.schema, path):
        raise SchemaMismatchError(f"There is a column {'.'.join(renamed)} already (names ignore case).")
    schema = replace_field(
        state.schema,
        path,
        lambda field: StructField(new_name, field.data_type, field.nullable, field.metadata),
    )
    partitioning = [new_name if (column,) == path else column for column in state.metadata.partitioning]
    operation = Operation(
        "RENAME COLUMN", {"oldColumnPath": ".".join(path), "newColumnPath": ".".join(renamed)}
    )
    configuration = _statistics_columns(
        state, lambda column: renamed + column[len(path) :] if _starts(column, path) else column
    )
    return plan_change(
        state, operation, schema=schema, partition_columns=partitioning, configuration=configuration
    )


def plan_drop_columns(state: TableState, paths: Sequence[ColumnPath]) -> AlterationPlan:
    """Columns that the table no longer has; their values stay in the files until those are rewritten."""
    schema = state.schema
    exact = [exact_path(schema, path) for path in paths]
    for path in exact:
        _need_mapping(state, path, "dropped")
        _refuse_for_rules(state, path, "dropped")
        if len(path) == 1 and path[0] in state.metadata.partitioning:
            raise SchemaMismatchError(f"Column {path[0]} cannot be dropped: the table is partitioned by it.")
        physical = physical_path(state.schema, path, state.mode)
        if any(_starts(column, physical) for column in state.clustering):
            raise SchemaMismatchError(
                f"Column {'.'.join(path)} cannot be dropped: the table is clustered by it."
            )
        schema = remove_field(schema, path)
    configuration = _statistics_columns(
        state, lambda column: None if any(_starts(column, path) for path in exact) else column
    )
    operation = Operation("DROP COLUMNS", {"columns": [".".join(path) for path in exact]})
    return plan_change(state, operation, schema=schema, configuration=configuration)


def plan_comment_column(state: TableState, path: ColumnPath, comment: str | None) -> AlterationPlan:
    """Another comment on a column, or none."""
    return _change_column(state, path, lambda field: _with_metadata(field, "comment", comment))


def plan_set_not_null(state: TableState, path: ColumnPath) -> AlterationPlan:
    """A column that must have a value, from the rows that are there on."""
    path = exact_path(state.schema, path)
    plan = _change_column(state, path, lambda field: _with_nullable(field, nullable=False))
    return msgspec.structs.replace(plan, must_have=() if plan.changes_nothing else path)


def plan_drop_not_null(state: TableState, path: ColumnPath) -> AlterationPlan:
    """A column that may be null."""
    return _change_column(state, path, lambda field: _with_nullable(field, nullable=True))


def plan_widen_column(state: TableState, path: ColumnPath, to_type: DataType) -> AlterationPlan:
    """A wider type for a column, recorded so that readers cast older files up."""
    path = exact_path(state.schema, path)
    if field_at(state.schema, path).data_type == to_type:
        return AlterationPlan(_change_operation(state.schema, path))
    if not state.properties.get(ENABLE_TYPE_WIDENING):
        raise SchemaMismatchError(
            f"The type of column {'.'.join(path)} cannot change: the table does not allow it. Set the "
            f"property {ENABLE_TYPE_WIDENING.key} = true first (older engines then cannot read the table)."
        )
    _refuse_for_rules(state, path, "given another type")
    return _change_column(state, path, lambda field: widen_field(field, to_type, path[:-1]))


def plan_move_column(state: TableState, path: ColumnPath, position: Position) -> AlterationPlan:
    """Another place for a column among its siblings."""
    path = exact_path(state.schema, path)
    schema = move_field(state.schema, path, position)
    return plan_change(state, _change_operation(schema, path, position), schema=schema)


def plan_set_default(
    state: TableState, path: ColumnPath, expression: str | None, *, check: DefaultCheck = check_default
) -> AlterationPlan:
    """The value of a column that later writes leave out; None takes the default away."""
    path = exact_path(state.schema, path)
    name, *nested = path
    if nested:
        raise SchemaMismatchError(f"Only whole columns have defaults, {'.'.join(path)} is a part of one.")
    if expression is not None:
        title = f"The default of column {name}"
        check(TableRule(title, expression), field_at(state.schema, path).data_type)
    return _change_column(state, path, lambda field: _with_metadata(field, DEFAULT_KEY, expression))


def _change_column(
    state: TableState, path: ColumnPath, change: Callable[[StructField], StructField]
) -> AlterationPlan:
    path = exact_path(state.schema, path)
    schema = replace_field(state.schema, path, change)
    return plan_change(state, _change_operation(schema, path), schema=schema)


def _change_operation(schema: StructType, path: ColumnPath, position: Position = LAST) -> Operation:
    parameters: dict[str, Any] = {"column": _field_json(field_at(schema, path))}
    if path[:-1]:
        parameters["columnPath"] = ".".join(path[:-1])
    if str(position):
        parameters["position"] = str(position)
    return Operation("CHANGE COLUMN", parameters)


def _need_mapping(state: TableState, path: ColumnPath, verb: str) -> None:
    if state.mode is ColumnMappingMode.NONE:
        raise SchemaMismatchError(
            f"Column {'.'.join(path)} cannot be {verb}: its files know it by this name. Set the property "
            f"{MODE_PROPERTY} = name first (older engines can then no longer read the table)."
        )


def _refuse_for_rules(state: TableState, path: ColumnPath, verb: str) -> None:
    rules = rules_about(path, state.configuration, state.schema)
    if rules:
        raise SchemaMismatchError(
            f"Column {'.'.join(path)} cannot be {verb}: {rules[0].title} needs it ({rules[0].text}). "
            "Drop that first."
        )


def _statistics_columns(
    state: TableState, change: Callable[[ColumnPath], ColumnPath | None]
) -> dict[str, str]:
    """The configuration with the columns that get statistics renamed or left out."""
    configuration = dict(state.configuration)
    columns = state.properties.data_skipping_stats_columns
    if columns is None:
        return configuration
    changed = [column for before in columns if (column := change(before)) is not None]
    if changed:
        texts = (".".join(name_sql(name) for name in column) for column in changed)
        configuration[DATA_SKIPPING_STATS_COLUMNS.key] = ",".join(texts)
    else:
        del configuration[DATA_SKIPPING_STATS_COLUMNS.key]
    return configuration


def _starts(column: ColumnPath, path: ColumnPath) -> bool:
    beginning = column[: len(path)]
    return len(beginning) == len(path) and all(
        a.lower() == b.lower() for a, b in zip(beginning, path, strict=True)
    )


def _with_metadata(field: StructField, key: str, value: str | None) -> StructField:
    metadata = {name: entry for name, entry in field.metadata.items() if name != key}
    if value is not None:
        metadata[key] = value
    return StructField(field.name, field.data_type, field.nullable, metadata)


def _with_nullable(field: StructField, *, nullable: bool) -> StructField:
    return StructField(field.name, field.data_type, nullable, field.metadata)


def _field_json(field: StructField) -> dict[str, Any]:
    described = cast("dict[str, Any]", type_to_json(StructType((field,))))
    return described["fields"][0]
