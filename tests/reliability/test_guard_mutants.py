"""Guard mutants (RELIABILITY 1.6, rig 12): a guard of a commit is taken away, and a rig must go red."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs import conflict_cases
from rigs.crash_disk import Op
from rigs.fault_proxy import fault_proxy
from rigs.lost_responses import commit_with_losses
from rigs.power_loss import lose_power
from rigs.race_rig import WRITERS, race

import distributary.delta.commit.conflict_checker as conflict_checker
import distributary.storage.commit_file as commit_file
import distributary.storage.local_disk as local_disk
from distributary.errors import ObjectNotFoundError
from distributary.storage.object_store import open_store

AFTER_MKDIR_OF_THE_LOG = 6
AFTER_LINK_OF_THE_FIRST_ENTRY = 11


def _power_loss_is_red(folder: Path, scenario: str = "one writer", seed: int = 1) -> bool:
    return bool(lose_power(folder, scenario, seed, sample=1, first_fault=True).faults)


def test_without_fsync_of_the_file_power_loss_tears_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2: fsync before the link."""
    monkeypatch.setattr("rigs.crash_disk.Recorder._record", _without("sync"))
    assert _power_loss_is_red(tmp_path)


def test_without_fsync_of_the_directory_power_loss_loses_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2: fsync of the directory before the acknowledgement."""
    monkeypatch.setattr(local_disk, "_sync_directory", lambda final: None)
    assert _power_loss_is_red(tmp_path)


def test_without_syncing_directories_that_others_made_power_loss_loses_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2: of two racing creators one finds the directory there, whose name is not durable yet."""

    def prepare(self: local_disk.LocalDisk, directory: str) -> None:
        missing: list[str] = []
        while not local_disk.os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for made in reversed(missing):
            try:
                local_disk.os.mkdir(made)
            except FileExistsError:
                continue
            local_disk._sync_directory(made)

    monkeypatch.setattr(local_disk.LocalDisk, "_prepare", prepare)
    assert _power_loss_is_red(tmp_path, "stalling writers", AFTER_MKDIR_OF_THE_LOG)


def test_without_settling_the_entry_before_power_loss_leaves_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2: an entry must not outlive the one that it follows, which its writer has not synced yet."""
    monkeypatch.setattr(local_disk.LocalDisk, "settle", lambda self, path: None)
    assert _power_loss_is_red(tmp_path, "stalling writers", AFTER_LINK_OF_THE_FIRST_ENTRY)


def test_with_check_then_rename_instead_of_link_two_writers_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3: the way that had two winners in 27 of 200 races when measured (M3)."""

    def check_then_rename(temporary: str, final: str) -> None:
        if os.path.exists(final):
            raise FileExistsError(17, "exists", final)
        os.rename(temporary, final)

    monkeypatch.setattr(local_disk, "_create_once", check_then_rename)
    assert race([open_store(str(tmp_path)) for _ in range(WRITERS)], 150).faults


def test_without_reading_ids_back_a_lost_answer_is_a_false_conflict_or_a_duplicate(
    moto_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: the naive way, which takes "exists already" at its word."""
    monkeypatch.setattr(commit_file, "_owner", _naive_owner)
    monkeypatch.setattr(commit_file, "_FIRST_PAUSE", 0.01)
    with fault_proxy(moto_server.endpoint) as proxy:
        uri = moto_server.uri(uuid.uuid4().hex)
        assert commit_with_losses(proxy, uri, moto_server.storage_options, 3, ("drop",)).faults


def _naive_owner(store: object, path: str, commit_id: str) -> bool | None:
    """There is an entry, so somebody else was first."""
    try:
        store.head(path)  # type: ignore[attr-defined]
    except ObjectNotFoundError:
        return None
    return False


def test_without_the_probe_a_store_that_overwrites_has_several_winners(
    moto_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7: what the probe protects from."""
    monkeypatch.setattr(commit_file, "check_create_once", lambda store: None)
    with fault_proxy(moto_server.endpoint, lambda request: "unconditional") as proxy:
        options = {**moto_server.storage_options, "aws_endpoint": proxy.endpoint}
        root = moto_server.uri(uuid.uuid4().hex)
        assert race([open_store(root, options) for _ in range(4)], 5).faults


RULES = {
    "refuse_when_the_protocol_changed": ("upgrade", "append"),
    "refuse_when_the_metadata_changed": ("alter", "append"),
    "refuse_when_the_same_domain_changed": ("domain", "domain"),
    "refuse_when_the_same_application_committed": ("stream", "stream"),
    "refuse_when_files_were_added_that_should_have_been_read": ("append_reading", "update"),
    "refuse_when_a_file_was_removed_that_was_read": ("delete", "append_reading"),
    "refuse_when_a_file_was_removed_that_is_to_be_removed": ("delete", "overwrite_partition"),
}


@pytest.mark.parametrize("rule", RULES)
def test_without_a_conflict_rule_a_cell_of_the_matrix_changes(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4, LW-016: each rule is needed for some pair of operations."""
    winner, loser = (conflict_cases.OPERATIONS[name]("a") for name in RULES[rule])
    assert conflict_cases.contest(winner, loser, "WriteSerializable") != "ok"
    left = tuple(function for function in conflict_checker.RULES if function.__name__ != rule)
    assert len(left) == len(conflict_checker.RULES) - 1
    monkeypatch.setattr(conflict_checker, "RULES", left)
    assert conflict_cases.contest(winner, loser, "WriteSerializable") == "ok"


def _without(kind: str) -> Callable[[object, Op], None]:
    def record(self: object, op: Op) -> None:
        if op.kind != kind:
            self.ops.append(op)  # type: ignore[attr-defined]

    return record
