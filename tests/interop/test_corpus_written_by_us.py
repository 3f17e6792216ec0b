"""Tables of other engines that we append to, checkpoint and vacuum: the peers still read them right.

Each peer is asked only about tables that it could read before (`agreement` of the expectation). What must be
there is what the corpus records plus the rows that we appended. delta-spark reads a part of the corpus in
`make test`, one table for each combination of features; DISTRIBUTARY_INTEROP_ALL=1 makes it read all.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from peers.content import content, difference
from peers.generated_rows import rows_for
from peers.process import Peer
from peers.tables import age

import distributary as ds
from distributary.delta.errors import TableRuleError, UnsupportedFeatureError, UnsupportedRuleError
from distributary.delta.log.protocol_support import features_of
from distributary.errors import InvalidInputError

PEERS = {"deltalake": "deltalake-1.6.6", "delta-spark": "delta-spark-4.3.1"}
SHARED = Path(os.environ.get("DISTRIBUTARY_SHARED", Path(__file__).parents[3] / "shared"))
TOO_LARGE = 3_000_000
TOO_MANY_ROWS = 100_000  # rows are compared one by one in Python
TOLD_APART = ("reader:", "writer:", "dv", "column_mapping", "checkpoint_", "sidecars")


def _cases() -> list[Any]:
    manifest = SHARED / "tables" / "MANIFEST.json"
    if not manifest.is_file():
        return [pytest.param("(no corpus)", "deltalake")]
    cases, seen = [], set[tuple[str, ...]]()
    for table in json.loads(manifest.read_text())["tables"]:
        if table["expect"] != "ok" or table["contested"]:
            continue
        if table["bytes"] > TOO_LARGE or table["rows"] > TOO_MANY_ROWS:
            continue
        cases.append((table["name"], "deltalake"))
        kind = tuple(sorted(tag for tag in table["features"] if tag.startswith(TOLD_APART)))
        if kind not in seen or os.environ.get("DISTRIBUTARY_INTEROP_ALL"):
            seen.add(kind)
            cases.append((table["name"], "delta-spark"))
    return [pytest.param(name, peer, id=f"{name}-{peer}") for name, peer in cases]


def _copy(name: str, delta_tables: Any, folder: Path) -> Path:
    shutil.copytree(delta_tables.tables / name, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _is_writable(table: ds.DeltaTable) -> bool:
    snapshot = table.snapshot()
    try:
        snapshot.state.check_writable()
    except UnsupportedFeatureError:
        return False
    return True


def _appended(table: ds.DeltaTable, existing: pa.Table) -> pa.Table:
    """Append made-up rows where the table's rules take them, else some of its own once more."""
    try:
        rows = rows_for(existing.schema)
        table.append(rows)
    except UnsupportedRuleError as error:
        pytest.skip(f"we do not write what we cannot check: {error}")
    except (TableRuleError, InvalidInputError):
        rows = existing.slice(0, 2)
        table.append(rows)
    return rows


def _checkpoint(table: ds.DeltaTable) -> None:
    """Every kind that the table may have; none where a property is the placeholder of a template."""
    if "%WRITE_STATS_AS_STRUCT%" in table.snapshot().metadata.properties.values():
        with pytest.raises(InvalidInputError):
            table.checkpoint()
        return
    table.checkpoint()
    if "v2Checkpoint" not in features_of(table.snapshot().protocol):
        table.checkpoint("multi-part", parts=2)


@pytest.mark.parametrize(("name", "peer_name"), _cases())
def test_table_of_another_engine_stays_readable_after_our_writes(
    name: str,
    peer_name: str,
    delta_tables: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Any,
) -> None:
    """LW-002, LW-008, LW-010, CK-003, CK-009, CK-016, RET-001, RET-003, RET-004: all as before."""
    expected = json.loads((delta_tables.expected / f"{name}.json").read_text())
    agreement = expected.get("agreement") or {}
    if agreement.get(PEERS[peer_name]) not in ("equal", None) or expected["authority"] == "none":
        pytest.skip(f"{peer_name} does not read the original as recorded")
    table = ds.DeltaTable(_copy(name, delta_tables, tmp_path / "t"))
    if not _is_writable(table):
        pytest.skip("we do not write tables with these features, nor break them")
    peer: Peer = request.getfixturevalue({"deltalake": "deltalake", "delta-spark": "spark"}[peer_name])
    before = table.snapshot().to_arrow()
    assert before.num_rows == expected["rows"]
    rows = pa.concat_tables([before, _appended(table, before)])
    wanted = content(rows)
    record_property("interop", f"corpus, written by us, read by {peer_name}")
    _checkpoint(table)
    age(tmp_path / "t")
    table.vacuum()
    assert content(ds.DeltaTable(tmp_path / "t").snapshot().to_arrow()) == wanted
    found = content(peer.rows(tmp_path / "t"))
    assert found == wanted, difference(found, wanted)
