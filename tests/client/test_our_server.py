"""The client and our own server together: `distributary serve FOLDER`, as a user starts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import distributary as ds
import distributary.client as delta_sharing


@pytest.fixture(scope="module")
def served(tmp_path_factory, delta_tables):
    """A folder of tables behind a server; gives the folder and the profile."""
    base = tmp_path_factory.mktemp("served")
    folder = base / "lake"
    rows = pa.table({"id": list(range(40)), "day": [f"2024-01-0{1 + at // 10}" for at in range(40)]})
    table = ds.DeltaTable.create(
        folder / "sales",
        schema=rows.schema,
        partition_by=["day"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table.append(rows)
    table.append(pa.table({"id": [100], "day": ["2024-01-09"]}))
    for root in sorted(delta_tables.tables.iterdir()):
        if "deletion_vector" in root.name.lower() and _readable(root):
            shutil.copytree(root, folder / "vectors")
            break
    profile = base / "lake.share"
    command = [sys.executable, "-m", "distributary.cli.main", "serve", str(folder), "--port", "0"]
    command += ["--admin-port", "0", "--profile", str(profile)]
    environment = {**os.environ, "XDG_STATE_HOME": str(base / "state")}
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(process, profile, base / "log")
        yield folder, profile
    finally:
        process.terminate()
        process.wait(30)


def _readable(root: Path) -> bool:
    try:
        return ds.DeltaTable(root).snapshot().to_arrow().num_rows > 0
    except ds.DistributaryError:
        return False


def _wait(process: subprocess.Popen, profile: Path, log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with delta_sharing.SharingClient(profile, retry_seconds=0) as client:
                client.list_shares()
                return
        except ds.DistributaryError:
            time.sleep(0.3)
    pytest.fail(f"the server does not answer: {log.read_text()[-2000:]}")


@pytest.fixture
def sales(served):
    with delta_sharing.SharingClient(served[1]) as client:
        yield client.table("lake.default.sales")


@pytest.mark.parametrize("format", ["parquet", "delta", None])
def test_both_formats_give_the_rows(served, format):
    """CAP-003, CAP-004, CAP-005."""
    with delta_sharing.SharingClient(served[1], response_format=format) as client:
        found = client.table("lake.default.sales").snapshot().to_arrow()
    assert sorted(found.column("id").to_pylist()) == [*range(40), 100]


def test_the_server_uses_the_hints(sales):
    plan = sales.snapshot().where("day = '2024-01-02'", "id < 12").explain()
    assert (plan.offered_files, plan.needed_files) == (1, 1)
    found = sales.snapshot().where("day = '2024-01-02'", "id < 12").to_arrow()
    assert sorted(found.column("id").to_pylist()) == [10, 11]


def test_versions_and_changes(sales):
    assert sales.version() == 2
    assert sales.snapshot(version=1).to_arrow().num_rows == 40
    changes = sales.changes(2).to_arrow()
    assert changes.select(["id", "_change_type", "_commit_version"]).to_pylist() == [
        {"id": 100, "_change_type": "insert", "_commit_version": 2}
    ]


def test_pages_and_later_answers(served):
    """A6, A8."""
    with delta_sharing.SharingClient(served[1], page_files=2) as client:
        assert client.table("lake.default.sales").snapshot().to_arrow().num_rows == 41
        assert client.table("lake.default.sales").changes(0).to_arrow().num_rows == 41
    with delta_sharing.SharingClient(served[1], asynchronous=True, page_files=2) as client:
        assert client.table("lake.default.sales").snapshot().to_arrow().num_rows == 41


def test_urls_are_renewed_by_the_servers_token(served, monkeypatch):
    """Every URL seems to be over; the server gives new ones for its refresh token."""
    from distributary.client import file_download

    monkeypatch.setattr(file_download, "_is_over", lambda url: True)
    with delta_sharing.SharingClient(served[1]) as client:
        assert client.table("lake.default.sales").snapshot().to_arrow().num_rows == 41


def test_deletion_vectors_are_applied(served):
    folder, profile = served
    if not (folder / "vectors").exists():
        pytest.skip("the corpus has no readable table with deletion vectors")
    with delta_sharing.SharingClient(profile) as client:
        found = client.table("lake.default.vectors").snapshot().to_arrow()
    expected = ds.DeltaTable(folder / "vectors").snapshot().to_arrow()
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_what_is_not_there_and_a_wrong_token(served):
    profile = json.loads(served[1].read_text())
    with delta_sharing.SharingClient(profile) as client, pytest.raises(ds.DistributaryError) as raised:
        client.table("lake.default.nothing").snapshot().to_arrow()
    assert raised.value.code == "RESOURCE_DOES_NOT_EXIST"
    with (
        delta_sharing.SharingClient({**profile, "bearerToken": "wrong"}) as client,
        pytest.raises(ds.DistributaryError) as raised,
    ):
        client.list_shares()
    assert raised.value.code == "UNAUTHENTICATED"
