"""Reads of one version: lines, ids, statistics, hints, limits, versions, negotiation, errors."""

from __future__ import annotations

import hashlib
import json

import pytest

from distributary.sharing.error_response import (
    InvalidParameterError,
    SharingError,
    UnsupportedOperationError,
)

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"


def test_a_plain_query_gives_protocol_metadata_and_one_line_a_file(provider, orders):
    """REST-174, REST-175, REST-176, REST-179, RF-002, RF-010, RF-012: all files of one version."""
    found = provider.query("orders")
    assert found.kinds == ["protocol", "metaData"] + ["file"] * 6
    assert found.lines[0] == {"protocol": {"minReaderVersion": 1}}
    assert found.version == orders.version() == 1
    assert found.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert found.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert found.body.endswith(b"\n")


def test_a_file_line_has_url_id_partition_size_stats_and_expiry(provider, orders):
    """RF-040 to RF-044, RF-047, PV-001, PV-009: a null partition value is an empty string."""
    listed = {row["path"]: row for row in orders.snapshot().files().to_pylist()}
    found = provider.query("orders").files
    assert {file["id"] for file in found} == {hashlib.md5(path.encode()).hexdigest() for path in listed}
    for file in found:
        assert set(file) == {"url", "id", "partitionValues", "size", "stats", "expirationTimestamp"}
        assert json.loads(file["stats"])["numRecords"] == 10
        assert file["expirationTimestamp"] == 4_000_000_000_000
    assert sorted(file["partitionValues"]["country"] for file in found) == ["", "AT", "DE", "FR", "IT", "PL"]
    assert sum(file["size"] for file in found) == sum(row["size"] for row in listed.values())


def test_metadata_line_has_what_the_table_says(provider, orders):
    """RF-020, RF-023 to RF-026, RF-028, RF-029, SC-001, CDF-003, C-19, C-42."""
    found = provider.query("orders")
    metadata = found.all("metaData")[0]
    assert metadata["id"] == orders.snapshot().metadata.id
    assert metadata["format"] == {"provider": "parquet"}
    assert metadata["partitionColumns"] == ["country"]
    assert metadata["configuration"] == {"enableChangeDataFeed": "true"}
    assert metadata["numFiles"] == 6
    assert metadata["size"] == sum(file["size"] for file in found.files)
    schema = json.loads(metadata["schemaString"])
    assert [field["name"] for field in schema["fields"]] == ["id", "amount", "country"]
    assert {"accessModes", "location", "auxiliaryLocations"}.isdisjoint(metadata)


def test_delta_lines_are_actions_of_the_log_with_urls(provider, orders):
    """RF-060 to RF-065, CAP-004, PV-009: null stays null, ids are SHA-256."""
    found = provider.query("orders", capabilities=DELTA)
    assert found.headers["delta-sharing-capabilities"] == "responseformat=delta"
    protocol, metadata = found.all("protocol")[0], found.all("metaData")[0]
    assert set(protocol["deltaProtocol"]) >= {"minReaderVersion", "minWriterVersion"}
    assert metadata["deltaMetadata"]["configuration"]["delta.enableChangeDataFeed"] == "true"
    assert metadata["numFiles"] == 6
    paths = {row["path"] for row in orders.snapshot().files().to_pylist()}
    assert {file["id"] for file in found.files} == {
        hashlib.sha256(path.encode()).hexdigest() for path in paths
    }
    for file in found.files:
        add = file["deltaSingleAction"]["add"]
        assert add["path"].startswith("https://files.example/")
        assert add["dataChange"] is True
        assert add["modificationTime"] > 0
    values = [file["deltaSingleAction"]["add"]["partitionValues"]["country"] for file in found.files]
    assert None in values
    assert "" not in values


@pytest.mark.parametrize("scheme", ["parquet", "delta"])
@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_fileidhash_chooses_the_ids_in_either_format(provider, orders, scheme, capabilities):
    """RF-041 and beyond A10: the same file has the same id in every format; the choice is echoed."""
    found = provider.query("orders", capabilities=capabilities, file_ids=scheme.upper())
    assert found.headers["fileidhash"] == scheme
    length = {"parquet": 32, "delta": 64}[scheme]
    assert {len(file["id"]) for file in found.files} == {length}


def test_an_unknown_fileidhash_is_refused(provider, orders):
    with pytest.raises(InvalidParameterError):
        provider.query("orders", file_ids="md5")


@pytest.mark.parametrize(
    ("hints", "countries"),
    [
        (["country = 'FR'"], {"FR"}),
        (["'FR' <= country", "country <> 'IT'"], {"FR", "PL"}),
        (["country IS NULL"], {""}),
        (["id >= 25"], {"FR", "IT", "PL", ""}),
        (["id < 15", "country IS NOT NULL"], {"AT", "DE"}),
        (["this is no sql (", "country = 'AT'"], {"AT"}),
        (["nobody = 1", "country = 'AT'"], {"AT"}),
        (["amount > 1000"], {"AT", "DE", "FR", "IT", "PL", ""}),
        (["nonsense"], {"AT", "DE", "FR", "IT", "PL", ""}),
    ],
)
def test_hints_return_fewer_files_and_never_too_few(provider, orders, hints, countries):
    """FLT-001 to FLT-006, ST-007: hints are AND-ed, what cannot be used is skipped."""
    found = provider.query("orders", {"predicateHints": hints})
    shown = {file["partitionValues"]["country"] for file in found.files}
    assert shown == countries if "amount" not in hints[0] else shown <= countries


def test_json_hints_filter_by_partition_and_by_statistics(provider, orders):
    """beyond A11: and, not, equal over partition columns and data columns."""

    def column(name, kind):
        return {"op": "column", "name": name, "valueType": kind}

    def literal(value, kind):
        return {"op": "literal", "value": value, "valueType": kind}

    hint = {
        "op": "and",
        "children": [
            {
                "op": "not",
                "children": [
                    {"op": "equal", "children": [column("country", "string"), literal("AT", "string")]}
                ],
            },
            {"op": "lessThan", "children": [column("id", "long"), literal("25", "long")]},
        ],
    }
    found = provider.query("orders", {"jsonPredicateHints": json.dumps(hint)})
    assert {file["partitionValues"]["country"] for file in found.files} == {"DE", "FR"}


@pytest.mark.parametrize("hint", ["", "{", '{"op":"drop"}', '{"op":"not","children":[]}', "[" * 10_000])
def test_json_hints_that_cannot_be_used_filter_nothing(provider, orders, hint):
    """FLT-004: no hint is ever an error."""
    assert len(provider.query("orders", {"jsonPredicateHints": hint}).files) == 6


def test_hints_beyond_the_budget_are_ignored(provider, orders):
    """FLT-004: many or huge hints cost nothing and filter nothing."""
    many = {"predicateHints": ["country = 'FR'"] * 1000}
    huge = {"predicateHints": ["country = '" + "x" * 2_000_000 + "'"]}
    assert len(provider.query("orders", many).files) == 6
    assert len(provider.query("orders", huge).files) == 6


@pytest.mark.parametrize(("limit", "files"), [(0, 0), (1, 1), (10, 1), (11, 2), (60, 6), (10**12, 6)])
def test_a_limit_returns_as_many_files_as_hold_the_rows(provider, orders, limit, files):
    """FLT-007, FLT-008, FLT-011: files are counted by their statistics."""
    assert len(provider.query("orders", {"limitHint": limit}).files) == files


def test_a_limit_counts_after_hints_that_partitions_decide(provider, orders):
    """FLT-009, FLT-010."""
    body = {"predicateHints": ["country >= 'FR'"], "limitHint": 5}
    found = provider.query("orders", body)
    assert len(found.files) == 1
    assert found.files[0]["partitionValues"]["country"] >= "FR"


@pytest.mark.parametrize("hint", ["amount > 16", "no sql ("])
def test_a_limit_is_not_used_where_rows_of_kept_files_may_not_match(provider, orders, hint):
    """FLT-010: with an inexact or unknown hint a limit could leave out matching rows."""
    whole = provider.query("orders", {"predicateHints": [hint]})
    assert provider.query("orders", {"predicateHints": [hint], "limitHint": 1}).files == whole.files


def test_a_limit_counts_deleted_rows_as_absent_and_unknown_files_as_empty(provider, logs):
    """FLT-008: numRecords less the deletion vector's rows; no numRecords counts as 0."""
    vector = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
              "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    provider.write_log(
        "t",
        [
            logs.vectors,
            logs.metadata([("id", "long")], **{"delta.enableDeletionVectors": "true"}),
            logs.add("a", stats={"numRecords": 10}, deletionVector=vector),
            logs.add("b"),
            logs.add("c", stats={"numRecords": 10}),
            logs.add("d", stats={"numRecords": 10}),
        ],
    )
    assert len(provider.query("t", {"limitHint": 4}, DELTA).files) == 1
    assert len(provider.query("t", {"limitHint": 5}, DELTA).files) == 3
    assert len(provider.query("t", {"limitHint": 15}, DELTA).files) == 4


def test_versions_and_times_give_older_files_with_version_and_time(provider, orders):
    """RF-045, RF-046, A4: versioned reads tell version and time on every file."""
    orders.append(orders.snapshot().to_arrow(predicate="country = 'FR'"))
    moment = orders.snapshot(version=1).timestamp()
    found = provider.query("orders", {"version": 1})
    assert found.version == 1
    assert {(file["version"], file["timestamp"]) for file in found.files} == {(1, moment)}
    assert found.all("metaData")[0]["version"] == 1
    assert len(provider.query("orders").files) == 7
    delta = provider.query("orders", {"version": 1}, DELTA)
    assert {(file["version"], file["timestamp"]) for file in delta.files} == {(1, moment)}


@pytest.mark.parametrize(
    "body", [{"version": 99}, {"timestamp": "2000-01-01T00:00:00Z"}, {"timestamp": "2190-01-01T00:00:00Z"}]
)
def test_versions_and_times_outside_the_history_are_refused(provider, orders, body):
    with pytest.raises(InvalidParameterError) as refused:
        provider.query("orders", body)
    assert str(provider.folder) not in str(refused.value)


def test_statistics_of_any_text_stay_valid_json(provider, logs):
    """RF-044, ST-009: quotes, backslashes, control characters and nonsense are passed on or dropped."""
    texts = ['{"numRecords":1,"minValues":{"s":"a\\"b\\\\c"}}', '{\n "numRecords": 1\n}', "nonsense \u0007 €"]
    provider.write_log(
        "t",
        [logs.protocol, logs.metadata([("s", "string")])]
        + [logs.add(f"f{at}", stats=text) for at, text in enumerate(texts)],
    )
    assert [file["stats"] for file in provider.query("t").files] == texts
    assert "stats" not in provider.query("t", {}, None).lines[0]


def test_rare_fields_of_adds_are_passed_on_in_the_delta_format(provider, logs):
    """RF-063: tags, row ids and clustering are the log's own."""
    more = {"tags": {"a": 'x"y', "b": None}, "baseRowId": 7, "defaultRowCommitVersion": 3,
            "clusteringProvider": "li\"quid"}  # fmt: skip
    provider.write_log(
        "t", [logs.protocol, logs.metadata([("s", "string")]), logs.add("f", **more), logs.add("g")]
    )
    first, second = (file["deltaSingleAction"]["add"] for file in provider.query("t", {}, DELTA).files)
    assert {name: first[name] for name in more} == more
    assert set(more).isdisjoint(second)


def test_a_table_read_by_directory_only_has_no_urls(provider, orders):
    """AM-014, AM-015, RF-030, RF-032."""
    with pytest.raises(UnsupportedOperationError, match="dir"):
        provider.query("orders", access_modes=("dir",))
    with pytest.raises(UnsupportedOperationError, match="dir"):
        provider.changes("orders", {"startingVersion": 0}, access_modes=("dir",))
    metadata = provider.metadata("orders", access_modes=("dir",)).all("metaData")[0]
    assert metadata["accessModes"] == ["dir"]
    assert metadata["location"].endswith("/orders")


@pytest.mark.parametrize(
    "path",
    ["../secret/x.parquet", "/etc/passwd", "file:///etc/passwd", "s3://other/x", "a/../../x", "%2e%2e/x",
     "_delta_log/00000000000000000000.json", "a\\..\\b"],
)  # fmt: skip
@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_paths_that_leave_the_table_are_refused_before_anything_is_signed(provider, logs, path, capabilities):
    """C-22, RELIABILITY F2: nothing of such a table is signed, and the message names no path."""
    provider.write_log("t", [logs.protocol, logs.metadata([("s", "string")]), logs.add("ok"), logs.add(path)])
    with pytest.raises(UnsupportedOperationError) as refused:
        provider.query("t", {}, capabilities)
    assert path not in str(refused.value)
    assert provider.urls.signed == []


def test_a_vector_outside_the_table_is_refused(provider, logs):
    """C-22: deletion vectors are files too."""
    vector = {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd", "offset": 1, "sizeInBytes": 1,
              "cardinality": 1}  # fmt: skip
    on = {"delta.enableDeletionVectors": "true"}
    provider.write_log(
        "t", [logs.vectors, logs.metadata([("s", "string")], **on), logs.add("f", deletionVector=vector)]
    )
    with pytest.raises(UnsupportedOperationError):
        provider.query("t", {}, DELTA)
    assert provider.urls.signed == []


def test_files_of_an_auxiliary_location_are_signed_there(provider, logs):
    """C-22: an absolute path is served where its root is an auxiliary location."""
    other = provider.folder / "source"
    provider.write_log(
        "t", [logs.protocol, logs.metadata([("s", "string")]), logs.add(f"file://{other}/a=1/x.parquet")]
    )
    provider.query("t", auxiliary_locations=(str(other),))
    assert provider.urls.signed == [f"file://{other}/a=1/x.parquet"]


def test_a_missing_table_is_an_error_without_its_place(provider):
    with pytest.raises(SharingError) as refused:
        provider.query("nowhere")
    assert refused.value.status == 404
    assert str(provider.folder) not in str(refused.value)


def test_a_corrupt_log_is_an_internal_error_without_details(provider, logs):
    """REST-011, REST-018."""
    path = provider.write_log("t", [logs.protocol, logs.metadata([("s", "string")])])
    (path / "_delta_log" / f"{1:020d}.json").write_bytes(b"{broken")
    with pytest.raises(SharingError) as refused:
        provider.query("t")
    assert refused.value.status == 500
    assert "_delta_log" not in str(refused.value)
