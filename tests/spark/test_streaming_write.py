"""Streams written to a table: each batch once, also when it is run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError
from distributary.spark.streaming_write import write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = {"availableNow": True}


def test_batches_are_written_once_over_restarts_and_repeats(spark: SparkSession, tmp_path: Path) -> None:
    """LW-012."""
    source, path, checkpoint = (str(tmp_path / name) for name in ("source", "t", "checkpoint"))
    spark.range(0, 5, 1, 1).write.mode("append").parquet(source)
    stream = spark.readStream.schema("id long").parquet(source)
    with pytest.raises(InvalidInputError, match="no stream"):
        write_stream(spark.range(1), path, checkpoint_location=checkpoint)

    def run() -> None:
        query = write_stream(stream, path, checkpoint_location=checkpoint, trigger=NOW)
        assert query.awaitTermination(120)
        assert query.exception() is None

    run()
    spark.range(5, 10, 1, 1).write.mode("append").parquet(source)
    run()
    assert sorted(DeltaTable(path).snapshot().to_arrow()["id"].to_pylist()) == list(range(10))
    assert DeltaTable(path).version() == 1
    # The last batch was committed, but Spark does not know: the same batch is run again and skipped.
    (Path(checkpoint) / "commits" / "1").unlink()
    (Path(checkpoint) / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    assert DeltaTable(path).version() == 1
    entry = (Path(path) / "_delta_log" / f"{1:020}.json").read_text()
    txn = next(json.loads(line)["txn"] for line in entry.splitlines() if '"txn"' in line[:6])
    metadata = json.loads((Path(checkpoint) / "metadata").read_text())
    assert (txn["appId"], txn["version"]) == (metadata["id"], 1)
