"""The engines that the Spark benchmarks compare, and what they differ in."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from case import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JARS = Path(__file__).resolve().parent.parent / ".tools" / "delta-spark" / "jars"
DELTA, PARQUET = "delta_spark", "parquet"
DELETED, UPDATED = "id % 100 = 7", "id % 100 = 8"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    # What ours writes by itself; the level would else be 3 for the others.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}


def plain_session(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("bench")
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Engine(ABC):
    """What the engines differ in; the measured work is written once, in their terms."""

    name: str

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch / f"spark-{self.name}"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        self.spark = self.session()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.bases: dict[tuple[object, ...], Path] = {}
        self._copies = 0

    @abstractmethod
    def session(self) -> SparkSession:
        """The session that it runs in."""

    @abstractmethod
    def write(self, rows: DataFrame, place: Path, *, append: bool = False, vectors: bool = False) -> None:
        """Create a table, or append to it."""

    @abstractmethod
    def read(self, place: Path) -> DataFrame:
        """The rows of a table."""

    def copy(self, table: Path) -> Path:
        """A copy of a table to change."""
        place = self.fresh()
        shutil.copytree(table, place, copy_function=os.link)
        return place

    def fresh(self) -> Path:
        """A place where nothing is."""
        self._copies += 1
        return self.scratch / f"copy-{self._copies}"


class Distributary(Engine):
    name = OURS

    def session(self) -> SparkSession:
        from distributary.spark import session

        return session(conf=SETTINGS)

    def write(self, rows: DataFrame, place: Path, *, append: bool = False, vectors: bool = False) -> None:
        from distributary.spark import write_table

        write_table(
            rows,
            str(place),
            mode="append" if append else "error",
            properties=None if append else {"delta.enableDeletionVectors": str(vectors).lower()},
        )

    def read(self, place: Path) -> DataFrame:
        from distributary.spark import read_table

        return read_table(self.spark, str(place))

    def table(self, place: Path) -> Any:
        from distributary.spark import DeltaTable

        return DeltaTable.forPath(self.spark, str(place))

    def delete(self, place: Path) -> None:
        self.table(place).delete(DELETED)

    def update(self, place: Path) -> None:
        self.table(place).update(UPDATED, {"amount": "amount + 1"})

    def merge(self, place: Path, source: DataFrame) -> None:
        merge = self.table(place).alias("t").merge(source.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def compact(self, place: Path) -> None:
        self.table(place).optimize().executeCompaction()

    def vacuum(self, place: Path) -> None:
        from distributary.spark.vacuum import vacuum

        vacuum(self.spark, str(place), retention_hours=0, dry_run=True, force=True)

    def stream(self, rows: DataFrame, place: Path, checkpoint: Path) -> Any:
        from distributary.spark import write_stream

        trigger = {"availableNow": True}
        return write_stream(rows, str(place), checkpoint_location=str(checkpoint), trigger=trigger)


class DeltaSpark(Engine):
    name = DELTA

    def session(self) -> SparkSession:
        jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
        return plain_session(
            {
                "spark.jars": jars,
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                "spark.databricks.delta.snapshotPartitions": "2",
                "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # its vacuum lists by this
                "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            }
        )

    def write(self, rows: DataFrame, place: Path, *, append: bool = False, vectors: bool = False) -> None:
        writer = rows.write.format("delta").mode("append" if append else "error")
        if not append:
            writer = writer.option("delta.enableDeletionVectors", str(vectors).lower())
        writer.save(str(place))

    def read(self, place: Path) -> DataFrame:
        return self.spark.read.format("delta").load(str(place))

    def delete(self, place: Path) -> None:
        self.spark.sql(f"DELETE FROM delta.`{place}` WHERE {DELETED}").collect()

    def update(self, place: Path) -> None:
        self.spark.sql(f"UPDATE delta.`{place}` SET amount = amount + 1 WHERE {UPDATED}").collect()

    def merge(self, place: Path, source: DataFrame) -> None:
        source.createOrReplaceTempView("source")
        self.spark.sql(
            f"MERGE INTO delta.`{place}` t USING source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def compact(self, place: Path) -> None:
        self.spark.sql(f"OPTIMIZE delta.`{place}`").collect()

    def vacuum(self, place: Path) -> None:
        self.spark.sql(f"VACUUM delta.`{place}` RETAIN 0 HOURS DRY RUN").collect()

    def stream(self, rows: DataFrame, place: Path, checkpoint: Path) -> Any:
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(checkpoint))
        return writer.trigger(availableNow=True).start(str(place))


class Parquet(Engine):
    name = PARQUET

    def session(self) -> SparkSession:
        return plain_session({})

    def write(self, rows: DataFrame, place: Path, *, append: bool = False, vectors: bool = False) -> None:
        rows.write.mode("append" if append else "error").parquet(str(place))

    def read(self, place: Path) -> DataFrame:
        return self.spark.read.parquet(str(place))

    def stream(self, rows: DataFrame, place: Path, checkpoint: Path) -> Any:
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        return writer.trigger(availableNow=True).start(str(place))
