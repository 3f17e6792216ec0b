"""Answers of other servers, as the protocol's document records them, and awkward forms of them."""

from __future__ import annotations

import json

import pytest
from scripted_server import Reply

from distributary.client.table_query import QuerySettings, capabilities
from distributary.sharing.error_response import SharingError
from distributary.sharing.profile import parse_profile


@pytest.fixture(scope="module")
def samples(shared_dir) -> list[dict]:
    """The examples of the protocol's document."""
    return json.loads((shared_dir / "spec" / "protocol_samples.json").read_text())["samples"]


def texts(samples: list[dict], section: str, kind: str) -> list[str]:
    return [each["text"] for each in samples if each["section"] == section and each["kind"] == kind]


def objects(text: str) -> bytes:
    """The lines of an example, which the document prints over many."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(json.dumps(value).encode() + b"\n")
        rest = rest[end:].strip()
    return b"".join(found)


@pytest.mark.parametrize(
    ("section", "count"),
    [
        ("List Shares", 2),
        ("List Schemas in a Share", 1),
        ("List Tables in a Schema", 2),
        ("List all Tables in a Share", 3),
    ],
)
def test_recorded_lists_are_read(plain_server, connect, samples, section, count):
    """CL-007: every field of the newest edition, and those that are not known."""
    body = texts(samples, section, "json")[-1]
    pages = iter([Reply(body=body.encode())])
    plain_server.script = lambda asked: next(pages, Reply(body=b"{}"))
    client = connect(plain_server)
    listed = {
        "List Shares": client.list_shares,
        "List Schemas in a Share": lambda: client.list_schemas("s"),
        "List Tables in a Schema": lambda: client.list_tables("s.c"),
        "List all Tables in a Share": lambda: client.list_all_tables("s"),
    }[section]()
    assert len(listed) == len(json.loads(body)["items"])
    assert all(item.name for item in listed)
    assert count >= 1


def test_recorded_errors_are_raised(plain_server, connect, samples):
    for section in ("List Shares", "Get Share", "Query Table Version", "Read Data from a Table"):
        body = next(text for text in texts(samples, section, "json") if "errorCode" in text)
        plain_server.script = lambda asked, body=body: Reply(403, body.encode())
        with pytest.raises(SharingError, match="string"):
            connect(plain_server).list_shares()


def test_a_recorded_snapshot_is_understood(plain_server, connect, samples):
    """The example of a query: its metadata, files, partition values and statistics (CL-009, CL-020)."""
    body = objects(texts(samples, "Example for snapshot query", "json_sequence")[0])
    headers = {"delta-table-version": "123", "content-type": "application/json"}
    plain_server.script = lambda asked: Reply(200, body, headers)
    plan = connect(plain_server).table("s.c.t").snapshot().where("date = '2021-04-28'").explain()
    assert plan.version == 123
    assert plan.offered_files == body.count(b'"file"')
    assert plan.needed_files >= 1


def test_recorded_changes_are_understood(plain_server, connect, samples):
    body = objects(texts(samples, "Read Change Data Feed from a Table", "json_sequence")[0])
    plain_server.script = lambda asked: Reply(200, body, {"delta-table-version": "2"})
    plan = connect(plain_server).table("s.c.t").changes(0).explain()
    assert plan.offered_files == body.count(b'"url"')


def test_recorded_metadata_is_understood(plain_server, connect, samples):
    body = objects(texts(samples, "Query Table Metadata", "json_sequence")[0])
    plain_server.script = lambda asked: Reply(200, body, {"delta-table-version": "2"})
    assert connect(plain_server).table("s.c.t").schema.names


@pytest.mark.parametrize(
    "section", ["Metadata in Delta Format", "Protocol in Delta Format", "File in Delta Format"]
)
def test_recorded_delta_lines_are_understood(samples, section):
    from distributary.client.table_answer import AnswerReader

    reader = AnswerReader("delta", end_promised=False, asked_delta=True)
    reader.read(objects(texts(samples, section, "json")[0]).splitlines())


def test_the_recorded_profile_is_read(samples):
    """PF-001 to PF-006 as the document has them."""
    profile = parse_profile(texts(samples, "Profile File Format", "json")[0])
    assert profile.share_credentials_version == 1


def test_null_and_empty_partition_values_are_null(plain_server, connect, lake):
    """C-29, A16: JSON null, the empty text and a value that is not there."""
    plain, kinds = (
        plain_server.file_line,
        iter([None, "", "absent", "2024-01-04", "2024-01-05", "2024-01-06"]),
    )

    def awkward(*arguments, **named):
        line, kind = plain(*arguments, **named), next(kinds)
        values = {} if kind == "absent" else {"day": kind}
        line["file"].update(partitionValues=values, stats=None, unknown={"x": [1]})
        return line

    plain_server.file_line = awkward
    found = connect(plain_server).table("s.c.sales").snapshot().to_arrow()
    assert found.column("day").null_count == 30


def test_header_is_what_reference_servers_expect():
    """A9, A16: lower case, known features only."""
    text = capabilities(QuerySettings()).to_header()
    assert text == text.lower()
    assert "responseformat=delta,parquet;" in text
    assert "deletionvectors" in text
    assert "columnmapping" in text
