"""The official Python client (delta-sharing from PyPI) against the running server, unchanged."""

from __future__ import annotations

import json
import shutil

import pytest
from sharing_world.certificate import certificate
from sharing_world.contents import CORPUS, make_contents
from sharing_world.running import running_server

from distributary import DeltaTable
from distributary.sharing.profile import bearer_profile, write_profile
from distributary.sharing.table_policy import TablePolicy

ORDERS = "Sales.eu.Orders"


def order_ids(rows) -> list[int]:
    return sorted(row["order_id"] for row in rows)


def expected_ids(server, version: int = -1) -> list[int]:
    return sorted(row["order_id"] for row in server.contents.sample.rows_by_version[version])


def test_listing(official, server, profile):
    """A16, CL: shares, schemas, tables, all tables"""
    assert [share["name"] for share in official.call("list_shares", profile)] == ["empty", "Sales"]
    schemas = official.call("list_schemas", profile, "Sales")
    assert {"eu", "us"} <= {schema["name"] for schema in schemas}
    tables = official.call("list_tables", profile, "eu", "Sales")
    assert "Orders" in [table["name"] for table in tables]
    every = official.call("list_all_tables", profile)
    assert {"name": "Orders", "share": "Sales", "schema": "eu"} in every


@pytest.mark.parametrize("use_delta_format", [None, True, False])
def test_whole_table_in_both_formats(official, server, profile, use_delta_format):
    """RF-003, RF-067, A16-4, A16-5: fields that the client does not know are passed over"""
    options = {} if use_delta_format is None else {"use_delta_format": use_delta_format}
    rows = official.rows(f"{profile}#{ORDERS}", **options)
    assert order_ids(rows) == expected_ids(server)
    wanted = {row["order_id"]: row for row in server.contents.sample.rows_by_version[-1]}
    for row in rows:
        assert row["country"] == wanted[row["order_id"]]["country"]
        assert row["customer"] == wanted[row["order_id"]]["customer"]


@pytest.mark.parametrize("limit", [0, 1, 5, 1000])
@pytest.mark.parametrize("use_delta_format", [True, False])
def test_limit(official, server, profile, limit, use_delta_format):
    """FLT-007, FLT-008"""
    rows = official.rows(f"{profile}#{ORDERS}", limit=limit, use_delta_format=use_delta_format)
    assert len(rows) == min(limit, len(expected_ids(server)))


def test_predicate_hints_keep_every_matching_row(official, server, profile):
    """FLT-001, FLT-005, FLT-006, A11"""
    column = {"op": "column", "name": "country", "valueType": "string"}
    hint = {"op": "equal", "children": [column, {"op": "literal", "value": "FR", "valueType": "string"}]}
    rows = official.rows(f"{profile}#{ORDERS}", jsonPredicateHints=json.dumps(hint), use_delta_format=False)
    assert {row["country"] for row in rows} == {"FR"}
    french = [row for row in server.contents.sample.rows_by_version[-1] if row["country"] == "FR"]
    assert len(rows) == len(french)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions(official, server, profile, version):
    """A4, A16-6"""
    assert order_ids(official.rows(f"{profile}#{ORDERS}", version=version)) == expected_ids(server, version)


def test_version_at_a_time(official, server, profile):
    """A4"""
    rows = official.rows(f"{profile}#{ORDERS}", timestamp="2024-03-03T12:00:00Z")
    assert order_ids(rows) == expected_ids(server, 2)


def test_table_version_and_metadata(official, server, profile):
    """REST-151, A16-3"""
    assert official.call("get_table_version", f"{profile}#{ORDERS}") == 4
    since = official.call(
        "get_table_version", f"{profile}#{ORDERS}", starting_timestamp="2024-03-03T00:00:00Z"
    )
    assert since == 2
    assert "country" in str(official.call("get_table_metadata", f"{profile}#{ORDERS}"))


@pytest.mark.parametrize("name", ["vectors", "mapped", "partitioned", "ntz"])
def test_advanced_tables_equal_what_the_engine_reads(official, server, profile, name):
    """CAP-005, CAP-008, RF-063, RF-064, RF-065, RF-066: deletion vectors, column mapping, timestamps"""
    place = server.contents.folder / "lake" / name
    table = DeltaTable(str(place / "delta" if (place / "delta").is_dir() else place))
    found = official.call("load_as_pandas", f"{profile}#Sales.corpus.{name}")
    assert found["n"] == table.snapshot().to_arrow().num_rows
    if found["rows"]:
        assert list(found["rows"][0]) == table.snapshot().to_arrow().column_names
    assert name in CORPUS


@pytest.mark.parametrize("name", ["changes", "changed_vectors"])
def test_changes_equal_what_the_engine_reads(official, server, profile, name):
    """CDF-001, CDF-002, A5"""
    place = server.contents.folder / "lake" / name
    expected = DeltaTable(str(place)).changes(starting_version=0).to_arrow()
    options = {"use_delta_format": True} if name == "changed_vectors" else {}
    rows = official.rows(
        f"{profile}#Sales.corpus.{name}", "load_table_changes_as_pandas", starting_version=0, **options
    )
    kinds = sorted(
        zip(expected["_change_type"].to_pylist(), expected["_commit_version"].to_pylist(), strict=True)
    )
    assert sorted((row["_change_type"], row["_commit_version"]) for row in rows) == kinds


def test_partition_filter_of_a_recipient(official, server, profile):
    """RELIABILITY E4"""
    rows = official.rows(f"{profile}#Sales.eu.french")
    assert {row["country"] for row in rows} == {"FR"}
    french = [row for row in server.contents.sample.rows_by_version[-1] if row["country"] == "FR"]
    assert order_ids(rows) == sorted(row["order_id"] for row in french)


def test_errors_reach_the_user(official, profile):
    """REST-005"""
    with pytest.raises(Exception, match="404"):
        official.rows(f"{profile}#Sales.eu.absent")
    with pytest.raises(Exception, match="history"):
        official.rows(f"{profile}#Sales.eu.latest", version=0)


@pytest.fixture(scope="module")
def s3_server(versitygw_server, tmp_path_factory):
    """A server whose table lies in S3."""
    folder = tmp_path_factory.mktemp("s3")
    made = make_contents(folder, str(folder / "catalog.db"), None)
    versitygw_server.upload(folder / "lake" / "orders", "shared/orders")
    location = versitygw_server.uri("shared/orders")
    made.admin.add_table("Sales", "s3", "Orders", TablePolicy(location=location), check=False)
    settings = {
        "database": str(folder / "catalog.db"),
        "workers": 1,
        "storage": {versitygw_server.uri("shared"): dict(versitygw_server.storage_options)},
    }
    with running_server(made, settings) as server:
        yield server
    made.database.close()


@pytest.mark.parametrize("use_delta_format", [True, False])
def test_table_in_s3_by_presigned_urls(official, s3_server, tmp_path, use_delta_format):
    """AM-001, REST-177: the URLs are the store's own"""
    answer = s3_server.query("Sales.s3.Orders")
    assert "X-Amz-Signature" in answer.text
    file = tmp_path / "s3.share"
    write_profile(bearer_profile(f"{s3_server.endpoint}/", s3_server.contents.tokens["acme"]), file)
    rows = official.rows(f"{file}#Sales.s3.Orders", use_delta_format=use_delta_format)
    assert order_ids(rows) == expected_ids(s3_server)


def test_tls(peer_python, tmp_path, official):
    """C-41, REST-001: over https with a certificate of the tests' own"""
    folder = tmp_path / "tls"
    folder.mkdir()
    certificate_file, key_file = certificate(folder)
    made = make_contents(folder, str(folder / "catalog.db"), None)
    tls = {"certificate": str(certificate_file), "key": str(key_file)}
    with running_server(made, {"database": str(folder / "catalog.db"), "workers": 1, "tls": tls}) as server:
        file = tmp_path / "tls.share"
        write_profile(bearer_profile(f"{server.endpoint}/", made.tokens["acme"]), file)
        environment = {"REQUESTS_CA_BUNDLE": str(certificate_file), "SSL_CERT_FILE": str(certificate_file)}
        client = type(official)(peer_python, tmp_path / "client.log", **environment)
        try:
            rows = client.rows(f"{file}#{ORDERS}", use_delta_format=False)
            assert order_ids(rows) == expected_ids(server)
        finally:
            client.close()
    made.database.close()
    shutil.rmtree(folder)
