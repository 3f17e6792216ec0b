"""The same rows as the official client, from the same server."""

from __future__ import annotations

import datetime
import json
import subprocess
from decimal import Decimal

import pyarrow as pa
import pytest
from scripted_server import ScriptedServer

import distributary.client as delta_sharing
from distributary.delta.table import DeltaTable

SCRIPT = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import delta_sharing
url = sys.argv[1]
for frame in (
    delta_sharing.load_as_pandas(url, use_delta_format=False),
    delta_sharing.load_table_changes_as_pandas(url, starting_version=1),
):
    rows = [[None if cell != cell else str(cell) for cell in row] for row in frame.itertuples(index=False)]
    types = [str(kind) for kind in frame.dtypes]
    print(json.dumps({"columns": list(frame.columns), "types": types, "rows": sorted(rows, key=str)}))
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A table with a column of most types, and its server."""
    tmp_path = tmp_path_factory.mktemp("official")
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "small": pa.array([1, 2, 3], pa.int32()),
            "ratio": pa.array([0.5, 1.5, -2.0], pa.float64()),
            "word": pa.array(["a", "ß", ""]),
            "flag": pa.array([True, False, True]),
            "day": pa.array([datetime.date(2024, 1, at) for at in (1, 2, 3)]),
            "price": pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("3.30")], pa.decimal128(10, 2)),
            "part": pa.array([1, 2, 2], pa.int32()),
        }
    )
    table = DeltaTable.create(
        tmp_path / "t",
        schema=rows.schema,
        partition_by=["part"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table.append(rows)
    table.append(rows)
    server = ScriptedServer(tmp_path)
    server.end_line = False
    profile = tmp_path / "p.share"
    profile.write_text(json.dumps(server.profile))
    profile.chmod(0o600)
    yield f"{profile}#s.c.t"
    server.close()


@pytest.fixture(scope="module")
def official_frames(shared, peer_python):
    """What the official client gives: the rows, and the changes; one process for both."""
    told = subprocess.run([peer_python, "-c", SCRIPT, shared], capture_output=True, text=True)
    if "No module named 'delta_sharing'" in told.stderr:
        pytest.skip("the peers have no delta-sharing")
    assert told.returncode == 0, told.stderr[-2000:]
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("changes", [False, True])
def test_rows_and_types_are_those_of_the_official_client(shared, official_frames, changes):
    official = official_frames[int(changes)]
    if changes:
        ours = delta_sharing.load_table_changes_as_pandas(shared, starting_version=1)
    else:
        ours = delta_sharing.load_as_pandas(shared)
    rows = [[None if value != value else str(value) for value in row] for row in ours.itertuples(index=False)]
    assert list(ours.columns) == official["columns"]
    assert sorted(rows, key=str) == official["rows"]
    differing = {
        name: (str(mine), theirs)
        for name, mine, theirs in zip(ours.columns, ours.dtypes, official["types"], strict=True)
        if str(mine) != theirs
    }
    assert differing == {}
