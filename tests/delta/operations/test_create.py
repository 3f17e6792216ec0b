"""Create: version 0, the protocol it needs, and races for it."""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from distributary.delta.errors import (
    InvalidSchemaError,
    TableExistsError,
    UnsupportedFeatureError,
)
from distributary.delta.operations.create import plan_create
from distributary.delta.schema.data_types import (
    LONG,
    STRING,
    VARIANT,
    StructField,
    StructType,
)
from distributary.delta.table import DeltaTable
from distributary.errors import InvalidInputError, UnknownColumnError
from distributary.storage.object_store import open_store


def test_the_first_entry_is_version_zero_with_protocol_and_metadata(place: Any) -> None:
    """LW-003, LW-004, LW-015: twenty digits, commitInfo first, protocol and metaData with its format."""
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"comment": "the key"}), ("p", pa.string())])
    DeltaTable.create(
        place, schema, partition_by=["P"], name="n", description="d", properties={"owner": "me"}
    )
    assert [path.name for path in (place / "_delta_log").glob("*.json")] == ["00000000000000000000.json"]
    info, protocol, metadata = place.entries(0)
    assert info["commitInfo"]["operation"] == "CREATE TABLE"
    assert protocol == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    found = metadata["metaData"]
    assert found["format"] == {"provider": "parquet", "options": {}}
    assert (found["name"], found["description"], found["partitionColumns"]) == ("n", "d", ["p"])
    assert found["configuration"] == {"owner": "me", "delta.checkpoint.writeStatsAsStruct": "true"}
    assert json.loads(found["schemaString"])["fields"][0]["metadata"] == {"comment": "the key"}


@pytest.mark.parametrize(
    ("properties", "versions", "features"),
    [
        ({}, (1, 2), None),
        ({"delta.appendOnly": "true"}, (1, 2), None),
        ({"delta.constraints.c": "id > 0"}, (1, 3), None),
        ({"delta.enableChangeDataFeed": "true"}, (1, 4), None),
        ({"delta.columnMapping.mode": "name"}, (2, 5), None),
        ({"delta.enableDeletionVectors": "true"}, (3, 7), {"deletionVectors"}),
        ({"delta.enableRowTracking": "true"}, (1, 7), {"rowTracking", "domainMetadata"}),
        ({"delta.feature.vacuumProtocolCheck": "supported"}, (3, 7), {"vacuumProtocolCheck"}),
    ],
)
def test_a_new_table_has_exactly_the_protocol_that_it_needs(
    place: Any, properties: dict[str, str], versions: tuple[int, int], features: set[str] | None
) -> None:
    """LW-004, LW-011: legacy versions where they suffice, else the features that are asked for."""
    table = DeltaTable.create(place, pa.schema([("id", pa.int64())]), properties=properties)
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    if features is not None:
        assert features <= set(protocol.writer_features or ()) <= features | {"appendOnly", "invariants"}
    assert not any(key.startswith("delta.feature.") for key in table.snapshot().metadata.properties)
    table.append(pa.table({"id": [1]}))
    assert table.snapshot().count() == 1


def test_a_table_that_is_there_is_not_created_again(place: Any) -> None:
    """LW-001: mode error raises, mode ignore opens what is there."""
    schema = pa.schema([("id", pa.int64())])
    table = DeltaTable.create(place, schema)
    table.append(pa.table({"id": [1]}))
    with pytest.raises(TableExistsError):
        DeltaTable.create(place, schema)
    again = DeltaTable.create(place, pa.schema([("other", pa.string())]), mode="ignore")
    assert again.version() == 1
    assert again.snapshot().schema.names == ("id",)


def test_of_many_creators_one_wins_and_the_others_see_its_table(place: Any) -> None:
    """LW-001, LW-004: a race for version 0 has one winner."""
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        try:
            DeltaTable.create(place, pa.schema([("id", pa.int64())]), name=str(number))
            outcomes.append("created")
        except TableExistsError:
            outcomes.append("exists")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["created"] + ["exists"] * 7
    assert DeltaTable(place).version() == 0


@pytest.mark.parametrize(
    ("schema", "options", "error"),
    [
        (StructType(()), {}, InvalidSchemaError),
        (StructType((StructField("a", LONG), StructField("A", LONG))), {}, InvalidSchemaError),
        (StructType((StructField("a b", LONG),)), {}, InvalidSchemaError),
        (StructType((StructField("v", VARIANT),)), {}, UnsupportedFeatureError),
        (StructType((StructField("a", LONG),)), {"partition_by": ["a"]}, InvalidSchemaError),
        (StructType((StructField("a", LONG),)), {"partition_by": ["b"]}, UnknownColumnError),
        (
            StructType((StructField("a", LONG),)),
            {"properties": {"delta.minReaderVersion": "3"}},
            InvalidInputError,
        ),
        (
            StructType((StructField("a", LONG),)),
            {"properties": {"delta.appendOnly": "yes"}},
            InvalidInputError,
        ),
        (
            StructType((StructField("a", LONG),)),
            {"properties": {"delta.feature.nonsense": "supported"}},
            UnsupportedFeatureError,
        ),
    ],
)
def test_a_table_that_could_not_be_used_is_not_created(
    place: Any, schema: StructType, options: dict[str, Any], error: type[Exception]
) -> None:
    """LW-006, LW-010: names, types, partitions and properties are checked before anything is written."""
    with pytest.raises(error):
        DeltaTable.create(place, schema, **options)
    assert not place.exists()


def test_a_plan_says_what_will_be_created(place: Any) -> None:
    """LW-004: planning writes nothing and prints itself."""
    plan = plan_create(
        open_store(str(place)), pa.schema([("a", pa.int64()), ("b", pa.int64())]), partition_by=["b"]
    )
    assert "2 columns, partitioned by b, reader version 1, writer version 2" in str(plan)
    assert not place.exists()


def test_declared_delta_schemas_keep_their_rules_and_refuse_reserved_keys(place: Any) -> None:
    """SC-007: a user sets rules and comments; ids of columns are the table's own."""
    bad = StructType((StructField("a", STRING, metadata={"delta.columnMapping.id": 4}),))
    with pytest.raises(InvalidSchemaError, match="reserved"):
        DeltaTable.create(place, bad)
    source = DeltaTable.create(
        place, pa.schema([("a", pa.string())]), properties={"delta.columnMapping.mode": "id"}
    )
    copy = DeltaTable.create(place.with_name("copy"), source.snapshot().arrow_schema)
    assert copy.snapshot().schema.fields[0].metadata == {}
