"""Files are pruned by whatever form of statistics the log has."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.delta.scan import file_pruning
from distributary.delta.table import DeltaTable

TEXT, LONG = pa.string(), pa.int64()
STRINGS = pa.map_(TEXT, TEXT)
IDS = pa.struct([("id", LONG)])
TYPED = pa.struct([("numRecords", LONG), ("minValues", IDS), ("maxValues", IDS), ("nullCount", IDS)])
ADD = pa.struct(
    [("path", TEXT), ("partitionValues", STRINGS), ("size", LONG), ("modificationTime", LONG),
     ("dataChange", pa.bool_()), ("stats", TEXT), ("stats_parsed", TYPED)]
)  # fmt: skip
METADATA = pa.struct(
    [("id", TEXT), ("format", pa.struct([("provider", TEXT), ("options", STRINGS)])), ("schemaString", TEXT),
     ("partitionColumns", pa.list_(TEXT)), ("configuration", STRINGS), ("createdTime", LONG)]
)  # fmt: skip
PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


def statistics(number):
    low = number * 100
    return {
        "numRecords": 100,
        "minValues": {"id": low},
        "maxValues": {"id": low + 99},
        "nullCount": {"id": 0},
    }


def add(number, *, text, typed):
    return {
        "path": f"part-{number}.parquet",
        "partitionValues": [],
        "size": 1000,
        "modificationTime": 0,
        "dataChange": False,
        "stats": json.dumps(statistics(number)) if text else None,
        "stats_parsed": statistics(number) if typed else None,
    }


@pytest.fixture
def checkpointed(tmp_path):
    """A table that is nothing but a checkpoint at version 0 with these adds."""

    def write(adds):
        metadata = {"id": "t", "format": {"provider": "parquet", "options": []}, "partitionColumns": [],
                    "schemaString": json.dumps(SCHEMA), "configuration": [], "createdTime": 0}  # fmt: skip
        rows = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": metadata},
            *({"add": one} for one in adds),
        ]
        log = tmp_path / "_delta_log"
        log.mkdir()
        schema = pa.schema([("protocol", PROTOCOL), ("metaData", METADATA), ("add", ADD)])
        table = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(table, log / f"{0:020d}.checkpoint.parquet")
        (log / f"{0:020d}.json").write_text("")
        return DeltaTable(tmp_path).snapshot()

    return write


@pytest.mark.parametrize(
    "kinds",
    [{"text": True, "typed": False}, {"text": False, "typed": True}, {"text": True, "typed": True}],
    ids=["json", "typed", "both"],
)
def test_statistics_of_any_form_prune_the_same_files(checkpointed, kinds):
    """Typed statistics stand for the text where they are there."""
    snapshot = checkpointed([add(number, **kinds) for number in range(10)])
    found = snapshot.files("id >= 250 AND id < 400")
    assert found.column("path").to_pylist() == ["part-2.parquet", "part-3.parquet"]
    assert found.column("num_records").to_pylist() == [100, 100]


def test_files_with_typed_statistics_beside_files_with_texts_are_pruned_each_by_its_own(checkpointed):
    snapshot = checkpointed(
        [add(0, text=True, typed=False), add(1, text=False, typed=True), add(2, text=False, typed=False)]
    )
    assert snapshot.files("id < 100").column("path").to_pylist() == ["part-0.parquet", "part-2.parquet"]
    assert snapshot.files("id BETWEEN 100 AND 199").column("path").to_pylist() == [
        "part-1.parquet", "part-2.parquet",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "predicate",
    [
        "id >= 250 AND id < 400",
        "id IS NULL",
        "id IS NOT NULL",
        "NOT id > 50",
        "id <> 5 OR id IS NULL",
        "1 = 0",
    ],
)
def test_many_files_are_pruned_by_ranges_first_to_the_same_end(checkpointed, monkeypatch, predicate):
    """Statistics that ranges leave out (null counts, row counts) still have their say."""
    adds = [add(number, text=number % 2 == 0, typed=number % 3 == 0) for number in range(12)]
    empty = {"numRecords": 100, "nullCount": {"id": 100}}
    adds += [{**add(12, text=False, typed=False), "stats": json.dumps(empty)}]
    snapshot = checkpointed(adds)
    expected = snapshot.files(predicate)
    monkeypatch.setattr(file_pruning, "_MANY_FILES", 0)
    assert snapshot.files(predicate).to_pydict() == expected.to_pydict()
