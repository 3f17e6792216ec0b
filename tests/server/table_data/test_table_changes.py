"""File actions from a version on, and the change data feed."""

from __future__ import annotations

import hashlib

import pytest

from distributary.sharing.error_response import InvalidParameterError, UnsupportedOperationError

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
FEED = {"delta.enableChangeDataFeed": "true"}


def remove(path, **more):
    return {"remove": {"path": path, "deletionTimestamp": 5, "dataChange": True, **more}}


def cdc(path, partition=None):
    return {"cdc": {"path": path, "partitionValues": partition or {}, "size": 7, "dataChange": False}}


@pytest.fixture
def feed(provider, logs):
    """Adds, a rewrite without data change, change files, a removal, a new schema, an empty merge."""
    columns = [("id", "long"), ("day", "string")]
    whole = {"extendedFileMetadata": True, "partitionValues": {"day": "1"}, "size": 10}
    merge = {
        "commitInfo": {
            "operation": "MERGE",
            "operationMetrics": {
                "numTargetRowsInserted": "0",
                "numTargetRowsUpdated": "0",
                "numTargetRowsDeleted": "0",
            },
        }
    }
    provider.write_log(
        "feed",
        [logs.protocol, logs.metadata(columns, ["day"], **FEED), logs.add("a", {"day": "1"})],
        [logs.add("b", {"day": "2"}), logs.add("c", {"day": None})],
        [remove("a", **whole), logs.add("a2", {"day": "1"}), cdc("_change_data/x", {"day": "1"})],
        [remove("b"), logs.add("b2", {"day": "2"}, dataChange=False)],
        [logs.metadata([*columns, ("more", "string")], ["day"], **FEED), logs.add("d", {"day": "3"})],
        [merge, remove("d", **whole), logs.add("d2", {"day": "3"})],
    )
    return "feed"


def names(found, kinds=("add", "remove", "cdf")):
    return [
        (kind, line[kind]["url"].rpartition("/")[2], line[kind]["version"])
        for line in found.lines
        for kind in kinds
        if kind in line
    ]


def test_a_stream_gives_adds_and_removes_that_change_data(provider, feed):
    """beyond A4, A12, RF-011, RF-050, RF-052: no change files, no rewrites, metadata of later versions."""
    found = provider.query(feed, {"startingVersion": 1})
    assert found.version == 1
    assert names(found) == [
        ("add", "b", 1),
        ("add", "c", 1),
        ("remove", "a", 2),
        ("add", "a2", 2),
        ("remove", "b", 3),
        ("add", "d", 4),
        ("remove", "d", 5),
        ("add", "d2", 5),
    ]
    assert [line["version"] for line in found.all("metaData")] == [1, 4]
    for line in found.all("add") + found.all("remove"):
        assert {"url", "id", "partitionValues", "size", "timestamp", "version"} <= set(line)
        assert line["id"] == hashlib.md5(line["url"].rpartition("/")[2].encode()).hexdigest()


def test_a_tombstone_without_partition_values_or_size_gets_those_of_its_add(provider, feed):
    """RF-052: size and partition values are required on the wire, optional in the log."""
    line = provider.query(feed, {"startingVersion": 3}).all("remove")[0]
    assert line["partitionValues"] == {"day": "2"}
    assert line["size"] == 10


def test_the_end_of_a_stream_is_included(provider, feed):
    found = provider.query(feed, {"startingVersion": 1, "endingVersion": 2})
    assert {version for _, _, version in names(found)} == {1, 2}


@pytest.mark.parametrize(
    "body",
    [
        {"startingVersion": 6},
        {"startingVersion": 1, "endingVersion": 6},
        {"startingVersion": 3, "endingVersion": 2},
        {"endingVersion": 2},
        {"startingVersion": -1},
    ],
)
def test_ranges_that_the_table_does_not_have_are_refused(provider, feed, body):
    """beyond A4."""
    with pytest.raises(InvalidParameterError):
        provider.query(feed, body)


def test_changes_are_change_files_where_a_commit_has_some(provider, feed):
    """CDF-001, CDF-005, CDF-006, RF-051, beyond A5: an empty merge is no change."""
    found = provider.changes(feed, {"startingVersion": 0})
    assert found.version == 0
    assert names(found) == [
        ("add", "a", 0),
        ("add", "b", 1),
        ("add", "c", 1),
        ("cdf", "x", 2),
        ("remove", "b", 3),
        ("add", "d", 4),
    ]
    assert [line["version"] for line in found.all("metaData")] == [5]
    (line,) = found.all("cdf")
    assert "/_change_data/" in line["url"]
    assert "stats" not in line


def test_changes_tell_older_metadata_where_it_is_asked_for(provider, feed):
    """RF-027, beyond A5: the first metadata then is the start's, later ones have their versions."""
    found = provider.changes(feed, {"startingVersion": 0, "includeHistoricalMetadata": "true"})
    assert [line["version"] for line in found.all("metaData")] == [0, 4]


def test_changes_in_the_delta_format_are_actions(provider, feed):
    """CDF-001, RF-063, RF-065: add, remove and cdc with version and time."""
    found = provider.changes(feed, {"startingVersion": 0}, DELTA)
    kinds = [next(iter(file["deltaSingleAction"])) for file in found.files]
    assert kinds == ["add", "add", "add", "cdc", "remove", "add"]
    action = found.files[3]["deltaSingleAction"]["cdc"]
    assert action["dataChange"] is False
    assert action["path"].startswith("https://")
    assert all({"version", "timestamp", "expirationTimestamp", "id"} <= set(file) for file in found.files)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"startingVersion": 6},
        {"startingVersion": 2, "endingVersion": 1},
        {"startingVersion": 0, "startingTimestamp": "2020-01-01T00:00:00Z"},
        {"startingVersion": 0, "endingVersion": 1, "endingTimestamp": "2020-01-01T00:00:00Z"},
        {"startingVersion": "abc"},
        {"startingTimestamp": "noon"},
        {"startingTimestamp": "2190-01-01T00:00:00Z"},
        {"startingVersion": 0, "endingTimestamp": "1990-01-01T00:00:00Z"},
    ],
)
def test_changes_of_no_range_are_refused(provider, feed, parameters):
    """beyond A5."""
    with pytest.raises(InvalidParameterError):
        provider.changes(feed, parameters)


def test_changes_past_the_latest_version_end_with_it(provider, feed):
    """beyond A5: an end past the latest is clamped."""
    whole = provider.changes(feed, {"startingVersion": 0})
    assert provider.changes(feed, {"startingVersion": 0, "endingVersion": 99}).lines == whole.lines


def test_changes_between_times_include_both_ends(provider, feed):
    """beyond A2, A5: first version at or after the start, last at or before the end."""
    import os
    from datetime import UTC, datetime

    log = provider.folder / feed / "_delta_log"
    for version in range(6):
        os.utime(log / f"{version:020d}.json", (1_700_000_000 + version * 10,) * 2)

    def text(seconds):
        return datetime.fromtimestamp(1_700_000_000 + seconds, UTC).isoformat()

    between = {"startingTimestamp": text(5), "endingTimestamp": text(20)}
    found = provider.changes(feed, between)
    assert found.version == 1
    assert {version for _, _, version in names(found)} == {1, 2}
    assert found.all("add")[0]["timestamp"] == 1_700_000_010_000
    assert provider.version(feed, {"startingTimestamp": text(11)}) == 2
    assert provider.version(feed, {"startingTimestamp": "1990-01-01T00:00:00Z"}) == 0
    assert provider.query(feed, {"timestamp": text(29)}).version == 2


@pytest.mark.parametrize("switch", ["off at the start", "off in between"])
def test_changes_without_a_feed_are_refused(provider, logs, switch):
    """beyond A5."""
    on, off = logs.metadata([("id", "long")], **FEED), logs.metadata([("id", "long")])
    first, later = (off, on) if switch == "off at the start" else (on, off)
    provider.write_log("t", [logs.protocol, first], [later, logs.add("a")])
    with pytest.raises(InvalidParameterError, match="change data feed"):
        provider.changes("t", {"startingVersion": 0})


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_pages_of_changes_and_streams_are_the_whole(provider, feed, size, capabilities):
    """beyond A6: each page repeats protocol and metadata; later metadata comes once."""

    def read(ask):
        found, token = [], None
        while True:
            page = ask({} if token is None else {"pageToken": token})
            assert len([line for line in page.lines if not {"protocol", "metaData"} & set(line)]) <= size + 1
            found += [line for line in page.lines[2:] if "endStreamAction" not in line]
            token = page.end.get("nextPageToken")
            if token is None:
                return found

    whole = provider.changes(feed, {"startingVersion": 0, "includeHistoricalMetadata": "true"}, capabilities)
    found = read(
        lambda more: provider.changes(
            feed,
            {"startingVersion": 0, "includeHistoricalMetadata": "true", "maxFiles": size, **more},
            capabilities,
        )
    )
    assert found == whole.lines[2:]
    stream = provider.query(feed, {"startingVersion": 0}, capabilities)
    found = read(
        lambda more: provider.query(feed, {"startingVersion": 0, "maxFiles": size, **more}, capabilities)
    )
    assert found == stream.lines[2:]


def test_a_page_token_of_changes_belongs_to_its_request(provider, feed):
    token = provider.changes(feed, {"startingVersion": 0, "maxFiles": 1}).end["nextPageToken"]
    with pytest.raises(InvalidParameterError):
        provider.changes(feed, {"startingVersion": 1, "maxFiles": 1, "pageToken": token})
    with pytest.raises(InvalidParameterError):
        provider.query(feed, {"maxFiles": 1, "pageToken": token})


def test_vectors_and_protocols_of_later_versions(provider, logs):
    """RF-066, beyond A4: exchanged vectors come with both actions; protocols inline where asked for."""
    on = {"delta.enableDeletionVectors": "true", **FEED}
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40,
              "cardinality": 3}  # fmt: skip
    provider.write_log(
        "t",
        [logs.protocol, logs.metadata([("id", "long")], **FEED), logs.add("a")],
        [logs.vectors, logs.metadata([("id", "long")], **on)],
        [remove("a", size=10), logs.add("a", deletionVector=vector)],
    )
    asked = {"startingVersion": 0, "includeHistoricalProtocol": True}
    found = provider.query("t", asked, DELTA)
    assert [line.get("version") for line in found.all("protocol")] == [None, 1]
    last = found.files[-1]
    assert last["deltaSingleAction"]["add"]["deletionVector"]["pathOrInlineDv"].startswith("https://")
    assert "deletionVectorFileId" in last
    assert len(provider.query("t", {"startingVersion": 0}, DELTA).all("protocol")) == 1
    feed = provider.changes("t", {"startingVersion": 2}, DELTA)
    assert [next(iter(file["deltaSingleAction"])) for file in feed.files] == ["remove", "add"]
    with pytest.raises(UnsupportedOperationError, match="deletionVectors"):
        provider.changes("t", {"startingVersion": 0})


@pytest.mark.parametrize("path", ["../x", "file:///etc/passwd", "_delta_log/0.json"])
def test_changed_files_that_leave_the_table_are_refused(provider, logs, path):
    """C-22."""
    provider.write_log("t", [logs.protocol, logs.metadata([("id", "long")], **FEED), cdc(path)])
    with pytest.raises(UnsupportedOperationError):
        provider.changes("t", {"startingVersion": 0})
    assert provider.urls.signed == []


def test_changes_over_more_versions_than_allowed_are_refused_with_the_way_to_ask(provider, feed):
    with pytest.raises(InvalidParameterError, match=r"asks for 6 versions.*endingVersion=3 first"):
        provider.changes(feed, {"startingVersion": 0}, most_versions=4)
    assert provider.changes(feed, {"startingVersion": 0, "endingVersion": 3}, most_versions=4).lines
