"""Clouds: the recipe of each connector, the error where it is missing, and a table on an S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
from distributary.errors import InvalidInputError
from distributary.spark import read_table, write_stream, write_table
from distributary.spark.cloud_connectors import CONNECTORS, hadoop_options, with_connectors
from distributary.spark.delete_update import delete
from distributary.spark.errors import MissingConnectorError
from distributary.spark.optimize import optimize
from distributary.storage.object_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROJECT = Path(__file__).resolve().parents[2]

# All that the connector is told comes with the calls: the session has no setting for S3.
PROGRAM = """
import json, sys
from distributary.spark import DeltaTable, read_table, session, write_table
from distributary.spark.delete_update import delete, update
from distributary.spark.optimize import optimize
from distributary.spark.vacuum import vacuum
options = json.loads(sys.stdin.read())
spark = session(conf={"spark.master": "local[2]", "spark.driver.memory": "800m"}, clouds=["s3"])
path = sys.argv[1]
write_table(spark.range(3).toDF("id").selectExpr("id", "'a' v"), path, storage_options=options)
write_table(spark.range(3, 6).toDF("id").selectExpr("id", "'b' v"), path, storage_options=options)
source = spark.range(5, 8).toDF("id").selectExpr("id", "'c' v").alias("s")
table = DeltaTable.forPath(spark, path, storage_options=options)
table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
update(spark, path, {"v": "'d'"}, "id = 1", storage_options=options)
delete(spark, path, "id = 0", storage_options=options)
optimize(spark, path, storage_options=options)
vacuum(spark, path, 0, force=True, storage_options=options)
frame = read_table(spark, path, storage_options=options)
print("RESULT", sorted(map(list, frame.filter("id > 0").collect())), len(frame.inputFiles()))
spark.stop()
"""


def test_recipe_of_s3_leaves_the_large_bundle_out() -> None:
    settings = with_connectors({"spark.jars.packages": "a:b:1"}, ["s3"], "3.5.0")
    assert settings["spark.jars.packages"].startswith("a:b:1,org.apache.hadoop:hadoop-aws:3.5.0,")
    assert settings["spark.jars.excludes"] == "software.amazon.awssdk:bundle"


def test_unknown_cloud_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="known are s3, abfss, gs"):
        with_connectors({}, ["ftp"], "3.5.0")


def test_storage_options_become_settings_of_the_connector() -> None:
    options = {"access_key_id": "k", "secret_access_key": "s", "region": "eu-west-1"}
    found = hadoop_options(open_store("s3://lake/t", {**options, "endpoint": "http://127.0.0.1:9"}))
    assert found["fs.s3a.access.key"] == "k"
    assert found["fs.s3a.endpoint.region"] == "eu-west-1"
    assert found["fs.s3a.path.style.access"] == "true"
    assert found["fs.s3a.connection.ssl.enabled"] == "false"
    assert "Simple" in found["fs.s3a.aws.credentials.provider"]
    temporary = hadoop_options(open_store("s3://lake/t", {**options, "session_token": "x"}))
    assert "Temporary" in temporary["fs.s3a.aws.credentials.provider"]
    assert hadoop_options(open_store("/lake/t")) == {}


def test_session_without_connector_says_how_to_get_it(spark: SparkSession, moto_server: Any) -> None:
    uri = moto_server.uri("spark/none")
    table = ds.DeltaTable.create(
        uri, pa.schema([("id", pa.int64())]), storage_options=moto_server.storage_options
    )
    options = {"storage_options": moto_server.storage_options}
    for attempt in (
        lambda: read_table(spark, uri, **options),
        lambda: write_table(spark.range(1), uri, **options),
        lambda: delete(spark, uri, **options),
        lambda: optimize(spark, uri, **options),
        lambda: write_stream(_stream(spark), uri, checkpoint_location="unused", **options),
    ):
        with pytest.raises(MissingConnectorError) as error:
            attempt()
        assert "clouds=['s3']" in str(error.value)
        assert "org.apache.hadoop:hadoop-aws:" in str(error.value)
        assert moto_server.secret_key not in str(error.value)
    assert table.version() == 0
    assert set(CONNECTORS) == {"s3", "abfss", "gs"}


def _stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


@pytest.mark.slow
def test_table_on_s3_is_written_changed_and_read_through_the_slim_connector(versitygw_server: Any) -> None:
    options = dict(versitygw_server.storage_options)
    uri = versitygw_server.uri("spark/orders")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri],
        input=json.dumps(options),
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if "unresolved dependenc" in done.stderr or "download failed" in done.stderr:
        pytest.skip("the connector cannot be fetched here")
    rows = [[1, "d"], [2, "a"], [3, "b"], [4, "b"], [5, "c"], [6, "c"], [7, "c"]]
    assert f"RESULT {rows} 1" in done.stdout, done.stderr[-3000:]
    table = ds.DeltaTable(uri, options)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == list(range(1, 8))
    left = [meta.path for meta in table.store.list_all() if not meta.path.startswith("_delta_log/")]
    assert len(left) == 1
