"""Pages and refreshes: pinned to a version, in one order however the log is read, bound to their query."""

from __future__ import annotations

import pytest

from distributary.server.snapshot_cache import SnapshotCache
from distributary.sharing.error_response import InvalidParameterError

DELTA = "responseformat=delta"


def pages(provider, table, body, capabilities=None, between=lambda: None, **policy):
    found = []
    token = None
    while True:
        more = {} if token is None else {"pageToken": token}
        page = provider.query(table, {**body, **more}, capabilities, **policy)
        found.append(page)
        token = page.end.get("nextPageToken")
        if token is None:
            return found
        between()


@pytest.mark.parametrize("capabilities", [None, DELTA])
@pytest.mark.parametrize("size", [1, 4, 6, 100])
def test_pages_together_are_the_whole_answer(provider, orders, size, capabilities):
    """beyond A6: at most so many files a page, the first two lines byte for byte the same."""
    found = pages(provider, "orders", {"maxFiles": size}, capabilities)
    whole = provider.query("orders", {}, capabilities)
    ids = [file["id"] for page in found for file in page.files]
    assert len(ids) == len(set(ids))
    assert set(ids) == {file["id"] for file in whole.files}
    assert all(len(page.files) <= size for page in found)
    heads = {b"\n".join(page.body.splitlines()[:2]) for page in found}
    assert len(heads) == 1
    assert {page.version for page in found} == {1}
    assert all(page.end["minUrlExpirationTimestamp"] == 4_000_000_000_000 for page in found)


def test_pages_stay_at_their_version_while_the_table_moves_on(provider, orders):
    """REST-179: a checkpoint, new commits and a new process between pages change nothing."""
    rows = orders.snapshot().to_arrow()
    before = {file["id"] for file in provider.query("orders").files}
    turns = iter([lambda: orders.append(rows), orders.checkpoint, lambda: orders.overwrite(rows.slice(0, 5))])

    def between():
        next(turns, lambda: None)()
        provider.cache = SnapshotCache()

    found = pages(provider, "orders", {"maxFiles": 1}, between=between)
    assert [len(page.files) for page in found] == [1] * 6
    assert {file["id"] for page in found for file in page.files} == before
    assert {page.version for page in found} == {1}


def test_pages_after_a_checkpoint_hold_each_file_once(provider, orders):
    """Order by path: the log is read from JSON for the first page, from a checkpoint for the next."""
    first = provider.query("orders", {"maxFiles": 3})
    orders.checkpoint()
    provider.cache = SnapshotCache()
    second = provider.query("orders", {"maxFiles": 3, "pageToken": first.end["nextPageToken"]})
    ids = [file["id"] for page in (first, second) for file in page.files]
    assert len(set(ids)) == 6


def test_pages_keep_hints_limits_and_policy(provider, orders):
    """FLT-009: the limit counts over all pages."""
    body = {"maxFiles": 1, "predicateHints": ["country > 'A'"], "limitHint": 25}
    found = pages(provider, "orders", body, partition_filter="country <> 'DE'")
    shown = [file["partitionValues"]["country"] for page in found for file in page.files]
    assert len(shown) == 3
    assert not {"DE", ""} & set(shown)


@pytest.mark.parametrize(
    "change",
    [{"limitHint": 3}, {"predicateHints": ["id > 1"]}, {"version": 1}, {"jsonPredicateHints": "{}"}],
)
def test_a_page_token_belongs_to_its_query(provider, orders, change):
    """REST-038, beyond A6: changed parameters are 400; another page size is not a change."""
    token = provider.query("orders", {"maxFiles": 2}).end["nextPageToken"]
    with pytest.raises(InvalidParameterError):
        provider.query("orders", {"maxFiles": 2, "pageToken": token, **change})
    assert len(provider.query("orders", {"maxFiles": 4, "pageToken": token}).files) == 4
    assert len(provider.query("orders", {"pageToken": token}).files) == 4


def test_a_page_token_ends_with_its_policy_its_format_and_its_table(provider, orders, tmp_path):
    token = provider.query("orders", {"maxFiles": 2}).end["nextPageToken"]
    body = {"maxFiles": 2, "pageToken": token}
    with pytest.raises(InvalidParameterError):
        provider.query("orders", body, partition_filter="country = 'FR'")
    with pytest.raises(InvalidParameterError):
        provider.query("orders", body, "responseformat=delta")
    with pytest.raises(InvalidParameterError):
        provider.query("orders", body, file_ids="delta")
    provider.create("other", orders.snapshot().to_arrow(), ["country"])
    with pytest.raises(InvalidParameterError):
        provider.query("other", body)


def test_a_page_of_a_shared_latest_version_needs_no_shared_history(provider, orders):
    found = pages(provider, "orders", {"maxFiles": 4}, history_shared=False)
    assert sum(len(page.files) for page in found) == 6


def test_a_refresh_gives_the_same_version_again(provider, orders):
    """RF-053, beyond A6: pinned to the version of the token, though the table has moved on."""
    first = provider.query("orders", {"includeRefreshToken": True})
    token = first.end["refreshToken"]
    orders.append(orders.snapshot().to_arrow())
    again = provider.query("orders", {"refreshToken": token})
    assert again.version == 1
    assert again.files == first.files
    assert again.end is None
    more = provider.query("orders", {"refreshToken": token, "includeRefreshToken": True})
    assert "refreshToken" in more.end
    assert len(provider.query("orders").files) == 12


def test_tokens_of_one_kind_are_none_of_the_other(provider, orders):
    refresh = provider.query("orders", {"includeRefreshToken": True}).end["refreshToken"]
    page = provider.query("orders", {"maxFiles": 2}).end["nextPageToken"]
    with pytest.raises(InvalidParameterError):
        provider.query("orders", {"pageToken": refresh})
    with pytest.raises(InvalidParameterError):
        provider.query("orders", {"refreshToken": page})


def test_a_page_has_ten_thousand_files_at_most(provider, logs):
    """beyond A6: the server's cap."""
    adds = [logs.add(f"f{at:05d}") for at in range(10_001)]
    provider.write_log("t", [logs.protocol, logs.metadata([("id", "long")]), *adds])
    first = provider.query("t", {"maxFiles": 2**31})
    assert len(first.files) == 10_000
    second = provider.query("t", {"maxFiles": 2**31, "pageToken": first.end["nextPageToken"]})
    assert len(second.files) == 1
    assert "nextPageToken" not in second.end
