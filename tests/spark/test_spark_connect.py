"""Spark Connect: shares, streams and the format work without a JVM in the process; others say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds

sys.path.insert(0, str(Path(__file__).parent))

from shared_lake import shared_lake

PROGRAM = Path(__file__).parent / "programs" / "connect_session.py"
SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_shares_streams_and_the_format_work_over_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    path = tmp_path / "lake" / "numbers"
    table = ds.DeltaTable.create(path, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for ids in ((1, 2), (3, 4)):
        table.append(pa.table({"id": ids, "name": [str(each) for each in ids]}))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_LOCAL_HOSTNAME"] = "localhost"
    with shared_lake(tmp_path) as lake:
        command = [sys.executable, str(PROGRAM), lake.url("numbers"), str(path), str(tmp_path / "out")]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280
        )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["kind"].startswith("pyspark.sql.connect")
    assert result["shared"] == [3, 4]
    assert result["shared_stream"] == [1, 2, 3, 4]
    assert result["format"] == result["table_stream"] == [1, 2, 3, 4, 10, 11]
    assert result["by_paths"] == [1, 2, 3, 4, 10]
    for refused in result["refused"]:
        assert refused.startswith("UNSUPPORTED_SPARK: ")
        assert "format('distributary')" in refused
