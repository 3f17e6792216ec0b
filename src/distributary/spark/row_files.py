"""The rows of a caller's DataFrame as checked data files, laid out as the caller asked."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from distributary.delta.log.actions import Add
from distributary.delta.operations.append import WritePlan
from distributary.delta.table_properties import TableProperties
from distributary.spark.data_files import write_data_files
from distributary.spark.rule_violation import column_named
from distributary.spark.write_options import WriteOptions
from distributary.spark.write_rules import apply_rules
from distributary.storage.object_store import ObjectStore

_OPTIMIZE_WRITE: Final = "delta.autoOptimize.optimizeWrite"


def write_rows(
    store: ObjectStore,
    plan: WritePlan,
    frame: DataFrame,
    options: WriteOptions,
    *,
    within: str | None = None,
) -> list[Add]:
    """Check rows against the table's rules and write them."""
    rows = apply_rules(frame, plan, within=within)
    if options.sort_by:
        names = [*plan.metadata.partitioning, *(plan.schema.field(name).name for name in options.sort_by)]
        columns = [column_named(name) for name in names]
        rows = rows.repartitionByRange(*columns).sortWithinPartitions(*columns)
    return write_data_files(
        frame.sparkSession,
        store,
        plan,
        rows,
        target_size=options.target_file_size,
        data_change=options.data_change,
        balanced=not options.sort_by and _balances(plan, options),
    )


def _balances(plan: WritePlan, options: WriteOptions) -> bool:
    """Whether rows are moved before the write: as the caller says, else as the table does."""
    if options.optimize_write is not None:
        return options.optimize_write
    properties = TableProperties.from_configuration(plan.metadata.properties).configuration
    return properties.get(_OPTIMIZE_WRITE, "false").lower() == "true"
