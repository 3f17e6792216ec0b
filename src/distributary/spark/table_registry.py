"""Names of tables: a session's own short names for paths.

``register_table(spark, "orders", "/lake/orders")`` lets statements say ``orders`` in place of
``delta.`/lake/orders` ``. Names belong to the session (they are settings of it), ignore case, and are gone
with it; a table that was given a name and no place lies in Spark's warehouse and is found there again. A
temporary view of the same name makes plain ``spark.sql("SELECT … FROM orders")`` work; it shows the version
of when it was made, and is made anew by each statement of ours that names the table.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from distributary.delta.errors import TableNotFoundError
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark.table_scan import read_table

_SETTING = "spark.distributary.tables."
_NAME = re.compile(r"\w+")
_PATH = re.compile(r"\s*delta\s*\.\s*`((?:[^`]|``)+)`\s*", re.IGNORECASE)


def register_table(spark: SparkSession, name: str, path: str) -> None:
    """Give a path a name in this session; a name that is there already gets the new path."""
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(f"{name!r} is no name for a table: use letters, digits and _, without dots.")
    spark.conf.set(_SETTING + name.lower(), str(path))
    refresh_view(spark, name)


def forget_table(spark: SparkSession, name: str) -> None:
    """Take a name away; the table stays."""
    registered_path(spark, name)
    spark.conf.unset(_SETTING + name.lower())
    spark.catalog.dropTempView(name)


def registered_path(spark: SparkSession, name: str) -> str:
    """The path of a name."""
    found = find_registered(spark, name)
    if found is None and _NAME.fullmatch(name) and DeltaTable.exists(default_location(spark, name)):
        return default_location(spark, name)
    if found is None:
        raise TableNotFoundError(
            f"No table is registered as {name!r} in this session. Register it, "
            f"register_table(spark, {name!r}, path), or write delta.`path`."
        )
    return found


def find_registered(spark: SparkSession, name: str) -> str | None:
    """The path of a name, or nothing."""
    return spark.conf.get(_SETTING + name.lower(), None) if _NAME.fullmatch(name) else None


def default_location(spark: SparkSession, name: str) -> str:
    """Where a table goes that has a name and no place: into Spark's warehouse."""
    warehouse = spark.conf.get("spark.sql.warehouse.dir") or "spark-warehouse"
    return f"{warehouse.rstrip('/')}/{name.lower()}"


def path_in(identifier: str) -> str | None:
    """The path of ``delta.`path` ``; nothing for a name."""
    found = _PATH.fullmatch(identifier)
    return None if found is None else found[1].replace("``", "`")


def path_of(spark: SparkSession, identifier: str) -> str:
    """The path of ``delta.`path` `` or of a registered name."""
    found = path_in(identifier)
    return registered_path(spark, identifier) if found is None else found


def refresh_view(spark: SparkSession, name: str) -> None:
    """Let the view of a name show the latest version."""
    read_table(spark, registered_path(spark, name)).createOrReplaceTempView(name)
