"""Vacuum on Spark: deleting the files that no version within the retention needs.

What may go is the engine's decision (operations.vacuum). Where a table has very many directories or files,
tasks list the directories and delete the files; executors need this package for that, and where they lack it
the driver does the work.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pyspark.sql import SparkSession

from distributary.delta.log.snapshot import load_snapshot
from distributary.delta.operations.vacuum import CHANGE_DIRECTORY, VacuumPlan, execute_vacuum, plan_vacuum
from distributary.errors import DistributaryError
from distributary.spark.table_store import table_store
from distributary.storage.object_store import ObjectMeta, ObjectStore

_log = logging.getLogger(__name__)

# From so many directories, or files to delete, on it is tasks that do it.
MANY_DIRECTORIES: Final = 500
MANY_FILES: Final = 20_000
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
_A_TASK: Final = 50
_HEX: Final = "[0-9a-f]"
_WRITE_DIRECTORY: Final = re.compile(
    rf"(?:{CHANGE_DIRECTORY}/)?{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?=/)"
)

Item = TypeVar("Item")


def vacuum(
    spark: SparkSession,
    path: str,
    retention_hours: float | None = None,
    dry_run: bool = False,
    *,
    force: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> VacuumPlan:
    """Delete files that are not needed any more (`dry_run`: only find them); gives the plan with their keys.

    A retention shorter than the table's own needs `force`, or delta-spark's setting
    `spark.databricks.delta.retentionDurationCheck.enabled=false`.
    """
    store = table_store(spark, path, storage_options)
    plan = plan_vacuum_on_spark(spark, store, retention_hours, force=force)
    if not dry_run:
        _delete(spark, store, plan)
        remove_empty_directories(store, plan.files)
    return plan


def plan_vacuum_on_spark(
    spark: SparkSession,
    store: ObjectStore,
    retention_hours: float | None = None,
    *,
    force: bool | None = None,
) -> VacuumPlan:
    """Find the files that may go."""
    allowed = force if force is not None else spark.conf.get(_RETENTION_CHECK, "true") == "false"
    return plan_vacuum(
        store,
        load_snapshot(store),
        now=time.time_ns() // 1_000_000,
        retention=None if retention_hours is None else datetime.timedelta(hours=retention_hours),
        force=allowed,
        listing=_listing(spark, store),
    )


def _listing(spark: SparkSession, store: ObjectStore) -> Iterable[ObjectMeta]:
    """Every file of the table: listed here, or by tasks where there are many directories."""
    directories = store.list_directories()
    if len(directories) < MANY_DIRECTORIES:
        return store.list_all()
    found = _by_tasks(spark, directories, lambda directory: list(store.list_all(directory)))
    if found is None:
        return store.list_all()
    below = [meta for metas in found for meta in metas]
    return [*store.list_from(""), *below]


def _delete(spark: SparkSession, store: ObjectStore, plan: VacuumPlan) -> None:
    failed: Sequence[str]
    if len(plan.files) >= MANY_FILES:
        found = _by_tasks(spark, plan.files, lambda file: _failed(store, file))
        failed = plan.files if found is None else [file for file in found if file is not None]
        if found is None:
            failed = execute_vacuum(store, plan).failed
    else:
        failed = execute_vacuum(store, plan).failed
    if failed:
        _log.warning(
            "%s: %d files could not be deleted, %s for one; the next vacuum tries again",
            store.root,
            len(failed),
            failed[0],
        )


def remove_empty_directories(store: ObjectStore, files: Iterable[str]) -> None:
    """Remove the directories of Spark's writes whose files are all gone; other stores have none.

    A write's directory is named by a random id and never written to again, so nothing can be under way in it.
    """
    writes = {found[0] for file in files if (found := _WRITE_DIRECTORY.match(file)) is not None}
    for write in writes:
        place = store.local_path(write)
        if place is None:
            return
        for directory, _, _ in os.walk(place, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def _failed(store: ObjectStore, file: str) -> str | None:
    try:
        store.delete(file)
    except DistributaryError:
        return file
    return None


def _by_tasks(spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Any]) -> list[Any] | None:
    """What a function gives for each item, computed by tasks; none where executors cannot run it."""
    slices = min(len(items) // _A_TASK + 1, 10_000)
    try:
        return spark.sparkContext.parallelize(items, slices).map(work).collect()
    except Exception as error:
        _log.warning("executors could not list or delete files (%s); the driver does it", error)
        return None
