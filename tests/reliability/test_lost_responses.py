"""A5, A6 and A7: object stores whose answers are lost, late, doubled, refusing or untrue."""

from __future__ import annotations

import uuid

import pytest
from rigs.conflict_cases import append_reading
from rigs.fault_proxy import Request, fault_proxy
from rigs.lost_responses import commit_with_losses
from rigs.plain_table import append, create, labels_in_store

import distributary.storage.commit_file as commit_file
from distributary.delta.commit.transaction import commit
from distributary.delta.errors import CommitStateUnknownError, ConcurrentAppendError
from distributary.errors import UnsafeStorageError
from distributary.storage.object_store import ObjectStore, open_store


@pytest.fixture(params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest):
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test probes anew, and pauses are short."""
    monkeypatch.setattr(commit_file, "_probed", set())
    monkeypatch.setattr(commit_file, "_FIRST_PAUSE", 0.01)


@pytest.mark.slow
def test_lost_answers_of_commits_make_neither_duplicates_nor_false_conflicts(server) -> None:
    """LW-001, LW-002, A5: dropped, reset, cut, late and doubled, 25 commits a server."""
    with fault_proxy(server.endpoint) as proxy:
        outcome = commit_with_losses(proxy, server.uri(uuid.uuid4().hex), server.storage_options, 25)
    assert outcome.faults == []
    assert outcome.struck == 25


def test_answer_lost_while_another_writer_won_is_a_true_conflict(server) -> None:
    """LW-016, A5: after a lost request the version is another's, so the loser rebases and is checked."""
    options = server.storage_options
    uri = server.uri(uuid.uuid4().hex)
    direct = open_store(uri, options)
    snapshot = create(direct, {"delta.isolationLevel": "Serializable"}).snapshot
    with fault_proxy(server.endpoint) as proxy:
        store = open_store(uri, {**options, "aws_endpoint": proxy.endpoint})
        proxy.fault = lambda request: None
        commit_file.check_create_once(store)

        def beaten(request: Request) -> str | None:
            if not request.is_commit or "1.json" not in request.path:
                return None
            if not won:
                won.append(append(direct, snapshot, "winner").version)
            return "drop"

        won: list[int] = []
        proxy.fault = beaten
        with pytest.raises(ConcurrentAppendError):
            commit(store, snapshot, append_reading("a"))
        assert append(store, snapshot, "loser").version == 2
    assert labels_in_store(direct) == {0: [], 1: ["winner"], 2: ["loser"]}


def _through(proxy, server) -> ObjectStore:
    options = {**server.storage_options, "aws_endpoint": proxy.endpoint}
    return open_store(server.uri(uuid.uuid4().hex), options)


@pytest.mark.parametrize("status", ["409", "500", "503"])
def test_refusals_that_pass_are_retried_at_the_same_version(server, status: str) -> None:
    """A6: 409, 500 and 503 twice, then the commit is made."""
    with fault_proxy(server.endpoint) as proxy:
        store = _through(proxy, server)
        snapshot = create(store).snapshot
        left = [status, status]
        proxy.fault = lambda request: left.pop() if request.is_commit and left else None
        assert append(store, snapshot, "label").version == 1
        assert left == []
        assert labels_in_store(store) == {0: [], 1: ["label"]}


def test_refusals_that_stay_end_in_a_typed_error_after_bounded_retries(
    moto_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: a store that answers 500 for ever is given up on, and the outcome is said to be unknown."""
    monkeypatch.setattr(commit_file, "ATTEMPTS", 3)
    with fault_proxy(moto_server.endpoint) as proxy:
        store = _through(proxy, moto_server)
        snapshot = create(store).snapshot
        sent: list[str] = []

        def refuse(request: Request) -> str | None:
            if request.is_commit:
                sent.append(request.path)
            return "500" if request.is_commit else None

        proxy.fault = refuse
        with pytest.raises(CommitStateUnknownError) as caught:
            append(store, snapshot, "label")
        assert caught.value.version == 1
        assert len(sent) == 3
        proxy.fault = lambda request: None
        assert labels_in_store(store) == {0: []}


def test_store_that_ignores_the_condition_is_refused_before_the_first_commit(moto_server) -> None:
    """A7, LW-001: a store that overwrites is found out by the probe; no log is begun there."""
    with fault_proxy(moto_server.endpoint, lambda request: "unconditional") as proxy:
        store = _through(proxy, moto_server)
        with pytest.raises(UnsafeStorageError, match="ignores create-once"):
            create(store)
        assert list(store.list_all()) == []


@pytest.mark.parametrize("kind", ["drop", "reset", "503"])
def test_probe_whose_answers_are_lost_is_repeated(moto_server, kind: str) -> None:
    """A7: a lost answer is no proof of anything; the probe asks again, and the table is created once."""
    with fault_proxy(moto_server.endpoint) as proxy:
        store = _through(proxy, moto_server)
        left = [kind, kind]
        proxy.fault = lambda request: left.pop() if ".probe-" in request.path and left else None
        assert create(store).version == 0
        assert left == []
