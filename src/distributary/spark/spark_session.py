"""A SparkSession that works out of the box, and what this package needs of one that the user brings.

``session()`` finds Java, tells Spark's workers which Python to use, sets what is sensible on one machine
and adds what a cloud needs. ``register(spark)`` makes any session ready: it checks the version, makes
format("deltaSharing") known, and lets Spark push filters into Python sources, which that format needs; it
changes no other setting. Supported are PySpark 4.1 to 4.3.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from distributary.spark.cloud_connectors import with_connectors
from distributary.spark.errors import UnsupportedSparkError
from distributary.spark.java_runtime import find_java
from distributary.spark.share_source import register_shares

# Where Spark's jars are not found: what the newest supported PySpark brings.
_HADOOP_UNKNOWN = "3.5.0"
OLDEST_SPARK, NEWEST_SPARK = (4, 1), (4, 3)

_LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
_DEFAULTS: Mapping[str, str] = {
    # Instants are compared as such everywhere; a session of UTC also shows them like the rest of the package.
    "spark.sql.session.timeZone": "UTC",
    # Delta's data files have this form; where a session has another, each write is done by a copy of it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def session(
    app_name: str = "distributary",
    *,
    conf: Mapping[str, str] | None = None,
    clouds: Sequence[str] = (),
    **settings: Any,
) -> SparkSession:
    """A SparkSession, ready for Delta tables; an existing one is taken where there is one.

    Settings are given as ``conf={"spark.sql.shuffle.partitions": "4"}`` or by name, with ``__`` for the
    dots: ``spark__sql__shuffle__partitions=4``. ``clouds=["s3"]`` (also abfss, gs) lets a new session fetch
    Hadoop's connector for a cloud.
    """
    wanted = {**(conf or {}), **{name.replace("__", "."): _text(value) for name, value in settings.items()}}
    _check_names(wanted)
    _prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    for name, value in with_connectors(_with_defaults(wanted), clouds, hadoop_version()).items():
        builder = builder.config(name, value)
    return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """Make a session ready: checks its version and tells it of shared tables; safe to call again."""
    check_version(spark.version)
    register_shares(spark)
    return spark


def hadoop_version() -> str:
    """The version of Hadoop that comes with PySpark, whose connectors must be of the same."""
    home = Path(os.environ.get("SPARK_HOME") or next(iter(pyspark.__path__)))
    for jar in sorted((home / "jars").glob("hadoop-client-api-*.jar")):
        return jar.stem.removeprefix("hadoop-client-api-")
    return _HADOOP_UNKNOWN


def check_version(version: str) -> None:
    """Refuse a Spark that this package was never tried with."""
    found = re.match(r"(\d+)\.(\d+)", version)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if not OLDEST_SPARK <= number <= NEWEST_SPARK:
        raise UnsupportedSparkError(
            f"This is Spark {version}; supported are 4.1 to 4.3. Install one: pip install 'pyspark>=4.1,<4.4'"
        )


def _with_defaults(wanted: Mapping[str, str]) -> dict[str, str]:
    local = wanted.get("spark.master", os.environ.get("MASTER", "local")).startswith("local")
    return {**_DEFAULTS, **(_LOCAL_DEFAULTS if local else {}), **wanted}


def _prepare_environment() -> None:
    """What must be set before the JVM starts; a cluster's own settings are left alone."""
    check_version(pyspark.__version__)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    runtime = find_java()
    os.environ["JAVA_HOME"] = str(runtime.home)


def _check_names(wanted: Mapping[str, str]) -> None:
    wrong = sorted(name for name in wanted if not name.startswith("spark."))
    if wrong:
        raise UnsupportedSparkError(
            f"{wrong[0]!r} is no setting of Spark: give names that start with 'spark.' in conf={{…}}, or by "
            "name with '__' for the dots, such as spark__sql__shuffle__partitions=4"
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
