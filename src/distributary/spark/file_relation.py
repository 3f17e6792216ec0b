"""Files of a log as one relation of Spark: the file list is ours, the reader is Spark's.

A `FileList` says where the files are and which columns are constant in each of them: partition values, and
whatever a reader wants to know of a file beside. `read_files` gives their rows with all these columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.delta.log.active_files import FileSelection
from distributary.delta.schema.arrow_schema import delta_schema
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.schema.data_types import StructField, StructType, schema_to_json
from distributary.spark.hadoop_paths import hadoop_uri, index_paths
from distributary.spark.index_blob import encode_columns, hand_over
from distributary.spark.jvm import java_schema, new_instance, parquet_format, relation_frame
from distributary.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class FileList:
    """Data files: path as the log has it, bytes, time of change, and the columns constant in each."""

    paths: pa.ChunkedArray
    sizes: pa.ChunkedArray
    modified: pa.ChunkedArray
    constants: Mapping[str, pa.Array] = field(default_factory=dict[str, pa.Array])
    identity: str | None = None

    @classmethod
    def of(
        cls, files: FileSelection, constants: Mapping[str, pa.Array], identity: str | None = None
    ) -> FileList:
        """The files of a snapshot."""
        path, size, modified = (files.column(name) for name in ("path", "size", "modificationTime"))
        return cls(path, size, modified, constants, identity)

    def blob(self, store: ObjectStore) -> bytes:
        """The list as the file index of the JVM reads it."""
        columns = [index_paths(store, self.paths), self.sizes, self.modified, *self.constants.values()]
        return encode_columns(len(self.paths), columns)


def read_files(
    spark: SparkSession, store: ObjectStore, schema: StructType, mode: ColumnMappingMode, files: FileList
) -> DataFrame:
    """The rows of files: the columns of the schema that are not constant, then the constant ones."""
    del mode
    data = StructType(tuple(column for column in schema.fields if column.name not in files.constants))
    constant = StructType(
        tuple(_constant_field(schema, name, files.constants[name]) for name in files.constants)
    )
    data_json, constant_json = schema_to_json(_shown(data)), schema_to_json(_shown(constant))
    index = new_instance(
        spark,
        "SnapshotFileIndex",
        hadoop_uri(store.root),
        files.identity,
        hand_over(files.blob(store)),
        java_schema(spark, constant_json),
    )
    return relation_frame(spark, index, constant_json, data_json, parquet_format(spark), {})


def _constant_field(schema: StructType, name: str, values: pa.Array) -> StructField:
    found = schema.find(name)
    if found is not None:
        return found
    return delta_schema(pa.schema([pa.field(name, values.type)])).fields[0]


def _shown(schema: StructType) -> StructType:
    return StructType(tuple(StructField(column.name, column.data_type) for column in schema.fields))
