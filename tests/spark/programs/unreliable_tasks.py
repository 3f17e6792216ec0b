"""Writes with tasks that fail or die, on executors of their own; prints what came of it.

usage: unreliable_tasks.py TABLE
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

from distributary.delta.table import DeltaTable
from distributary.spark.spark_session import session
from distributary.spark.table_write import write_table

SETTINGS = {
    "spark.master": "local-cluster[2,1,512]",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def fails_at_first(batches: Iterable[Any]) -> Iterator[Any]:
    """Writes some rows, and fails half-way unless it is a second attempt."""
    yield from batches
    context = TaskContext.get()
    if context is not None and context.partitionId() == 1 and context.attemptNumber() == 0:
        raise RuntimeError("a task that fails at first")


def dies_at_first(batches: Iterable[Any]) -> Iterator[Any]:
    """Takes its whole process down after some rows, unless it is a second attempt."""
    for batch in batches:
        yield batch
        context = TaskContext.get()
        if context is not None and context.partitionId() == 3 and context.attemptNumber() == 0:
            os._exit(1)


def always_fails(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches
    context = TaskContext.get()
    if context is not None and context.partitionId() == 2:
        raise RuntimeError("a task that always fails")


def rows(spark: SparkSession, first: int, function: Any) -> DataFrame:
    return spark.range(first, first + 400, 1, 4).mapInArrow(function, "id long")


def content(path: str, first: int) -> dict[str, int]:
    found = DeltaTable(path).snapshot().to_arrow(predicate=f"id >= {first}")["id"].to_pylist()
    files = len(list(Path(path).rglob("*.parquet"))) - first // 400 * 4
    return {"rows": len(found), "distinct": len(set(found)), "files": files}


def main() -> None:
    path = sys.argv[1]
    spark = session("unreliable", conf=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    result: dict[str, Any] = {}
    write_table(rows(spark, 0, fails_at_first), path)
    result["retried"] = content(path, 0)
    write_table(rows(spark, 400, dies_at_first), path)
    result["died"] = content(path, 400)
    before = set(Path(path).rglob("*"))
    try:
        write_table(rows(spark, 800, always_fails), path)
    except Exception:
        left = sorted(str(place) for place in set(Path(path).rglob("*")) - before)
        result["failed"] = {"version": DeltaTable(path).version(), "left": left}
    print(json.dumps(result))
    spark.stop()


main()
