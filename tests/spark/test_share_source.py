"""format("deltaSharing") on a classic session: rows, changes, options, hints, and secrets unseen."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import distributary as ds
import distributary.client as delta_sharing
from distributary.spark.share_source import ShareSource

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from scripted_server import SIGNATURE, TOKEN, Reply, ScriptedServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = {"connection.retry_seconds": "2"}
ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "day": [f"2024-01-0{1 + at // 10}" for at in range(40)],
        "name": pa.array([None if at % 7 == 0 else f"name {at}" for at in range(40)]),
        "at": pa.array([at * 3_600_000_000 for at in range(40)], pa.timestamp("us", "UTC")),
    }
)
# Types, nesting, deletion vectors and mapped columns, as other writers have written them.
CORPUS = (
    "dat__all_primitive_types",
    "dat__nested_types",
    "golden__table-with-columnmapping-mode-id",
    "kernelrs__void-column",
    "kernelrs__with-short-dv",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    table = ds.DeltaTable.create(
        folder / "sales",
        schema=ROWS.schema,
        partition_by=["day"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table.append(ROWS)
    table.append(ROWS.slice(5, 1))
    return folder


@pytest.fixture
def server(lake: Path):
    served = ScriptedServer(lake, "delta")
    yield served
    served.close()


@pytest.fixture
def load(spark: SparkSession, server: ScriptedServer):
    """Loads a table of the server, which is told by options."""

    def loaded(table: str = "sales", **options: Any) -> DataFrame:
        reader = spark.read.format("deltaSharing").options(**server.profile, **QUICK, **options)
        return reader.load(f"s.c.{table}")

    return loaded


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_both_formats_give_the_rows_in_several_tasks(load, server, format):
    """CL-011, CL-016: partition values come from the answer, in either format."""
    server.format = format
    frame = load(responseFormat=format, bytesPerTask="5m")
    assert ids(frame) == sorted([*range(40), 5])
    assert frame.rdd.getNumPartitions() > 1
    assert frame.filter("id = 5").select("day", "name").distinct().collect() == [("2024-01-01", "name 5")]


def test_tables_of_other_writers_give_what_the_engine_gives(spark, delta_tables):
    """CL-012: deletion vectors, mapped columns, nested and all primitive types."""
    server = ScriptedServer(delta_tables.tables, "delta")
    try:
        for name in CORPUS:
            expected = ds.DeltaTable(delta_tables.tables / name).snapshot().to_arrow()
            reader = spark.read.format("deltaSharing").options(**server.profile)
            found = reader.options(**QUICK).load(f"s.c.{name}")
            assert _texts(found.toArrow()) == _texts(expected), name
    finally:
        server.close()


def _texts(table: pa.Table) -> list[str]:
    return sorted(repr(list(row.values())) for row in table.to_pylist())


def test_filters_are_hints_prune_files_and_stay_exact(load, server):
    """CL-005: what the server does with hints changes nothing but the bytes that move."""
    frame = load().filter("day = '2024-01-02' AND id > 12 AND name IS NOT NULL AND id % 2 = 0")
    assert ids(frame) == [16, 18]
    body = server.asked_for("/query")[-1].json
    assert "day = '2024-01-02'" in body["predicateHints"]
    assert "id > 12" in body["predicateHints"]
    # The scripted server ignores hints: what is not needed is left out here.
    assert {asked.path.split("/")[3] for asked in server.downloads} == {"day=2024-01-02"}


def test_filters_of_every_kind_give_what_spark_gives(load):
    frame = load()
    rows = [row.asDict() for row in frame.collect()]
    checks = {
        "id IN (1, 3, 99)": lambda row: row["id"] in (1, 3, 99),
        "name IS NULL": lambda row: row["name"] is None,
        "NOT (name = 'name 3')": lambda row: row["name"] not in (None, "name 3"),
        "name <=> NULL": lambda row: row["name"] is None,
        "name LIKE 'name 1%'": lambda row: (row["name"] or "").startswith("name 1"),
        "at >= TIMESTAMP '1970-01-01 20:00:00 UTC'": lambda row: row["id"] >= 20,
    }
    for text, matches in checks.items():
        assert ids(frame.filter(text)) == sorted(row["id"] for row in rows if matches(row)), text


def test_columns_are_chosen_by_an_option_or_a_schema(load, spark, server):
    assert load(columns="name, ID").columns == ["name", "id"]
    reader = spark.read.format("deltaSharing").options(**server.profile)
    assert ids(reader.schema("id long").load("s.c.sales")) == sorted([*range(40), 5])
    with pytest.raises(Exception, match="load the table again"):
        reader.schema("id string").load("s.c.sales").collect()


def test_urls_that_expired_are_renewed_by_the_tasks_with_the_token_of_the_answer(load, server):
    """CL-017: no URL of the first answer works any more when tasks begin."""
    server.refresh_tokens = True
    server.script = lambda asked: (
        Reply(403, b"expired")
        if asked.path.startswith("/files/") and len(server.asked_for("/query")) < 2
        else None
    )
    assert ids(load()) == sorted([*range(40), 5])
    bodies = [asked.json for asked in server.asked_for("/query")]
    assert bodies[0]["includeRefreshToken"] is True
    assert "refreshToken" not in bodies[0]
    assert bodies[1]["refreshToken"] == "fresh-2"


def test_secrets_are_in_no_plan_and_no_repr(load, server, capfd):
    """PF-009."""
    frame = load().filter("id > 3")
    frame.explain("formatted")
    frame.explain(True)
    frame.collect()
    source = ShareSource({**server.profile, "path": "s.c.sales", "shareCredentialsVersion": "1"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    pickle.loads(pickle.dumps(parts))
    texts = [repr(source), repr(parts), str(vars(reader)), str(source.__dict__["_loaded"])]
    captured = capfd.readouterr()
    for text in (*texts, captured.out, captured.err, frame._jdf.queryExecution().toString()):
        assert TOKEN not in text
        assert SIGNATURE not in text


def test_wrong_options_are_told_before_anything_is_read(load, spark):
    for options, message in (
        ({"responseFormat": "csv"}, "responseFormat must be"),
        ({"versionAsOf": "two"}, "versionAsOf must be a whole number"),
        ({"columns": "id, nothing"}, "option columns names 'nothing'"),
        ({"readChangeFeed": "perhaps"}, "readChangeFeed must be true or false"),
    ):
        with pytest.raises(Exception, match=message):
            load(**options).collect()
    with pytest.raises(Exception, match=r"write share\.schema\.table"):
        spark.read.format("deltaSharing").load("/nowhere/profile.share#sales")


def test_snapshot_of_the_client_becomes_a_frame(spark, server):
    with delta_sharing.SharingClient(server.profile, retry_seconds=2.0) as client:
        table = client.table("s.c.sales")
        rows = table.snapshot().where("id >= 30 OR name IS NULL").select("name", "id")
        frame = rows.to_spark(spark)
        assert frame.columns == ["name", "id"]
        assert ids(frame) == sorted(rows.to_arrow().column("id").to_pylist())
        assert table.snapshot().limit(3).to_spark().count() == 3
        changes = table.changes(2).to_spark()
        assert [tuple(row) for row in changes.select("id", "_change_type", "_commit_version").collect()] == [
            (5, "insert", 2)
        ]


def test_functions_of_the_official_client_load_frames(spark, server, tmp_path):
    profile = tmp_path / "p.share"
    profile.write_text(json.dumps(server.profile))
    profile.chmod(0o600)
    assert ids(delta_sharing.load_as_spark(f"{profile}#s.c.sales")) == sorted([*range(40), 5])
    found = delta_sharing.load_table_changes_as_spark(f"{profile}#s.c.sales", 1, 1)
    assert found.filter("_change_type = 'insert'").count() == 40
