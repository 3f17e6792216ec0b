"""How a table root may be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InvalidInputError
from distributary.storage.location import Location, parse_root, parse_uri


@pytest.mark.parametrize(
    ("written", "root"),
    [
        ("/x/y/", "file:///x/y"),
        ("/x/./y/../z", "file:///x/z"),
        ("file:///x/y", "file:///x/y"),
        ("file:/x/y/", "file:///x/y"),
        ("file://localhost/x", "file:///x"),
        ("/x/a b%20", "file:///x/a%20b%2520"),
        ("file:///x/a%20b", "file:///x/a%20b"),
        ("/", "file:///"),
        ("s3://b", "s3://b"),
        ("S3A://b/p//q/", "s3://b/p/q"),
        ("s3n://b/ü", "s3://b/%C3%BC"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("gs://b/t", "gs://b/t"),
        ("memory://m/t", "memory://m/t"),
    ],
)
def test_root_has_one_canonical_form(written, root):
    assert parse_root(written).uri == root
    assert parse_root(root).uri == root


def test_relative_and_home_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_root("t").path == f"{os.getcwd()}/t".strip("/")
    assert parse_root("~/t").path == f"{tmp_path}/t".strip("/")
    assert parse_root(Path("/x/a b").as_uri()).path == "x/a b"


@pytest.mark.parametrize("written", ["", "a\0b", "s3://b/../c", "s3://b/%2e%2e/c", "file://host/x"])
def test_root_that_cannot_be_meant_is_refused(written):
    with pytest.raises(InvalidInputError):
        parse_root(written)


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/"), min_size=1))
def test_uri_of_any_path_parses_back(name):
    if name in (".", ".."):
        return
    place = Location("s3", "bucket", f"t/{name}")
    assert parse_uri(place.uri) == place


def test_containment_is_by_segments():
    table = parse_root("s3://b/tenant-a")
    assert table.key_of(parse_root("s3://b/tenant-a/x")) == "x"
    for outside in ("s3://b/tenant-a-evil/x", "s3://b/tenant-a", "s3://b", "gs://b/tenant-a/x"):
        assert table.key_of(parse_root(outside)) is None
