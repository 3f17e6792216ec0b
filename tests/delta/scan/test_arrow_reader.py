"""Filtered reads give exactly the rows that the predicate wants, however they are found."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from distributary.delta.deletion_vectors import encode_bitmap, z85_encode
from distributary.delta.scan.table_scan import ScanSettings
from distributary.delta.table import DeltaTable

ROWS = 10_000
TYPES = {"key": "long", "kind": "string", "amount": "double", "note": "string", "absent": "integer"}


@pytest.fixture(scope="module")
def rows():
    """Rows in no order: few kinds (with nulls), many notes, amounts spread evenly."""
    random = np.random.default_rng(7)
    kinds = random.integers(0, 6, ROWS)
    return pa.table(
        {
            "key": np.arange(ROWS),
            "kind": pa.array([None if number == 5 else f"kind {number}" for number in kinds.tolist()]),
            "amount": random.random(ROWS) * 100,
            "note": [f"note {number}" for number in random.integers(0, 10**9, ROWS).tolist()],
            "absent": pa.nulls(ROWS, pa.int32()),
        }
    )


@pytest.fixture(scope="module", params=[False, True], ids=["all rows", "deletion vector"])
def table(request, tmp_path_factory, rows):
    """The rows in one file of several row groups, and which of them count."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "_delta_log").mkdir()
    path = folder / "part-0.parquet"
    pq.write_table(rows.drop_columns("absent"), path, row_group_size=3000)
    deleted = BitMap64(range(0, ROWS, 3)) if request.param else BitMap64()
    add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0,
           "dataChange": True}  # fmt: skip
    if deleted:
        data = encode_bitmap(deleted)
        data += b"\0" * (-len(data) % 4)
        add["deletionVector"] = {"storageType": "i", "pathOrInlineDv": z85_encode(data),
                                 "sizeInBytes": len(data), "cardinality": len(deleted)}  # fmt: skip
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    metadata = {"id": "t", "format": {"provider": "parquet"}, "partitionColumns": [], "configuration": {},
                "schemaString": json.dumps({"type": "struct", "fields": fields})}  # fmt: skip
    actions = [{"protocol": protocol}, {"metaData": metadata}, {"add": add}]
    (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    live = pa.array([at not in deleted for at in range(ROWS)])
    return DeltaTable(folder, settings=ScanSettings(workers=1, batch_rows=700)).snapshot(), rows.filter(live)


PREDICATES = {
    "amount < 0.5": lambda t: pc.less(t["amount"], 0.5),
    "kind = 'kind 3'": lambda t: pc.equal(t["kind"], "kind 3"),
    "kind IS NULL AND amount > 90": lambda t: pc.and_(pc.is_null(t["kind"]), pc.greater(t["amount"], 90)),
    "key BETWEEN 4000 AND 4010": lambda t: pc.and_(
        pc.greater_equal(t["key"], 4000), pc.less_equal(t["key"], 4010)
    ),
    "key < 0": lambda t: pc.less(t["key"], 0),
    "key >= 0": lambda t: pc.greater_equal(t["key"], 0),
    "absent IS NULL": lambda t: pc.is_null(t["absent"]),
    "1 = 1": lambda t: pc.is_valid(t["key"]),
}


@pytest.mark.parametrize(
    "columns", [None, ["note", "key"], ["amount"], ["kind", "amount", "key"], ["absent"]]
)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_filtered_read_gives_the_rows_that_match_in_the_columns_asked_for(table, predicate, columns):
    snapshot, live = table
    wanted = live.filter(PREDICATES[predicate](live).fill_null(False))
    expected = wanted if columns is None else wanted.select(columns)
    found = snapshot.to_arrow(columns, predicate)
    assert found.column_names == expected.column_names
    assert found.to_pydict() == expected.to_pydict()


def test_strings_of_few_values_keep_their_type_after_a_filter(table):
    snapshot, _ = table
    batches = list(snapshot.to_record_batches(predicate="amount < 50"))
    assert {batch.schema.field("kind").type for batch in batches} == {pa.string()}
    assert all(batch.num_rows for batch in batches)
