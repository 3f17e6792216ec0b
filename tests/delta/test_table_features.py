from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.schema.data_types import (
    LONG,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
    parse_schema,
)
from distributary.delta.table_features import (
    FEATURES,
    FeatureKind,
    Writing,
    active_feature_names,
    check_readable,
    check_writable,
    supported_feature_names,
)

if TYPE_CHECKING:
    from tests.conftest import DeltaTables

EMPTY = StructType()
READ = (
    *("deletionVectors", "columnMapping", "v2Checkpoint", "timestampNtz", "vacuumProtocolCheck"),
    *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview"),
    *("variantShredding", "variantShredding-preview"),
)
CATALOG = ("catalogManaged", "catalogOwned", "catalogOwned-preview")


def test_reader_features_are_exactly_the_promised_ones() -> None:
    readers = {row.name: row.reads for row in FEATURES.values() if row.kind is FeatureKind.READER_WRITER}
    assert readers == {**dict.fromkeys(READ, True), **dict.fromkeys(CATALOG, False)}


def test_every_refusal_has_a_reason() -> None:
    for row in FEATURES.values():
        assert bool(row.refusal) == (not row.reads or row.writes is not Writing.YES)


@pytest.mark.parametrize(
    ("reader", "writer", "reader_features", "writer_features"),
    [
        (1, 1, None, None),
        (1, 2, None, None),
        (2, 5, None, None),
        (1, 7, None, ["somethingNew", "coordinatedCommits-preview"]),
        (1, 8, None, []),
        (2, 7, None, ["columnMapping", "icebergCompatV2"]),
        (3, 7, [], []),
        (3, 7, READ, [*READ, "unknownWriterFeature"]),
        (3, 9, ["deletionVectors"], ["deletionVectors"]),
    ],
)
def test_table_that_we_understand_is_readable(
    reader: int, writer: int, reader_features: Any, writer_features: Any
) -> None:
    check_readable(reader, writer, reader_features, writer_features, "t")


@pytest.mark.parametrize(
    ("reader", "writer", "reader_features", "named"),
    [
        (3, 7, ["deletionVectors", "zeta", "alpha"], ("alpha", "zeta")),
        (3, 7, ["catalogManaged", "geospatial"], ("catalogManaged", "geospatial")),
        (5, 7, ["columnMapping", "blahabl"], ("blahabl",)),
        (99, 7, [], ()),
        (4, 7, None, ()),
        (3, 7, None, ()),
        (1, 7, ["deletionVectors"], ()),
        (2, 5, [], ()),
        (3, 6, [], ()),
    ],
)
def test_table_that_we_do_not_understand_is_refused_naming_all_features(
    reader: int, writer: int, reader_features: list[str] | None, named: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedFeatureError, match="lake/orders") as caught:
        check_readable(reader, writer, reader_features, reader_features, "lake/orders")
    assert caught.value.features == named
    assert all(name in str(caught.value) for name in named)


@pytest.mark.parametrize(
    ("reader", "writer", "names"),
    [
        (1, 1, set()),
        (1, 2, {"appendOnly", "invariants"}),
        (1, 3, {"appendOnly", "invariants", "checkConstraints"}),
        (1, 4, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (
            2,
            6,
            {
                *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
                *("columnMapping", "identityColumns"),
            },
        ),
    ],
)
def test_legacy_versions_imply_features(reader: int, writer: int, names: set[str]) -> None:
    assert supported_feature_names(reader, writer, None, None) == names


def test_lists_replace_what_versions_imply() -> None:
    assert supported_feature_names(3, 7, ["deletionVectors"], ["deletionVectors", "appendOnly"]) == {
        *("deletionVectors", "appendOnly")
    }
    assert supported_feature_names(2, 7, None, ["icebergCompatV2"]) == {"columnMapping", "icebergCompatV2"}


@pytest.mark.parametrize(
    ("name", "configuration", "schema"),
    [
        ("deletionVectors", {"delta.enableDeletionVectors": "TRUE"}, EMPTY),
        ("columnMapping", {"delta.columnMapping.mode": "id"}, EMPTY),
        ("v2Checkpoint", {"delta.checkpointPolicy": "v2"}, EMPTY),
        ("checkConstraints", {"delta.constraints.positive": "x > 0"}, EMPTY),
        ("timestampNtz", {}, StructType((StructField("a", ArrayType(TIMESTAMP_NTZ)),))),
        ("variantType", {}, StructType((StructField("a", VARIANT),))),
    ],
)
def test_feature_is_active_only_when_supported_and_switched_on(
    name: str, configuration: dict[str, str], schema: StructType
) -> None:
    off = {**dict.fromkeys(configuration, "none")} if name != "checkConstraints" else {}
    assert active_feature_names({name}, configuration, schema) == {name}
    assert active_feature_names({name}, off, StructType((StructField("a", LONG),))) == set()
    assert active_feature_names(set[str](), configuration, schema) == set()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("invariants", "delta.invariants"),
        ("generatedColumns", "delta.generationExpression"),
        ("identityColumns", "delta.identity.start"),
        ("allowColumnDefaults", "CURRENT_DEFAULT"),
    ],
)
def test_reserved_column_metadata_switches_a_feature_on_at_any_level(name: str, key: str) -> None:
    """SC-007, CN-010, CN-020: reserved keys of column metadata carry the table's rules."""
    inner = StructType((StructField("x", LONG, metadata={key: "1"}),))
    assert active_feature_names({name}, {}, inner) == {name}
    assert active_feature_names({name}, {}, StructType((StructField("s", ArrayType(inner)),))) == {name}
    assert active_feature_names({name}, {}, StructType((StructField("x", LONG),))) == set()


def write(
    writer_features: list[str], configuration: dict[str, str] | None = None, schema: StructType = EMPTY
) -> None:
    check_writable(1, 7, None, writer_features, "t", configuration=configuration or {}, schema=schema)


def test_features_of_the_plan_are_writable() -> None:
    names = [
        *(
            "appendOnly",
            "invariants",
            "checkConstraints",
            "generatedColumns",
            "changeDataFeed",
            "domainMetadata",
        ),
        *("rowTracking", "inCommitTimestamp", "allowColumnDefaults", "clustering"),
    ]
    write(names, {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"})
    readers = ["columnMapping", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck", "timestampNtz"]
    check_writable(3, 7, readers, readers, "t", configuration={}, schema=EMPTY)
    for version in range(1, 7):
        check_writable(1, version, None, None, "t", configuration={}, schema=EMPTY)


def test_feature_that_we_cannot_write_is_refused_with_its_reason() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"collations.*liquid.*unknown") as caught:
        write(["appendOnly", "liquid", "collations"])
    assert caught.value.features == ("collations", "liquid")


def test_identity_columns_are_refused_only_when_the_schema_has_one() -> None:
    identity = StructType((StructField("id", LONG, metadata={"delta.identity.start": 1}),))
    write(["identityColumns"])
    with pytest.raises(UnsupportedFeatureError, match="identityColumns"):
        write(["identityColumns"], schema=identity)
    with pytest.raises(UnsupportedFeatureError, match="identityColumns"):
        check_writable(1, 6, None, None, "t", configuration={}, schema=identity)


@pytest.mark.parametrize(
    ("reader", "writer", "reader_features", "writer_features"),
    [(1, 8, None, []), (1, 7, None, None), (1, 4, None, []), (4, 7, [], [])],
)
def test_protocol_that_is_newer_or_malformed_is_not_written(
    reader: int, writer: int, reader_features: Any, writer_features: Any
) -> None:
    with pytest.raises(UnsupportedFeatureError):
        check_writable(reader, writer, reader_features, writer_features, "t", configuration={}, schema=EMPTY)


def test_corpus_is_refused_exactly_where_every_reader_refuses(delta_tables: DeltaTables) -> None:
    """The protocol of each table in the corpus, and its schema where it is readable."""
    refused: set[str] = set()
    expected: set[str] = set()
    for path in sorted(delta_tables.expected.glob("*.json")):
        table = json.loads(path.read_text())
        protocol = table.get("protocol")
        if not protocol:
            continue
        if table.get("error_kind") in ("unsupported_feature_or_version", "catalog_managed"):
            expected.add(table["name"])
        try:
            check_readable(
                protocol["minReaderVersion"],
                protocol["minWriterVersion"],
                protocol.get("readerFeatures"),
                protocol.get("writerFeatures"),
                table["name"],
            )
        except UnsupportedFeatureError:
            refused.add(table["name"])
        if schema := table.get("schema"):
            parse_schema(schema if isinstance(schema, str) else json.dumps(schema))
    assert refused == expected
    assert len(expected) >= 8
