from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta.commit.protocol_upgrade import NEW_TABLE, required_protocol
from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.actions import Metadata, Protocol
from distributary.delta.log.protocol_support import features_of
from distributary.delta.schema.data_types import LONG, TIMESTAMP_NTZ, StructField, StructType
from distributary.delta.table_features import FEATURES, FeatureKind, check_readable

PLAIN = StructType((StructField("id", LONG),))


def with_metadata(key: str) -> StructType:
    return StructType((StructField("id", LONG, True, {key: "id > 0"}),))


def needed(
    properties: Mapping[str, str] | None = None,
    schema: StructType = PLAIN,
    current: Protocol | None = None,
    features: tuple[str, ...] = (),
) -> Protocol:
    return required_protocol(
        current, Metadata(id="t", configuration=dict(properties or {})), schema, features
    )


@pytest.mark.parametrize(
    ("properties", "schema", "reader", "writer"),
    [
        ({}, PLAIN, 1, 2),
        ({"delta.appendOnly": "true"}, PLAIN, 1, 2),
        ({}, with_metadata("delta.invariants"), 1, 2),
        ({"delta.checkpoint.writeStatsAsStruct": "true"}, PLAIN, 1, 2),
        ({"delta.constraints.c": "id > 0"}, PLAIN, 1, 3),
        ({"delta.enableChangeDataFeed": "true"}, PLAIN, 1, 4),
        ({"delta.enableChangeDataFeed": "false"}, PLAIN, 1, 2),
        ({}, with_metadata("delta.generationExpression"), 1, 4),
        ({"delta.columnMapping.mode": "name"}, PLAIN, 2, 5),
        ({"delta.columnMapping.mode": "none"}, PLAIN, 1, 2),
    ],
)
def test_new_table_gets_the_lowest_legacy_versions_that_suffice(
    properties: dict[str, str], schema: StructType, reader: int, writer: int
) -> None:
    """LW-011: 2 = appendOnly, invariants; 3 = CHECK constraints; 4 = change data feed, generated columns."""
    assert needed(properties, schema) == Protocol(reader, writer)


def test_requirements_of_legacy_versions_accumulate() -> None:
    """LW-011: each version supports what the ones below it do."""
    before: frozenset[str] = frozenset()
    for writer, added in {
        2: {"appendOnly", "invariants"},
        3: {"checkConstraints"},
        4: {"changeDataFeed", "generatedColumns"},
    }.items():
        now = features_of(Protocol(1, writer))
        assert now == before | added
        before = now


def test_feature_without_a_legacy_version_brings_the_lists() -> None:
    found = needed({"delta.enableDeletionVectors": "true"})
    assert found == Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly", "invariants"))
    only_writers = needed({}, with_metadata("CURRENT_DEFAULT"))
    assert only_writers == Protocol(1, 7, None, ("appendOnly", "invariants", "allowColumnDefaults"))
    ntz = needed({}, StructType((StructField("at", TIMESTAMP_NTZ),)))
    assert (ntz.min_reader_version, ntz.reader_features) == (3, ("timestampNtz",))


def test_upgrade_from_a_legacy_version_lists_everything_that_it_implied() -> None:
    for legacy in (Protocol(1, 1), Protocol(1, 2), Protocol(1, 4), Protocol(2, 5), Protocol(2, 6)):
        upgraded = needed({"delta.enableInCommitTimestamps": "true"}, current=legacy)
        assert upgraded.min_writer_version == 7
        assert features_of(upgraded) == features_of(legacy) | {"inCommitTimestamp"}
        assert set(upgraded.reader_features or ()) <= set(upgraded.writer_features or ())
        assert upgraded.min_reader_version == (3 if upgraded.reader_features else 1)


def test_what_is_already_supported_changes_nothing() -> None:
    listed = Protocol(3, 7, ("typeWidening-preview", "madeUp"), ("typeWidening-preview", "madeUp"))
    assert needed({"delta.enableTypeWidening": "true"}, current=listed) is listed
    assert needed(current=Protocol(1, 1)) == Protocol(1, 1)
    grown = needed({"delta.appendOnly": "true"}, current=listed)
    assert "madeUp" in (grown.reader_features or ())


def test_column_that_must_have_values_needs_invariants() -> None:
    strict = StructType((StructField("id", LONG, False),))
    assert needed({}, strict, Protocol(1, 1)) == Protocol(1, 2)
    assert needed({}, strict, Protocol(1, 7, None, ())).writer_features == ("invariants",)


def test_feature_brings_what_it_depends_on() -> None:
    assert {"rowTracking", "domainMetadata"} <= features_of(needed(features=("rowTracking",)))
    with pytest.raises(UnsupportedFeatureError, match="madeUp"):
        needed(features=("madeUp",))


_NAMES = st.frozensets(st.sampled_from(sorted(FEATURES)), max_size=4)
_LEGACY = st.sampled_from([None, Protocol(1, 1), NEW_TABLE, Protocol(1, 3), Protocol(2, 5), Protocol(2, 6)])


@given(_LEGACY, _NAMES, _NAMES)
def test_protocol_only_grows_and_by_no_more_than_was_asked(
    start: Protocol | None, first: frozenset[str], second: frozenset[str]
) -> None:
    """LW-011: monotone, minimal, idempotent, and always well-formed."""
    one = needed(current=start, features=tuple(first))
    two = needed(current=one, features=tuple(second))
    base = features_of(start or NEW_TABLE)
    dependencies = {"domainMetadata", "columnMapping", "variantType"}
    assert base <= features_of(one) <= features_of(two)
    assert first <= features_of(one)
    if one.min_writer_version == 7:
        assert features_of(one) - base - first <= dependencies
    else:
        # Without lists the versions are the lowest that imply what is wanted.
        writer = one.min_writer_version - 1
        lower = Protocol(one.min_reader_version if writer >= 5 else 1, writer)
        enough = first | features_of(start or NEW_TABLE)
        assert one == (start or NEW_TABLE) or not enough <= features_of(lower)
    assert needed(current=two, features=tuple(first | second)) == two
    for found in (one, two):
        lists = (found.min_reader_version == 3, found.min_writer_version == 7)
        assert lists == (found.reader_features is not None, found.writer_features is not None)
        assert set(found.reader_features or ()) <= set(found.writer_features or ())
        for name in found.writer_features or ():
            assert (name in (found.reader_features or ())) == (
                FEATURES[name].kind is FeatureKind.READER_WRITER
            )
        if not any(name.startswith("catalog") for name in features_of(found)):
            check_readable(
                found.min_reader_version,
                found.min_writer_version,
                found.reader_features,
                found.writer_features,
                "t",
            )
