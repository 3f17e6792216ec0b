"""The pages about Spark, and the README: their Python examples run, those of a page one after the other."""

from __future__ import annotations

import datetime
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.delta.table import DeltaTable

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs" / "spark").glob("*.md"))]
WITH_ORDERS = ("changing", "coming-from-delta-spark", "maintenance", "reading")
FIRST_COMMIT = datetime.datetime(2026, 10, 31, 18, tzinfo=datetime.UTC).timestamp()
DAY = datetime.date(2024, 5, 1)
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


def examples(page: Path) -> list[str]:
    found = [code for code in BLOCK.findall(page.read_text()) if "clouds=" not in code]  # a JVM's start
    return [code for code in found if "distributary.spark" in code] if page.name == "README.md" else found


def order(number: int) -> dict[str, object]:
    """An order, as the pages speak of them."""
    return {
        "id": number,
        "status": "test" if number % 5 == 0 else "paid",
        "country": "UK" if number % 2 else "FR",
        "customer": f"customer {number % 3}",
        "product": f"product {number % 4}",
        "address": {"street": "Long Lane", "checked": True},
        "archived": False,
        "day": DAY + datetime.timedelta(days=number % 2),
    }


def make_lake(folder: Path, *, with_orders: bool) -> None:
    """What the examples find: orders that arrived, a directory of Parquet files, a table with a history."""
    rows = pa.Table.from_pylist([{**order(number), "cancelled": number == 3} for number in range(8, 14)])
    (folder / "landing" / "orders").mkdir(parents=True)
    pq.write_table(rows, folder / "landing" / "orders" / "orders.parquet")
    lines = [json.dumps({**row, "day": str(row["day"])}) for row in rows.drop(["cancelled"]).to_pylist()]
    (folder / "arrived" / "orders").mkdir(parents=True)
    (folder / "arrived" / "orders" / "orders.json").write_text("\n".join(lines))
    (folder / "lake" / "old" / "day=2024-05-01").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), folder / "lake" / "old" / "day=2024-05-01" / "a.parquet")
    if with_orders:
        make_orders(folder / "lake" / "orders")


def make_orders(path: Path) -> None:
    schema = pa.Table.from_pylist([order(0)]).schema
    table = DeltaTable.create(path, schema, partition_by=["day"], properties=PROPERTIES)
    for number in range(12):
        table.append(pa.Table.from_pylist([order(number)], schema))
    for entry in (path / "_delta_log").glob("*.json"):
        moment = FIRST_COMMIT + int(entry.stem) * 3600
        os.utime(entry, (moment, moment))


def here(code: str, folder: Path) -> str:
    """The example with its places below a folder."""
    arrived = code.replace('read.json("/landing', f'read.json("{folder}/arrived')
    return re.sub(r"(?<=[\"`])/(lake|landing|checkpoints)/", rf"{folder}/\1/", arrived)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page_run_in_order(page, spark, tmp_path, monkeypatch):
    make_lake(tmp_path, with_orders=page.stem in WITH_ORDERS)
    monkeypatch.chdir(tmp_path)
    rows = spark.read.parquet(str(tmp_path / "landing" / "orders"))
    reader = spark.readStream.schema(rows.schema)
    names: dict[str, object] = {
        "__name__": "example",
        "spark": spark,
        "stream": reader.parquet(str(tmp_path / "landing" / "orders")),
    }
    for number, code in enumerate(examples(page)):
        exec(compile(here(code, tmp_path), f"{page.name}, example {number}", "exec"), names)
