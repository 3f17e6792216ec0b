"""The official client's names, parameters and results."""

from __future__ import annotations

import inspect
import json
import subprocess

import pytest
from scripted_server import ScriptedServer

import distributary.client as delta_sharing
from distributary.client.delta_sharing import InvalidTableUrlError
from distributary.client.spark_frame import SparkSessionMissingError

OFFICIAL = {
    "get_table_metadata": ["url", "use_delta_format"],
    "get_table_protocol": ["url", "use_delta_format"],
    "get_table_version": ["url", "starting_timestamp"],
    "load_as_pandas": [
        "url",
        "limit",
        "version",
        "timestamp",
        "jsonPredicateHints",
        "use_delta_format",
        "convert_in_batches",
    ],
    "load_as_spark": ["url", "version", "timestamp"],
    "load_table_changes_as_pandas": [
        "url",
        "starting_version",
        "ending_version",
        "starting_timestamp",
        "ending_timestamp",
        "use_delta_format",
        "convert_in_batches",
    ],
    "load_table_changes_as_spark": [
        "url",
        "starting_version",
        "ending_version",
        "starting_timestamp",
        "ending_timestamp",
    ],
}
"""Functions of delta-sharing 1.4.2 and their parameters, in order."""


@pytest.fixture
def profile(server: ScriptedServer, tmp_path) -> str:
    """A profile file of the server."""
    path = tmp_path / "my#odd.share"
    path.write_text(json.dumps(server.profile))
    path.chmod(0o600)
    return str(path)


def test_every_name_is_there_with_its_parameters():
    for name, parameters in OFFICIAL.items():
        assert list(inspect.signature(getattr(delta_sharing, name)).parameters) == parameters
    assert {"SharingClient", "Share", "Schema", "Table", "__version__"} < set(delta_sharing.__all__)
    assert delta_sharing.Table("t", "s", "c") == delta_sharing.Table(name="t", share="s", schema="c")
    assert delta_sharing.Schema("c", "s").share == "s"


def test_names_are_those_of_the_official_client(peer_python):
    """The list above is not out of date."""
    script = (
        "import delta_sharing, inspect, json; print(json.dumps({n: list(inspect.signature("
        "getattr(delta_sharing, n)).parameters) for n in delta_sharing.__all__ if n[0].islower()}))"
    )
    told = subprocess.run([peer_python, "-W", "ignore", "-c", script], capture_output=True, text=True)
    if told.returncode:
        pytest.skip("the peers have no delta-sharing")
    assert json.loads(told.stdout) == OFFICIAL


def test_tables_are_loaded_by_url(profile):
    """A16: the last # splits profile and table."""
    url = f"{profile}#s.c.sales"
    assert len(delta_sharing.load_as_pandas(url)) == 60
    assert len(delta_sharing.load_as_pandas(url, 7)) == 7
    assert len(delta_sharing.load_as_pandas(url, version=1, convert_in_batches=True)) == 60
    assert delta_sharing.load_as_arrow(url, limit=3).num_rows == 3
    assert delta_sharing.load_as_polars(url, limit=3).height == 3
    assert delta_sharing.get_table_version(url) == 1


def test_hints_of_the_caller_are_sent_as_they_are(profile, server):
    hint = '{"op":"equal","children":[]}'
    assert len(delta_sharing.load_as_pandas(f"{profile}#s.c.sales", jsonPredicateHints=hint)) == 60
    assert server.asked_for("/query")[-1].json["jsonPredicateHints"] == hint


def test_metadata_and_protocol(profile, server):
    url = f"{profile}#s.c.sales"
    found = delta_sharing.get_table_metadata(url, use_delta_format=server.format == "delta")
    assert found.partition_columns == ["day"]
    assert found.format.provider == "parquet"
    assert json.loads(found.schema_string)["fields"][0]["name"] == "id"
    protocol = delta_sharing.get_table_protocol(url, use_delta_format=server.format == "delta")
    assert protocol.min_reader_version == 1
    assert (protocol.min_writer_version is None) is (server.format == "parquet")
    header = server.asked[-1].headers["delta-sharing-capabilities"]
    assert header.startswith("responseformat=" + ("delta,parquet" if server.format == "delta" else "parquet"))


def test_a_client_may_be_forgotten_while_its_tables_are_used(profile):
    rows = delta_sharing.SharingClient(profile).table("s.c.sales").snapshot().where("id = 3").select("id")
    assert rows.to_arrow().to_pydict() == {"id": [3]}


@pytest.mark.parametrize("url", ["x", "#a.b.c", "p#a.b", "p#a..c", '{"bearerToken":"canary"}'])
def test_other_texts_are_refused(url):
    with pytest.raises(InvalidTableUrlError) as raised:
        delta_sharing.load_as_pandas(url)
    assert isinstance(raised.value, ValueError)
    assert "canary" not in str(raised.value)


def test_spark_needs_a_session():
    pytest.importorskip("pyspark")
    with pytest.raises(SparkSessionMissingError):
        delta_sharing.load_as_spark("p#a.b.c")
