"""Times as people give them to Spark: evaluated by Spark, in the session's zone where they name none."""

from __future__ import annotations

import datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.errors import InvalidInputError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment_of(spark: SparkSession, text: str) -> datetime.datetime:
    """The instant of a text such as `2024-01-31` or `2024-01-31 12:00:00`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return evaluated_moment(spark, f"'{escaped}'")


def evaluated_moment(spark: SparkSession, expression: str) -> datetime.datetime:
    """The instant that an expression of SQL gives."""
    try:
        row = spark.sql(f"SELECT unix_micros(CAST(({expression}) AS TIMESTAMP))").collect()[0]
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"{expression} is no time: {reason}") from error
    if row[0] is None:
        raise InvalidInputError(f"{expression} is no time: it is null")
    return _EPOCH + datetime.timedelta(microseconds=row[0])
