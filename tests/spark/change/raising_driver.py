"""A Spark driver of its own that raises the counters of a table; starts when a line comes in.

usage: raising_driver.py TABLE TIMES
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

from distributary.delta.errors import CommitConflictError
from distributary.spark.delete_update import update
from distributary.spark.spark_session import session

MOST_TRIES = 60


def raise_counters(spark: object, path: str, times: int) -> None:
    """Add one to each counter, so many times; a lost race is tried again."""
    for _ in range(times):
        for _ in range(MOST_TRIES):
            try:
                update(spark, path, {"v": "v + 1"}, "p = 'counter'")  # pyright: ignore[reportArgumentType]
            except CommitConflictError:
                continue
            break
        else:
            raise AssertionError("never committed")


if __name__ == "__main__":
    spark = session(conf={"spark.master": "local[1]", "spark.driver.memory": "512m"})
    print("ready", flush=True)
    sys.stdin.readline()
    raise_counters(spark, sys.argv[1], int(sys.argv[2]))
    spark.stop()
