"""The files that a Spark job has just written: found, made durable, and described for the log.

A job writes below one directory of its own, so what is found there is what its committed tasks wrote.
Statistics come from the footers (parquet-java's tell all that the engine wants); threads of the driver read
them, and Spark tasks where there are very many files. On a local disk files are synced before a commit may
name them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.delta.errors import DataFileError
from distributary.delta.statistics.collection import IndexedColumn
from distributary.delta.statistics.existing_file import statistics_of_new
from distributary.errors import StorageError
from distributary.storage.object_store import ObjectMeta, ObjectStore

_log = logging.getLogger(__name__)

# With so many footers, tasks on executors are worth their start.
MANY_FILES = 2_000
_THREADS_LOCAL, _THREADS_REMOTE = 4, 32

Statistics = Callable[[ObjectMeta], str]


def written_files(store: ObjectStore, directory: str) -> list[ObjectMeta]:
    """The Parquet files below a directory; whatever else Spark and Hadoop left there is removed."""
    files: list[ObjectMeta] = []
    for meta in store.list_all(directory):
        names = meta.path[len(directory) + 1 :].split("/")
        if names[-1].endswith(".parquet") and not any(name.startswith(("_", ".")) for name in names):
            files.append(meta)
        else:
            _discard(store, meta.path)
    return files


def make_durable(store: ObjectStore, files: Sequence[ObjectMeta]) -> None:
    """Sync files and the names of the directories they are in; object stores have done so already."""
    places = [place for file in files if (place := store.local_path(file.path)) is not None]
    root = store.local_path("x")
    if not places or root is None:
        return
    with ThreadPoolExecutor(_THREADS_LOCAL) as pool:
        list(pool.map(_sync, places))
    directories = {
        parent for place in places for parent in place.parents if root.parent in (parent, *parent.parents)
    }
    for directory in sorted(directories, key=lambda path: -len(path.parts)):
        _sync(directory)


def statistics_for(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[ObjectMeta],
    columns: Sequence[IndexedColumn],
) -> list[str]:
    """The statistics of each file, in order."""
    if len(files) >= MANY_FILES:
        found = _on_executors(spark, store, files, columns)
        if found is not None:
            return found
    return in_threads(store, files, lambda file: file_statistics(store, file, columns))


def file_statistics(store: ObjectStore, file: ObjectMeta, columns: Sequence[IndexedColumn]) -> str:
    """The statistics of one file that Spark wrote."""
    try:
        return statistics_of_new(store.open_file(file.path, file.size), columns, pre_buffer=store.is_remote)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataFileError(
            f"{file.path} of {store.root} was just written but cannot be read back: {error}. Nothing was "
            "committed; write again."
        ) from error


def in_threads(
    store: ObjectStore, files: Sequence[ObjectMeta], work: Callable[[ObjectMeta], Any]
) -> list[Any]:
    """Do something for each file, several at a time."""
    threads = _THREADS_REMOTE if store.is_remote else _THREADS_LOCAL
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, files))


def _on_executors(
    spark: SparkSession, store: ObjectStore, files: Sequence[ObjectMeta], columns: Sequence[IndexedColumn]
) -> list[str] | None:
    """The statistics by a Spark job; none where executors lack this package or cannot reach the files."""
    wanted = tuple(columns)
    slices = min(len(files) // 200 + 1, spark.sparkContext.defaultParallelism * 4)
    try:
        return (
            spark.sparkContext.parallelize(list(files), slices)
            .map(lambda file: file_statistics(store, file, wanted))
            .collect()
        )
    except Exception as error:
        _log.warning("the footers of new files could not be read on executors (%s); reading here", error)
        return None


def _sync(place: os.PathLike[str]) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(store: ObjectStore, path: str) -> None:
    try:
        store.delete(path)
    except StorageError as error:
        _log.debug("%s is left behind: %s", path, error)
