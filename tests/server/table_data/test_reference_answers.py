"""Answers have the form that the reference server's recorded answers have, and the same file ids.

The recordings are of tables that are not here; forms are compared on tables of the same kinds.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from distributary.server.rendered_lines import file_id
from distributary.sharing.error_response import SharingError

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
FEED = {"delta.enableChangeDataFeed": "true"}
# What the reference server's library adds to actions; no Delta action has it.
NOT_OF_THE_LOG = {"pathAsUri", "delTimestamp"}


class Recorded:
    """One recorded answer: status, headers and the lines that are whole."""

    def __init__(self, path: Path) -> None:
        head, _, body = path.read_text().partition("\n\n<")[2].partition("\n\n")
        status, *headers = [line.removeprefix("<").strip() for line in ("<" + head).splitlines()]
        self.status = int(status)
        self.headers = dict(line.split(": ", 1) for line in headers)
        self.lines = []
        for line in body.splitlines():
            try:
                self.lines.append(json.loads(line))
            except ValueError:  # cut at six kilobytes
                break

    def keys(self, *path):
        return [_at(line, path) for line in self.lines if _at(line, path) is not None]


def _at(value, path):
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


@pytest.fixture(scope="session")
def recorded(shared_dir):
    """Recorded answers by their name."""
    folder = shared_dir / "spec" / "reference_server"
    return lambda name: Recorded(folder / f"{name}.txt")


@pytest.fixture
def small(provider, logs):
    """A partitioned table with statistics, as `small` of the recordings."""
    stats = {"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}, "nullCount": {"id": 0}}
    columns = [("id", "long"), ("date", "string")]
    adds = [logs.add(f"date={day}/x.parquet", {"date": day}, stats) for day in ("1", "2")]
    provider.write_log("small", [logs.protocol, logs.metadata(columns, ["date"]), *adds])
    return "small"


@pytest.fixture
def cdf(provider, logs):
    """A table with a change feed, as `cdf` of the recordings."""
    stats = {"numRecords": 1}
    gone = {"path": "a", "deletionTimestamp": 2, "dataChange": True, "extendedFileMetadata": True,
            "partitionValues": {}, "size": 10}  # fmt: skip
    change = {"path": "_change_data/c", "partitionValues": {}, "size": 3, "dataChange": False}
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    provider.write_log(
        "cdf",
        [protocol, logs.metadata([("id", "long")], **FEED), logs.add("a", stats=stats)],
        [logs.add("b", stats=stats)],
        [{"remove": gone}, logs.add("a2", stats=stats), {"cdc": change}],
    )
    return "cdf"


def same_keys(ours, theirs, extra=frozenset()):
    """Every object of ours has the keys of theirs, and no other but those that are allowed."""
    expected = set().union(*map(set, theirs)) - NOT_OF_THE_LOG
    assert ours
    assert theirs
    for value in ours:
        assert expected <= set(value) | extra
        assert set(value) <= expected | extra


@pytest.mark.parametrize(("name", "capabilities", "body"), [
    ("query", None, {}),
    ("query_end", "responseformat=parquet;includeEndStreamAction=true", {}),
    ("query_delta", DELTA, {}),
    ("query_delta_end", DELTA + ";includeEndStreamAction=true", {}),
    ("query_both", "responseformat=delta,parquet", {}),
])  # fmt: skip
def test_queries_have_the_headers_and_fields_of_the_reference(
    provider, small, recorded, name, capabilities, body
):
    """REST-174, RF-040 to RF-047, RF-061 to RF-065, CAP-014."""
    theirs, ours = recorded(name), provider.query(small, body, capabilities)
    for header in ("content-type", "delta-sharing-capabilities", "delta-table-version"):
        assert ours.headers[header] == theirs.headers[header]
    assert ours.lines[0] == theirs.lines[0]
    same_keys(ours.all("metaData"), theirs.keys("metaData"), {"size", "numFiles"})
    same_keys(ours.files, theirs.keys("file"))
    if "delta" in name:
        path = ("deltaSingleAction", "add")
        same_keys([_at(file, path) for file in ours.files], theirs.keys("file", *path))
        same_keys(
            [_at(ours.lines[1], ("metaData", "deltaMetadata"))], theirs.keys("metaData", "deltaMetadata")
        )


@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_streams_and_changes_have_the_fields_of_the_reference(provider, cdf, recorded, capabilities):
    """RF-050 to RF-052, RF-063, CDF-001."""
    suffix = "" if capabilities is None else "_delta"
    pairs = [
        (recorded(f"cdf_0{suffix}"), provider.changes(cdf, {"startingVersion": 0}, capabilities)),
        (recorded(f"query_startver{suffix}"), provider.query(cdf, {"startingVersion": 0}, capabilities)),
    ]
    for theirs, ours in pairs:
        for kind in ("add", "remove", "cdf", "file"):
            if ours.all(kind):
                same_keys(ours.all(kind), theirs.keys(kind))
        for kind in ("add", "remove", "cdc"):
            path = ("deltaSingleAction", kind)
            actions = [found for file in ours.files if (found := _at(file, path))]
            if actions and theirs.keys("file", *path):
                same_keys(actions, theirs.keys("file", *path))
        same_keys(ours.all("metaData"), theirs.keys("metaData"))


@pytest.mark.parametrize("name", ["query", "query_delta", "cdf_0", "cdf_0_delta", "query_startver"])
def test_file_ids_are_those_of_the_reference_server(recorded, name):
    """RF-041: recipients' caches survive a migration."""
    seen = 0
    for line in recorded(name).lines:
        for kind in ("file", "add", "remove", "cdf"):
            file = line.get(kind)
            if file is None:
                continue
            action = next(iter(file.get("deltaSingleAction", {"": file}).values()))
            url = action.get("path") or action["url"]
            path = unquote(urlsplit(url).path).split("/", 2)[2]
            assert file["id"] == file_id(path, "delta" if "deltaSingleAction" in file else "parquet")
            seen += 1
    assert seen > 2


PROBES = {
    "query_limitneg": None,  # ours is 400 (FLT-011)
    "query_v_ts": {"version": 0, "timestamp": "2020-01-01T00:00:00Z"},
    "query_vneg": {"version": -1},
    "query_wrongtype": {"limitHint": "abc"},
    "query_startver_999": {"startingVersion": 999},
    "query_v999": {"version": 999},
    "query_ts_future": {"timestamp": "2090-01-01T00:00:00Z"},
    "query_ts_old": {"timestamp": "1970-01-02T00:00:00Z"},
    "query_ts_bad": {"timestamp": "noon"},
    "query_hint_string": {"predicateHints": "date = 'x'"},
    "page_max0": {"maxFiles": 0},
    "page_maxneg": {"maxFiles": -1},
    "refresh_with_page": {"refreshToken": "x", "pageToken": "x"},
    "refresh_with_version": {"refreshToken": "x", "version": 0},
}


@pytest.mark.parametrize("name", [name for name, body in PROBES.items() if body is not None])
def test_refused_queries_have_the_status_of_the_reference(provider, cdf, recorded, name):
    """REST-007."""
    theirs = recorded(name)
    with pytest.raises(SharingError) as refused:
        provider.query(cdf, PROBES[name])
    assert refused.value.status == theirs.status == 400


@pytest.mark.parametrize(("name", "parameters"), [
    ("cdf_999", {"startingVersion": 999}),
    ("cdf_abc", {"startingVersion": "abc"}),
    ("cdf_both", {"startingVersion": 0, "startingTimestamp": "2000-01-01T00:00:00Z"}),
    ("cdf_nostart", {}),
    ("cdf_reversed", {"startingVersion": 4, "endingVersion": 2}),
    ("cdf_ts_bad", {"startingTimestamp": "noon"}),
])  # fmt: skip
def test_refused_changes_have_the_error_code_of_the_reference(provider, cdf, recorded, name, parameters):
    """REST-017."""
    theirs = recorded(name)
    with pytest.raises(SharingError) as refused:
        provider.changes(cdf, parameters)
    assert refused.value.status == theirs.status
    assert refused.value.error_code == theirs.lines[0]["errorCode"]
