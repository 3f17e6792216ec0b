"""delta-spark as a server on standard input and output: one JSON line a request, one an answer.

usage: spark_server.py FOLDER JAR...
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pyarrow as pa
from content import content
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # vacuum lists with as many tasks
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # tiny tables: compiling a plan costs more than running it
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.locality.wait": "0",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


class Server:
    """One Spark session and what it can be asked to do."""

    def __init__(self, folder: str, jars: list[str]) -> None:
        builder = SparkSession.builder.master("local[2]").appName("peer")
        places = {"spark.jars": ",".join(jars), "spark.sql.warehouse.dir": f"{folder}/warehouse"}
        for key, value in {**SETTINGS, **places}.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def rows(self, path: str, out: str, version: int | None = None) -> None:
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", str(version))
        _store(reader.load(path).toArrow(), out)

    def view(self, path: str, out: str) -> dict[str, Any]:
        self.rows(path, out)
        jvm = self.spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]
        snapshot = jvm.DeltaLog.forTable(self.spark._jsparkSession, path).unsafeVolatileSnapshot()
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "operation").collect()
        return {
            "version": snapshot.version(),
            "schema": json.loads(metadata["schemaString"]),
            "partition_columns": metadata["partitionColumns"],
            "properties": metadata["configuration"],
            "operations": [row.operation for row in sorted(history, key=lambda row: row.version)],
            "features": [*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())],
        }

    def matching(self, path: str, condition: str) -> list[int]:
        """The ids of the rows that satisfy a condition."""
        found = self.spark.sql(f"SELECT id FROM delta.`{path}` WHERE {condition}").collect()
        return [row.id for row in found]

    def append(self, path: str, rows: str) -> int:
        frame = self.spark.createDataFrame(_load(rows))
        frame.write.format("delta").mode("append").save(path)
        return self.version(path)

    def sql(self, text: str) -> list[list[str]]:
        """Any statement; what it gives as texts."""
        return [[str(value) for value in row] for row in self.spark.sql(text).collect()]

    def script(self, steps: list[dict[str, Any]]) -> list[Any]:
        """Several steps in one request; each gives its answer, or {"error": text} and the next ones go on."""
        return [self._step(**step) for step in steps]

    def do_version(self, path: str) -> int:
        """The version of a table after the steps before this one."""
        entries = os.listdir(f"{path}/_delta_log")
        return max(int(name[:20]) for name in entries if name[:20].isdigit() and name.endswith(".json"))

    def _step(self, do: str, **arguments: Any) -> Any:
        try:
            return getattr(self, f"do_{do}")(**arguments)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {str(error)[:1500]}"}

    def do_sql(self, text: str) -> dict[str, Any]:
        """A statement; its columns with their types, and its rows."""
        return _answer(self.spark.sql(text))

    def do_content(self, path: str, version: int | None = None) -> list[str]:
        """All rows of a table, as the tests compare them."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", str(version))
        return content(reader.load(path).toArrow())

    def do_changes(self, path: str, start: int) -> list[str]:
        """The change feed from a version on, without times."""
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return content(
            reader.option("startingVersion", str(start)).load(path).drop("_commit_timestamp").toArrow()
        )

    def do_write(
        self, select: str, path: str, mode: str, options: dict[str, str], partition_by: list[str]
    ) -> None:
        """Write what a query gives with the DataFrame writer."""
        writer = self.spark.sql(select).write.format("delta").mode(mode).options(**options)
        (writer.partitionBy(*partition_by) if partition_by else writer).save(path)

    def do_operations(self, path: str) -> list[str]:
        """The operations of the history, oldest first."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "operation").collect()
        return [row.operation for row in sorted(history, key=lambda row: row.version)]

    def checkpoint(self, path: str) -> None:
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        log.forTable(self.spark._jsparkSession, path).checkpoint()

    def version(self, path: str) -> int:
        log = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1")
        return log.select("version").collect()[0].version


def _answer(frame: DataFrame) -> dict[str, Any]:
    rows = [json.loads(json.dumps(row.asDict(recursive=True), default=str)) for row in frame.collect()]
    return {"schema": frame.schema.simpleString(), "rows": rows}


def _store(table: pa.Table, out: str) -> None:
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _load(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as source:
        return pa.ipc.open_file(source).read_all()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints goes to the log
    server = Server(sys.argv[1], sys.argv[2:])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(server, request.pop("op"))(**request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:3000]}"}
        print(json.dumps(answer), file=answers, flush=True)
    server.spark.stop()


if __name__ == "__main__":
    main()
