"""What a policy hides is nowhere to be seen: a filtered share equals the filtered table in every answer."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributary.sharing.error_response import InternalError, InvalidParameterError, SharingError

DELTA = "responseformat=delta;readerfeatures=deletionvectors"
FEED = {"delta.enableChangeDataFeed": "true"}


def test_without_shared_history_only_the_latest_version_exists(provider, orders):
    """beyond A2 to A5: every version parameter is refused, and the feed is not advertised."""
    hidden = {"history_shared": False}
    for body in ({"version": 1}, {"timestamp": "2020-01-01T00:00:00Z"}, {"startingVersion": 0}):
        with pytest.raises(InvalidParameterError, match="history"):
            provider.query("orders", body, **hidden)
    for parameters in ({"version": "1"}, {"timestamp": "2020-01-01T00:00:00Z"}):
        with pytest.raises(InvalidParameterError, match="history"):
            provider.metadata("orders", parameters, **hidden)
    with pytest.raises(InvalidParameterError):
        provider.version("orders", {"startingTimestamp": "2020-01-01T00:00:00Z"}, **hidden)
    with pytest.raises(InvalidParameterError):
        provider.changes("orders", {"startingVersion": 0}, **hidden)
    assert provider.version("orders", **hidden) == 1
    assert provider.query("orders", **hidden).all("metaData")[0]["configuration"] == {}
    delta = provider.query("orders", {}, DELTA, **hidden).all("metaData")[0]["deltaMetadata"]
    assert "delta.enableChangeDataFeed" not in delta["configuration"]


def test_a_change_feed_that_is_not_shared_is_refused_and_not_advertised(provider, orders):
    """CDF-003."""
    with pytest.raises(InvalidParameterError):
        provider.changes("orders", {"startingVersion": 0}, change_feed=False)
    found = provider.query("orders", {"version": 1}, change_feed=False)
    assert found.all("metaData")[0]["configuration"] == {}


def test_versions_before_the_first_shared_one_do_not_exist(provider, orders):
    """beyond A4, A5: by number and by time."""
    orders.append(orders.snapshot().to_arrow())
    late = {"start_version": 2}
    for body in ({"version": 1}, {"startingVersion": 1}, {"timestamp": "2000-01-01T00:00:00Z"}):
        with pytest.raises(InvalidParameterError):
            provider.query("orders", body, **late)
    with pytest.raises(InvalidParameterError):
        provider.metadata("orders", {"version": "0"}, **late)
    with pytest.raises(InvalidParameterError):
        provider.changes("orders", {"startingVersion": 1}, **late)
    assert provider.version("orders", {"startingTimestamp": "2000-01-01T00:00:00Z"}, **late) == 2
    assert provider.changes("orders", {"startingTimestamp": "2000-01-01T00:00:00Z"}, **late).version == 2
    assert provider.query("orders", {"version": 2}, **late).version == 2


@pytest.mark.parametrize(
    "text", ["amount > 3", "nobody = 1", "not sql (", "country = 1/0", "country"], ids=lambda text: text
)
def test_a_filter_that_cannot_be_applied_shows_nothing(provider, orders, text):
    """REST-018: fails closed, on every path, and says nothing of the filter."""
    asks = [
        lambda: provider.query("orders", partition_filter=text),
        lambda: provider.metadata("orders", partition_filter=text),
        lambda: provider.query("orders", {"startingVersion": 1}, partition_filter=text),
        lambda: provider.changes("orders", {"startingVersion": 1}, partition_filter=text),
    ]
    for ask in asks:
        with pytest.raises(InternalError) as refused:
            ask()
        assert "amount" not in str(refused.value)
        assert "country" not in str(refused.value)


def test_a_filter_on_a_table_that_lost_its_partitions_shows_nothing(provider, orders):
    orders.overwrite(orders.snapshot().to_arrow(), overwrite_schema=True, partition_by=[])
    with pytest.raises(InternalError):
        provider.query("orders", partition_filter="country = 'FR'")
    with pytest.raises(InternalError):
        provider.query("orders", {"startingVersion": 1}, partition_filter="country = 'FR'")


@pytest.mark.parametrize("capabilities", [None, DELTA])
def test_hidden_partitions_cannot_be_found_by_predicates(provider, orders, capabilities):
    shown = {"partition_filter": "country = 'FR'"}
    for hint in ("country = 'DE'", "country IS NULL", "id < 10"):
        assert provider.query("orders", {"predicateHints": [hint]}, capabilities, **shown).files == []
    found = provider.query("orders", {"limitHint": 1000}, capabilities, **shown)
    assert len(found.files) == 1


COUNTRIES = ["AT", "DE", "FR", None]
FILTERS = ["country = 'FR'", "country IN ('AT', 'DE')", "country IS NULL", "country <> 'FR'", "1 = 2", "true"]
HINTS = ["id > 4", "country = 'DE'", "country > 'A'", "id < 3 OR country = 'AT'", "nonsense ("]


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """The same commits with all rows, and with the rows of each filter only."""
    folder = tmp_path_factory.mktemp("twins")
    return _twins(folder)


def _twins(folder):
    log = []
    files = {}
    for version in range(1, 5):
        actions = []
        for number, country in enumerate(COUNTRIES):
            path = f"v{version}/{country}-{number}.parquet"
            stats = {
                "numRecords": version,
                "minValues": {"id": version},
                "maxValues": {"id": version + number},
            }
            files[path] = country
            actions.append(
                {
                    "add": {
                        "path": path,
                        "partitionValues": {"country": country},
                        "size": version * 10 + number,
                        "modificationTime": 1,
                        "dataChange": True,
                        "stats": json.dumps(stats),
                    }
                }
            )
        if version == 3:
            gone = [("v1/AT-0.parquet", "AT"), ("v2/FR-2.parquet", "FR"), ("v1/None-3.parquet", None)]
            actions += [
                {"remove": {"path": path, "deletionTimestamp": 3, "dataChange": True, "size": 5}}
                for path, _ in gone
            ]
        if version == 4:
            actions += [
                {
                    "cdc": {
                        "path": f"_change_data/{country}",
                        "partitionValues": {"country": country},
                        "size": 3,
                        "dataChange": False,
                    }
                }
                for country in COUNTRIES
            ]
        log.append(actions)
    return folder, log, files


def _write(provider, name, logs, log, keep):
    schema = [("id", "long"), ("country", "string")]
    commits = [[logs.protocol, logs.metadata(schema, ["country"], **FEED)]]
    for actions in log:
        kept = [action for action in actions if keep(next(iter(action.values())))]
        commits.append([{"commitInfo": {}}, *kept])
    path = provider.write_log(name, *commits)
    import os

    for version in range(len(commits)):
        moment = 1_700_000_000 + version
        os.utime(path / "_delta_log" / f"{version:020d}.json", (moment, moment))


def _matches(text, country):
    return {
        "country = 'FR'": country == "FR",
        "country IN ('AT', 'DE')": country in ("AT", "DE"),
        "country IS NULL": country is None,
        "country <> 'FR'": country is not None and country != "FR",
        "1 = 2": False,
        "true": True,
    }[text]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_filtered_share_equals_the_filtered_table_in_every_answer(provider, logs, twins, data):
    """The differential test: files, sizes, counts, statistics, changes, pages, predicates, errors."""
    _, log, files = twins
    text = data.draw(st.sampled_from(FILTERS))
    whole, part = "whole", f"part-{FILTERS.index(text)}"
    for name, keep in ((whole, lambda country: True), (part, lambda country: _matches(text, country))):
        if not (provider.folder / name).exists():
            _write(provider, name, logs, log, lambda action, keep=keep: keep(_country(action, files)))
    capabilities = data.draw(
        st.sampled_from([None, DELTA, "responseformat=parquet;includeendstreamaction=true"])
    )
    ask = data.draw(st.sampled_from([_query, _changes, _metadata]))(data)

    def answered(table, **policy):
        try:
            return ask(provider, table, capabilities, policy)
        except SharingError as error:
            return type(error), str(error)

    filtered, plain = answered(whole, partition_filter=text), answered(part)
    assert filtered == plain


def _country(action, files):
    if "partitionValues" in action:
        return action["partitionValues"]["country"]
    return files[action["path"]]


def _query(data):
    body = {}
    if data.draw(st.booleans()):
        body["predicateHints"] = data.draw(st.lists(st.sampled_from(HINTS), max_size=2))
    if data.draw(st.booleans()):
        body["limitHint"] = data.draw(st.integers(0, 40))
    body |= data.draw(
        st.sampled_from(
            [{}, {"version": 2}, {"startingVersion": 0}, {"startingVersion": 2, "endingVersion": 3}]
        )
    )
    if data.draw(st.booleans()):
        body["maxFiles"] = data.draw(st.integers(1, 5))

    def ask(provider, table, capabilities, policy):
        found = []
        more = {}
        while True:
            page = provider.query(table, {**body, **more}, capabilities, **policy)
            found.append(_comparable(page))
            token = (page.end or {}).get("nextPageToken")
            if token is None:
                return found
            more = {"pageToken": token}

    return ask


def _changes(data):
    start = data.draw(st.integers(0, 5))
    parameters = {"startingVersion": start}
    if data.draw(st.booleans()):
        parameters["includeHistoricalMetadata"] = "true"
    return lambda provider, table, capabilities, policy: _comparable(
        provider.changes(table, parameters, capabilities, **policy)
    )


def _metadata(data):
    parameters = data.draw(st.sampled_from([{}, {"version": "1"}, {"version": "9"}]))
    return lambda provider, table, capabilities, policy: _comparable(
        provider.metadata(table, parameters, capabilities, **policy)
    )


def _comparable(answer):
    """Headers and lines; file lines without their order, tokens by whether they are there."""
    lines = []
    for line in answer.lines:
        if "endStreamAction" in line:
            line = {"end": sorted(line["endStreamAction"])}
        lines.append(json.dumps(line, sort_keys=True))
    return answer.headers, sorted(lines)


def test_a_filter_by_a_typed_partition_is_exact(provider):
    rows = pa.table({"id": [1, 2, 3], "n": pa.array([2, 10, 30], pa.int64())})
    provider.create("typed", rows, ["n"])
    found = provider.query("typed", partition_filter="n >= 10")
    assert sorted(file["partitionValues"]["n"] for file in found.files) == ["10", "30"]
    metadata = found.all("metaData")[0]
    assert metadata["numFiles"] == 2
    assert metadata["size"] == sum(file["size"] for file in found.files)
