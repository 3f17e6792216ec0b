"""DELETE and UPDATE on Spark: find the rows, then mark them or write their files anew.

With deletion vectors the rows that are found are marked, and what an update makes of them is appended;
without, the files that hold them are written anew, and no others. Files of which every row goes are removed.
With the change data feed on, the rows as they were and as they are go into change files as well; files that
go whole tell of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from distributary.delta.commit.staged_commit import Operation
from distributary.delta.commit.transaction import OnPhase
from distributary.errors import InvalidInputError
from distributary.spark.assignments import (
    Assignment,
    by_name,
    computed_names,
    default_text,
    is_default,
    known_path,
    new_columns,
    with_computed,
)
from distributary.spark.change_writer import ChangeClock, ChangeWriter, with_type
from distributary.spark.changed_table import ChangedTable, StorageOptions
from distributary.spark.resolved_columns import check_usable, resolve
from distributary.spark.row_changes import ChangeMetrics, FileChanges, mark_deleted, removed
from distributary.spark.row_identity import updated_identity
from distributary.spark.touched_files import Search, search
from distributary.spark.write_rules import apply_rules

_CHANGED: Final = "__distributary_changed"
_OLD: Final = "__distributary_old_"

Value = Column | str
Counts = dict[str, int | str]
Values = Mapping[str, Value]


def delete(
    spark: SparkSession,
    path: str,
    condition: Value | None = None,
    *,
    alias: str | None = None,
    storage_options: StorageOptions | None = None,
    on_phase: OnPhase | None = None,
) -> ChangeMetrics:
    """Delete the rows that satisfy a condition, or all rows."""
    clock = ChangeClock()
    table = ChangedTable.open(spark, path, alias=alias, storage_options=storage_options, on_phase=on_phase)
    table.refuse_append_only("DELETE")
    found = search(table, condition, "DELETE")
    touched = found.touched
    clock.scanned()
    with ChangeWriter(table) as writer:
        writer.keep(_taken_out(table, found))
        if touched.are_partial and not table.uses_deletion_vectors:
            kept = touched.partial.rows(identity=True).filter(~found.holds)
            writer.write(kept, touched.num_copied)
        if touched.are_partial and table.keeps_changes:
            writer.write_changes(with_type(found.changed_rows(), "delete"), touched.num_rows)
        metrics: Counts = {"numDeletedRows": touched.num_rows, **_metrics(found, writer, clock)}
        operation = Operation("DELETE", {"predicate": [found.text]}, metrics)
        return writer.commit(operation, found.reads)


def update(
    spark: SparkSession,
    path: str,
    set: Values,  # the name that delta-spark has
    condition: Value | None = None,
    *,
    alias: str | None = None,
    storage_options: StorageOptions | None = None,
    on_phase: OnPhase | None = None,
) -> ChangeMetrics:
    """Give columns, or fields of structs, new values in the rows that satisfy a condition, or in all rows."""
    if not set:
        raise InvalidInputError("an update needs at least one column and its new value (set={…})")
    clock = ChangeClock()
    table = ChangedTable.open(spark, path, alias=alias, storage_options=storage_options, on_phase=on_phase)
    table.refuse_append_only("UPDATE")
    _updated(table, table.only(()).rows(), set)
    found = search(table, condition, "UPDATE", keep=True)
    clock.scanned()
    try:
        with ChangeWriter(table) as writer:
            writer.keep(_taken_out(table, found))
            if found.touched.num_rows:
                _write_updated(writer, found, set)
            metrics: Counts = {"numUpdatedRows": found.touched.num_rows, **_metrics(found, writer, clock)}
            predicate = [] if condition is None else [found.text]
            operation = Operation("UPDATE", {"predicate": predicate}, metrics)
            return writer.commit(operation, found.reads)
    finally:
        found.release()


def _taken_out(table: ChangedTable, found: Search) -> FileChanges:
    """The touched files without their touched rows: marked, or removed to be written anew."""
    touched = found.touched
    gone = FileChanges(removes=removed(touched.whole.files.adds()))
    if not touched.are_partial:
        return gone
    if table.uses_deletion_vectors:
        return gone.joined(mark_deleted(touched.partial, touched.rows))
    return gone.joined(FileChanges(removes=removed(touched.partial.files.adds())))


def _metrics(found: Search, writer: ChangeWriter, clock: ChangeClock) -> dict[str, int]:
    copied = 0 if found.table.uses_deletion_vectors else found.touched.num_copied
    return {"numCopiedRows": copied, **writer.metrics(), **clock.metrics()}


def _write_updated(writer: ChangeWriter, found: Search, values: Values) -> None:
    table, touched = found.table, found.touched
    if table.uses_deletion_vectors or not touched.num_copied:
        writer.write(_new_rows(table, found.changed_rows(identity=True), values), touched.num_rows)
    else:
        rows = found.files.rows(identity=True).withColumn(_CHANGED, found.holds)
        every = _updated(table, rows, values, sf.col(_CHANGED)).drop(_CHANGED)
        writer.write(apply_rules(every, table.plan), touched.num_rows + touched.num_copied)
    if table.keeps_changes:
        before = with_type(found.changed_rows(), "update_preimage")
        after = with_type(_new_rows(table, found.changed_rows(), values), "update_postimage")
        writer.write_changes(before.unionByName(after), 2 * touched.num_rows)


def _new_rows(table: ChangedTable, rows: DataFrame, values: Values) -> DataFrame:
    """What an update makes of rows, checked."""
    return apply_rules(_updated(table, rows, values), table.plan)


def _updated(
    table: ChangedTable, rows: DataFrame, values: Values, changed: Column | None = None
) -> DataFrame:
    """Rows with their new values; where `changed` is given, only those of which it is true have them."""
    plan = table.plan
    columns = new_columns(table.spark, plan, _assignments(table, rows, values), by_name)
    if changed is None:
        new = [column.alias(name) for name, column in columns.items()]
        return with_computed(rows.select(*new, *updated_identity(rows)), plan)
    before = {name: by_name(name).alias(_OLD + name) for name in computed_names(plan)}
    made = rows.select(
        *[sf.when(changed, column).otherwise(by_name(name)).alias(name) for name, column in columns.items()],
        *before.values(),
        *updated_identity(rows, changed),
        changed,
    )
    computed = with_computed(made, plan, lambda name: by_name(_OLD + name), changed)
    return computed.drop(*[_OLD + name for name in before])


def _assignments(table: ChangedTable, rows: DataFrame, values: Values) -> list[Assignment]:
    schema = table.snapshot.schema
    paths = [known_path(schema, name, table.alias) for name in values]
    texts = [
        default_text(schema.field(path[0])) if is_default(value) else value
        for path, value in zip(paths, values.values(), strict=True)
    ]
    resolved = resolve(rows, *texts)
    for value in resolved:
        check_usable(rows, value, "UPDATE")
    return [Assignment(path, value) for path, value in zip(paths, resolved, strict=True)]
