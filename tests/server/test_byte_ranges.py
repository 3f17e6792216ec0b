"""Ranges and conditions of file requests, as RFC 9110 says."""

from __future__ import annotations

import pytest

from distributary.server.byte_ranges import FileAnswer, FileVersion, answer_for

VERSION = FileVersion(size=1000, modified_ns=1_700_000_000_500_000_000, inode=7)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-99", FileAnswer(206, 0, 100)),
        ("bytes=900-", FileAnswer(206, 900, 100)),
        ("bytes=-8", FileAnswer(206, 992, 8)),
        ("bytes=-5000", FileAnswer(206, 0, 1000)),
        ("bytes=990-99999", FileAnswer(206, 990, 10)),
        ("Bytes=0-0", FileAnswer(206, 0, 1)),
        ("bytes= 0 - 1", FileAnswer(206, 0, 2)),
        ("items=0-1", FileAnswer(200, 0, 1000)),
        ("bytes=1000-", FileAnswer(416)),
        ("bytes=5-2", FileAnswer(416)),
        ("bytes=-0", FileAnswer(416)),
        ("bytes=0-1,5-6", FileAnswer(416)),
        ("bytes=--5", FileAnswer(416)),
        ("bytes=a-b", FileAnswer(416)),
        ("bytes=", FileAnswer(416)),
        (f"bytes={2**63}-", FileAnswer(416)),
        (f"bytes=0-{10**30}", FileAnswer(416)),
        ("bytes=" + ",".join("0-1" for _ in range(1000)), FileAnswer(416)),
    ],
)
def test_range_is_answered_as_one_range_or_refused(header, expected):
    """RELIABILITY F6: one range only; many, negative, overlapping and huge ones are 416."""
    assert answer_for(VERSION, {"range": header}) == expected


def test_range_of_an_empty_file_is_refused():
    empty = FileVersion(0, 0, 1)
    assert answer_for(empty, {"range": "bytes=0-0"}).status == 416
    assert answer_for(empty, {"range": "bytes=-1"}).status == 416
    assert answer_for(empty, {}) == FileAnswer(200, 0, 0)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": VERSION.etag}, 304),
        ({"if-none-match": f'"other", W/{VERSION.etag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-match": VERSION.etag}, 200),
        ({"if-match": '"other"'}, 412),
        ({"if-modified-since": VERSION.last_modified}, 304),
        ({"if-modified-since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-unmodified-since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 412),
        ({"if-unmodified-since": VERSION.last_modified}, 200),
        ({"if-none-match": '"other"', "if-modified-since": VERSION.last_modified}, 200),
    ],
)
def test_conditions_decide_before_ranges(headers, status):
    assert answer_for(VERSION, headers).status == status


@pytest.mark.parametrize(
    ("validator", "status"), [(VERSION.etag, 206), (VERSION.last_modified, 206), ('"old"', 200), ("x", 200)]
)
def test_if_range_gives_the_whole_file_when_it_changed(validator, status):
    assert answer_for(VERSION, {"range": "bytes=0-9", "if-range": validator}).status == status
