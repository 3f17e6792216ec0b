"""Version checksums that we write agree with the log, cost no long replay, and replace nothing."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from distributary.delta.log import checksum as checksum_module
from distributary.delta.log.actions import CommitActions, decode_commit
from distributary.delta.log.checkpoint_writer import write_checkpoint
from distributary.delta.log.checksum import (
    FileCounts,
    VersionChecksum,
    compare,
    counts_after,
    read_checksum,
    write_checksum,
)
from distributary.delta.log.snapshot import Snapshot


def _agrees(log: Any, snapshot: Snapshot) -> None:
    found = read_checksum(log.store, snapshot.version)
    assert isinstance(found, VersionChecksum)
    adds = log.state(snapshot.version).adds.values()
    size = sum(add["size"] for add in adds)
    assert compare(found, len(adds), size, snapshot.metadata, snapshot.protocol) == []


def test_checksum_agrees_with_the_log(busy_log: Any) -> None:
    for version in range(11):
        snapshot = busy_log.load(version)
        assert write_checksum(busy_log.store, snapshot) is not None
        _agrees(busy_log, snapshot)


def test_required_fields_are_all_written(busy_log: Any) -> None:
    """The fields of the protocol's "Version Checksum File", defaults included."""
    write_checksum(busy_log.store, busy_log.load())
    content = json.loads((busy_log.log / "00000000000000000010.crc").read_text())
    assert (content["numMetadata"], content["numProtocol"]) == (1, 1)
    assert content["metadata"]["format"] == {"provider": "parquet", "options": {}}
    assert content["metadata"]["partitionColumns"] == ["p"]
    assert content["protocol"]["minReaderVersion"] == 3
    assert {txn["appId"] for txn in content["setTransactions"]} == {"app-0", "app-1", "app-2"}
    assert [domain["domain"] for domain in content["domainMetadata"]] == ["d0"]
    assert content["numDeletionVectorsOpt"] == 10
    assert content["numDeletedRecordsOpt"] == sum(range(1, 11))


def test_commit_identity_is_taken_over(log: Any) -> None:
    log.create()
    info = {"commitInfo": {"txnId": "t-1", "inCommitTimestamp": 123, "operation": "WRITE"}}
    lines = [info, log.add("a")]
    log.write(1, "\n".join(map(json.dumps, lines)).encode())
    write_checksum(log.store, log.load())
    found = read_checksum(log.store, 1)
    assert isinstance(found, VersionChecksum)
    assert (found.txn_id, found.in_commit_timestamp_opt) == ("t-1", 123)


def test_existing_checksum_is_not_replaced(busy_log: Any) -> None:
    path = busy_log.log / "00000000000000000010.crc"
    path.write_text("{}")
    assert write_checksum(busy_log.store, busy_log.load()) is None
    assert path.read_text() == "{}"


class TestHugeTable:
    """The active files were not worked out, and would cost a long replay."""

    @pytest.fixture(autouse=True)
    def _every_checkpoint_is_huge(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checksum_module, "_MOST_CHECKPOINT_BYTES", 0)

    def test_previous_checksum_and_the_commit_suffice(self, busy_log: Any) -> None:
        write_checksum(busy_log.store, busy_log.load(9))
        write_checkpoint(busy_log.store, busy_log.load(9))
        snapshot = busy_log.load()
        assert write_checksum(busy_log.store, snapshot) is not None
        assert not snapshot.files_known
        _agrees(busy_log, snapshot)

    def test_without_a_previous_checksum_none_is_written(self, busy_log: Any) -> None:
        write_checkpoint(busy_log.store, busy_log.load(9))
        snapshot = busy_log.load()
        assert write_checksum(busy_log.store, snapshot) is None
        assert not snapshot.files_known

    def test_files_that_are_known_are_counted(self, busy_log: Any) -> None:
        write_checkpoint(busy_log.store, busy_log.load(9))
        snapshot = busy_log.load()
        assert snapshot.files.num_files
        assert write_checksum(busy_log.store, snapshot) is not None
        _agrees(busy_log, snapshot)


def _commit(*lines: dict[str, Any]) -> CommitActions:
    return decode_commit("\n".join(map(json.dumps, lines)).encode(), 1, "1.json")


def _add(path: str, size: int, data_change: bool = True) -> dict[str, Any]:
    body = {
        "path": path,
        "size": size,
        "partitionValues": {},
        "modificationTime": 0,
        "dataChange": data_change,
    }
    return {"add": body}


def _remove(path: str, size: int | None) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True} | ({} if size is None else {"size": size})}


@pytest.mark.parametrize(
    "lines",
    [[_remove("a", None)], [_add("a", 1, data_change=False)], [_add("a", 1), _add("a", 2)]],
    ids=["remove without size", "described anew", "twice"],
)
def test_actions_that_do_not_tell_give_no_counts(lines: list[dict[str, Any]]) -> None:
    assert counts_after(FileCounts(5, 50), _commit(*lines)) is None


@hypothesis.given(
    before=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 100)),
    removed=st.sets(st.sampled_from("abcdef")),
    added=st.dictionaries(st.sampled_from("uvwxyz"), st.integers(0, 100)),
)
def test_counts_by_actions_equal_counts_by_replay(
    before: dict[str, int], removed: set[str], added: dict[str, int]
) -> None:
    gone = removed & set(before)
    lines = [_remove(path, before[path]) for path in gone] + [
        _add(path, size) for path, size in added.items()
    ]
    commit = _commit({"commitInfo": {}}, *lines)
    after = {path: size for path, size in before.items() if path not in gone} | added
    assert counts_after(FileCounts(len(before), sum(before.values())), commit) == FileCounts(
        len(after), sum(after.values())
    )
