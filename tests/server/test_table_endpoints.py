"""Version, metadata, query and changes of tables over HTTP: headers, statuses, forms."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq
import pytest
from sharing_world.running import RunningServer, lines, table_path

ORDERS = "Sales.eu.Orders"
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors,columnmapping"}


def test_version_by_head_and_by_get(server: RunningServer):
    """REST-150, REST-151, REST-153, REST-154, C-32"""
    for method, path in (("HEAD", table_path(ORDERS)), ("GET", f"{table_path(ORDERS)}/version")):
        answer = server.request(method, path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["delta-table-version"] == "4"


def test_version_from_a_time_on(server):
    """A2: the earliest version at or after a time; later than the last commit is 400"""
    path = f"{table_path(ORDERS)}/version?startingTimestamp="
    assert server.get(f"{path}2024-03-03T00:00:00Z").headers["delta-table-version"] == "2"
    assert server.get(f"{path}2001-01-01T00:00:00Z").headers["delta-table-version"] == "0"
    assert server.get(f"{path}2099-01-01T00:00:00Z").status_code == 400
    assert server.get(f"{path}yesterday").status_code == 400


def test_metadata_is_two_lines_with_the_version_in_a_header(server):
    """REST-160, REST-161, REST-162, REST-163, REST-164, REST-013, REST-014, CAP-002, CAP-014, RF-002"""
    answer = server.get(f"{table_path(ORDERS)}/metadata")
    protocol, metadata = lines(answer)
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    assert metadata["metaData"]["partitionColumns"] == ["country"]
    assert answer.headers["delta-table-version"] == "4"
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert answer.text.endswith("\n")


def test_metadata_in_the_delta_format(server):
    """CAP-004, RF-060, RF-061, RF-062, A16-2"""
    answer = server.get(f"{table_path(ORDERS)}/metadata", headers=DELTA)
    protocol, metadata = lines(answer)
    assert "deltaProtocol" in protocol["protocol"]
    assert "deltaMetadata" in metadata["metaData"]
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=delta"


@pytest.mark.parametrize(
    ("query", "status", "version"),
    [
        ("version=0", 200, "0"),
        ("version=2", 200, "2"),
        ("timestamp=2024-03-03T12:00:00Z", 200, "2"),
        ("version=99", 400, None),
        ("version=-1", 400, None),
        ("version=abc", 400, None),
        ("version=1&timestamp=2024-03-03T12:00:00Z", 400, None),
        ("timestamp=nonsense", 400, None),
    ],
)
def test_metadata_of_a_version(server, query, status, version):
    """A3"""
    answer = server.get(f"{table_path(ORDERS)}/metadata?{query}")
    assert answer.status_code == status
    assert answer.headers.get("delta-table-version") == version


def test_query_gives_every_file_by_a_url_that_anyone_can_read(server):
    """REST-170, REST-171, REST-172, REST-174, REST-175, REST-176, REST-177, REST-179, RF-040, RF-047"""
    answer = server.query(ORDERS, headers={"Content-Type": "application/json; charset=utf-8"})
    protocol, metadata, *files = lines(answer)
    assert list(protocol) == ["protocol"]
    assert list(metadata) == ["metaData"]
    assert answer.headers["delta-table-version"] == "4"
    rows = 0
    for line in files:
        file = line["file"]
        downloaded = server.get(file["url"], token=None)
        assert downloaded.status_code == 200
        assert len(downloaded.content) == file["size"]
        rows += pq.read_table(io.BytesIO(downloaded.content)).num_rows
        assert file["expirationTimestamp"] > 1_700_000_000_000
    assert rows == len(server.contents.sample.rows_by_version[-1])


def test_lines_have_the_fields_that_clients_rely_on(server):
    """DM-006, RF-024, RF-025, RF-042, RF-043, C-09, C-24: strict JSON, one object a line"""
    partitioned, plain = (lines(server.query(table)) for table in (ORDERS, "Sales.corpus.changes"))
    for metadata in (partitioned[1]["metaData"], plain[1]["metaData"]):
        assert json.loads(metadata["schemaString"])["type"] == "struct"
    assert partitioned[1]["metaData"]["partitionColumns"] == ["country"]
    assert plain[1]["metaData"]["partitionColumns"] == []
    assert {tuple(line["file"]["partitionValues"]) for line in partitioned[2:]} == {("country",)}
    assert all(line["file"]["partitionValues"] == {} for line in plain[2:])
    assert all(isinstance(line["file"]["size"], int) for line in partitioned[2:] + plain[2:])


def test_plain_snapshot_has_three_kinds_of_lines_only(server):
    """C-02, CAP-007: what every client since the first edition reads, when nothing else is asked for"""
    answer = server.query(ORDERS)
    assert {next(iter(line)) for line in lines(answer)} == {"protocol", "metaData", "file"}
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=parquet"


def test_query_without_a_body_asks_for_everything(server):
    """REST-173"""
    path = f"{table_path(ORDERS)}/query"
    whole = len(lines(server.query(ORDERS)))
    assert len(lines(server.request("POST", path))) == whole
    assert len(lines(server.request("POST", path, body=b"  "))) == whole


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"nonsense",
        b"{",
        b'"text"',
        b"null",
        b'{"predicateHints": "country = 1"}',
        b'{"limitHint": "5"}',
        b'{"limitHint": -1}',
        b'{"version": 1, "timestamp": "2024-03-03T12:00:00Z"}',
        b'{"version": -1}',
        b'{"version": 99}',
        b'{"maxFiles": 0}',
        b'{"maxFiles": -5}',
        b'{"startingVersion": 3, "endingVersion": 1}',
        b'{"startingVersion": 99}',
        b'{"pageToken": "nonsense", "maxFiles": 1}',
        b'{"refreshToken": "nonsense"}',
        b'{"includeRefreshToken": true, "version": 1}',
        b'{"version": 99999999999999999999999999}',
        b"\xff\xfe{}",
    ],
)
def test_query_that_cannot_be_used_is_400(server, body):
    """REST-007, REST-173, REST-178, REST-005, C-25, FLT-011, A4"""
    answer = server.request("POST", f"{table_path(ORDERS)}/query", body=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"errorCode", "message"}


def test_unknown_fields_are_ignored(server):
    """REST-020"""
    assert lines(server.query(ORDERS, {"somethingNew": {"deep": [1]}, "requested_columns": ["a"]}))


@pytest.mark.parametrize("path", ["Sales.eu.absent", "other.eu.Orders", "Sales.nothing.Orders"])
@pytest.mark.parametrize("part", ["", "/version", "/metadata", "/query", "/changes?startingVersion=0"])
def test_table_that_is_not_there_or_not_granted_is_404(server, path, part):
    """REST-010, REST-153, REST-163, REST-178"""
    method = "HEAD" if part == "" else "POST" if part == "/query" else "GET"
    assert server.request(method, table_path(path) + part).status_code == 404


def test_query_of_an_older_version(server):
    """A4, RF-045, RF-046"""
    answer = server.query(ORDERS, {"version": 1})
    assert answer.headers["delta-table-version"] == "1"
    files = [line["file"] for line in lines(answer)[2:]]
    assert {file["version"] for file in files} == {1}
    assert all("timestamp" in file for file in files)


def test_pages_of_a_query_together_are_the_whole(server):
    """A6: each page repeats the first two lines byte for byte; RF-053"""
    whole = {line["file"]["id"] for line in lines(server.query(ORDERS))[2:]}
    found: list[str] = []
    heads = set()
    body = {"maxFiles": 2}
    while True:
        answer = server.query(ORDERS, body)
        first, second, *rest = answer.text.splitlines()
        heads.add((first, second, answer.headers["delta-table-version"]))
        *files, end = [json.loads(line) for line in rest]
        assert len(files) <= 2
        found += [line["file"]["id"] for line in files]
        token = end["endStreamAction"].get("nextPageToken")
        if not token:
            break
        body = {"maxFiles": 2, "pageToken": token}
    assert len(heads) == 1
    assert len(found) == len(whole)
    assert set(found) == whole


def test_page_token_is_bound_to_its_query(server):
    """A6, RELIABILITY E2: another table, other parameters, another recipient, another kind"""
    token = lines(server.query(ORDERS, {"maxFiles": 1}))[-1]["endStreamAction"]["nextPageToken"]
    assert server.query(ORDERS, {"maxFiles": 1, "pageToken": token}).status_code == 200
    assert server.query("Sales.eu.late", {"maxFiles": 1, "pageToken": token}).status_code == 400
    changed = {"maxFiles": 1, "pageToken": token, "predicateHints": ["country = 'FR'"]}
    assert server.query(ORDERS, changed).status_code == 400
    assert server.query(ORDERS, {"refreshToken": token}).status_code == 400
    foreign = server.query(ORDERS, {"maxFiles": 1, "pageToken": token}, token="colleague")
    assert foreign.status_code == 400


def test_refresh_gives_the_same_files_with_new_urls(server):
    """A6, RF-041, RELIABILITY 1.3: the version of a refresh token is kept"""
    first = lines(server.query(ORDERS, {"includeRefreshToken": True}))
    token = first[-1]["endStreamAction"]["refreshToken"]
    again = lines(server.query(ORDERS, {"refreshToken": token}))
    ids = [line["file"]["id"] for line in first[2:-1]]
    assert [line["file"]["id"] for line in again if "file" in line] == ids


def test_end_of_stream_is_sent_only_when_asked_for(server):
    """CAP-010, CAP-011, CAP-015, A16-1"""
    assert not any("endStreamAction" in line for line in lines(server.query(ORDERS)))
    asked = {"delta-sharing-capabilities": "responseformat=parquet;includeEndStreamAction=true"}
    answer = server.query(ORDERS, headers=asked)
    assert "endStreamAction" in lines(answer)[-1]
    assert "includeendstreamaction=true" in answer.headers["delta-sharing-capabilities"]


def test_file_id_hash_is_echoed_and_obeyed(server):
    """A10"""
    plain = [line["file"]["id"] for line in lines(server.query(ORDERS))[2:]]
    hashed = server.query(ORDERS, headers={"fileidhash": "Delta"})
    assert hashed.headers["fileidhash"] == "delta"
    assert all(len(line["file"]["id"]) == 64 for line in lines(hashed)[2:])
    assert all(len(text) == 32 for text in plain)
    assert server.query(ORDERS, headers={"fileidhash": "md5"}).status_code == 400


def test_table_with_deletion_vectors_needs_a_client_that_knows_them(server):
    """CAP-005, CAP-008, CAP-009, C-07, RF-066"""
    table = "Sales.corpus.vectors"
    refused = server.query(table)
    assert refused.status_code == 400
    assert refused.json()["errorCode"] == "UNSUPPORTED_OPERATION"
    assert "deletionvectors" in refused.json()["message"].lower()
    files = lines(server.query(table, headers=DELTA))[2:]
    vectors = [
        vector for line in files if (vector := line["file"]["deltaSingleAction"]["add"].get("deletionVector"))
    ]
    assert vectors
    for vector in vectors:
        assert vector["storageType"] == "p"
        assert server.get(vector["pathOrInlineDv"], token=None).status_code == 200


def test_changes_of_a_table(server):
    """CDF-001, CDF-003, CDF-006, A5, RF-050, RF-051, RF-052"""
    answer = server.get(f"{table_path('Sales.corpus.changes')}/changes?startingVersion=0")
    found = lines(answer)
    assert answer.headers["delta-table-version"] == "0"
    assert {next(iter(line)) for line in found} <= {"protocol", "metaData", "add", "cdf", "remove"}
    assert any("add" in line for line in found)
    for line in found[2:]:
        change = next(iter(line.values()))
        if "url" in change:
            assert server.get(change["url"], token=None).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "",
        "startingVersion=abc",
        "startingVersion=0&startingTimestamp=2024-01-01T00:00:00Z",
        "startingVersion=999",
    ],
)
def test_changes_that_cannot_be_asked_for_are_400(server, query):
    """A5"""
    assert server.get(f"{table_path('Sales.corpus.changes')}/changes?{query}").status_code == 400


@pytest.mark.parametrize(("table", "status"), [("Sales.eu.Orders", 403), ("Sales.us.directory", 400)])
def test_directory_credentials_are_refused_where_they_cannot_be_given(server, table, status):
    """REST-009, REST-015, AM-002, A7: dir access not granted is 403; a local disk gives no credentials"""
    answer = server.request("POST", f"{table_path(table)}/temporary-table-credentials", body={})
    assert answer.status_code == status


def test_query_of_a_table_that_is_read_by_directory_only_names_dir(server):
    """AM-012, AM-014"""
    answer = server.query("Sales.us.directory")
    assert answer.status_code == 400
    assert answer.json()["errorCode"] == "UNSUPPORTED_OPERATION"
    assert "dir" in answer.json()["message"]


def test_partition_filter_shows_one_country_everywhere(server):
    """RELIABILITY E4: files, sizes, counts, predicates"""
    answer = lines(server.query("Sales.eu.french"))
    files = [line["file"] for line in answer[2:]]
    assert {file["partitionValues"]["country"] for file in files} == {"FR"}
    assert answer[1]["metaData"]["numFiles"] == len(files)
    assert answer[1]["metaData"]["size"] == sum(file["size"] for file in files)
    assert len(lines(server.query("Sales.eu.french", {"predicateHints": ["country = 'DE'"]}))) == 2


@pytest.mark.parametrize(
    ("table", "body"),
    [
        ("latest", {"version": 0}),
        ("latest", {"timestamp": "2024-03-03T12:00:00Z"}),
        ("latest", {"startingVersion": 0}),
        ("late", {"version": 1}),
        ("late", {"startingVersion": 1}),
        ("late", {"timestamp": "2024-03-02T12:00:00Z"}),
    ],
)
def test_history_that_is_not_shared_does_not_exist(server, table, body):
    """RELIABILITY E3"""
    answer = server.query(f"Sales.eu.{table}", body)
    assert answer.status_code == 400
    path = table_path(f"Sales.eu.{table}")
    if "version" in body:
        assert server.get(f"{path}/metadata?version={body['version']}").status_code == 400
    if "startingVersion" in body:
        assert server.get(f"{path}/changes?startingVersion={body['startingVersion']}").status_code == 400


def test_tokens_of_the_latest_version_do_not_open_older_ones(server):
    """RELIABILITY 1.3: a page token of a table with history means nothing for one without"""
    token = lines(server.query(ORDERS, {"maxFiles": 1, "version": 0} | {"version": 1}))[-1]
    page = token["endStreamAction"]["nextPageToken"]
    assert (
        server.query("Sales.eu.latest", {"maxFiles": 1, "version": 1, "pageToken": page}).status_code == 400
    )
    assert server.query("Sales.eu.latest", {"maxFiles": 1, "pageToken": page}).status_code == 400
