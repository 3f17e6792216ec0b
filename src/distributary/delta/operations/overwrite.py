"""Overwrite: new rows in place of all rows, or of the rows of some partitions, in one commit.

- The whole table, optionally with another schema and partitioning.
- `replace_where`: the partitions that satisfy a predicate over partition columns; each new row must satisfy
  it too, so that nothing is written elsewhere.
- Dynamic: exactly the partitions that the new rows are in.

Whole files are exchanged: removed ones stay on disk as tombstones (LW-014), so older versions can be read
until vacuum. An append-only table refuses (CN-001).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from distributary.delta.commit.data_file_writer import WriterSettings
from distributary.delta.commit.partition_split import PartitionTexts
from distributary.delta.commit.staged_commit import Operation, StagedAction, StagedCommit
from distributary.delta.errors import AppendOnlyError, ConstraintViolationError
from distributary.delta.log.actions import Add
from distributary.delta.log.protocol_support import mapping_mode_of
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.operations.append import (
    Transaction,
    WritePlan,
    WriteResult,
    check_mapping,
    commit_files,
    plan_write,
    write_metrics,
    write_parameters,
    write_rows,
)
from distributary.delta.operations.create import declared_schema, define_table
from distributary.delta.operations.restore import removal
from distributary.delta.operations.row_stream import Rows, row_stream
from distributary.delta.scan.file_pruning import FilePruner
from distributary.delta.schema.arrow_schema import arrow_schema, arrow_type
from distributary.delta.schema.column_mapping import physical_name
from distributary.delta.schema.data_types import StructField
from distributary.delta.schema.partition_values import format_partition_value, parse_partition_value
from distributary.errors import InvalidInputError
from distributary.expressions.arrow_evaluation import filter_mask
from distributary.expressions.binding import bind
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import (
    And,
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Or,
    columns_of,
)
from distributary.storage.object_store import ObjectStore

_MOST_PARTITIONS = 200


class Replaced(msgspec.Struct, frozen=True):
    """The files that go, and what was read to choose them: some partitions, or everything."""

    files: Sequence[Add]
    predicate: Expression | None = None


def overwrite(
    store: ObjectStore,
    snapshot: Snapshot,
    data: Rows,
    *,
    replace_where: str | Expression | None = None,
    dynamic: bool = False,
    overwrite_schema: bool = False,
    merge_schema: bool = False,
    partition_by: Sequence[str] | None = None,
    txn: Transaction | None = None,
    settings: WriterSettings | None = None,
) -> WriteResult:
    """Replace rows of a table."""
    _check_choice(replace_where, dynamic, overwrite_schema, merge_schema, partition_by)
    check_removable(snapshot)
    rows = row_stream(data)
    if overwrite_schema:
        plan = _with_new_schema(snapshot, rows.schema, partition_by, txn)
    else:
        plan = plan_write(snapshot, rows.schema, merge_schema=merge_schema, txn=txn)
    if plan.is_done:
        return WriteResult(snapshot.version, snapshot, skipped=True)
    if dynamic:
        check_partitioned(plan)
        adds = write_rows(store, plan, rows, settings=settings)
        return commit_files(
            store, plan, stage_overwrite(plan, adds, dynamically_replaced(plan, adds), dynamic=dynamic)
        )
    region = None if replace_where is None else region_of(plan, replace_where)
    replaced = replaced_files(plan, region)
    check = None if region is None else _Inside(region)
    adds = write_rows(store, plan, rows, check=check, settings=settings)
    return commit_files(store, plan, stage_overwrite(plan, adds, replaced))


def _check_choice(
    replace_where: object, dynamic: bool, overwrite_schema: bool, merge_schema: bool, partition_by: object
) -> None:
    chosen = [
        name
        for name, given in (
            ("replace_where", replace_where is not None),
            ("dynamic", dynamic),
            ("overwrite_schema", overwrite_schema),
        )
        if given
    ]
    if len(chosen) > 1:
        raise InvalidInputError(f"{chosen[0]} and {chosen[1]} exclude each other: choose one of them")
    if overwrite_schema and merge_schema:
        raise InvalidInputError("overwrite_schema and merge_schema exclude each other: choose one of them")
    if partition_by is not None and not overwrite_schema:
        raise InvalidInputError("partition_by changes the table's layout: give overwrite_schema=True too")


def check_removable(snapshot: Snapshot) -> None:
    """Refuse to replace rows of an append-only table (CN-001)."""
    if snapshot.properties.append_only and snapshot.files.num_files:
        raise AppendOnlyError(
            f"{snapshot.root} is append-only (delta.appendOnly=true): an overwrite would remove rows. "
            "Unset the property first if that is intended."
        )


def _with_new_schema(
    snapshot: Snapshot, columns: pa.Schema, partition_by: Sequence[str] | None, txn: Transaction | None
) -> WritePlan:
    """The table with the columns of the data in place of its own; ids of columns are never used again."""
    check_mapping(snapshot)
    plan_write(snapshot, pa.schema([]))  # the table itself must be writable
    partitioning = snapshot.metadata.partitioning if partition_by is None else partition_by
    schema = declared_schema(columns)
    table = define_table(snapshot.root, snapshot.protocol, snapshot.metadata, schema, partitioning)
    return WritePlan(snapshot.root, snapshot, table.schema, table.metadata, table.protocol, txn)


class _Inside(msgspec.Struct, frozen=True):
    """Refuses rows outside of what is replaced."""

    region: Expression

    def __call__(self, rows: pa.RecordBatch) -> None:
        inside = filter_mask(self.region, rows)
        if rows.num_rows and not pc.all(inside).as_py():
            at = pc.index(inside, False).as_py()
            names = sorted({path[0] for path in columns_of(self.region)})
            sample = ", ".join(f"{name} = {rows.column(name)[at].as_py()!r}" for name in names)
            raise ConstraintViolationError("replace_where", str(self.region), sample)


def region_of(plan: WritePlan, predicate: str | Expression) -> Expression:
    """The bound predicate of what is replaced."""
    tree = parse_predicate(predicate) if isinstance(predicate, str) else predicate
    bound = bind(tree, arrow_schema(plan.schema))
    others = sorted({path[0] for path in columns_of(bound)} - set(plan.metadata.partitioning))
    if others:
        raise InvalidInputError(
            f"replace_where may name partition columns only, since whole files are replaced; {others[0]} is "
            f"none. The table is partitioned by: {', '.join(plan.metadata.partitioning) or '(nothing)'}."
        )
    return bound


def replaced_files(plan: WritePlan, region: Expression | None) -> Replaced:
    """The files of the partitions of a region, or all; refused where partition values do not decide."""
    files = plan.snapshot.files
    if region is None:
        return Replaced(files.adds())
    snapshot = plan.snapshot
    mode = snapshot.mapping_mode
    pruned = FilePruner(snapshot.schema, snapshot.metadata.partitioning, mode).prune(files, region)
    if pruned.files.num_files and not pc.all(pruned.all_match).as_py():
        raise InvalidInputError(
            f"replace_where = {region} cannot be decided from partition values alone; write it with plain "
            "comparisons of partition columns"
        )
    return Replaced(pruned.files.adds(), region)


def dynamically_replaced(plan: WritePlan, adds: Iterable[Add]) -> Replaced:
    """The files of the partitions that the new files are in."""
    mode = mapping_mode_of(plan.metadata.properties, plan.protocol)
    columns = [plan.schema.field(name) for name in plan.metadata.partitioning]
    names = [physical_name(column, mode) for column in columns]
    written = {_partition_texts(add, names, columns) for add in adds}
    files = [add for add in plan.snapshot.files.adds() if _partition_texts(add, names, columns) in written]
    if not written or len(written) > _MOST_PARTITIONS:
        return Replaced(files)
    return Replaced(files, _any_of([_partition_is(columns, texts) for texts in sorted(written, key=str)]))


def check_partitioned(plan: WritePlan) -> None:
    """Refuse a dynamic overwrite of a table without partitions."""
    if not plan.metadata.partitioning:
        raise InvalidInputError(f"a dynamic overwrite needs partitions, and {plan.root} has none")


def _partition_texts(add: Add, names: Sequence[str], columns: Sequence[StructField]) -> PartitionTexts:
    """The partition values of a file in the form that we write: another engine's texts may differ from it."""
    texts = add.partition_values or {}
    return tuple(
        format_partition_value(_value(texts.get(name), column), column.data_type, column=column.name)
        for name, column in zip(names, columns, strict=True)
    )


def _partition_is(columns: Sequence[StructField], texts: Sequence[str | None]) -> Expression:
    parts = tuple(
        IsNull(Column((column.name,)))
        if text is None
        else Comparison("=", Column((column.name,)), _literal(text, column))
        for column, text in zip(columns, texts, strict=True)
    )
    return parts[0] if len(parts) == 1 else And(parts)


def _literal(text: str, column: StructField) -> Literal:
    return Literal(_value(text, column), arrow_type(column.data_type))


def _value(text: str | None, column: StructField) -> object:
    return parse_partition_value(text, column.data_type, column=column.name)


def _any_of(options: Sequence[Expression]) -> Expression:
    return options[0] if len(options) == 1 else Or(tuple(options))


def stage_overwrite(
    plan: WritePlan,
    adds: Sequence[Add],
    replaced: Replaced,
    *,
    dynamic: bool = False,
    others: Sequence[StagedAction] = (),
    predicate: str | None = None,
    user_metadata: str | None = None,
    data_change: bool = True,
) -> StagedCommit:
    """The commit that puts new files in the place of others; `others` are further actions of it."""
    now = time.time_ns() // 1_000_000
    removes = [removal(add, now, data_change=data_change) for add in replaced.files]
    parameters = write_parameters("Overwrite", plan)
    shown = predicate if replaced.predicate is None else str(replaced.predicate)
    if dynamic:
        parameters["dynamicPartitionOverwrite"] = True
    elif shown is not None:
        parameters["predicate"] = shown
    metrics = write_metrics(adds) | {
        "numRemovedFiles": len(removes),
        "numRemovedBytes": sum(remove.size or 0 for remove in removes),
    }
    predicates = () if replaced.predicate is None else (replaced.predicate,)
    return StagedCommit(
        Operation("WRITE", parameters, metrics, user_metadata),
        (*plan.changes, *others, *removes, *adds),
        read_predicates=predicates,
        read_whole_table=not predicates,
    )
