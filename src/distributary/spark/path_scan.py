"""Files of a log read by their paths: the way round where the file index cannot be used.

A session of Spark Connect has no JVM here to put an index into, and some platforms allow none. Then the paths
go to ``spark.read.parquet``, what is constant in a file is joined to its rows by the file's path, and deleted
rows are left out by a join. The rows are the same; Spark looks up every file first, and statistics and
partition values leave out none of them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType as SparkStruct

from distributary.delta.schema.column_mapping import ColumnMappingMode, physical_name, physical_schema
from distributary.delta.schema.data_types import StructType, schema_to_json
from distributary.spark.cloud_connectors import hadoop_options
from distributary.spark.errors import UnsupportedSparkError
from distributary.spark.file_relation import READ_OPTIONS, FileList, shown_schema, split_schema
from distributary.spark.hadoop_paths import hadoop_uri, index_paths
from distributary.spark.jvm import has_jvm, relations
from distributary.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)

_PATH: Final = "__distributary_path"
_ROW: Final = "__distributary_row_index"
_ORDINAL: Final = "__distributary_ordinal"


class PathScanWarning(UserWarning):
    """A table is read by the paths of its files, which is slower."""


@dataclass(frozen=True, slots=True)
class PathRows:
    """Rows of files that were read by their paths, with all their columns."""

    frame: DataFrame

    def without(self, deleted: Sequence[BitMap64 | None]) -> PathRows:
        """The rows that no bitmap of their file has."""
        found = [(at, rows_of) for at, rows_of in enumerate(deleted) if rows_of is not None and len(rows_of)]
        if not found:
            return self
        ordinals = np.concatenate([np.full(len(bitmap), at, np.int32) for at, bitmap in found])
        numbers = np.concatenate(
            [np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64) for _, bitmap in found]
        )
        columns = {_ORDINAL: pa.array(ordinals), _ROW: pa.array(numbers)}
        gone = self.frame.sparkSession.createDataFrame(pa.table(columns))
        return PathRows(self.frame.join(sf.broadcast(gone), [_ORDINAL, _ROW], "left_anti"))

    def select(self, names: Sequence[str], row_number: str | None = None) -> DataFrame:
        """Some columns, and a row's number inside its file under a name, if one is given."""
        number = () if row_number is None else (_column(_ROW).alias(row_number),)
        return self.frame.select(*map(_column, names), *number)


def uses_index(spark: SparkSession) -> bool:
    """Whether a session can read through the file index; warns and says why where it cannot."""
    reason = _hindrance(spark)
    if reason is None:
        return True
    warnings.warn(
        f"Reading by the paths of the files, without partition pruning and statistics: {reason}",
        PathScanWarning,
        stacklevel=4,
    )
    return False


def _hindrance(spark: SparkSession) -> str | None:
    if not has_jvm(spark):
        return "this is a session of Spark Connect, which has no JVM in this process"
    try:
        relations(spark)
    except Exception as error:  # whatever keeps the classes out, reading must go on
        _log.info("the file index does not load", exc_info=True)
        return f"the file index does not load in this Spark ({type(error).__name__})"
    return None


def read_paths(
    spark: SparkSession, store: ObjectStore, schema: StructType, mode: ColumnMappingMode, files: FileList
) -> PathRows:
    """The same rows as `file_relation.read_files` gives."""
    if mode is ColumnMappingMode.ID:
        raise UnsupportedSparkError(
            f"{store.root} finds its columns by id, which only the file index can read: use a classic session"
        )
    data, constant = split_schema(schema, files)
    rows = _plain_rows(spark, store, data, mode, files)
    listed = _described(store, files)
    # Connect cannot tell the types of a table without rows.
    described = spark.createDataFrame(listed, from_arrow_schema(listed.schema))
    joined = rows.join(sf.broadcast(described), _PATH, "inner")
    wanted = [*data.names, *constant.names]
    frame = joined.select(*(_column(name) for name in wanted), _column(_ROW), _column(_ORDINAL))
    return PathRows(frame)


def _plain_rows(
    spark: SparkSession, store: ObjectStore, data: StructType, mode: ColumnMappingMode, files: FileList
) -> DataFrame:
    """The columns that are in the files, under their logical names, with path and number of each row."""
    stored = SparkStruct.fromJson(_json(physical_schema(data, mode)))
    logical = SparkStruct.fromJson(_json(data))
    paths = [_whole_path(store, path) for path in index_paths(store, files.paths).to_pylist()]
    options = {**READ_OPTIONS, **hadoop_options(store)}
    if paths:
        frame = spark.read.options(**options).schema(stored).parquet(*paths)
        metadata = frame.metadataColumn("_metadata")
        path, row = _comparable(metadata["file_path"]), metadata["row_index"]
    else:
        frame = spark.createDataFrame([], stored)
        path, row = sf.lit(""), sf.lit(0).cast("bigint")
    columns = [
        _column(physical_name(field, mode)).cast(logical[field.name].dataType).alias(field.name)
        for field in data.fields
    ]
    return frame.select(*columns, path.alias(_PATH), row.alias(_ROW))


def _json(schema: StructType) -> dict[str, object]:
    return msgspec.json.decode(schema_to_json(shown_schema(schema)))


def _described(store: ObjectStore, files: FileList) -> pa.Table:
    """Path, ordinal and constant columns of each file."""
    paths = [_text(_whole_path(store, path)) for path in index_paths(store, files.paths).to_pylist()]
    ordinals = pa.array(np.arange(len(paths), dtype=np.int32))
    return pa.table({_PATH: pa.array(paths, pa.string()), _ORDINAL: ordinals, **files.constants})


def _whole_path(store: ObjectStore, path: str) -> str:
    return path[1:] if path.startswith("/") else f"{hadoop_uri(store.root)}/{path}"


def _text(path: str) -> str:
    """A path text as `_comparable` gives it."""
    return "file:/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def _comparable(uri: Column) -> Column:
    """The decoded text of the URI that Spark gives for a file; a plus sign stands for itself in it."""
    decoded = sf.url_decode(sf.replace(uri, sf.lit("+"), sf.lit("%2B")))
    return sf.regexp_replace(decoded, "^file:/+", "file:/")


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")
