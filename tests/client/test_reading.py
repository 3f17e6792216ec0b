"""Rows of shared tables, in both formats, through the engine's reader."""

from __future__ import annotations

import asyncio
import datetime
import re
import threading

import pyarrow as pa
import pytest
from scripted_server import Reply, ScriptedServer, lines

import distributary as ds
from distributary.client import col
from distributary.delta.errors import UnsupportedFeatureError
from distributary.errors import InvalidInputError, UnknownColumnError


def sales(client):
    return client.table("s.c.sales").snapshot()


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("id").to_pylist())


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    order = [(name, "ascending") for name in left.column_names[:1]]
    return left.sort_by(order).equals(right.sort_by(order))


def test_all_rows_are_those_of_the_table(server, connect, lake):
    """Both formats give what the table itself gives (CL-001, CL-011, CL-016)."""
    found = sales(connect(server)).to_arrow()
    assert same_rows(found, ds.DeltaTable(lake / "sales").snapshot().to_arrow())
    tokens = {asked.headers.get("authorization") for asked in server.asked if "/files/" not in asked.path}
    assert len(tokens) == 1


def test_predicates_are_hinted_and_enforced(server, connect):
    """The server ignores the hints, and only the rows wanted come (CL-005)."""
    rows = sales(connect(server)).where("day = '2024-01-02'", col("id") >= 13).select("name", "id")
    found = rows.to_arrow()
    assert found.column_names == ["name", "id"]
    assert ids(found) == [13, 14, 15, 16, 17, 18, 19]
    body = server.asked_for("/query")[-1].json
    assert body["predicateHints"] == ["day = '2024-01-02'", "id >= 13"]
    assert '"valueType":"date"' in body["jsonPredicateHints"]
    assert len(server.downloads) == 1


def test_a_predicate_takes_one_question_where_its_constants_tell_the_types(server, connect):
    """CL-005: whole numbers of any range, texts; other types are put right by the answer's first lines."""
    rows = sales(connect(server))
    assert ids(rows.where("id > 57", "name <> 'x'").to_arrow()) == [58, 59]
    assert len(server.asked_for("/query")) == 1
    assert ids(rows.where("day = '2024-01-02'", "id < 12").to_arrow()) == [10, 11]
    bodies = [asked.json["jsonPredicateHints"] for asked in server.asked_for("/query")]
    assert ['"valueType":"date"' in body for body in bodies] == [False, False, True]
    assert not server.asked_for("/metadata")


def test_a_server_that_refuses_guessed_hints_is_asked_for_the_columns(plain_server, connect):
    refused = Reply(400, lines({"errorCode": "INVALID_PARAMETER_VALUE", "message": "no such type"}))
    answers = [refused]
    plain_server.script = lambda asked: answers.pop() if answers and asked.path.endswith("/query") else None
    assert ids(sales(connect(plain_server)).where("id > 57").to_arrow()) == [58, 59]
    assert len(plain_server.asked_for("/metadata")) == 1


def test_limit_is_hinted_without_a_predicate_only(server, connect):
    """CL-005, FLT-010: with a predicate a limit would count other rows."""
    client = connect(server)
    assert sales(client).limit(3).to_arrow().num_rows == 3
    assert server.asked_for("/query")[-1].json["limitHint"] == 3
    assert ids(sales(client).where("id > 57").limit(5).to_arrow()) == [58, 59]
    assert "limitHint" not in server.asked_for("/query")[-1].json
    assert sales(client).limit(0).to_arrow().num_rows == 0


def test_every_frame_has_the_rows(server, connect):
    client = connect(server)
    assert len(sales(client).to_pandas()) == 60
    assert sales(client).to_polars().height == 60
    assert sales(client).to_duckdb().aggregate("count(*)").fetchall() == [(60,)]
    assert sum(batch.num_rows for batch in sales(client).to_record_batches()) == 60
    assert sales(client).to_record_batch_reader().read_all().num_rows == 60


def test_lazy_frame_asks_for_what_it_needs(server, connect):
    import polars as pl

    lazy = sales(connect(server)).to_lazy()
    assert lazy.select("id").head(2).collect().shape == (2, 1)
    found = lazy.filter(pl.col("day") == datetime.date(2024, 1, 3)).select("id").collect()
    assert sorted(found["id"].to_list()) == list(range(20, 30))


def test_calls_can_be_awaited(server, connect):
    async def read() -> tuple[int, int, int]:
        client = connect(server)
        shares = await client.list_shares_async()
        table = await sales(client).to_arrow_async()
        rows = 0
        async for batch in sales(client).to_record_batches_async():
            rows += batch.num_rows
        return len(shares), table.num_rows, rows

    assert asyncio.run(read()) == (1, 60, 60)


def test_many_threads_share_a_client(server, connect):
    client, found = connect(server), []
    threads = [threading.Thread(target=lambda: found.append(ids(sales(client).to_arrow()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(60))] * 6


def test_explain_tells_hints_and_files(server, connect):
    plan = sales(connect(server)).where("day < '2024-01-03'", "abs(amount) > 3").explain()
    assert (plan.offered_files, plan.needed_files) == (6, 2)
    assert plan.predicate_hints == ("day < '2024-01-03'",)
    assert [reason for _, reason in plan.hints_not_sent] == [
        "hints cannot compute; compare the column itself with a constant"
    ]
    assert not server.downloads
    assert "needed   2 files" in str(plan)


def test_columns_of_large_files_are_read_by_ranges(server, connect, lake):
    """Projection and ranges: a twelfth of the columns costs a fraction of the bytes."""
    client = connect(server)
    found = client.table("s.c.wide").snapshot().select("c03").to_arrow()
    assert found.num_rows == 200_000
    assert sum(found.column("c03").to_pylist()[:3]) == 12
    spans = [asked.headers.get("range") for asked in server.downloads]
    assert None not in spans


def test_the_first_rows_of_a_large_file_cost_little(server, connect, lake):
    """A small limit reads columns from their start, in pieces."""
    found = connect(server).table("s.c.wide").snapshot().limit(10).to_arrow()
    assert found.num_rows == 10
    spans = [re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers["range"]) for asked in server.downloads]
    moved = sum(int(span[2]) - int(span[1]) + 1 for span in spans if span)
    size = sum(path.stat().st_size for path in (lake / "wide").glob("*.parquet"))
    assert moved < size * 0.7


def test_connections_are_kept(server, connect):
    """Questions share a connection, and so do files."""
    client = connect(server, workers=1)
    assert sales(client).to_arrow().num_rows == sales(client).to_arrow().num_rows
    assert len({asked.port for asked in server.downloads}) == 1
    assert len({asked.port for asked in server.asked_for("/query")}) == 1


def test_rows_are_had_by_version_and_time(tmp_path, connect, response_format):
    table = ds.DeltaTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    server = ScriptedServer(tmp_path, response_format)
    try:
        shared = connect(server).table("s.c.t")
        assert ids(shared.snapshot(version=1).to_arrow()) == [1]
        assert ids(shared.snapshot().to_arrow()) == [1, 2]
        assert shared.version() == 2
        moment = datetime.datetime(2024, 1, 1, 12)
        shared.snapshot(timestamp=moment).to_arrow()
        assert server.asked_for("/query")[-1].json["timestamp"] == "2024-01-01T12:00:00Z"
    finally:
        server.close()


def test_a_column_that_a_file_lacks_is_null(tmp_path, connect, response_format):
    """CL-012; statistics may be missing too (CL-009)."""
    table = ds.DeltaTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2], "more": ["x"]}), merge_schema=True)
    server = ScriptedServer(tmp_path, response_format)
    plain = server.file_line

    def without_statistics(*arguments, **named):
        line = plain(*arguments, **named)
        line["file"].pop("stats", None)
        line["file"].get("deltaSingleAction", {}).get("add", {}).pop("stats", None)
        return line

    server.file_line = without_statistics
    try:
        found = connect(server).table("s.c.t").snapshot().where("id > 0").to_arrow().sort_by("id")
        assert found.to_pydict() == {"id": [1, 2], "more": [None, "x"]}
    finally:
        server.close()


@pytest.mark.parametrize("feature", ["deletion_vector", "column_mapping", "widening", "ntz", "partition"])
def test_features_of_the_delta_format_are_read(delta_tables, tmp_path, connect, feature):
    """Deletion vectors, column mapping, widened types (CL-016), as the engine reads them from the log."""
    roots = [root for root in sorted(delta_tables.tables.iterdir()) if feature in root.name.lower()]
    if not roots:
        pytest.skip(f"the corpus has no table like {feature}")
    server = ScriptedServer(tmp_path, "delta")
    try:
        for number, root in enumerate(roots[:4]):
            (tmp_path / f"t{number}").symlink_to(root)
            expected = readable(root)
            if expected is not None:
                found = connect(server).table(f"s.c.t{number}").snapshot().to_arrow()
                assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist())), (
                    root.name
                )
    finally:
        server.close()


def readable(root) -> pa.Table | None:
    """The rows of a table, None where the engine itself refuses it."""
    try:
        return ds.DeltaTable(root).snapshot().to_arrow()
    except ds.DistributaryError:
        return None


def test_unsupported_protocols_are_refused_with_advice(plain_server, connect):
    """CL-006, RF-004 in both formats."""
    client = connect(plain_server)
    plain_server.head_lines = lambda table, version: [{"protocol": {"minReaderVersion": 2}}]
    with pytest.raises(UnsupportedFeatureError, match="upgrade distributary"):
        sales(client).to_arrow()
    plain_server.format = "delta"
    metadata = {"id": "x", "format": {"provider": "parquet"}, "schemaString": '{"type":"struct","fields":[]}'}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["tomorrow"]}
    protocol["writerFeatures"] = ["tomorrow"]
    plain_server.head_lines = lambda table, version: [
        {"protocol": {"deltaProtocol": protocol}},
        {"metaData": {"deltaMetadata": metadata}},
    ]
    with pytest.raises(UnsupportedFeatureError, match="tomorrow"):
        sales(client).to_arrow()


def test_wrong_questions_are_refused_before_anything_is_asked(plain_server, connect):
    client = connect(plain_server)
    for wrong in (
        lambda: client.table("s.c.sales").snapshot(version=1, timestamp="2024-01-01"),
        lambda: client.table("sales"),
        lambda: sales(client).limit(-1),
        lambda: sales(client).select(),
        lambda: client.table("s.c.sales").changes(),
        lambda: connect(plain_server, access="ftp"),
        lambda: connect(plain_server, colour="red"),
    ):
        with pytest.raises(InvalidInputError):
            wrong()
    assert not plain_server.asked
    with pytest.raises(UnknownColumnError):
        sales(client).where("nothing = 1").to_arrow()


def test_a_delta_answer_that_was_not_asked_for_is_refused(lake, connect):
    """A9: a client that asked for parquet must not read delta lines."""
    server = ScriptedServer(lake, "delta")
    try:
        with pytest.raises(ds.DistributaryError, match="not asked for"):
            sales(connect(server, response_format="parquet")).to_arrow()
    finally:
        server.close()


def test_changed_columns_make_the_hints_be_asked_anew(plain_server, connect):
    """Hints made for older columns are not trusted when the answer shows others."""
    client = connect(plain_server)
    table = client.table("s.c.sales")
    old = '{"type":"struct","fields":[{"name":"id","type":"string","nullable":true,"metadata":{}}]}'

    def script(asked):
        if asked.path.endswith("/metadata"):
            head = plain_server.head_lines(ds.DeltaTable(plain_server.folder / "sales"), None)
            head[1]["metaData"]["schemaString"] = old
            return plain_server.table_reply(0, head)
        return None

    plain_server.script = script
    assert list(table.schema.names) == ["id"]
    assert ids(table.snapshot().where("id > 57").to_arrow()) == [58, 59]
    assert "predicateHints" not in plain_server.asked_for("/query")[-1].json


def test_progress_is_shown_when_asked_for(plain_server, connect, capsys):
    assert sales(connect(plain_server, progress=True)).to_arrow().num_rows == 60
    assert capsys.readouterr().out == ""
