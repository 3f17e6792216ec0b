"""The files of the partitions that satisfy a condition, which may name partition columns only.

The engine decides where it knows the expression; otherwise Spark's own evaluation over the partition values
does (table_scan.prune_with_spark).
"""

from __future__ import annotations

import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession

from distributary.delta.log.active_files import FileSelection
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.scan.file_pruning import FilePruner
from distributary.errors import InvalidInputError
from distributary.spark.read_predicates import understood
from distributary.spark.resolved_columns import attribute_names, resolve_condition
from distributary.spark.table_scan import prune_with_spark, scan_snapshot
from distributary.storage.object_store import ObjectStore


def files_in_partitions(
    spark: SparkSession, store: ObjectStore, snapshot: Snapshot, condition: str | Column
) -> FileSelection:
    """The files of the partitions for which a condition is true."""
    partitioning = snapshot.metadata.partitioning
    frame = scan_snapshot(spark, store, snapshot)
    resolved = resolve_condition(frame, condition, "where")
    names = attribute_names(frame)
    others = sorted({names.get(at, "?") for at in resolved.attributes} - set(partitioning))
    if others:
        raise InvalidInputError(
            f"the condition may name partition columns only, and {others[0]} is none: {snapshot.root} is "
            f"partitioned by {', '.join(partitioning) or '(nothing)'}"
        )
    text = condition if isinstance(condition, str) else resolved.sql
    predicate = understood(spark, snapshot.schema, text)
    if predicate is not None:
        pruner = FilePruner(snapshot.schema, partitioning, snapshot.mapping_mode)
        pruned = pruner.prune(snapshot.files, predicate)
        if not pruned.files.num_files or pc.all(pruned.all_match).as_py():
            return pruned.files
    return prune_with_spark(spark, store, snapshot, condition)
