"""What we write, other engines read: rows, schema, partitioning, properties and history, all equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from peers.content import content, difference
from peers.process import Peer
from peers.tables import MAKERS, Written

from distributary.delta.schema.data_types import schema_to_json


@pytest.fixture(params=sorted(MAKERS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    return MAKERS[request.param](tmp_path / "t")


def assert_same_rows(found: pa.Table, expected: pa.Table) -> None:
    ours, theirs = content(expected), content(found)
    assert theirs == ours, difference(theirs, ours)


def test_table_of_ours_is_read_equal(written: Written, peer: Peer, record_property: Any) -> None:
    """LW-002, LW-003, LW-004, LW-006, LW-007, LW-014, LW-015, LW-017, LR-055, CK-003, CK-004, CK-005, CK-008,
    CK-009, CK-010, CK-011, CK-012, CK-013, CK-015, RET-004: another engine finds exactly our table.
    """
    record_property("interop", f"ours read by {peer.name}")
    snapshot = written.table.snapshot()
    assert_same_rows(snapshot.to_arrow(), written.rows)
    if peer.name in written.limits:
        pytest.skip(written.limits[peer.name])
    view = peer.view(written.path)
    assert_same_rows(view.rows, written.rows)
    assert view.rows.column_names == list(snapshot.schema.names)
    assert view.version == snapshot.version
    assert view.schema == json.loads(schema_to_json(snapshot.schema))
    assert view.partition_columns == list(snapshot.metadata.partitioning)
    assert view.properties == dict(snapshot.metadata.properties)
    assert view.operations == [entry.operation for entry in reversed(written.table.history())]
