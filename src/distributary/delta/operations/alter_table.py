"""ALTER TABLE: plans of metadata changes, checked against the rows that are there, and committed.

`TableAlteration` has one method a change; each makes a plan from the latest snapshot (`alter_columns`,
`alter_properties`), looks at the rows where the change depends on them, and commits. When another writer was
first, the plan is made anew on the table as it now is, so a change is never made on what it did not see. A
change that would change nothing commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from distributary.delta.commit.staged_commit import StagedAction, StagedCommit
from distributary.delta.commit.transaction import commit
from distributary.delta.commit.write_validation import check_condition, check_not_null
from distributary.delta.errors import CommitConflictError, NotNullViolationError
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.alter_columns import (
    NewColumn,
    plan_add_columns,
    plan_comment_column,
    plan_drop_columns,
    plan_drop_not_null,
    plan_move_column,
    plan_rename_column,
    plan_set_default,
    plan_set_not_null,
    plan_widen_column,
)
from distributary.delta.operations.alter_properties import (
    plan_add_constraint,
    plan_add_features,
    plan_describe,
    plan_drop_constraint,
    plan_set_properties,
    plan_unset_properties,
)
from distributary.delta.operations.alteration_plan import AlterationPlan, TableState
from distributary.delta.scan.table_scan import TableScan
from distributary.delta.schema.data_types import DataType, parse_schema
from distributary.delta.schema.schema_edits import ColumnPath, Position, column_path
from distributary.delta.schema.type_text import as_data_type
from distributary.expressions.tree import TRUE, Column, Comparison, IsNull, Not, columns_of
from distributary.storage.object_store import ObjectStore

ATTEMPTS: Final = 5

Planner = Callable[[TableState], AlterationPlan]


class Alteration(msgspec.Struct, frozen=True):
    """A change that was made (or only planned): its plan, and the version of the table after it."""

    plan: AlterationPlan
    version: int

    def __str__(self) -> str:
        return str(self.plan)


class TableAlteration:
    """The changes of one table; made by `DeltaTable.alter`."""

    def __init__(
        self, store: ObjectStore, latest: Callable[[], Snapshot], *, planning_only: bool = False
    ) -> None:
        self._store = store
        self._latest = latest
        self._planning_only = planning_only

    def dry_run(self) -> TableAlteration:
        """The same changes, planned and checked, but not committed."""
        return TableAlteration(self._store, self._latest, planning_only=True)

    def add_column(
        self,
        column: str | ColumnPath,
        data_type: DataType | pa.DataType | str,
        *,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> Alteration:
        """Add a column, `address.zip` inside a struct; null in the rows that are there."""
        position = Position(first, after)
        return self.add_columns([NewColumn(column_path(column), as_data_type(data_type), comment, position)])

    def add_columns(self, columns: Sequence[NewColumn]) -> Alteration:
        """Add several columns at once."""
        return self._alter(lambda state: plan_add_columns(state, columns))

    def rename_column(self, column: str | ColumnPath, new_name: str) -> Alteration:
        """Rename a column (needs column mapping)."""
        return self._alter(lambda state: plan_rename_column(state, column_path(column), new_name))

    def drop_column(self, *columns: str | ColumnPath) -> Alteration:
        """Drop columns (needs column mapping); their values stay in the files until those are rewritten."""
        paths = [column_path(column) for column in columns]
        return self._alter(lambda state: plan_drop_columns(state, paths))

    def comment_column(self, column: str | ColumnPath, comment: str | None) -> Alteration:
        """Set the comment of a column, or take it away."""
        return self._alter(lambda state: plan_comment_column(state, column_path(column), comment))

    def set_not_null(self, column: str | ColumnPath) -> Alteration:
        """Demand a value in a column, after a look at the rows that are there."""
        return self._alter(lambda state: plan_set_not_null(state, column_path(column)))

    def drop_not_null(self, column: str | ColumnPath) -> Alteration:
        """Let a column be null."""
        return self._alter(lambda state: plan_drop_not_null(state, column_path(column)))

    def widen_column(self, column: str | ColumnPath, data_type: DataType | pa.DataType | str) -> Alteration:
        """Give a column a wider type (needs `delta.enableTypeWidening`)."""
        wanted = as_data_type(data_type)
        return self._alter(lambda state: plan_widen_column(state, column_path(column), wanted))

    def move_column(
        self, column: str | ColumnPath, *, first: bool = False, after: str | None = None
    ) -> Alteration:
        """Give a column another place among its siblings: first, after another, or last."""
        position = Position(first, after)
        return self._alter(lambda state: plan_move_column(state, column_path(column), position))

    def set_default(self, column: str, expression: str | None) -> Alteration:
        """Set what later writes that leave a column out put there; None takes the default away."""
        return self._alter(lambda state: plan_set_default(state, column_path(column), expression))

    def set_properties(self, properties: Mapping[str, str]) -> Alteration:
        """Set table properties, with all that they need."""
        return self._alter(lambda state: plan_set_properties(state, properties))

    def unset_properties(self, *keys: str, if_exists: bool = False) -> Alteration:
        """Take table properties away, so that their defaults hold."""
        return self._alter(lambda state: plan_unset_properties(state, keys, if_exists=if_exists))

    def add_constraint(self, name: str, expression: str) -> Alteration:
        """Add a CHECK constraint, after a look at the rows that are there."""
        return self._alter(lambda state: plan_add_constraint(state, name, expression))

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> Alteration:
        """Drop a CHECK constraint."""
        return self._alter(lambda state: plan_drop_constraint(state, name, if_exists=if_exists))

    def set_comment(self, description: str | None) -> Alteration:
        """Set the description of the table, or take it away."""
        return self._alter(lambda state: plan_describe(state, {"description": description}))

    def set_name(self, name: str | None) -> Alteration:
        """Set the name of the table, or take it away."""
        return self._alter(lambda state: plan_describe(state, {"name": name}))

    def add_feature(self, *features: str) -> Alteration:
        """Let the table support features; a property or a column then switches them on."""
        return self._alter(lambda state: plan_add_features(state, features))

    def _alter(self, planner: Planner) -> Alteration:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._attempt(planner)
            except CommitConflictError:
                continue
        return self._attempt(planner)

    def _check_rows(self, snapshot: Snapshot, plan: AlterationPlan) -> None:
        """Refuses a plan that the rows of the table do not satisfy."""
        check_existing_rows(self._store, snapshot, plan)

    def _attempt(self, planner: Planner) -> Alteration:
        snapshot = self._latest()
        plan = planner(TableState.of(snapshot))
        if plan.changes_nothing:
            return Alteration(plan, snapshot.version)
        self._check_rows(snapshot, plan)
        if self._planning_only:
            return Alteration(plan, snapshot.version)
        return Alteration(plan, commit(self._store, snapshot, staged(plan)).version)


def staged(plan: AlterationPlan) -> StagedCommit:
    """The commit of a plan; one that depends on rows holds only while no others come."""
    parts: tuple[StagedAction | None, ...] = (plan.protocol, plan.metadata)
    return StagedCommit(
        plan.operation,
        tuple(part for part in parts if part is not None),
        read_whole_table=plan.reads_rows,
        isolation="Serializable" if plan.reads_rows else None,
    )


def check_existing_rows(store: ObjectStore, snapshot: Snapshot, plan: AlterationPlan) -> None:
    """Refuses a plan that the rows of the table do not satisfy."""
    if plan.must_hold is not None:
        tree = plan.must_hold.tree
        columns = sorted({path[0] for path in columns_of(tree)}) or snapshot.schema.names[:1]
        broken = Not(Comparison("<=>", tree, TRUE))
        for batch in TableScan(snapshot, store, columns=columns, predicate=broken).batches(limit=1):
            check_condition(plan.must_hold, batch)
    if plan.must_have and plan.metadata is not None:
        _check_values(store, snapshot, plan.must_have, plan.metadata.schema_string or "")


def _check_values(store: ObjectStore, snapshot: Snapshot, path: ColumnPath, schema_string: str) -> None:
    root = path[0]
    field = parse_schema(schema_string).field(root)
    if len(path) == 1:
        nulls = TableScan(snapshot, store, columns=[root], predicate=IsNull(Column((root,))))
        if any(batch.num_rows for batch in nulls.batches(limit=1)):
            raise NotNullViolationError(root)
        return
    for batch in TableScan(snapshot, store, columns=[root]).batches():
        check_not_null(batch.column(root), field, ())
