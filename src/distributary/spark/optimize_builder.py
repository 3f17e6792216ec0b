"""DeltaOptimizeBuilder: which files to write anew, and in what order, with delta-spark's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession

from distributary.spark.optimize import optimize


class DeltaOptimizeBuilder:
    """An optimization under construction."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        where: Column | str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._spark, self._path, self._where = spark, path, where
        self._storage_options = storage_options

    def where(self, partitionFilter: Column | str) -> Self:  # noqa: N803
        """Only the partitions that satisfy a condition over partition columns."""
        return type(self)(self._spark, self._path, partitionFilter, storage_options=self._storage_options)

    def executeCompaction(self) -> DataFrame:  # noqa: N802
        """Make few large files of many small ones; gives delta-spark's metrics."""
        return self._optimize()

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:  # noqa: N802
        """Write rows anew in the order of a curve through these columns; gives delta-spark's metrics."""
        columns = [name for column in cols for name in ([column] if isinstance(column, str) else column)]
        return self._optimize(columns)

    def _optimize(self, columns: list[str] | None = None) -> DataFrame:
        return optimize(
            self._spark,
            self._path,
            where=self._where,
            z_order_by=columns or (),
            storage_options=self._storage_options,
        )
