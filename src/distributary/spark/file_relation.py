"""Files of a log as one relation of Spark: the file list is ours, the reader is Spark's.

A `FileList` says where the files are and which columns are constant in each of them: partition values, and
whatever a reader wants to know of a file beside. `read_files` gives their rows with all these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from distributary.delta.log.active_files import FileSelection
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import DOUBLE, FLOAT, StructField, StructType, schema_to_json
from distributary.delta.schema.schema_edits import rewrite_fields, walk_fields
from distributary.spark.cloud_connectors import check_connector, hadoop_options
from distributary.spark.hadoop_paths import hadoop_uri, index_paths
from distributary.spark.index_blob import encode_columns, hand_over
from distributary.spark.jvm import columns_of, file_index, relation_frame, start_callbacks
from distributary.spark.skipping_statistics import SkippingStatistics
from distributary.storage.object_store import ObjectStore

# Dates and times of files whose writer is not Spark are of the calendar that Delta prescribes.
READ_OPTIONS: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
_SHOWN_METADATA: Final = frozenset({"comment", "__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS"})


@dataclass(frozen=True, slots=True)
class FileList:
    """Data files: path as the log has it, bytes, time of change, and the columns constant in each."""

    paths: pa.ChunkedArray
    sizes: pa.ChunkedArray
    modified: pa.ChunkedArray
    constants: Mapping[str, pa.Array] = field(default_factory=dict[str, pa.Array])
    statistics: SkippingStatistics | None = None
    identity: str | None = None

    @classmethod
    def of(
        cls,
        files: FileSelection,
        constants: Mapping[str, pa.Array],
        statistics: SkippingStatistics | None = None,
        identity: str | None = None,
    ) -> FileList:
        """The files of a snapshot."""
        path, size, modified = (files.column(name) for name in ("path", "size", "modificationTime"))
        return cls(path, size, modified, constants, statistics, identity)

    def having(self, constants: Mapping[str, pa.Array]) -> FileList:
        """The same files with more constant columns."""
        return replace(self, constants={**self.constants, **constants})

    def blob(self, store: ObjectStore) -> bytes:
        """The list as the file index of the JVM reads it."""
        columns = [index_paths(store, self.paths), self.sizes, self.modified, *self.constants.values()]
        return encode_columns(len(self.paths), columns)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of files with all their columns, in the order of `names`."""

    frame: DataFrame
    names: tuple[str, ...]
    index: Any = None

    @property
    def row(self) -> Column:
        """The column of a row's number inside its file."""
        return self.frame.metadataColumn("_metadata")["row_index"]

    def filtered(self, condition: Column) -> FileRows:
        """The rows that satisfy a condition."""
        return replace(self, frame=self.frame.filter(condition))

    def select(self, names: Sequence[str], row_number: str | None = None) -> DataFrame:
        """Some columns, and a row's number inside its file under a name, if one is given."""
        if row_number is None and tuple(names) == self.names:
            return self.frame
        return columns_of(self.frame, names, row_number)


def read_files(
    spark: SparkSession, store: ObjectStore, schema: StructType, mode: ColumnMappingMode, files: FileList
) -> FileRows:
    """The rows of files: the columns of the schema that are not constant, then the constant ones."""
    check_connector(spark, store)
    data, constant = split_schema(schema, files)
    index = _file_index(spark, store, files, constant)
    frame = relation_frame(
        spark,
        index,
        schema_to_json(shown_schema(data)),
        {**READ_OPTIONS, **hadoop_options(store)},
        mapped=_mapped_schema(data, mode),
        by_id=mode is ColumnMappingMode.ID,
    )
    return FileRows(frame, (*data.names, *constant.names), index)


def split_schema(schema: StructType, files: FileList) -> tuple[StructType, StructType]:
    """The columns that are in the files, and those that are constant in each."""
    data = tuple(column for column in schema.fields if column.name not in files.constants)
    constant = tuple(_constant_field(schema, name, values) for name, values in files.constants.items())
    return StructType(data), StructType(constant)


def _file_index(spark: SparkSession, store: ObjectStore, files: FileList, constant: StructType) -> Any:
    if files.statistics is not None:
        start_callbacks(spark)
    return file_index(
        spark,
        hadoop_uri(store.root),
        files.identity,
        hand_over(files.blob(store)),
        schema_to_json(shown_schema(constant)),
        files.statistics,
    )


def _mapped_schema(data: StructType, mode: ColumnMappingMode) -> str | None:
    """The columns as MappedParquetFormat knows them; None where Spark's own format reads them.

    It is needed where columns have other names in files or may hold NaN (PhysicalNames.java).
    """
    mapped = mode is not ColumnMappingMode.NONE
    if not mapped and not any(field.data_type in (FLOAT, DOUBLE) for _, field in walk_fields(data)):
        return None
    return schema_to_json(data if mapped else shown_schema(data))


def _constant_field(schema: StructType, name: str, values: pa.Array) -> StructField:
    found = schema.find(name)
    if found is not None:
        return found
    return delta_schema(pa.schema([pa.field(name, values.type)])).fields[0]


def shown_schema(schema: StructType) -> StructType:
    """A schema as a reader sees it: without what Delta keeps in metadata for itself."""
    return rewrite_fields(schema, _shown_field)


def _shown_field(column: StructField) -> StructField:
    kept = {key: value for key, value in column.metadata.items() if key in _SHOWN_METADATA}
    return StructField(column.name, column.data_type, column.nullable, kept)
