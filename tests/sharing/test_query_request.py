"""Requests are read strictly, and what cannot be used is said in the protocol's words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.sharing.error_response import InvalidParameterError, MalformedRequestError, SharingError
from distributary.sharing.query_request import (
    MAX_PAGE_FILES,
    parse_changes_request,
    parse_metadata_request,
    parse_poll_request,
    parse_query_request,
    parse_version_request,
)


def parsed(**fields):
    return parse_query_request(json.dumps(fields).encode())


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b'{"unknown":[1,{"a":2}]}'])
def test_an_empty_body_or_unknown_fields_ask_for_everything(body):
    """REST-020, REST-172, REST-173."""
    request = parse_query_request(body)
    assert request.predicate_hints == ()
    assert request.limit_hint is None
    assert not request.is_versioned


@pytest.mark.parametrize(
    "body",
    [b"[]", b"1", b"{bad", b'"x"', b"null", b"\xff", b'{"limitHint":"3"}', b'{"limitHint":1.5}',
     b'{"version":true}', b'{"predicateHints":"a = 1"}', b'{"predicateHints":[1]}',
     b'{"jsonPredicateHints":{}}', b"[" * 100_000,
     b'{"limitHint":99999999999999999999}', b'{"timestamp":5}'],
)  # fmt: skip
def test_bodies_that_are_no_request_are_malformed(body):
    """REST-007, REST-173, C-25."""
    with pytest.raises(MalformedRequestError) as refused:
        parse_query_request(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "fields",
    [
        {"limitHint": -1},
        {"version": -1},
        {"startingVersion": -1},
        {"maxFiles": 0},
        {"maxFiles": -5},
        {"version": 1, "timestamp": "2020-01-01T00:00:00Z"},
        {"version": 1, "startingVersion": 1},
        {"startingVersion": 5, "endingVersion": 4},
        {"endingVersion": 4},
        {"includeRefreshToken": True, "version": 1},
        {"refreshToken": "x", "startingVersion": 1},
        {"refreshToken": "x", "pageToken": "y"},
        {"timestamp": "noon"},
        {"timestamp": "2020-13-01T00:00:00Z"},
        {"timestamp": "2020-01-01"},
        {"timestamp": "0000-01-01T00:00:00Z"},
    ],
)
def test_values_that_cannot_be_used_are_invalid(fields):
    """FLT-011, beyond A4."""
    with pytest.raises(InvalidParameterError):
        parsed(**fields)


def test_limits_may_have_64_bits():
    """FLT-011, C-39."""
    assert parsed(limitHint=2**63 - 1).limit_hint == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2022-01-01T00:00:00Z", 1_640_995_200_000),
        ("2022-01-01T01:00:00+01:00", 1_640_995_200_000),
        ("2022-01-01T00:00:00.1239Z", 1_640_995_200_123),
        ("2022-01-01 00:00:00", 1_640_995_200_000),
        ("2022-01-01 00:00:00.5", 1_640_995_200_500),
        ("1969-12-31T23:59:59Z", -1000),
    ],
)
def test_times_are_read_in_the_new_and_the_old_form(text, milliseconds):
    """beyond A2: ISO 8601 with a zone; the old form without one for versions and snapshots."""
    assert parsed(timestamp=text).timestamp == milliseconds
    assert parse_metadata_request({"timestamp": text}).timestamp == milliseconds


def test_a_time_from_which_on_something_is_wanted_is_rounded_up():
    assert parse_version_request({"startingTimestamp": "2022-01-01T00:00:00.0001Z"}).starting_timestamp == (
        1_640_995_200_001
    )
    with pytest.raises(InvalidParameterError):
        parse_changes_request({"startingTimestamp": "2022-01-01 00:00:00"})


def test_both_spellings_of_the_idempotency_key_are_read():
    """beyond A4, A8."""
    assert parsed(idempotencyKey="a").idempotency_key == "a"
    assert parsed(idempotency_key="b").idempotency_key == "b"


def test_pages_are_capped_and_a_token_alone_asks_for_a_page():
    """beyond A6."""
    assert parsed().page_size is None
    assert parsed(maxFiles=7).page_size == 7
    assert parsed(maxFiles=10**9).page_size == MAX_PAGE_FILES
    assert parsed(pageToken="x").page_size == MAX_PAGE_FILES
    assert parse_poll_request(b'{"queryId":"x","maxFiles":3}').page_size == 3


def test_the_digest_of_a_query_ignores_pages_and_tokens_only():
    """REST-038."""
    base = parsed(limitHint=3).digest("a")
    assert parsed(limitHint=3, maxFiles=5, pageToken="t").digest("a") == base
    assert parsed(limitHint=3, includeRefreshToken=True).digest("a") == base
    assert parsed(limitHint=4).digest("a") != base
    assert parsed(limitHint=3).digest("b") != base


@pytest.mark.parametrize(
    "parameters",
    [{"version": "-1"}, {"version": "abc"}, {"version": "1.0"}, {"version": "9" * 25}, {"version": ""},
     {"version": "1", "timestamp": "2020-01-01T00:00:00Z"}],
)  # fmt: skip
def test_metadata_of_no_version_is_refused(parameters):
    """beyond A3."""
    with pytest.raises(InvalidParameterError):
        parse_metadata_request(parameters)


@given(st.binary(max_size=200))
def test_no_body_makes_the_parser_fail_otherwise(body):
    try:
        parse_query_request(body)
    except SharingError as error:
        assert error.status == 400  # noqa: PT017 (most bodies are refused, some are not)


NAMES = ["startingVersion", "endingVersion", "startingTimestamp", "includeHistoricalMetadata", "maxFiles"]


@given(st.dictionaries(st.sampled_from(NAMES), st.text()))
def test_no_query_string_makes_the_parser_fail_otherwise(parameters):
    try:
        parse_changes_request(parameters)
    except SharingError as error:
        assert error.status == 400  # noqa: PT017
