"""Changes that meet other writers' commits: what conflicts, what does not, and that nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from raising_driver import raise_counters
from small_tables import TableMaker, arrow_rows, contents

import distributary as ds
from distributary.delta.commit.transaction import BEFORE_WRITE, WRITTEN
from distributary.delta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    MetadataChangedError,
)
from distributary.spark.delete_update import delete, update
from distributary.spark.merge import execute_merge
from distributary.spark.merge_clauses import MergeClause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOW = [(1, 10, "a"), (2, 20, "a")]
HIGH = [(101, 10, "b"), (102, 20, "b")]
UPSERT = [MergeClause("matched", "update_all"), MergeClause("not_matched", "insert_all")]


def once(work: Callable[[], object]) -> Callable[[str, int], None]:
    """Do something when a commit is about to be written, the first time."""
    left = [work]

    def on_phase(phase: str, version: int) -> None:
        del version
        if phase == BEFORE_WRITE and left:
            left.pop()()

    return on_phase


def test_a_delete_and_changes_elsewhere_do_not_conflict(spark: SparkSession, make: TableMaker) -> None:
    """LW-016: files outside of the condition, and blind appends, may come and go."""
    path = make(LOW, HIGH)

    def others() -> None:
        ds.DeltaTable(path).append(arrow_rows([(3, 30, "c")]))
        update(spark, path, {"v": "0"}, "id = 102")

    done = delete(spark, path, "id < 50 and v = 10", on_phase=once(others))
    assert done.version == 5
    assert contents(path) == [(101, 10, "b"), (102, 0, "b"), (2, 20, "a"), (3, 30, "c")]


def test_changes_of_the_same_file_conflict_and_leave_nothing_behind(
    spark: SparkSession, make: TableMaker
) -> None:
    """LW-016: the later one fails, and what it wrote is removed."""
    path = make(LOW)
    before: set[Path] = set()

    def other() -> None:
        delete(spark, path, "id = 1")
        before.update(_data_files(path))

    with pytest.raises(CommitConflictError):
        update(spark, path, {"v": "7"}, "id = 2", on_phase=once(other))
    assert contents(path) == [(2, 20, "a")]
    assert _data_files(path) < before


def _data_files(path: str) -> set[Path]:
    return {file for file in Path(path).rglob("*") if file.is_file() and "_delta_log" not in file.parts}


def test_a_merge_conflicts_with_rows_that_it_should_have_seen(
    spark: SparkSession, make_vectors: TableMaker
) -> None:
    """LW-016: a merge that inserts the same keys; one far from the source's keys is no conflict."""
    path = make_vectors(LOW, HIGH)
    near = spark.createDataFrame([(50, 1, "s")], "id int, v int, p string").alias("s")
    far = spark.createDataFrame([(102, 1, "s"), (200, 1, "s")], "id int, v int, p string").alias("s")

    def merge(source: DataFrame, on_phase: Callable[[str, int], None] | None = None) -> int:
        return execute_merge(
            spark,
            path,
            source,
            "t.id = s.id",
            UPSERT,
            target_alias="t",
            on_phase=on_phase,
        ).version

    merge(near, once(lambda: merge(far)))
    assert [row[0] for row in contents(path)] == [1, 101, 102, 2, 200, 50]
    more = spark.createDataFrame([(60, 1, "s"), (61, 2, "s")], "id int, v int, p string").alias("s")
    with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
        merge(more, once(lambda: merge(more)))
    assert len(contents(path)) == 8


def test_a_failure_after_the_commit_removes_nothing(spark: SparkSession, make: TableMaker) -> None:
    """A commit that happened stands, whatever goes wrong afterwards: its files are part of the table."""
    path = make(LOW, HIGH)

    def fail(phase: str, version: int) -> None:
        if phase == WRITTEN:
            raise RuntimeError(f"after version {version}")

    with pytest.raises(RuntimeError, match="after version 3"):
        update(spark, path, {"v": "7"}, "id = 2", on_phase=fail)
    assert contents(path) == [(1, 10, "a"), (101, 10, "b"), (102, 20, "b"), (2, 7, "a")]


def test_a_changed_schema_is_a_conflict(spark: SparkSession, make_vectors: TableMaker) -> None:
    path = make_vectors(LOW)
    with pytest.raises(MetadataChangedError):
        delete(
            spark,
            path,
            "id = 1",
            on_phase=once(lambda: ds.DeltaTable(path).alter.add_column("w", "integer")),
        )


def test_two_drivers_and_an_arrow_writer_end_with_a_serialisable_history(
    spark: SparkSession, make_vectors: TableMaker
) -> None:
    """Two drivers raise the same counters while Arrow appends: each committed step shows once."""
    path = make_vectors([(0, 0, "counter"), (1, 0, "counter")])

    def append() -> None:
        for number in range(4):
            ds.DeltaTable(path).append(arrow_rows([(100 + number, number, "row")]))

    with _other_driver(path, times=3) as other:
        writer = threading.Thread(target=append)
        writer.start()
        raise_counters(spark, path, 3)
        writer.join()
        assert other.wait(200) == 0
    rows = contents(path)
    assert [row for row in rows if row[2] == "counter"] == [(0, 6, "counter"), (1, 6, "counter")]
    assert len([row for row in rows if row[2] == "row"]) == 4
    assert ds.DeltaTable(path).version() == 1 + 6 + 4


@contextmanager
def _other_driver(path: str, times: int) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own, which starts its work when the block begins."""
    command = [sys.executable, str(Path(__file__).with_name("raising_driver.py")), path, str(times)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("go\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
