"""Paths of a log: what they name, when two are the same file, and which are refused."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distributary.errors import PathOutsideTableError
from distributary.storage import canonical_path, canonical_paths, open_store, resolve_canonical, resolve_path

KEYS = {"access_key_id": "a", "secret_access_key": "b"}
ROOTS = ["file:///lake/tenant-a", "s3://bucket/lake/tenant-a", "memory://m/lake/tenant-a"]
HOSTILE = [
    "..",
    "../x",
    "a/../../b",
    "a/../b",
    "%2e%2e/x",
    "%2E%2E/x",
    "%2e%2e%2fx",
    "a/%2e%2e/%2e%2e/b",
    ".%2e/x",
    "/etc/passwd",
    "%2Fetc%2Fpasswd",
    "//etc/passwd",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:///etc/passwd",
    "file://host/lake/tenant-a/x",
    "file://localhost/etc/passwd",
    "http://169.254.169.254/latest",
    "https://bucket.s3.amazonaws.com/lake/tenant-a/x",
    "s3://other/lake/tenant-a/x",
    "s3://bucket/lake/tenant-a-evil/x",
    "/lake/tenant-a-evil/x",
    "file:///lake/tenant-a-evil/x",
    "../tenant-a-evil/x",
    "memory://m/lake/tenant-a-evil/x",
    "s3://bucket/lake/tenant-a/../tenant-b/x",
    "s3://bucket/lake/tenant-a/%2e%2e/tenant-b/x",
    "gs://bucket/lake/tenant-a/x",
    "a%00b",
    "a\0b",
    "..\\x",
    "a\\b",
    "%5c%5cserver%5cshare",
    "",
    "/",
    ".",
    "file:///lake/tenant-a",
    "s3://bucket/lake/tenant-a/",
]


def _open(root: str, allowed: tuple[str, ...] = ()):
    return open_store(root, KEYS if root.startswith("s3") else {}, allowed)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_path_is_refused(root, path):
    """C-22, RELIABILITY F2: nothing outside the table is opened, however it is written."""
    store = _open(root)
    with pytest.raises(PathOutsideTableError, match="allowed_roots"):
        resolve_path(store, path)
    canonical = canonical_path(root, path)
    with pytest.raises(PathOutsideTableError):
        resolve_canonical(store, canonical)


@pytest.mark.parametrize("root", ROOTS)
def test_spellings_of_one_file_are_one_key(root):
    """LR-029: keys compare on the decoded, normalised path; C-22: both kinds on both actions."""
    store = _open(root)
    lake = root.partition("://")[2].partition("/")[2]
    for path in ("p=a%20b/f", "./p=a%20b//f", f"{root}/p=a%20b/f", f"/{lake}/p=a b/f", "p=a b/f"):
        assert canonical_path(root, path) == "p=a b/f"
        assert resolve_path(store, path) == (store, "p=a b/f")


def test_file_uris_have_one_form():
    for path in ("file:///p/q%23", "file:/p/q%23", "/p/q%23", "file://localhost/p/q#"):
        assert canonical_path("file:///t", path) == "file:///p/q#"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a:b/c", "a:b/c"),
        ("ts=10:00/f+g", "ts=10:00/f+g"),
        ("a%253Ab", "a%3Ab"),
        ("100%/f", "100%/f"),
        ("%zz/%FF", "%zz/%FF"),
        ("file%3A///etc/passwd", "file:/etc/passwd"),
        ("s3%3A//other/x", "s3:/other/x"),
        ("a?b#c", "a?b#c"),
        ("...", "..."),
        ("..a/b..", "..a/b.."),
        ("%C3%BC", "ü"),
    ],
)
def test_relative_path_with_odd_characters_stays_relative(path, key):
    """LR-029: decoded once, and a ':' alone makes no URI."""
    store = _open(ROOTS[0])
    assert canonical_path(store.root, path) == key
    assert resolve_path(store, path) == (store, key)
    assert resolve_canonical(store, key) == (store, key)


def test_allowed_root_opens_the_source_of_a_clone():
    """C-22: a path outside is accepted where its root is allowed, and only there."""
    store = _open("s3://bucket/clone", ("s3a://other/source/",))
    for path in ("s3://other/source/p/f%20g", "s3a://other/source/p/f%20g"):
        found, key = resolve_path(store, path)
        assert (found.root, key) == ("s3://other/source", "p/f g")
        assert resolve_canonical(store, canonical_path(store.root, path))[0] is found
    for path in ("s3://other/source-evil/f", "s3://other/f", "s3://other/source/../f"):
        with pytest.raises(PathOutsideTableError):
            resolve_path(store, path)


def test_relative_clone_path_may_lead_to_an_allowed_root():
    store = _open("memory://m/lake/cloned", ("memory://m/lake/source",))
    found, key = resolve_path(store, "../source/day=1/f")
    assert (found.root, key) == ("memory://m/lake/source", "day=1/f")
    assert canonical_path(store.root, "../source/day=1/f") == "memory://m/lake/source/day=1/f"
    with pytest.raises(PathOutsideTableError):
        resolve_path(store, "../source-evil/f")


SEGMENT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="/\\\0"), min_size=1, max_size=12
)
KEY = st.lists(SEGMENT.filter(lambda s: s not in (".", "..")), min_size=1, max_size=4).map("/".join)


@given(st.sampled_from(ROOTS), KEY)
def test_escaped_key_always_comes_back(root, key):
    """LR-029: quote once, decode once, relative or absolute."""
    store = _open(root)
    assert resolve_path(store, quote(key)) == (store, key)
    assert resolve_path(store, f"{root}/{quote(key)}") == (store, key)
    assert canonical_path(root, quote(key)) == key
    assert canonical_path(root, f"{root}/{quote(key)}") == key


ESCAPES = st.sampled_from(
    [
        "..",
        ".",
        "/",
        "//",
        "%2e",
        "%2F",
        "%5c",
        "\\",
        "a",
        "tenant-a",
        "-evil",
        "lake",
        ":",
        "%",
        "%25",
        "x",
        "\0",
    ]
)
ANY_PATH = st.one_of(
    st.text(max_size=30),
    st.lists(ESCAPES, max_size=12).map("".join),
    st.tuples(
        st.sampled_from(["file:", "file://", "s3://bucket", "/lake/tenant-a", *ROOTS]),
        st.lists(ESCAPES, max_size=8).map("".join),
    ).map("".join),
)


@given(st.sampled_from(ROOTS), ANY_PATH)
@example(ROOTS[0], "a/%2e%2e/%2e%2e/tenant-a/x")
def test_no_path_at_all_leaves_the_root(root, path):
    """RELIABILITY F2: what resolves is a plain key below the root, and the canonical form agrees."""
    store = _open(root)
    try:
        found, key = resolve_path(store, path)
    except PathOutsideTableError:
        return
    assert found is store
    assert not {"", ".", ".."} & set(key.split("/"))
    assert "\\" not in key
    assert "\0" not in key
    assert canonical_path(root, path) == key


@given(st.sampled_from(ROOTS), st.lists(st.one_of(st.none(), ANY_PATH, KEY), max_size=20))
def test_many_paths_are_canonical_as_one_by_one(root, paths):
    """LR-029: the vectorised form is the same function."""
    expected = [None if path is None else canonical_path(root, path) for path in paths]
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(paths, kind)
        assert canonical_paths(root, array).to_pylist() == expected
        assert canonical_paths(root, array).type == kind
        chunked = pa.chunked_array([array.slice(0, 3), array.slice(3), array.slice(0, 0)], kind)
        assert canonical_paths(root, chunked).to_pylist() == expected
    assert canonical_paths(root, pa.array([None, *paths, "x"]).slice(1, len(paths))).to_pylist() == expected


def test_canonical_paths_are_returned_as_they_are():
    array = pa.array([f"day={i}/part-{i:05d}.c000.snappy.parquet" for i in range(200)])
    assert canonical_paths("s3://b/t", array) is array
