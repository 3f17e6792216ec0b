"""The sample lake of the demo: three tables that a small Spark pipeline makes.

- `orders`, by country: created, appended to day by day, corrected by a merge, two orders deleted. Deletion
  vectors and the change feed are on, so there is something to travel to and something to follow.
- `customers`, kept up to date by a merge.
- `revenue`, computed from `orders` and overwritten.

What each version of `orders` must hold comes with it, so that any way of reading it can be checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.cli.sample_table import COUNTRIES, DELETED_ORDERS, SCHEMA, date_commit, new_orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

APPENDS = 3
LATE_ORDERS = 2
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
CUSTOMERS = (("Ada", "London"), ("Blaise", "Paris"), ("Carl", "Göttingen"), ("Emmy", "Erlangen"))
MOVED = (("Emmy", "Bryn Mawr"), ("Sofja", "Stockholm"))


@dataclass(frozen=True, slots=True)
class SampleLake:
    """Where the tables lie, and which rows each version of `orders` has."""

    folder: Path
    orders_by_version: tuple[tuple[Row, ...], ...]

    @property
    def orders(self) -> Path:
        """The table that has a history."""
        return self.folder / "orders"

    @property
    def tables(self) -> tuple[Path, ...]:
        """All of them."""
        return tuple(self.folder / name for name in ("orders", "customers", "revenue"))


def make_sample_lake(spark: SparkSession, folder: Path) -> SampleLake:
    """Run the pipeline into a folder that has no tables yet."""
    orders = folder / "orders"
    versions = [_create_orders(spark, orders)]
    for version in range(1, APPENDS + 1):
        versions.append(_append_orders(spark, orders, version, versions[-1]))
    versions.append(_correct_orders(spark, orders, versions[-1]))
    versions.append(_delete_orders(spark, orders, versions[-1]))
    for version in range(len(versions)):
        date_commit(orders, version)
    _keep_customers(spark, folder / "customers")
    _compute_revenue(spark, orders, folder / "revenue")
    return SampleLake(folder, tuple(versions))


def _create_orders(spark: SparkSession, path: Path) -> tuple[Row, ...]:
    from distributary.spark import write_table

    write_table(_frame(spark, ()), str(path), mode="error", partition_by=["country"], properties=PROPERTIES)
    return ()


def _append_orders(spark: SparkSession, path: Path, version: int, known: Sequence[Row]) -> tuple[Row, ...]:
    from distributary.spark import write_table

    rows = new_orders(version)
    write_table(_frame(spark, rows), str(path), mode="append")
    return (*known, *rows)


def _correct_orders(spark: SparkSession, path: Path, known: Sequence[Row]) -> tuple[Row, ...]:
    """Merge corrections: the orders of the first country cost a euro less, and some come late."""
    from distributary.spark import DeltaTable

    cheaper = [
        {**row, "amount": row["amount"] - Decimal("1.00")} for row in known if row["country"] == COUNTRIES[0]
    ]
    late = new_orders(APPENDS + 1)[:LATE_ORDERS]
    source = _frame(spark, [*cheaper, *late])
    merge = (
        DeltaTable.forPath(spark, str(path)).alias("o").merge(source.alias("c"), "o.order_id = c.order_id")
    )
    merge.whenMatchedUpdate(set={"amount": "c.amount"}).whenNotMatchedInsertAll().execute()
    corrected = {row["order_id"]: row for row in cheaper}
    return (*(corrected.get(row["order_id"], row) for row in known), *late)


def _delete_orders(spark: SparkSession, path: Path, known: Sequence[Row]) -> tuple[Row, ...]:
    from distributary.spark import DeltaTable

    numbers = ", ".join(map(str, sorted(DELETED_ORDERS)))
    DeltaTable.forPath(spark, str(path)).delete(f"order_id IN ({numbers})")
    return tuple(row for row in known if row["order_id"] not in DELETED_ORDERS)


def _keep_customers(spark: SparkSession, path: Path) -> None:
    from distributary.spark import DeltaTable, write_table

    columns = ["name", "city"]
    write_table(spark.createDataFrame(list(CUSTOMERS), columns).coalesce(1), str(path), mode="error")
    news = spark.createDataFrame(list(MOVED), columns)
    merge = DeltaTable.forPath(spark, str(path)).alias("c").merge(news.alias("n"), "c.name = n.name")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _compute_revenue(spark: SparkSession, orders: Path, path: Path) -> None:
    from distributary.spark import read_table, write_table

    rows = read_table(spark, str(orders)).groupBy("country").agg({"amount": "sum", "*": "count"})
    named = rows.toDF("country", *("revenue" if "sum" in name else "orders" for name in rows.columns[1:]))
    write_table(named.coalesce(1), str(path), mode="overwrite")


def _frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    table = pa.Table.from_pylist([dict(row) for row in rows], SCHEMA)
    return spark.createDataFrame(table).coalesce(1)
