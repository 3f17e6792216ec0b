"""Checksum files: compared with the log, never believed against it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from distributary.delta.log.checksum import InvalidChecksum, VersionChecksum, compare, read_checksum


def content(log, **changes: Any) -> dict[str, Any]:
    state = log.state()
    return {
        "tableSizeBytes": sum(add["size"] for add in state.adds.values()),
        "numFiles": len(state.adds),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": state.metadata,
        "protocol": state.protocol,
        "txnId": "x",
        **changes,
    }


def differences(log, **changes: Any) -> list[str]:
    (log.log / f"{log.version:020d}.crc").write_text(json.dumps(content(log, **changes)))
    found = read_checksum(log.store, log.version)
    assert isinstance(found, VersionChecksum)
    snapshot = log.load()
    size = sum(snapshot.files.column("size").to_pylist())
    return compare(found, snapshot.files.num_files, size, snapshot.metadata, snapshot.protocol)


def test_checksum_of_the_same_state_agrees(busy_log) -> None:
    assert differences(busy_log) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"numFiles": 5}, "5 files"),
        ({"tableSizeBytes": 7}, "7 bytes"),
        ({"metadata": {"id": "other"}}, "table id other"),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}, "protocol"),
    ],
)
def test_disagreement_is_said_in_words(busy_log, changes: dict[str, Any], word: str) -> None:
    (found,) = differences(busy_log, **changes)
    assert word in found


def test_missing_and_unreadable_checksums_are_told_apart(busy_log) -> None:
    assert read_checksum(busy_log.store, 3) is None
    path = busy_log.log / f"{3:020d}.crc"
    for text in (b"", b"{", b"[]", b"{}", b'{"numFiles":"x","tableSizeBytes":1}', b"\xff", b"[" * 100_000):
        path.write_bytes(text)
        assert isinstance(read_checksum(busy_log.store, 3), InvalidChecksum)


@pytest.mark.parametrize("text", [b"", b"garbage", b'{"numFiles":1,"tableSizeBytes":1}'])
def test_a_wrong_checksum_changes_no_reading(busy_log, shown, text: bytes) -> None:
    """RELIABILITY B6: the log is what counts, with and without a checkpoint."""
    for version in range(11):
        (busy_log.log / f"{version:020d}.crc").write_bytes(text)
    assert shown(busy_log.load()) == busy_log.state().shown()
    busy_log.checkpoint(7)
    assert shown(busy_log.load()) == busy_log.state().shown()
