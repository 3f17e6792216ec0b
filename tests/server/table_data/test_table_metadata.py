"""The version and the metadata of a table."""

from __future__ import annotations

import json

import pytest

from distributary.sharing.error_response import InvalidParameterError

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"


def test_metadata_is_exactly_two_lines(provider, orders):
    """REST-160, REST-161, REST-162, REST-164, A16: also where an end-of-stream action is asked for."""
    for capabilities in (None, DELTA, DELTA + ";includeendstreamaction=true"):
        found = provider.metadata("orders", {}, capabilities)
        assert found.kinds == ["protocol", "metaData"]
        assert found.version == 1
        assert found.headers["content-type"] == "application/x-ndjson; charset=utf-8"


@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_metadata_and_query_begin_with_the_same_lines(provider, orders, capabilities):
    """RF-001, REST-175, REST-179."""
    metadata = provider.metadata("orders", {}, capabilities).body
    assert provider.query("orders", {}, capabilities).body.startswith(metadata)


def test_name_description_and_locations_are_told_where_they_are_set(provider, orders):
    """RF-021, RF-022, RF-030, RF-031, RF-032, AM-015, DM-025, DM-026."""
    assert {"name", "description"}.isdisjoint(provider.metadata("orders").all("metaData")[0])
    orders.alter.set_name("Orders")
    orders.alter.set_comment("All orders")
    directory = {"access_modes": ("url", "dir"), "auxiliary_locations": ("s3://lake/more",)}
    found = provider.metadata("orders", **directory).all("metaData")[0]
    assert (found["name"], found["description"]) == ("Orders", "All orders")
    assert found["accessModes"] == ["url", "dir"]
    assert found["auxiliaryLocations"] == ["s3://lake/more"]
    assert found["location"].endswith("/orders")
    delta = provider.metadata("orders", {}, DELTA, **directory).all("metaData")[0]
    assert delta["deltaMetadata"]["name"] == "Orders"
    assert delta["accessModes"] == ["url", "dir"]
    assert delta["auxiliaryLocations"] == ["s3://lake/more"]


def test_metadata_of_older_versions_is_theirs(provider, orders):
    """beyond A3, RF-027: by version and by time."""
    orders.alter.add_column("more", "string")
    assert orders.version() == 2
    old = provider.metadata("orders", {"version": "1"})
    assert old.version == 1
    assert old.all("metaData")[0]["version"] == 1
    fields = json.loads(old.all("metaData")[0]["schemaString"])["fields"]
    assert [field["name"] for field in fields] == ["id", "amount", "country"]
    new = json.loads(provider.metadata("orders").all("metaData")[0]["schemaString"])["fields"]
    assert "more" in [field["name"] for field in new]
    for parameters in ({"version": "9"}, {"timestamp": "1990-01-01T00:00:00Z"}):
        with pytest.raises(InvalidParameterError):
            provider.metadata("orders", parameters)


def test_the_version_is_told_without_touching_data_files(provider, orders):
    """REST-151, REST-152, DM-009: the log alone answers."""
    for file in (provider.folder / "orders").rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    assert provider.version("orders") == 1
    assert len(provider.query("orders").files) == 6


def test_the_version_at_a_time_is_the_first_from_then_on(provider, orders):
    """beyond A2."""
    assert provider.version("orders", {"startingTimestamp": "2000-01-01T00:00:00Z"}) == 0
    with pytest.raises(InvalidParameterError):
        provider.version("orders", {"startingTimestamp": "2190-01-01T00:00:00Z"})
