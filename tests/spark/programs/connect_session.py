"""What a session of Spark Connect can do: shares, the format, and reading by paths; prints what came of it.

usage: connect_session.py SHARED_TABLE_URL TABLE FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.spark import read_stream, read_table, register, register_format, write_table
from distributary.spark.delete_update import update
from distributary.spark.optimize import optimize

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
}


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def streamed(spark: Any, frame: Any, folder: str) -> list[int]:
    """The rows of a stream, by a sink that the server itself has."""
    writer = frame.select("id").writeStream.format("parquet").option("checkpointLocation", f"{folder}/c")
    writer.option("path", f"{folder}/rows").trigger(availableNow=True).start().awaitTermination()
    return ids(spark.read.schema("id long").parquet(f"{folder}/rows"))


def refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except DistributaryError as error:
        return f"{error.code}: {error}"
    return "done"


def main() -> None:
    url, table, folder = sys.argv[1:]
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = register(builder.getOrCreate())
    register_format(spark)
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {"kind": type(spark).__module__}
    shared = spark.read.format("deltaSharing").load(url)
    result["shared"] = ids(shared.filter("id > 2"))
    stream = spark.readStream.format("deltaSharing").option("maxFilesPerTrigger", "1").load(url)
    result["shared_stream"] = streamed(spark, stream, f"{folder}/shared")
    rows = spark.range(10, 12).selectExpr("id", "string(id) AS name")
    rows.write.format("distributary").mode("append").save(table)
    result["format"] = ids(spark.read.format("distributary").load(table))
    result["table_stream"] = streamed(spark, read_stream(spark, table), f"{folder}/table")
    result["by_paths"] = ids(read_table(spark, table).filter("id < 11"))
    attempts = (
        lambda: write_table(rows, table),
        lambda: update(spark, table, {"name": "'x'"}, "id = 1"),
        lambda: optimize(spark, table),
    )
    result["refused"] = [refusal(attempt) for attempt in attempts]
    print(json.dumps(result))
    spark.stop()


main()
