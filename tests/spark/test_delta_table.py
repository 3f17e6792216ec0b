"""DeltaTable on Spark: delta-spark's names, from the builder to the vacuum, and names of tables."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.errors import TableExistsError, TableNotFoundError
from distributary.delta.table import DeltaTable as EngineTable
from distributary.errors import DistributaryError, InvalidInputError
from distributary.spark import DeltaTable, read_table, register_format, register_table, sql, write_table
from distributary.spark.errors import StatementError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(spark: SparkSession, path: Path) -> DeltaTable:
    return (
        DeltaTable.create(spark)
        .location(str(path))
        .addColumn("id", "bigint", nullable=False, comment="the id")
        .addColumn("v", "string")
        .addColumn("twice", "bigint", generatedAlwaysAs="id * 2")
        .partitionedBy("v")
        .property("who", "us")
        .comment("made by a builder")
        .execute()
    )


def rows(table: DeltaTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


def test_table_lives_from_builder_to_restore(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    path = tmp_path / "t"
    assert not DeltaTable.isDeltaTable(spark, str(path))
    table = made(spark, path)
    assert DeltaTable.isDeltaTable(spark, f"delta.`{path}`")
    with pytest.raises(TableExistsError):
        made(spark, path)
    sql(spark, f"INSERT INTO delta.`{path}` (id, v) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    table.alias("t").update("t.id = 1", {"t.v": "concat(t.v, '!')"})
    table.update(sf.col("id") == 2, {"v": sf.lit("two")})
    assert table.delete("id = 3").collect()[0].num_affected_rows == 1
    source = spark.createDataFrame([(2, "new"), (9, "nine")], "id bigint, v string")
    merged = (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedUpdate(set={"v": "s.v"})
        .whenNotMatchedInsert(values={"id": "s.id", "v": sf.col("s.v")})
        .whenNotMatchedBySourceDelete("t.id = 1")
        .execute()
        .collect()[0]
    )
    assert merged.asDict() == {
        "num_affected_rows": 3,
        "num_updated_rows": 1,
        "num_deleted_rows": 1,
        "num_inserted_rows": 1,
    }
    assert rows(table) == [(2, "new", 4), (9, "nine", 18)]
    history = table.history().collect()
    assert [row.operation for row in history][-2:] == ["WRITE", "CREATE TABLE"]
    assert history[0].operation == "MERGE"
    assert table.history(1).count() == 1
    detail = table.detail().collect()[0]
    assert (detail.partitionColumns, detail.description, detail.properties["who"]) == (
        ["v"],
        "made by a builder",
        "us",
    )
    assert table.optimize().where("v = 'new'").executeCompaction().count() == 1
    assert table.restoreToVersion(1).collect()[0].num_of_files_after_restore == 3
    assert rows(table) == [(1, "a", 2), (2, "b", 4), (3, "c", 6)]
    later = (datetime.datetime.now() + datetime.timedelta(days=1)).isoformat()
    with pytest.raises(Exception, match="future"):
        table.restoreToTimestamp(later)
    assert table.vacuum().collect() == []
    copy = table.cloneAtVersion(1, str(tmp_path / "copy"), properties={"x": "y"})
    assert rows(copy) == rows(table)
    shallow = table.clone(str(tmp_path / "shallow"), isShallow=True)
    assert shallow.detail().collect()[0].numFiles == 3
    assert rows(shallow) == rows(table)
    with pytest.raises(InvalidInputError, match="not dropped"):
        table.dropFeatureSupport("generatedColumns")
    with pytest.raises(InvalidInputError, match="hadoopConf"):
        DeltaTable.forPath(spark, str(path), {"fs.x": "y"})


def test_names_versions_and_changes_are_queried(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    sql(spark, f"CREATE TABLE delta.`{path}` (id INT) TBLPROPERTIES ('delta.enableChangeDataFeed' = true)")
    with pytest.raises(TableNotFoundError, match="register"):
        DeltaTable.forName(spark, "orders")
    register_table(spark, "orders", path)
    sql(spark, "INSERT INTO orders VALUES (1), (2)")
    sql(spark, "DELETE FROM orders WHERE orders.id = 1")
    assert DeltaTable.forName(spark, "ORDERS").toDF().count() == 1

    def ids(query: str) -> list[int]:
        return sorted(row[0] for row in sql(spark, query).collect())

    assert ids("SELECT orders.id FROM orders") == [2]
    assert ids("SELECT orders.id FROM orders VERSION AS OF 1") == [1, 2]
    assert ids("SELECT id, delta.*, extract(YEAR FROM current_date) FROM orders AS delta") == [2]
    assert ids(f"SELECT id FROM delta.`{path}@v1`") == [1, 2]
    assert ids(f"SELECT a.id FROM delta.`{path}` a JOIN orders VERSION AS OF 1 b ON a.id = b.id") == [2]
    assert ids(f"WITH x AS (SELECT * FROM delta.`{path}` VERSION AS OF 1 WHERE id > 1) SELECT * FROM x") == [
        2
    ]
    assert ids("SELECT id FROM table_changes('orders', 1, 2) WHERE _change_type = 'delete'") == [1]
    assert ids("SELECT id FROM orders TIMESTAMP AS OF (current_timestamp() + INTERVAL 0 SECONDS)") == [2]
    sql(spark, f"CREATE OR REPLACE TEMP VIEW older AS SELECT * FROM delta.`{path}` VERSION AS OF 1")
    assert spark.table("older").count() == 2
    sql(spark, "DROP TABLE orders")
    with pytest.raises(TableNotFoundError):
        DeltaTable.forName(spark, "orders")
    with pytest.raises(StatementError, match="character 8"):
        sql(spark, "DELETE orders")


def test_builders_replace_and_keep_the_history(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        DeltaTable.replace(spark).location(path).addColumn("a", "int").execute()
    DeltaTable.createOrReplace(spark).location(path).addColumn("a", "int").clusterBy("a").execute()
    assert DeltaTable.forPath(spark, path).detail().collect()[0].clusteringColumns == ["a"]
    before = EngineTable(path).snapshot().metadata.id
    sql(spark, f"INSERT INTO delta.`{path}` VALUES (1)")
    DeltaTable.createIfNotExists(spark).location(path).addColumn("b", "int").execute()
    table = DeltaTable.replace(spark).location(path).addColumns(spark.range(0).schema).execute()
    assert rows(table) == []
    assert table.toDF().columns == ["id"]
    assert EngineTable(path).snapshot().metadata.id == before
    assert table.detail().collect()[0].clusteringColumns == []
    with pytest.raises(InvalidInputError, match="identity"):
        DeltaTable.create(spark).addColumn("x", "bigint", generatedByDefaultAs=object())


def test_directory_of_parquet_becomes_a_table_with_manifests(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "files"
    spark.range(4).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(str(path))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`", "p int")
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    table.generate("symlink_format_manifest")
    table.delete("p = 0")
    sql(spark, f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`")
    assert not (path / "_symlink_format_manifest" / "p=0" / "manifest").exists()
    manifest = path / "_symlink_format_manifest" / "p=1" / "manifest"
    assert all(Path(line.removeprefix("file:")).is_file() for line in manifest.read_text().splitlines())


def test_format_reads_and_writes_once(spark: SparkSession, tmp_path: Path) -> None:
    register_format(spark)
    path = str(tmp_path / "t")
    data = spark.range(6).selectExpr("id", "id % 2 AS p", "timestamp_millis(id) AS at", "struct(id) AS s")
    data.write.format("distributary").mode("append").option("partitionBy", "p").save(path)
    for _ in range(2):
        more = spark.range(6, 8).selectExpr("id", "7L AS p").write.format("distributary").mode("append")
        more.option("txnAppId", "job").option("txnVersion", "1").save(path)
    written = spark.range(1).selectExpr("100L AS id", "7L AS p").write.format("distributary")
    written.mode("overwrite").option("replaceWhere", "p = 7").save(path)
    reader = spark.read.format("distributary")
    assert sorted(row.id for row in reader.load(path).collect()) == [0, 1, 2, 3, 4, 5, 100]
    assert reader.option("versionAsOf", "1").load(path).count() == 8
    assert reader.load(path).filter("at = timestamp_millis(3)").select("s.id").collect()[0].id == 3
    assert EngineTable(path).version() == 2
    bad = spark.range(8).selectExpr("id", "if(id = 7, raise_error('boom'), 1L) AS p").coalesce(1)
    with pytest.raises(Exception, match="boom"):
        bad.write.format("distributary").mode("append").save(path)
    assert EngineTable(path).version() == 2
    with pytest.raises(Exception, match="no column"):
        spark.range(1).toDF("other").write.format("distributary").mode("append").save(path)


def test_shallow_clone_is_read_natively_where_its_source_is_allowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, clone = tmp_path / "so urce", tmp_path / "clone"
    write_table(spark.range(0, 8, 1, 2), str(source), properties={"delta.enableDeletionVectors": "true"})
    DeltaTable.forPath(spark, str(source)).delete("id = 3")
    EngineTable(source).clone(clone, shallow=True)
    with pytest.raises(DistributaryError, match="allowed_roots"):
        read_table(spark, str(clone)).collect()
    frame = read_table(spark, str(clone), allowed_roots=[str(source)])
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2, 4, 5, 6, 7]
    assert [row.id for row in frame.filter("id > 6").collect()] == [7]
    assert "Batched: true" in frame._jdf.queryExecution().toString()
    spark.conf.set("spark.distributary.allowedRoots", str(source))
    try:
        copy = DeltaTable.forPath(spark, str(clone))
        copy.delete("id = 5")
        copy.update("id = 6", {"id": "60"})
        copy.optimize().executeCompaction()
        assert sorted(row.id for row in copy.toDF().collect()) == [0, 1, 2, 4, 7, 60]
    finally:
        spark.conf.unset("spark.distributary.allowedRoots")
    assert read_table(spark, str(source)).count() == 7
