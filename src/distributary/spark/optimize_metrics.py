"""What an optimization did, as delta-spark's one row of metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from distributary.delta.log.actions import Add
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.statistics.collection import indexed_columns
from distributary.spark.hadoop_paths import hadoop_uri

_COUNT: Final = "bigint NOT NULL"
_SIZES: Final = (
    f"struct<min: bigint, max: bigint, avg: double NOT NULL, totalFiles: {_COUNT}, totalSize: {_COUNT}>"
)
_FILES: Final = f"struct<num: {_COUNT}, size: {_COUNT}>"
_CUBES: Final = f"struct<numFiles: {_COUNT}, size: {_COUNT}>"
SCHEMA: Final = f"""path string, metrics struct<
  numFilesAdded: {_COUNT}, numFilesRemoved: {_COUNT}, filesAdded: {_SIZES}, filesRemoved: {_SIZES},
  partitionsOptimized: {_COUNT},
  zOrderStats: struct<strategyName: string, inputCubeFiles: {_FILES}, inputOtherFiles: {_FILES},
    inputNumCubes: {_COUNT}, mergedFiles: {_FILES}, numOutputCubes: {_COUNT}, mergedNumCubes: bigint>,
  clusteringStats: struct<inputZCubeFiles: {_CUBES}, inputOtherFiles: {_CUBES}, inputNumZCubes: {_COUNT},
    mergedFiles: {_CUBES}, numOutputZCubes: {_COUNT}>,
  numBins: {_COUNT}, numBatches: {_COUNT}, totalConsideredFiles: {_COUNT}, totalFilesSkipped: {_COUNT},
  preserveInsertionOrder: boolean NOT NULL, numFilesSkippedToReduceWriteAmplification: {_COUNT},
  numBytesSkippedToReduceWriteAmplification: {_COUNT}, startTimeMs: {_COUNT}, endTimeMs: {_COUNT},
  totalClusterParallelism: {_COUNT}, totalScheduledTasks: {_COUNT},
  autoCompactParallelismStats: struct<maxClusterActiveParallelism: bigint,
    minClusterActiveParallelism: bigint, maxSessionActiveParallelism: bigint,
    minSessionActiveParallelism: bigint>,
  deletionVectorStats: struct<numDeletionVectorsRemoved: {_COUNT}, numDeletionVectorRowsRemoved: {_COUNT}>,
  numTableColumns: {_COUNT}, numTableColumnsWithStats: {_COUNT}>"""


class Optimized(msgspec.Struct, frozen=True):
    """The files that an optimization looked at, took away and made; times are milliseconds."""

    considered: Sequence[Add]
    removed: Sequence[Add]
    added: Sequence[Add]
    num_bins: int
    started: int
    curve: str | None = None

    def operation_metrics(self) -> dict[str, int | str]:
        """The metrics of the commit, in Spark's words."""
        sizes = sorted(add.size for add in self.added)
        quarters = {
            f"{name}FileSize": sizes[min(len(sizes) * quarter // 4, len(sizes) - 1)] if sizes else 0
            for name, quarter in (("min", 0), ("p25", 1), ("p50", 2), ("p75", 3), ("max", 4))
        }
        return {
            "numAddedFiles": len(self.added),
            "numRemovedFiles": len(self.removed),
            "numAddedBytes": sum(sizes),
            "numRemovedBytes": _size(self.removed),
            "numDeletionVectorsRemoved": len(_with_vectors(self.removed)),
            **quarters,
        }

    def frame(self, spark: SparkSession, snapshot: Snapshot) -> DataFrame:
        """The metrics as delta-spark shows them."""
        row = SparkRow(path=hadoop_uri(snapshot.root), metrics=self._metrics(spark, snapshot))
        return spark.createDataFrame([row], SCHEMA)

    def _metrics(self, spark: SparkSession, snapshot: Snapshot) -> dict[str, Any]:
        partitioning = snapshot.metadata.partitioning
        indexed = indexed_columns(snapshot.schema, partitioning, snapshot.mapping_mode, snapshot.properties)
        partitions = {tuple(sorted((add.partition_values or {}).items())) for add in self.removed}
        removed = {"num": len(self.removed), "size": _size(self.removed)}
        return {
            "numFilesAdded": len(self.added),
            "numFilesRemoved": len(self.removed),
            "filesAdded": _sizes(self.added),
            "filesRemoved": _sizes(self.removed),
            "partitionsOptimized": len(partitions) if partitioning else 0,
            "zOrderStats": _curve_statistics(removed, self.num_bins) if self.curve == "z-order" else None,
            "clusteringStats": _clustering_statistics(removed, self.num_bins)
            if self.curve == "clustering"
            else None,
            "numBins": self.num_bins,
            "numBatches": 1 if self.removed else 0,
            "totalConsideredFiles": len(self.considered),
            "totalFilesSkipped": len(self.considered) - len(self.removed),
            "preserveInsertionOrder": False,
            "numFilesSkippedToReduceWriteAmplification": 0,
            "numBytesSkippedToReduceWriteAmplification": 0,
            "startTimeMs": self.started,
            "endTimeMs": time.time_ns() // 1_000_000,
            "totalClusterParallelism": spark.sparkContext.defaultParallelism,
            "totalScheduledTasks": self.num_bins,
            "autoCompactParallelismStats": None,
            "deletionVectorStats": _vector_statistics(self.removed),
            "numTableColumns": len(snapshot.schema),
            "numTableColumnsWithStats": len({column.path[0] for column in indexed}) + len(partitioning),
        }


def _size(adds: Sequence[Add]) -> int:
    return sum(add.size for add in adds)


def _sizes(adds: Sequence[Add]) -> dict[str, Any]:
    sizes = [add.size for add in adds]
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": sum(sizes) / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": sum(sizes),
    }


def _curve_statistics(removed: dict[str, int], cubes: int) -> dict[str, Any]:
    nothing = {"num": 0, "size": 0}
    return {
        "strategyName": "all",
        "inputCubeFiles": nothing,
        "inputOtherFiles": removed,
        "inputNumCubes": 0,
        "mergedFiles": removed,
        "numOutputCubes": cubes,
        "mergedNumCubes": None,
    }


def _clustering_statistics(removed: dict[str, int], cubes: int) -> dict[str, Any]:
    files = {"numFiles": removed["num"], "size": removed["size"]}
    return {
        "inputZCubeFiles": {"numFiles": 0, "size": 0},
        "inputOtherFiles": files,
        "inputNumZCubes": 0,
        "mergedFiles": files,
        "numOutputZCubes": cubes,
    }


def _with_vectors(adds: Sequence[Add]) -> list[int]:
    return [add.deletion_vector.cardinality for add in adds if add.deletion_vector is not None]


def _vector_statistics(adds: Sequence[Add]) -> dict[str, int] | None:
    deleted = _with_vectors(adds)
    if not deleted:
        return None
    return {"numDeletionVectorsRemoved": len(deleted), "numDeletionVectorRowsRemoved": sum(deleted)}
