"""A smoke part for any supported PySpark: reads and writes through every seam to Spark's internals.

usage: python smoke.py FOLDER [MASTER [MODES]]   with the package on PYTHONPATH; prints a line if all is well
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from deleted_rows import delete_rows
from plans import files_read, plan_text
from scripted_server import scripted_server
from slow_workers import despite_slow_workers

import distributary as ds
from distributary.spark import read_changes, read_table, session, write_table
from distributary.spark.table_scan import prune_with_spark, scan_snapshot

INNER = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", INNER)])
# Little data: code that is compiled well costs more than it saves.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def _filled(path: Path, mode: str) -> ds.DeltaTable:
    properties = {**PROPERTIES, "delta.columnMapping.mode": mode}
    table = ds.DeltaTable.create(path, SCHEMA, partition_by=["day"], properties=properties)
    for part, day in enumerate(["a", "b", "c"]):
        rows = [{"id": 10 * part + at, "day": day, "n": {"x": at, "y": day}} for at in range(10)]
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    delete_rows(path, {1: [0, 5]})
    return table


def _check_mode(spark: Any, folder: Path, mode: str) -> None:
    table = _filled(folder / mode, mode)
    expected = sorted(table.snapshot().to_arrow().column("id").to_pylist())
    frame = read_table(spark, table.uri)
    assert sorted(row["id"] for row in frame.collect()) == expected
    one = frame.filter("n.x = 3 AND id BETWEEN 20 AND 29").select("id", "n.y")
    assert [tuple(row) for row in one.collect()] in ([(23, "c")], [(23, "a")], [(23, "b")])
    assert files_read(one) == 1
    assert "Batched: true" in plan_text(one)
    few = spark.createDataFrame([("b", 1)], "day string, k int").filter("k = 1")
    assert frame.join(few, "day").count() == frame.filter("day = 'b'").count()
    state = table.snapshot().state
    assert prune_with_spark(spark, table.store, state, "id = 5").num_files == 1
    assert scan_snapshot(spark, table.store, state, positions=True).count() == len(expected)
    assert read_changes(spark, table.uri, 1).filter("_change_type = 'delete'").count() == 2


def _check_share(spark: Any, folder: Path) -> None:
    """A shared table with deletion vectors and mapped columns: rows, filters, and a stream of them."""
    expected = sorted(ds.DeltaTable(folder / "name").snapshot().to_arrow().column("id").to_pylist())
    with scripted_server(folder, "delta") as server:
        shares = spark.read.format("deltaSharing").options(**server.profile)
        frame = shares.load("s.c.name")
        assert sorted(row["id"] for row in frame.collect()) == expected
        assert [row["id"] for row in frame.filter("id = 23 AND n.x = 3").collect()] == [23]
        assert "id = 23" in server.asked_for("/query")[-1].json["predicateHints"]
        stream = spark.readStream.format("deltaSharing").options(**server.profile, maxFilesPerTrigger="2")
        seen: list[int] = []
        writer = (
            stream.load("s.c.name")
            .writeStream.foreachBatch(lambda batch, _: seen.extend(row["id"] for row in batch.collect()))
            .option("checkpointLocation", str(folder / "_checkpoint"))
            .trigger(availableNow=True)
        )
        despite_slow_workers(lambda: writer.start().awaitTermination())
        assert sorted(seen) == expected


def main() -> None:
    """Run all parts on a session of its own."""
    folder = Path(sys.argv[1])
    master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    modes = sys.argv[3].split(",") if len(sys.argv) > 3 else ("none", "name", "id")
    settings = {"spark.master": master, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    quick = {f"spark.{whose}.extraJavaOptions": QUICK_START for whose in ("driver", "executor")}
    spark = session("smoke", conf={**settings, **quick, "spark.executor.memory": "600m"})
    spark.sparkContext.setLogLevel("ERROR")
    for mode in modes:
        _check_mode(spark, folder, mode)
    source = read_table(spark, str(folder / "name"))
    write_table(source, str(folder / "copy"), partition_by=["day"])
    assert read_table(spark, str(folder / "copy")).count() == source.count()
    _check_share(spark, folder)
    print(f"SMOKE {pyspark.__version__} {master}: read, skipped, pruned, deleted, changed, written, shared")
    spark.stop()


if __name__ == "__main__":
    main()
