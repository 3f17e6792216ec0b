"""What Spark wrote through us, read by deltalake: rows, partitions, and statistics that it skips files by."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

PROJECT = Path(__file__).resolve().parents[3]
if str(PROJECT / "tests" / "interop") not in sys.path:
    sys.path.insert(0, str(PROJECT / "tests" / "interop"))

from peers.content import content, difference  # noqa: E402
from peers.process import Peer  # noqa: E402

from distributary.delta.table import DeltaTable  # noqa: E402
from distributary.spark.optimize import optimize  # noqa: E402
from distributary.spark.table_write import write_table  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = """
SELECT id, double(id) / 3 AS d, cast(id AS decimal(20, 3)) AS m, concat('é', id) AS s, id % 2 = 0 AS f,
       timestamp_micros(1577836800123456 + id) AS ts, date_add(date'1999-12-31', int(id)) AS day,
       if(id % 3 = 0, NULL, array(id, NULL)) AS a, map('k', id) AS map, named_struct('x', id, 'y', 'z') AS st,
       element_at(array('FR', 'a b/c=%', NULL), int(id % 3) + 1) AS p, date'2020-02-29' AS q
FROM range(0, 60, 1, 3)"""


@pytest.fixture(scope="module")
def deltalake(peer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """deltalake (delta-rs) in a process of its own."""
    server = PROJECT / "tests" / "interop" / "peers" / "deltalake_server.py"
    folder = tmp_path_factory.mktemp("deltalake")
    with Peer("deltalake", [str(peer_python), str(server)], folder, {"TZ": "UTC"}) as peer:
        yield peer


def check(deltalake: Peer, path: Path) -> None:
    found = content(deltalake.rows(path))
    expected = content(DeltaTable(path).snapshot().to_arrow())
    assert found == expected, difference(found, expected)


def test_deltalake_reads_what_spark_writes_replaces_and_rearranges(
    spark: SparkSession, deltalake: Peer, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_table(spark.sql(ROWS), str(path), partition_by=["p", "q"])
    check(deltalake, path)
    assert sorted(deltalake.ask("matching", path=str(path), condition="id between 20 and 22")) == [20, 21, 22]
    replaced = spark.sql(ROWS).filter("id > 50").withColumnRenamed("id", "ID")
    write_table(replaced, str(path), "overwrite", replace_where="id > 50")
    write_table(
        spark.sql(ROWS).filter("p = 'FR'").limit(5), str(path), "overwrite", partition_overwrite="dynamic"
    )
    check(deltalake, path)
    optimize(spark, str(path), z_order_by=["id", "s"])
    check(deltalake, path)
    wider = spark.sql("SELECT 1000L AS id, 'new' AS extra")
    write_table(wider, str(path), merge_schema=True)
    check(deltalake, path)


def test_deltalake_reads_and_appends_to_a_table_with_mapped_columns(
    spark: SparkSession, deltalake: Peer, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    frame = spark.sql("SELECT id AS `the id`, named_struct('a b', id) AS st, id % 2 AS p FROM range(6)")
    write_table(frame, str(path), partition_by=["p"], properties={"delta.columnMapping.mode": "name"})
    check(deltalake, path)
