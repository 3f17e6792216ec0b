"""DeltaTable on Spark, with delta-spark's names, arguments and results.

``from distributary.spark import DeltaTable`` in place of ``from delta.tables import DeltaTable``. Results are
DataFrames with delta-spark's columns. What delta-spark has and this has not is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.schema.data_types import DataType, parse_schema
from distributary.delta.schema.type_text import parse_columns_text
from distributary.delta.table import DeltaTable as EngineTable
from distributary.errors import InvalidInputError
from distributary.spark.alteration import alter
from distributary.spark.delete_update import delete, update
from distributary.spark.manifest import write_manifests
from distributary.spark.merge_builder import Condition, DeltaMergeBuilder, Values
from distributary.spark.moments import moment_of
from distributary.spark.optimize_builder import DeltaOptimizeBuilder
from distributary.spark.table_builder import DeltaTableBuilder
from distributary.spark.table_definition import Mode
from distributary.spark.table_description import counts_frame, detail_frame, history_frame, restore_frame
from distributary.spark.table_registry import path_in, path_of
from distributary.spark.table_scan import read_table
from distributary.spark.table_store import trust_root
from distributary.spark.vacuum import vacuum

if TYPE_CHECKING:
    import datetime

_CONVERTIBLE = "parquet"


class DeltaTable:
    """A Delta table at a path, to be read, changed and cared for with Spark."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        alias: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._path = path
        self._alias = alias
        self._storage_options = storage_options

    @classmethod
    def forPath(  # noqa: N802
        cls,
        sparkSession: SparkSession,  # noqa: N803
        path: str,
        hadoopConf: Mapping[str, str] | None = None,  # noqa: N803
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """The table at a path; there must be one. `storage_options` are for the log (obstore's names)."""
        if hadoopConf:
            raise InvalidInputError(
                "hadoopConf is not taken for one table: set it on the session (spark.hadoop.<key>), "
                "and give storage_options for the log."
            )
        found = cls(sparkSession, path_in(path) or path, storage_options=storage_options)
        found._engine().version()
        return found

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:  # noqa: N802, N803
        """The table of a registered name, or of ``delta.`path` ``."""
        return cls.forPath(sparkSession, path_of(sparkSession, tableOrViewName))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:  # noqa: N802, N803
        """Whether there is a Delta table at a path (or behind ``delta.`path` ``)."""
        return EngineTable.exists(path_in(identifier) or identifier)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:  # noqa: N803
        """A builder of a table; where there is one already it fails."""
        return cls._builder(sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:  # noqa: N802, N803
        """A builder of a table; where there is one already it stays as it is."""
        return cls._builder(sparkSession, "if_not_exists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:  # noqa: N803
        """A builder of a table in place of the one that is there; where there is none it fails."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:  # noqa: N802, N803
        """A builder of a table, new or in place of the one that is there."""
        return cls._builder(sparkSession, "create_or_replace")

    @classmethod
    def convertToDelta(  # noqa: N802
        cls,
        sparkSession: SparkSession,  # noqa: N803
        identifier: str,
        partitionSchema: str | SparkStruct | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Make a Delta table of a directory of Parquet files in place: ``parquet.`path` ``."""
        kind, dot, quoted = identifier.strip().partition(".")
        if kind.strip().lower() != _CONVERTIBLE or not dot:
            raise InvalidInputError(f"{identifier!r} cannot be converted: write parquet.`path`.")
        path = quoted.strip().strip("`").replace("``", "`")
        EngineTable.convert(path, partition_types=_partition_types(partitionSchema))
        return cls(sparkSession, path)

    def toDF(self) -> DataFrame:  # noqa: N802
        """The rows of the latest version."""
        rows = read_table(self._spark, self._path, storage_options=self._storage_options)
        return rows if self._alias is None else rows.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:  # noqa: N803
        """The same table under another name, for conditions."""
        return DeltaTable(self._spark, self._path, aliasName, storage_options=self._storage_options)

    def delete(self, condition: Condition | None = None) -> DataFrame:
        """Delete the rows that satisfy a condition, or all."""
        metrics = delete(
            self._spark, self._path, condition, alias=self._alias, storage_options=self._storage_options
        )
        return counts_frame(self._spark, {"num_affected_rows": metrics.rows_deleted})

    def update(self, condition: Condition | None = None, set: Values | None = None) -> DataFrame:
        """Give columns new values in the rows that satisfy a condition, or in all."""
        if not set:
            raise InvalidInputError("'set' must name at least one column and its value")
        metrics = update(
            self._spark, self._path, set, condition, alias=self._alias, storage_options=self._storage_options
        )
        return counts_frame(self._spark, {"num_affected_rows": metrics.rows_updated})

    def updateExpr(self, condition: str | None = None, set: Mapping[str, str] | None = None) -> DataFrame:  # noqa: N802
        """Like `update`, with all values as texts (the name that Scala's API has)."""
        return self.update(condition, set)

    def merge(self, source: DataFrame, condition: Condition) -> DeltaMergeBuilder:
        """Begin a merge of the rows of a source into the table."""
        return DeltaMergeBuilder(
            self._spark,
            self._path,
            self._alias,
            source,
            condition,
            storage_options=self._storage_options,
        )

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits that the log still has, newest first."""
        return history_frame(self._spark, self._engine(), limit)

    def detail(self) -> DataFrame:
        """One row about the table: place, size, partitioning, properties, protocol."""
        return detail_frame(self._spark, self._engine())

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin to write files anew, few and large or in a better order."""
        return DeltaOptimizeBuilder(self._spark, self._path, storage_options=self._storage_options)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:  # noqa: N803
        """Delete the files that no version within the retention needs (default: the table's, 168 hours)."""
        vacuum(self._spark, self._path, retentionHours, storage_options=self._storage_options)
        return self._spark.createDataFrame([], "path string")

    def restoreToVersion(self, version: int) -> DataFrame:  # noqa: N802
        """Make an older version the newest again."""
        return self._restore(version=version)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:  # noqa: N802
        """Make the version of a time the newest again; a time without a zone is of the session's zone."""
        return self._restore(timestamp=moment_of(self._spark, timestamp))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:  # noqa: N802, N803
        """Raise the protocol's versions; features of versions 3 and 7 are named one by one instead."""
        versions = {
            "delta.minReaderVersion": str(readerVersion),
            "delta.minWriterVersion": str(writerVersion),
        }
        alter(self._spark, self._engine()).set_properties(versions)

    def addFeatureSupport(self, featureName: str) -> None:  # noqa: N802, N803
        """Let the table support a feature."""
        alter(self._spark, self._engine()).add_feature(featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:  # noqa: N802, N803
        """Refused: a feature can only be dropped after its traces are gone from data and history."""
        refuse_drop_feature(featureName)

    def generate(self, mode: str) -> None:
        """Write manifests for engines that read lists of Parquet files (`symlink_format_manifest`)."""
        if mode.lower() != "symlink_format_manifest":
            raise InvalidInputError(f"{mode!r} is no kind of manifest: symlink_format_manifest is.")
        write_manifests(self._engine())

    def clone(
        self,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table with the contents of this one; a shallow one shares its files."""
        return self._clone(target, isShallow, replace, properties)

    def cloneAtVersion(  # noqa: N802
        self,
        version: int,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table with the contents of an older version."""
        return self._clone(target, isShallow, replace, properties, version=version)

    def cloneAtTimestamp(  # noqa: N802
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table with the contents of the version of a time."""
        moment = moment_of(self._spark, timestamp)
        return self._clone(target, isShallow, replace, properties, timestamp=moment)

    def _engine(self) -> EngineTable:
        return EngineTable(self._path, self._storage_options)

    def _restore(self, version: int | None = None, timestamp: datetime.datetime | None = None) -> DataFrame:
        table = self._engine()
        table.restore(version, timestamp)
        return restore_frame(self._spark, table)

    def _clone(
        self,
        target: str,
        shallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
        version: int | None = None,
        timestamp: datetime.datetime | None = None,
    ) -> DeltaTable:
        path = path_in(target) or target
        if replace and EngineTable.exists(path, self._storage_options):
            raise InvalidInputError(
                f"{path} cannot be replaced by a clone: delete the table there, or clone to another place."
            )
        self._engine().clone(
            path, shallow=shallow, version=version, timestamp=timestamp, storage_options=self._storage_options
        )
        if shallow:
            trust_root(self._spark, self._engine().uri)
        cloned = DeltaTable(self._spark, path, storage_options=self._storage_options)
        if properties:
            alter(self._spark, cloned._engine()).set_properties(properties)
        return cloned

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: Mode) -> DeltaTableBuilder:
        found = spark or SparkSession.getActiveSession()
        if found is None:
            raise InvalidInputError("There is no active Spark session: give one.")
        return DeltaTableBuilder(found, mode, lambda path: cls(found, path))

    def __repr__(self) -> str:
        return f"DeltaTable.forPath(spark, {self._path!r})"


def refuse_drop_feature(name: str) -> None:
    """Says why a feature is not dropped, and what can be done."""
    raise InvalidInputError(
        f"The feature {name} is not dropped here: rows, files and history would have to be rid of it first. "
        "Unset the property that switches it on, or copy the rows to a new table without it."
    )


def _partition_types(schema: str | SparkStruct | None) -> dict[str, DataType] | None:
    if schema is None:
        return None
    columns = parse_columns_text(schema) if isinstance(schema, str) else parse_schema(schema.json())
    return {field.name: field.data_type for field in columns.fields}
