"""Which format answers which client, and that no table is given to a client that would misread it."""

from __future__ import annotations

import json

import pytest

from distributary.sharing.error_response import UnsupportedOperationError

BOTH = "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,timestampntz"
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40,
          "cardinality": 3}  # fmt: skip


@pytest.fixture
def vectors(provider, logs):
    """A table with deletion vectors: in a file, inline, none."""
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
              "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    on = {"delta.enableDeletionVectors": "true"}
    provider.write_log(
        "vectors",
        [
            logs.vectors,
            logs.metadata([("id", "long")], **on),
            logs.add("a.parquet", stats={"numRecords": 10}, deletionVector=VECTOR),
            logs.add("b.parquet", stats={"numRecords": 10}, deletionVector=inline),
            logs.add("c.parquet", stats={"numRecords": 10}),
        ],
    )
    return "vectors"


@pytest.fixture
def mapped(provider, logs):
    """A partitioned table with column mapping by name."""
    action = logs.metadata(
        [("id", "long"), ("day", "date")],
        ["day"],
        **{"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    )
    schema = json.loads(action["metaData"]["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number}",
            "comment": "c",
        }
    action["metaData"]["schemaString"] = json.dumps(schema)
    stats = {"numRecords": 1, "minValues": {"col-1": 5}, "maxValues": {"col-1": 9}, "nullCount": {"col-1": 0}}
    provider.write_log(
        "mapped",
        [
            {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
            action,
            logs.add("x/1.parquet", {"col-2": "2024-01-01"}, stats),
            logs.add("x/2.parquet", {"col-2": "2024-01-02"}, stats),
        ],
    )
    return "mapped"


@pytest.mark.parametrize(
    ("capabilities", "chosen"),
    [
        (None, "parquet"),
        ("", "parquet"),
        ("responseformat=parquet", "parquet"),
        ("responseformat=delta", "delta"),
        ("ResponseFormat=DELTA", "delta"),
        ("responseformat=delta,parquet", "parquet"),
        ("responseformat=parquet,delta;readerfeatures=deletionvectors", "parquet"),
        ("responseformat=avro", "parquet"),
        ("nonsense;;=;a=b=c;responseformat=delta", "delta"),
    ],
)
def test_a_plain_table_is_given_in_the_format_asked_for(provider, orders, capabilities, chosen):
    """CAP-002 to CAP-005, CAP-013, CAP-014, C-06, C-08, A16: the header says the format in lower case."""
    for found in (provider.query("orders", {}, capabilities), provider.metadata("orders", {}, capabilities)):
        assert found.headers["delta-sharing-capabilities"] == f"responseformat={chosen}"
        assert ("deltaProtocol" in found.all("protocol")[0]) == (chosen == "delta")


@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        "responseformat=parquet",
        "responseformat=delta",
        "responseformat=delta;readerfeatures=columnmapping",
        "responseformat=parquet;readerfeatures=deletionvectors",
    ],
)
def test_vectors_are_refused_to_clients_that_did_not_announce_them(provider, vectors, capabilities):
    """CAP-008, CAP-009, C-07: 400 that names the feature, on every path."""
    asked = [
        lambda: provider.query(vectors, {}, capabilities),
        lambda: provider.metadata(vectors, {}, capabilities),
        lambda: provider.query(vectors, {"startingVersion": 0}, capabilities),
        lambda: provider.query(vectors, {"maxFiles": 1}, capabilities),
    ]
    for ask in asked:
        with pytest.raises(UnsupportedOperationError, match="deletionVectors") as refused:
            ask()
        assert refused.value.status == 400


def test_vectors_are_signed_and_inline_ones_stay(provider, vectors):
    """RF-065, RF-066: `u` becomes `p` with a URL and has a file id; `i` is as it was."""
    first, second, third = provider.query(vectors, {}, BOTH).files
    given = first["deltaSingleAction"]["add"]["deletionVector"]
    assert given["storageType"] == "p"
    assert given["pathOrInlineDv"].startswith("https://files.example/ab/deletion_vector_d2c639aa-8816-431a")
    assert (given["offset"], given["sizeInBytes"], given["cardinality"]) == (4, 40, 3)
    assert len(first["deletionVectorFileId"]) == 64
    inline = second["deltaSingleAction"]["add"]["deletionVector"]
    assert inline["storageType"] == "i"
    assert "offset" not in inline
    assert "deletionVectorFileId" not in second
    assert "deletionVector" not in third["deltaSingleAction"]["add"]


@pytest.mark.parametrize("body", [{"maxFiles": 10}, {"version": 0}, {"startingVersion": 0},
                                  {"predicateHints": ["id is not null"]}, {"limitHint": 100}])  # fmt: skip
def test_vectors_come_along_on_every_path(provider, vectors, body):
    """RF-066: paging, versions, streaming, predicates and limits all carry deletion vectors."""
    found = provider.query(vectors, body, BOTH)
    kinds = [
        file["deltaSingleAction"]["add"].get("deletionVector", {}).get("storageType") for file in found.files
    ]
    assert sorted(kinds, key=str) == [None, "i", "p"]


def test_vectors_count_though_the_property_is_off_again(provider, logs):
    """C-07: files keep their vectors after the property is switched off."""
    provider.write_log(
        "t", [logs.vectors, logs.metadata([("id", "long")]), logs.add("a.parquet", deletionVector=VECTOR)]
    )
    with pytest.raises(UnsupportedOperationError, match="deletionVectors"):
        provider.query("t")
    assert "deletionVector" in provider.query("t", {}, BOTH).files[0]["deltaSingleAction"]["add"]


def test_features_that_nothing_switches_on_are_not_needed(provider, logs):
    """C-07: listed but inactive features are no hindrance, and the delta format leaves them out."""
    listed = ["deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
    protocol = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": listed,
            "writerFeatures": [*listed, "appendOnly"],
        }
    }
    on = {"delta.checkpointPolicy": "v2"}
    provider.write_log("t", [protocol, logs.metadata([("id", "long")], **on), logs.add("a.parquet")])
    assert provider.query("t").lines[0] == {"protocol": {"minReaderVersion": 1}}
    bare = provider.query("t", {}, "responseformat=delta").all("protocol")[0]["deltaProtocol"]
    assert bare == {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]}
    some = provider.query("t", {}, "responseformat=delta;readerfeatures=deletionvectors")
    assert some.all("protocol")[0]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]


def test_column_mapping_is_given_in_the_delta_format_with_physical_names(provider, mapped):
    """CAP-009, PV-009: partition values and statistics are the log's own; hints use logical names."""
    with pytest.raises(UnsupportedOperationError, match="columnMapping"):
        provider.query(mapped)
    found = provider.query(mapped, {"predicateHints": ["day = '2024-01-02'", "id >= 6"]}, BOTH)
    assert found.headers["delta-sharing-capabilities"] == "responseformat=delta"
    (file,) = found.files
    add = file["deltaSingleAction"]["add"]
    assert add["partitionValues"] == {"col-2": "2024-01-02"}
    assert json.loads(add["stats"])["minValues"] == {"col-1": 5}
    assert not provider.query(mapped, {"predicateHints": ["id > 9"]}, BOTH).files


def test_a_mapped_partition_can_be_filtered_by_policy_and_paged(provider, mapped):
    found = provider.query(mapped, {"maxFiles": 1}, BOTH, partition_filter="day > '2024-01-01'")
    assert [file["deltaSingleAction"]["add"]["partitionValues"] for file in found.files] == [
        {"col-2": "2024-01-02"}
    ]
    assert "nextPageToken" not in found.end


def test_types_of_newer_features_need_the_feature(provider, logs):
    """CAP-009: timestampNtz by its column, type widening by the columns it changed."""
    protocol = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": ["timestampNtz"],
        }
    }
    provider.write_log("t", [protocol, logs.metadata([("at", "timestamp_ntz")]), logs.add("a.parquet")])
    with pytest.raises(UnsupportedOperationError, match="timestampNtz"):
        provider.query("t", {}, "responseformat=delta;readerfeatures=deletionvectors")
    assert provider.query("t", {}, BOTH).headers["delta-sharing-capabilities"] == "responseformat=delta"


def test_column_metadata_is_cut_to_comments_in_the_parquet_format(provider, logs):
    """SC-009, SC-002."""
    action = logs.metadata([("id", "long")])
    field = {"name": "id", "type": {"type": "array", "elementType": {"type": "struct", "fields": [
        {"name": "x", "type": "long", "nullable": True, "metadata": {"delta.y": 1}}]}, "containsNull": True},
        "nullable": True, "metadata": {"comment": "k", "delta.generationExpression": "1"}}  # fmt: skip
    action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [field]})
    provider.write_log("t", [logs.protocol, action])
    shown = json.loads(provider.metadata("t").all("metaData")[0]["schemaString"])["fields"][0]
    assert shown["metadata"] == {"comment": "k"}
    assert shown["type"]["elementType"]["fields"][0]["metadata"] == {}


def test_an_end_of_stream_action_is_given_only_where_it_is_asked_for(provider, orders):
    """CAP-010, CAP-011, CAP-015, RF-053, RF-055, C-03, C-04."""
    assert provider.query("orders").end is None
    for kind in ("parquet", "delta"):
        asked = f"responseformat={kind};includeEndStreamAction=true"
        found = provider.query("orders", {}, asked)
        assert found.kinds[-1] == "endStreamAction"
        assert found.end == {"minUrlExpirationTimestamp": 4_000_000_000_000}
        assert found.headers["delta-sharing-capabilities"] == (
            f"responseformat={kind};includeendstreamaction=true"
        )
        assert provider.metadata("orders", {}, asked).kinds == ["protocol", "metaData"]


def test_a_table_that_cannot_be_read_at_all_is_refused_by_name(provider, logs):
    """CAP-009: a feature that the server itself does not know."""
    protocol = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["catalogManaged"],
            "writerFeatures": ["catalogManaged"],
        }
    }
    provider.write_log("t", [protocol, logs.metadata([("id", "long")])])
    with pytest.raises(UnsupportedOperationError, match="catalogManaged") as refused:
        provider.query("t", {}, BOTH)
    assert str(provider.folder) not in str(refused.value)
