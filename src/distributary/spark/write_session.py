"""What writing needs of Spark beside its DataFrames: settings of its own, casts, and directories.

The second border to the JVM, for writers. A write must not depend on what a session happens to be set to
(timestamps as INT96, dates of another calendar), and must not change it either, since other threads use it:
where a setting differs, the rows are written by a copy of the session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from distributary.delta.schema.data_types import DataType, type_to_json
from distributary.spark.jvm import class_named

_PARQUET = "spark.sql.parquet."
FILE_SETTINGS: Mapping[str, str] = {
    f"{_PARQUET}outputTimestampType": "TIMESTAMP_MICROS",
    f"{_PARQUET}datetimeRebaseModeInWrite": "CORRECTED",
    f"{_PARQUET}fieldId.write.enabled": "true",
    f"{_PARQUET}writeLegacyFormat": "false",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.files.maxRecordsPerFile": "0",
}


def with_settings(frame: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """The same rows where these settings hold: in a copy of the session unless they hold already."""
    spark = frame.sparkSession
    differing = {key: value for key, value in settings.items() if _setting(spark, key) != value.lower()}
    if not differing:
        return frame
    copied: Any = frame._jdf.sparkSession().cloneSession()  # pyright: ignore
    for key, value in differing.items():
        copied.conf().set(key, value)
    plan: Any = frame._jdf.queryExecution().analyzed()  # pyright: ignore
    rows = class_named(spark, "org.apache.spark.sql.classic.Dataset").ofRows(copied, plan)
    return DataFrame(rows, SparkSession(spark.sparkContext, copied))


def _setting(spark: SparkSession, key: str) -> str | None:
    """What holds for a setting, its default too (for which Spark must not be given another one)."""
    try:
        return str(spark.conf.get(key)).lower()
    except Exception:  # this Spark does not know it
        return None


def can_assign(spark: SparkSession, have: DataType, want: DataType) -> bool:
    """Whether Spark's ANSI rules of store assignment let a value of one type into a column of the other."""
    return bool(_cast(spark).canANSIStoreAssign(_java_type(spark, have), _java_type(spark, want)))


def never_fails(spark: SparkSession, have: DataType, want: DataType) -> bool:
    """Whether each value of one type has its like in the other."""
    return bool(_cast(spark).canUpCast(_java_type(spark, have), _java_type(spark, want)))


def remove_directory(spark: SparkSession, uri: str, options: Mapping[str, str]) -> None:
    """Delete a directory and all below it; Hadoop reaches the store by these options."""
    path: Any = class_named(spark, "org.apache.hadoop.fs.Path")(uri)
    hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()  # pyright: ignore
    for name, value in options.items():
        hadoop.set(name, value)
    path.getFileSystem(hadoop).delete(path, True)


def names_may_be_unicode(spark: SparkSession) -> bool:
    """Whether Java writes names of local files in UTF-8; in a C locale it puts `?` for other letters."""
    encoding: Any = class_named(spark, "java.lang.System").getProperty("sun.jnu.encoding")
    return str(encoding).upper().replace("-", "") == "UTF8"


def _cast(spark: SparkSession) -> Any:
    return class_named(spark, "org.apache.spark.sql.catalyst.expressions.Cast")


def _java_type(spark: SparkSession, data_type: DataType) -> Any:
    types = class_named(spark, "org.apache.spark.sql.types.DataType")
    return types.fromJson(json.dumps(type_to_json(data_type)))
