from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.delta import table_properties
from distributary.delta.schema.column_mapping import ColumnMappingMode
from distributary.delta.table_properties import (
    PROPERTIES,
    TARGET_FILE_SIZE,
    InCommitTimestamps,
    Property,
    TableProperties,
    parse_interval,
)
from distributary.errors import InvalidInputError


def properties(**configuration: str) -> TableProperties:
    return TableProperties.from_configuration(
        {key.replace("__", "."): text for key, text in configuration.items()}
    )


def test_absent_properties_have_the_protocols_defaults() -> None:
    found = TableProperties.from_configuration(None)
    assert found.append_only is False
    assert found.checkpoint_interval == 10
    assert found.checkpoint_policy == "classic"
    assert (found.write_stats_as_json, found.write_stats_as_struct) == (True, False)
    assert (found.log_retention, found.deleted_file_retention) == (timedelta(days=30), timedelta(days=7))
    assert found.set_transaction_retention is None
    assert (found.enable_change_data_feed, found.enable_deletion_vectors) == (False, False)
    assert found.column_mapping_mode is ColumnMappingMode.NONE
    assert found.in_commit_timestamps == InCommitTimestamps(False, None, None)
    assert (found.data_skipping_num_indexed_cols, found.data_skipping_stats_columns) == (32, None)
    assert (found.isolation_level, found.compression_codec) == ("WriteSerializable", "zstd")
    assert found.constraints == {}


def test_append_only_is_read_with_and_without_its_prefix() -> None:
    """C-19: the log's form is `delta.appendOnly`; the bare `appendOnly` is read where that is absent."""
    assert properties(delta__appendOnly="true").append_only
    assert properties(appendOnly="true").append_only
    assert not properties(delta__appendOnly="false", appendOnly="true").append_only


def test_change_feed_of_the_log_needs_its_prefix() -> None:
    """C-19: the bare `enableChangeDataFeed` belongs to sharing responses, not to the log."""
    assert properties(delta__enableChangeDataFeed="true").enable_change_data_feed
    assert not properties(enableChangeDataFeed="true").enable_change_data_feed


def test_set_properties_are_typed() -> None:
    found = properties(
        delta__checkpointInterval="25",
        delta__checkpointPolicy="V2",
        delta__checkpoint__writeStatsAsJson="FALSE",
        delta__logRetentionDuration="interval 1 week 2 hours",
        delta__setTransactionRetentionDuration="interval 1 days",
        delta__columnMapping__mode="id",
        delta__enableInCommitTimestamps="true",
        delta__inCommitTimestampEnablementVersion="7",
        delta__inCommitTimestampEnablementTimestamp="1700000000000",
        delta__dataSkippingNumIndexedCols="-1",
        delta__dataSkippingStatsColumns="id, address.city,`odd.name, ``x```.y",
        delta__isolationLevel="writeserializable",
        delta__constraints__positive="x > 0",
    )
    assert found.checkpoint_interval == 25
    assert found.checkpoint_policy == "v2"
    assert found.write_stats_as_json is False
    assert found.log_retention == timedelta(days=7, hours=2)
    assert found.set_transaction_retention == timedelta(days=1)
    assert found.column_mapping_mode is ColumnMappingMode.ID
    assert found.in_commit_timestamps == InCommitTimestamps(True, 7, 1_700_000_000_000)
    assert found.data_skipping_num_indexed_cols == -1
    assert found.data_skipping_stats_columns == (("id",), ("address", "city"), ("odd.name, `x`", "y"))
    assert found.isolation_level == "WriteSerializable"
    assert found.constraints == {"positive": "x > 0"}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "ten"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.deletedFileRetentionDuration", "7"),
        ("delta.columnMapping.mode", "both"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("delta.dataSkippingStatsColumns", "`a"),
        ("delta.dataSkippingStatsColumns", "a,"),
        ("delta.parquet.compression.codec", "rar"),
        ("delta.targetFileSize", "big"),
    ],
)
def test_bad_value_names_property_value_and_an_example(key: str, text: str) -> None:
    found = TableProperties.from_configuration({key: text})
    with pytest.raises(InvalidInputError) as caught:
        found.check()
    for part in (key, repr(text), PROPERTIES[key].example):
        assert part in str(caught.value)


def test_bad_value_stops_only_what_asks_for_it() -> None:
    found = properties(delta__checkpoint__writeStatsAsJson="%WRITE_STATS%", delta__checkpointInterval="2")
    assert found.checkpoint_interval == 2
    with pytest.raises(InvalidInputError):
        _ = found.write_stats_as_json


def test_unknown_keys_are_kept() -> None:
    configuration = {"delta.somethingNew": "1", "mine": "2"}
    found = TableProperties.from_configuration(configuration)
    found.check()
    assert found.configuration == configuration


def test_every_property_is_in_the_table_and_its_example_can_be_read() -> None:
    defined = {row.key for row in vars(table_properties).values() if isinstance(row, Property)}
    assert defined == set(PROPERTIES)
    for row in PROPERTIES.values():
        row.read({row.key: row.example})


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("INTERVAL 1 WEEK", timedelta(weeks=1)),
        ("interval 1 week 2 hours", timedelta(weeks=1, hours=2)),
        ("168 hours", timedelta(days=7)),
        ("interval  0  seconds", timedelta()),
        ("interval 1 day -1 hour", timedelta(hours=23)),
        ("interval 5 milliseconds 7 microseconds", timedelta(milliseconds=5, microseconds=7)),
    ],
)
def test_interval_is_a_length_of_time(text: str, length: timedelta) -> None:
    assert parse_interval(text) == length


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "interval",
            "30",
            "interval 30",
            "days",
            "interval 1.5 days",
            "interval 1 month",
            "interval 2 years",
        ),
        *(
            "interval 1 fortnight",
            "interval -1 days",
            "interval 1 day and 2 hours",
            "interval 999999999999 weeks",
        ),
    ],
)
def test_interval_without_a_fixed_length_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_interval(text)


UNITS = st.sampled_from(["week", "day", "hour", "minute", "second", "millisecond", "microsecond"])


@given(st.lists(st.tuples(st.integers(0, 10_000), UNITS, st.booleans()), min_size=1, max_size=5))
def test_interval_is_the_sum_of_its_parts(parts: list[tuple[int, str, bool]]) -> None:
    words = " ".join(f"{count} {unit}{'s' if plural else ''}" for count, unit, plural in parts)
    total = sum((timedelta(**{f"{unit}s": count}) for count, unit, _ in parts), timedelta())
    assert parse_interval(f"interval {words}") == total


@pytest.mark.parametrize(
    ("text", "size"), [("33554432", 32 << 20), ("128mb", 128 << 20), ("1g", 1 << 30), ("5 KB", 5120)]
)
def test_size_is_read_with_or_without_unit(text: str, size: int) -> None:
    assert TableProperties.from_configuration({"delta.targetFileSize": text}).get(TARGET_FILE_SIZE) == size
