"""The codec of actions: what a line of a commit means, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from distributary.delta.errors import CorruptLogError
from distributary.delta.log.actions import (
    Add,
    AddCdcFile,
    DomainMetadata,
    LogLine,
    Metadata,
    Protocol,
    Remove,
    SetTransaction,
    decode_commit,
    encode_lines,
)

PATH = "_delta_log/00000000000000000007.json"
ADD: dict[str, Any] = {
    "path": "a.parquet",
    "partitionValues": {"p": "1"},
    "size": 841454,
    "modificationTime": 1512909768000,
    "dataChange": True,
}


def decode(*lines: Any, separator: str = "\n"):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return decode_commit(separator.join(texts).encode(), 7, PATH)


def test_every_action_of_a_commit_is_decoded() -> None:
    """LR-005: one action a line, known by its key."""
    commit = decode(
        {"commitInfo": {"operation": "WRITE"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}"}},
        {"add": ADD},
        {"remove": {"path": "b.parquet", "dataChange": True}},
        {"txn": {"appId": "app", "version": 3}},
    )
    assert commit.version == 7
    assert commit.commit_info == {"operation": "WRITE"}
    assert commit.protocol == Protocol(1, 2)
    assert commit.metadata is not None
    assert commit.metadata.id == "x"
    assert [add.path for add in commit.adds] == ["a.parquet"]
    assert [remove.path for remove in commit.removes] == ["b.parquet"]
    assert commit.transactions == (SetTransaction("app", 3),)


def test_unknown_actions_and_fields_are_ignored() -> None:
    """LR-006: unrecognised fields, at any depth, and unrecognised actions."""
    commit = decode(
        {"newAction": {"path": 1}},
        {"add": {**ADD, "newField": {"deep": [1, {"path": "x"}]}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, "newField": 3}},
    )
    assert commit.adds == (Add("a.parquet", {"p": "1"}, 841454, 1512909768000, data_change=True),)
    assert commit.protocol == Protocol(1, 2)


def test_metadata_has_all_its_fields() -> None:
    """LR-040: every field of metaData, and their absence."""
    full = {
        "id": "af23c9d7",
        "name": "n",
        "description": "d",
        "format": {"provider": "parquet", "options": {"a": "b"}},
        "schemaString": "{}",
        "partitionColumns": ["p", "q"],
        "createdTime": 1515491537026,
        "configuration": {"delta.appendOnly": "true"},
    }
    metadata = decode({"metaData": full}).metadata
    assert metadata is not None
    assert (metadata.id, metadata.name, metadata.description) == ("af23c9d7", "n", "d")
    assert (metadata.format.provider, metadata.format.options) == ("parquet", {"a": "b"})
    assert (metadata.schema_string, metadata.created_time) == ("{}", 1515491537026)
    assert metadata.partitioning == ("p", "q")
    assert metadata.properties == {"delta.appendOnly": "true"}
    bare = decode({"metaData": {"id": "y"}}).metadata
    assert bare is not None
    assert (bare.name, bare.partitioning, bare.properties, bare.created_time) == (None, (), {}, None)


def test_two_metadata_actions_in_one_version_are_refused() -> None:
    """LR-042: at most one metaData a version."""
    with pytest.raises(CorruptLogError, match="2 metaData"):
        decode({"metaData": {"id": "x"}}, {"metaData": {"id": "y"}})


def test_two_protocol_actions_in_one_version_are_refused() -> None:
    """LR-021: exactly one protocol results."""
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    with pytest.raises(CorruptLogError, match="2 protocol"):
        decode(protocol, protocol)


def test_add_has_all_its_fields() -> None:
    """LR-044: the fields of add, those of newer editions too, and the optional ones absent."""
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "x" * 20,
        "offset": 1,
        "sizeInBytes": 34,
        "cardinality": 2,
    }
    (add,) = decode(
        {
            "add": {
                **ADD,
                "stats": '{"numRecords":1}',
                "tags": {"a": "b"},
                "deletionVector": vector,
                "baseRowId": 4,
                "defaultRowCommitVersion": 5,
                "clusteringProvider": "liquid",
            }
        }
    ).adds
    assert (add.path, add.partition_values, add.size) == ("a.parquet", {"p": "1"}, 841454)
    assert (add.modification_time, add.data_change) == (1512909768000, True)
    assert (add.stats, add.tags) == ('{"numRecords":1}', {"a": "b"})
    assert add.deletion_vector is not None
    assert add.deletion_vector.unique_id == "u" + "x" * 20 + "@1"
    assert (add.base_row_id, add.default_row_commit_version, add.clustering_provider) == (4, 5, "liquid")
    (bare,) = decode({"add": ADD}).adds
    assert (bare.stats, bare.tags, bare.deletion_vector) == (None, None, None)


def test_remove_has_all_its_fields() -> None:
    """LR-045: the fields of remove; all but path and dataChange may be absent."""
    body = {
        "path": "a",
        "deletionTimestamp": 5,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {"p": None},
        "size": 3,
        "tags": {"a": "b"},
    }
    (remove,) = decode({"remove": body}).removes
    assert (remove.path, remove.deletion_timestamp, remove.data_change) == ("a", 5, False)
    assert (remove.extended_file_metadata, remove.partition_values) == (True, {"p": None})
    assert (remove.size, remove.tags) == (3, {"a": "b"})
    (bare,) = decode({"remove": {"path": "a", "dataChange": True}}).removes
    assert (bare.deletion_timestamp, bare.size, bare.extended_file_metadata) == (None, None, None)


def test_txn_protocol_cdc_and_domains_have_all_their_fields() -> None:
    """LR-046, LR-047: txn with and without lastUpdated; protocol with and without features."""
    commit = decode(
        {"txn": {"appId": "a", "version": 2**40, "lastUpdated": 6}},
        {"txn": {"appId": "b", "version": 1}},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["x"],
                "writerFeatures": ["x", "y"],
            }
        },
        {"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False, "tags": None}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": True}},
    )
    assert commit.transactions == (SetTransaction("a", 2**40, 6), SetTransaction("b", 1))
    assert commit.protocol == Protocol(3, 7, ("x",), ("x", "y"))
    assert commit.change_files == (AddCdcFile("c", {}, 1),)
    assert commit.domains == (DomainMetadata("d", "{}", removed=True),)


@pytest.mark.parametrize(
    "info",
    [{"operation": "X", "operationParameters": {"a": [1, {"b": None}]}}, {}, [1, 2], "text", 5, None],
)
def test_commit_info_of_any_json_is_accepted(info: Any) -> None:
    """LR-048: commitInfo may hold any JSON and is never needed."""
    commit = decode({"commitInfo": info}, {"add": ADD})
    assert len(commit.adds) == 1
    assert commit.commit_info == (info if isinstance(info, dict) else {})


def test_an_action_over_several_lines_is_read() -> None:
    """Some writers print actions over several lines; Spark reads them."""
    (add,) = decode(json.dumps({"add": ADD}, indent=2)).adds
    assert add.path == "a.parquet"


def test_blank_lines_and_carriage_returns_are_no_actions() -> None:
    """LR-005: lines may end with CRLF; blank ones are nothing."""
    assert (
        len(decode({"add": ADD}, "", "  ", {"txn": {"appId": "a", "version": 1}}, separator="\r\n").adds) == 1
    )


_texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
_maps = st.dictionaries(_texts, st.none() | _texts, max_size=3)
_longs = st.integers(-(2**63), 2**63 - 1)


_adds = st.builds(Add, _texts, _maps, _longs, _longs, st.booleans(), st.none() | _texts, _maps)
_metadata = st.builds(
    Metadata, _texts, st.none() | _texts, configuration=st.none() | st.dictionaries(_texts, _texts)
)
_lines = st.one_of(
    st.builds(LogLine, add=_adds),
    st.builds(LogLine, remove=st.builds(Remove, _texts, st.booleans(), st.none() | _longs)),
    st.builds(LogLine, txn=st.builds(SetTransaction, _texts, _longs, st.none() | _longs)),
    st.builds(LogLine, meta_data=_metadata),
    st.builds(LogLine, domain_metadata=st.builds(DomainMetadata, _texts, _texts, st.booleans())),
)


@given(st.lists(_lines, min_size=1, max_size=5))
def test_actions_round_trip(lines: list[LogLine]) -> None:
    """Encoding and decoding give the same actions, whatever texts they hold (LR-005)."""
    lines = [line for at, line in enumerate(lines) if line.meta_data is None or at == 0]
    if not lines:
        return
    commit = decode_commit(encode_lines(lines), 1, PATH)
    assert commit.files == tuple(a for line in lines if (a := line.add or line.remove) is not None)
    assert commit.transactions == tuple(line.txn for line in lines if line.txn is not None)
    assert commit.domains == tuple(line.domain_metadata for line in lines if line.domain_metadata is not None)
    assert commit.metadata == next((line.meta_data for line in lines if line.meta_data is not None), None)


@given(st.data())
def test_a_key_given_twice_is_refused_wherever_it_is(data: st.DataObject) -> None:
    """A key at top level, in an action or in a map twice: CorruptLogError, never the last one silently."""
    body = {**ADD, "tags": {"t": "1"}, "stats": '{"numRecords":1}'}
    where = data.draw(st.sampled_from(["top", "add", "partitionValues", "tags"]))
    text = json.dumps({"add": body})
    key, value = {
        "top": ("add", body),
        "add": data.draw(st.sampled_from(list(body.items()))),
        "partitionValues": ("p", "2"),
        "tags": ("t", None),
    }[where]
    spelled = data.draw(
        st.sampled_from([json.dumps(key), '"' + "".join(f"\\u{ord(c):04x}" for c in key) + '"'])
    )
    extra = f"{spelled}: {json.dumps(data.draw(st.sampled_from([value, None])))}"
    opening = {"top": "{", "add": '"add": {', "partitionValues": '"partitionValues": {', "tags": '"tags": {'}[
        where
    ]
    at = text.index(opening) + len(opening)
    damaged = f"{text[:at]}{extra}, {text[at:]}"
    assert len(decode(text).adds) == 1
    with pytest.raises(CorruptLogError) as caught:
        decode({"commitInfo": {}}, damaged)
    assert PATH in str(caught.value)
    assert caught.value.line == 2
